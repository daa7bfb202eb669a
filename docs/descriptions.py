"""The reference shows what our docstrings say of a parameter as its description, and its type as the signature has it.

Outside of estimators, which follow scikit-learn, a docstring says ``name : what it is``. NumPy's style takes this for a
type; a line of its own makes a description of it.
"""

import re

import griffe

SECTION = re.compile(r"(?<=^Parameters\n----------\n).*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"^(\w[\w, ]*) : (?=.)", re.MULTILINE)


class Descriptions(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_) -> None:
        if obj.docstring is not None and ".tables." not in obj.path:
            described = lambda section: NAMED.sub(r"\1\n    ", section[0])  # noqa: E731
            obj.docstring.value = SECTION.sub(described, obj.docstring.value)
