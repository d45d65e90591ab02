"""The PDF of a report.

WeasyPrint lets a table that needs more than the width of the page run beyond the margin, and what
lies beyond the paper is lost. So the pages are set, the tables measured, and those that are too
wide are set again in smaller print.
"""

from __future__ import annotations

import re
from typing import Any

from hakaru.extras import import_weasyprint

MARGIN = 18 / 25.4 * 96
"""Left and right margin of a page in CSS pixels: 18 mm, as in the style sheet."""
FIT_MIN = 0.6
"""Smallest print of a table, relative to that of the style sheet: text of 4 to 5 points. A table
that needs more room is cut.
"""
TRIES = 3
"""How often the tables are measured. Smaller print may move the breaks within cells, so a table
can still be too wide after the first time.
"""
_VARIANT = "pdf/ua-1"

_DRAWING = re.compile(r'<svg [^>]*?aria-label="([^"]*)"[^>]*>')


def pdf(html: str) -> bytes:
    """The PDF of a report's HTML, tagged for screen readers (PDF/UA-1). Only `data:` URLs are
    fetched.
    """
    # WeasyPrint takes the text alternative of a drawing from its `title`, which a browser would
    # show as a tooltip of the whole drawing.
    titled = _DRAWING.sub(r"\g<0><title>\g<1></title>", html)
    fits: dict[str, float] = {}
    for _ in range(TRIES):
        pages = _set(titled, fits)
        wide = {name: excess for name, excess in _excess(pages).items() if fits.get(name) != FIT_MIN}
        if not wide:
            return _written(pages)
        fits |= {name: max(FIT_MIN, fits.get(name, 1.0) / excess) for name, excess in wide.items()}
    return _written(_set(titled, fits))


def _set(html: str, fits: dict[str, float]) -> Any:
    """The pages, with the tables of `fits` in smaller print."""
    weasyprint = import_weasyprint()
    from weasyprint.urls import URLFetcher

    page = weasyprint.HTML(string=_fitted(html, fits), url_fetcher=URLFetcher(allowed_protocols=("data",)))
    return page.render(pdf_variant=_VARIANT)


def _written(pages: Any) -> bytes:
    return bytes(pages.write_pdf(pdf_variant=_VARIANT))


def _fitted(html: str, fits: dict[str, float]) -> str:
    rules = "".join(f"#{name} {{ --fit: {fit:.3f} }}\n" for name, fit in fits.items())
    return html.replace("</head>", f"<style>{rules}</style></head>", 1) if rules else html


def _excess(document: Any) -> dict[str, float]:
    """The tables that are wider than the page, each with its width relative to that of the page."""
    found: dict[str, float] = {}
    for page in document.pages:
        room = page.width - 2 * MARGIN
        for name, (left, _, right, _) in page.anchors.items():
            if name.startswith("grid-") and right - left > room + 0.5:
                found[name] = (right - left) / room
    return found
