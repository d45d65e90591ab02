"""Parts of an earlier page docs/scorecard.md that a new page takes over, for studies without a run.

A page names its runs, but a run may no longer exist when the page is written again for another
study. `scorecard_page` writes the page and decides which studies keep their parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from hakaru.errors import UsageError
from hakaru.wording import MISSING, tenths

NAME, PUBLISHED, MEASURED, ERROR, MARKED = 0, 1, slice(2, 5), 4, 5
"""Columns of a row: name, published value, those that depend on the run, its error, its mark."""

EXPLAINED_NAME, EXPLAINED_MARK = 1, 5
"""Columns of the list of large errors."""

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
        return _errors([_cells(line) for line in self.section if line.startswith("|")][2:])

    @property
    def worst(self) -> str:
        """The last cell of its row of the overview: the largest error and its number."""
        return re.sub(r"\\(.)", r"\1", _cells(self.overview)[-1])

    @property
    def is_incomplete(self) -> bool:
        """Whether the run measured fewer points than the study has, or in the quick form."""
        points = re.search(r"(\d+) of (\d+) points", self.run)
        return "quick form" in self.run or points is None or points[1] != points[2]


def keep(page: str, study: str, rows: Sequence[Sequence[str]], points: int) -> Kept | None:
    """The parts of `page` about a study; None if there is nothing to keep, because the page lacks
    the study or shows it without a run. `rows` are the cells of its table, as a page shows them if
    nothing was measured. `points`: how many the study has now.

    Marks are those of the study as it is now, and rows that it has got since then are shown as not
    measured. Raises UsageError if the page lacks some parts about the study, or if it has other
    published numbers, or rows that the study lacks.
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
    titles = [i for i, line in enumerate(section) if line.startswith("|")]
    shown = {cells[NAME]: cells for cells in (_cells(section[i]) for i in titles[2:])}
    table = [_merged(row, shown.pop(row[NAME], None)) for row in rows]
    if shown or None in table:
        raise UsageError(f"the published numbers of {study} have changed after the page was written", hint)
    merged = [row for row in table if row is not None]
    section[titles[2] : titles[-1] + 1] = [_line(row) for row in merged]
    explained = next((lines for heading, lines in parts.items() if heading.startswith("Errors above")), [])
    run = runs[0] if MARK in runs[0] else f"{runs[0].removesuffix(' |')}{MARK} |"
    run = re.sub(r"(\d+) of \d+ points", rf"\1 of {points} points", run)
    listed = [cells for line in explained if (cells := _cells(line))[0] == study]
    marks = {row[NAME]: row[MARKED] for row in merged}
    lines = _explained(listed, marks)
    if _unexplained(merged, listed, parts):
        raise UsageError(f"large errors of {study} count now, and the page does not explain them", hint)
    return Kept(run, _line(_overview(study, merged)), tuple(lines), tuple(section))


def _merged(row: Sequence[str], earlier: Sequence[str] | None) -> list[str] | None:
    """A row with what the earlier page has measured; None if its published number was another."""
    if earlier is None:
        return list(row)
    if earlier[PUBLISHED] != row[PUBLISHED]:
        return None
    return [row[NAME], row[PUBLISHED], *earlier[MEASURED], row[MARKED]]


def _errors(rows: Sequence[Sequence[str]]) -> list[float]:
    """The sizes of the errors of predicted numbers measured at valid points."""
    shown = [re.fullmatch(r"[+-]?([\d,.]+) %", row[ERROR]) for row in rows if row[MARKED] == "predicted"]
    return [float(match[1].replace(",", "")) for match in shown if match]


def _overview(study: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """The row of the overview."""
    errors = _errors(rows)
    marks = [row[MARKED] for row in rows]
    counts = [len(rows), marks.count("calibrated"), marks.count("predicted"), len(errors), marks.count("by definition")]
    cells = [study, *map(str, counts)]
    if not errors:
        return [*cells, MISSING, MISSING]
    worst = next(row for row in rows if _errors([row]) == [max(errors)])
    return [*cells, f"{tenths(median(errors))} %", f"{worst[ERROR]}: {worst[NAME]}"]


def _explained(listed: Sequence[list[str]], marks: dict[str, str]) -> list[str]:
    """The list of large errors with the marks of now; numbers by definition need no explanation."""
    kept = [cells for cells in listed if marks.get(cells[EXPLAINED_NAME]) != "by definition"]
    return [
        _line([*cells[:EXPLAINED_MARK], marks[cells[EXPLAINED_NAME]], *cells[EXPLAINED_MARK + 1 :]]) for cells in kept
    ]


def _unexplained(rows: Sequence[Sequence[str]], listed: Sequence[list[str]], parts: Iterable[str]) -> bool:
    """Whether a large error counts that the list lacks. The heading of the list has its limit."""
    limits = [match[1] for heading in parts if (match := re.fullmatch(r"Errors above ([\d.]+) %", heading))]
    explained = {cells[EXPLAINED_NAME] for cells in listed}
    counted = (row for row in rows if row[MARKED] == "predicted" and row[NAME] not in explained)
    return any(error > float(limits[0]) for error in _errors([*counted])) if limits else False


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _parts(page: str) -> dict[str, list[str]]:
    """Heading → lines below it, without empty lines at the end."""
    parts = {}
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, *lines = part.rstrip("\n").split("\n")
        parts[heading] = lines
    return parts


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split(" | ")]
