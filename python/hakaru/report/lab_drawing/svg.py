"""SVG elements of the drawings of labs. Pure.

Presentation attributes suit a light page. A page can override them with rules for the classes
`lab-host`, `lab-switch`, `lab-array`, `lab-link`, `lab-more`, `lab-name`, `lab-address`, `lab-rate`
and `lab-detail`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

LOOKS = {
    "lab-host": 'fill="#f5f7fa" stroke="#33415c" stroke-width="1.5"',
    "lab-switch": 'fill="#e4ecf7" stroke="#33415c" stroke-width="1.5"',
    "lab-array": 'fill="#fdf3e1" stroke="#33415c" stroke-width="1.5"',
    "lab-link": 'fill="none" stroke="#5c6b89" stroke-width="2"',
    "lab-name": 'fill="#1b2437" font-weight="600" font-size="13"',
    "lab-address": 'fill="#44506b" font-family="monospace" font-size="11.5"',
    "lab-rate": 'fill="#1b2437" font-size="12"',
    "lab-detail": 'fill="#44506b" font-size="11"',
}


def text(x: float, y: float, css: str, words: str) -> str:
    """Text centred at a point."""
    return f'<text x="{x:g}" y="{y:g}" class="{css}" {LOOKS[css]} text-anchor="middle">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, css: str, *, more: bool = False) -> str:
    """The box of a node or switch. `more`: a dashed box that stands for several hosts."""
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
    return f'<rect {place} class="{css}{_more(more)} {LOOKS[css]}/>'


def line(x1: float, x2: float, y: float, *, more: bool = False) -> str:
    """A link as a horizontal line. `more`: dashed, for several hosts."""
    return f'<path d="M{x1:g} {y:g}H{x2:g}" class="lab-link{_more(more)} {LOOKS["lab-link"]}/>'


def vertical(x: float, y1: float, y2: float) -> str:
    """A link as a vertical line."""
    return f'<path d="M{x:g} {y1:g}V{y2:g}" class="lab-link" {LOOKS["lab-link"]}/>'


def bend(x1: float, y1: float, middle: float, x2: float, y2: float) -> str:
    """A link with a vertical part at `middle`."""
    return f'<path d="M{x1:g} {y1:g}H{middle:g}V{y2:g}H{x2:g}" class="lab-link" {LOOKS["lab-link"]}/>'


def _more(more: bool) -> str:
    return ' lab-more" stroke-dasharray="4 4"' if more else '"'


def picture(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """An `<svg>` element of class `lab`."""
    return (
        f'<svg class="lab" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'font-family="sans-serif" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )
