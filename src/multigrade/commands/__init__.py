"""The commands of ``multigrade``, one file each: parse, call, print; no mathematics.

A command module defines plain functions that ``cli.py`` registers. JAX is imported inside them, so that ``--help``
answers at once.
"""
