"""Damaged files and odd options: each command must succeed, or say one line and leave nothing behind.

    python -m tests.fuzz --cases 10000 --seed 0

``mutate`` makes other bytes, cells and arrays of valid ones, ``files`` reads them as the commands do, ``options`` calls
the commands themselves, all in one process.
"""
