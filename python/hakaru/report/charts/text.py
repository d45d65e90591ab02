"""Widths of text in the bundled fonts, line breaks, and places of labels that must not overlap."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence

from hakaru.report.charts.theme import FONT_PX
from hakaru.report.fonts import open_face

NEVER_FIRST = frozenset("、。,.)]}」）：ー")
"""Characters that must not begin a line of Japanese. They extend the previous line instead."""
HYPHENS = re.compile(r"(?<=-)")
BOLD = 700


@functools.cache
def _advances(weight: int) -> tuple[dict[int, int], int]:
    """Advance width of each code point in font units, and the units per em."""
    font = open_face(weight)
    widths = font["hmtx"].metrics
    return {point: widths[name][0] for point, name in font.getBestCmap().items()}, font["head"].unitsPerEm


def pixels(text: str, weight: int = BOLD, size: float = FONT_PX) -> float:
    """Width of one line of text in pixels, without kerning."""
    advances, units = _advances(weight)
    return sum(advances.get(ord(c), units) for c in text) * size / units


def wrap(text: str, room: float) -> list[str]:
    """Lines no wider than `room` pixels in bold, broken at spaces and between Japanese letters.

    A word that is wider than `room`, such as the name of a run, is also broken after hyphens. One
    without a hyphen gets its own line.
    """
    out, current = [], ""
    words = re.findall(r"[ -~\u00a0-\u024f]+? |[ -~\u00a0-\u024f]+|.", text)
    broken = ([word] if pixels(word.rstrip()) <= room else HYPHENS.split(word) for word in words)
    for piece in itertools.chain.from_iterable(broken):
        if current and pixels(current + piece.rstrip()) > room and piece not in NEVER_FIRST:
            out.append(current.rstrip())
            current = ""
        current += piece
    return [*out, current.rstrip()]


def apart(places: Sequence[float], heights: Sequence[float], limit: float) -> list[float]:
    """Ascending positions of the centres of boxes with these heights, moved so that the boxes do
    not overlap and no centre lies beyond `limit`.
    """
    moved = list(places)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + (heights[i - 1] + heights[i]) / 2)
    if moved and moved[-1] > limit:
        moved[-1] = limit
        for i in range(len(moved) - 2, -1, -1):
            moved[i] = min(moved[i], moved[i + 1] - (heights[i] + heights[i + 1]) / 2)
    return moved
