"""Kills at random moments: whatever is started again must end with the bytes of a run that was left alone.

    python -m tests.soak --kills 1000 --seed 0

``targets`` are what is killed: fits, commands, the lab's driver and its workers, a Ray node where Ray is installed; and
runs on a disk that is full for a while, or whose clock jumps. ``__main__`` starts, kills, starts again and compares.
"""
