"""``python -m multigrade`` is the command ``multigrade``."""

from .cli import main

main()
