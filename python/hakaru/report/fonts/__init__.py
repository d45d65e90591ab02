"""The two font faces of all charts, pages and PDFs, so that a report looks the same on every
machine.

`Hakaru Sans` is a subset of Noto Sans JP (SIL Open Font License, `OFL.txt`), created by
`subset.py`.
"""

from __future__ import annotations

import base64
import functools
import io
from pathlib import Path
from typing import Any

from hakaru.extras import extra

FAMILY = "Hakaru Sans"
FOLDER = Path(__file__).parent
MARKS = " 0123456789.,•–"  # list marks and page numbers, which are not part of the text
FACES = {400: FOLDER / "HakaruSans-regular.ttf", 700: FOLDER / "HakaruSans-bold.ttf"}


def open_face(weight: int) -> Any:
    """The face as a `fontTools.ttLib.TTFont`, which reads its tables when they are used."""
    with extra("report"):
        from fontTools.ttLib import TTFont

    return TTFont(FACES[weight], lazy=True)


@functools.cache
def repertoire(weight: int = 400) -> frozenset[int]:
    """Code points that the face contains."""
    return frozenset(open_face(weight).getBestCmap())


def missing(text: str) -> set[str]:
    """Characters of `text` that one of the faces lacks. Line ends and tabs are ignored, because
    they are never drawn.
    """
    return {c for c in text if c not in "\n\t\r" and any(ord(c) not in repertoire(w) for w in FACES)}


def face(weight: int, text: str) -> str:
    """A WOFF2 font with only the characters of `text`, as a data URL, which keeps the HTML file
    self-contained.
    """
    with extra("report"):
        from fontTools.subset import Options, Subsetter

    options = Options(layout_features=["kern", "tnum"], notdef_outline=True)
    font = open_face(weight)
    subsetter = Subsetter(options)
    subsetter.populate(text=text + MARKS)
    subsetter.subset(font)
    font.flavor = "woff2"
    out = io.BytesIO()
    font.save(out)
    return "data:font/woff2;base64," + base64.b64encode(out.getvalue()).decode()
