"""Parts of an earlier page docs/scorecard.md that a new page takes over, for studies without a run.

A page names its runs, but a run may no longer exist when the page is written again for another
study. `scorecard_page` writes the page and decides which studies keep their parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hakaru.errors import UsageError

PUBLISHED_SIDE = (0, 1, 5)
"""Columns of a row that do not depend on the run: name, published value and mark."""

ERROR, MARKED = 4, 5
"""Columns of a row: its error and its mark."""

COUNTS = slice(1, 6)
"""Columns of counts in the overview."""

MARK = "; kept from an earlier page"


@dataclass(frozen=True)
class Kept:
    """Lines of an earlier page about one study."""

    run: str
    overview: str
    explained: tuple[str, ...]
    section: tuple[str, ...]

    @property
    def counts(self) -> list[int]:
        """The counts of its row of the overview: numbers, calibrated, predicted, of these measured,
        by definition.
        """
        return [int(cell) for cell in _cells(self.overview)[COUNTS]]

    @property
    def errors(self) -> list[float]:
        """The sizes of the errors of its predicted numbers measured at valid points, in percent, as
        the page rounds them.
        """
        rows = [_cells(line) for line in self.section if line.startswith("|")][2:]
        shown = [re.fullmatch(r"[+-]?([\d,.]+) %", row[ERROR]) for row in rows if row[MARKED] == "predicted"]
        return [float(match[1].replace(",", "")) for match in shown if match]

    @property
    def worst(self) -> str:
        """The last cell of its row of the overview: the largest error and its number."""
        return re.sub(r"\\(.)", r"\1", _cells(self.overview)[-1])

    @property
    def is_incomplete(self) -> bool:
        """Whether the run measured fewer points than the study has, or in the quick form."""
        points = re.search(r"(\d+) of (\d+) points", self.run)
        return "quick form" in self.run or points is None or points[1] != points[2]


def keep(page: str, study: str, rows: Sequence[Sequence[str]]) -> Kept | None:
    """The parts of `page` about a study; None if there is nothing to keep, because the page lacks
    the study or shows it without a run. `rows` are the cells of its table, as a page shows them if
    nothing was measured.

    Raises UsageError if the page lacks some parts about the study, or if the study's published
    numbers or their marks have changed after the page was written.
    """
    hint = f"run it: `hakaru run {study}`"
    parts = _parts(page)
    runs, overview = (
        [line for line in parts.get(part, []) if _cells(line)[0] == study] for part in ("Runs", "Overview")
    )
    if not runs and not overview and study not in parts:
        return None
    if runs and "| not run;" in runs[0]:
        return None
    if not runs or not overview or study not in parts:
        raise UsageError(f"the page shows no run of {study} that can be kept", hint)
    section = parts[study]
    shown = [_cells(line) for line in section if line.startswith("|")][2:]
    if _published(shown) != _published(rows):
        raise UsageError(f"the published numbers of {study} have changed after the page was written", hint)
    explained = next((lines for heading, lines in parts.items() if heading.startswith("Errors above")), [])
    run = runs[0] if MARK in runs[0] else f"{runs[0].removesuffix(' |')}{MARK} |"
    return Kept(run, overview[0], tuple(line for line in explained if _cells(line)[0] == study), tuple(section))


def _parts(page: str) -> dict[str, list[str]]:
    """Heading → lines below it, without empty lines at the end."""
    parts = {}
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, *lines = part.rstrip("\n").split("\n")
        parts[heading] = lines
    return parts


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split(" | ")]


def _published(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[row[i] for i in PUBLISHED_SIDE] for row in rows]
