"""Mathematics without a script: what arithmatex marks as TeX becomes MathML while the pages are built."""

import contextlib
import html
import logging
import re
import unicodedata

from latex2mathml.converter import convert

log = logging.getLogger("mkdocs.hooks.mathml")  # a warning here fails a strict build
TEX = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
STYLED = re.compile(r'<mi mathvariant="(script|bold|double-struck)">(\w)</mi>')


def on_page_content(content: str, page, **_) -> str:
    return TEX.sub(lambda match: _mathml(match, page.file.src_path), content)


def _mathml(match: re.Match, where: str) -> str:
    tag, bracket, tex = match.groups()
    formula = convert(html.unescape(tex).strip(), display="block" if bracket == "[" else "inline")
    unknown = re.findall(r"\\\w+|\\\|", formula)
    if unknown:
        log.warning(f"{where}: latex2mathml does not know {', '.join(unknown)} in {tex.strip()}")
    # Browsers follow MathML Core, which has these letters as characters of their own and not as a style.
    formula = STYLED.sub(_letter, formula)
    return f'<div class="formula">{formula}</div>' if tag == "div" else formula


def _letter(match: re.Match) -> str:
    style, letter = match[1].upper(), f"{'CAPITAL' if match[2].isupper() else 'SMALL'} {match[2].upper()}"
    for name in (f"MATHEMATICAL {style} {letter}", f"{style} {letter}"):  # some are older: SCRIPT CAPITAL H
        with contextlib.suppress(KeyError):
            return f"<mi>{unicodedata.lookup(name)}</mi>"
    return match[0]
