"""HTML that is safe by construction: whatever is not ``Html`` already is escaped.

tag("td", "a < b", class_="number") is <td class="number">a &lt; b</td>
"""

import html
import json
from typing import Any

VOID = ("br", "col", "img", "input", "meta")


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: Any) -> Html:
    """Anything as HTML: ``Html`` as it is, None as nothing, lists joined, the rest escaped."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("")
    if isinstance(value, (list, tuple)):
        return Html("".join(text(part) for part in value))
    return Html(html.escape(str(value)))


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """An element. ``class_`` is class, ``data_key`` is data-key; True is an attribute alone, None and False none."""
    named = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    parts = [
        f" {key}" if value is True else f' {key}="{html.escape(str(value))}"'
        for key, value in named
        if value is not None and value is not False
    ]
    opening = f"<{name}{''.join(parts)}>"
    return Html(opening if name in VOID else f"{opening}{text(children)}</{name}>")


def island(value: Any, **attributes: Any) -> Html:
    """JSON inside a page, for its script. "<" is escaped, so that no string can end the element or begin another."""
    content = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return tag("script", Html(content), type="application/json", **attributes)
