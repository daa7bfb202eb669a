"""Laws over generated inputs. ``make test`` tries a few of each, always the same ones; the long profile many new ones:

python -m pytest tests/properties --hypothesis-profile=long
"""
