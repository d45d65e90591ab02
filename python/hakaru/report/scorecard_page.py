"""Scorecards of several studies as tables of the terminal and as the page docs/scorecard.md, in
English.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from textwrap import fill
from typing import Any

from hakaru.analysis import scorecard
from hakaru.analysis.newest import Card, Run
from hakaru.report.scorecard import full_name
from hakaru.wording import MISSING, tenths

Json = dict[str, Any]
EXPLAINED_PERCENT = 30.0
"""Error above which a row needs an explanation."""

WIDTH = 100
"""Columns at which paragraphs of the page are wrapped."""

HEADER = "<!-- Written by `make scorecard`. Do not edit: change the studies, and write it again. -->"
ABOUT = """\
# Scorecard

The published numbers that each study can produce, beside those that hakaru measured.

A *calibrated* number was used to choose a parameter of the study, so its error says little. A
*predicted* number was not. A number that holds *by definition* follows from other rows, or from what
the study configures. Median and worst error are those of the predicted numbers that were measured.
The error of a rate, a time or a ratio is relative to the published value. That of a peak is relative
to the published level. That of a ranking is the share of pairs in the wrong order. In the overview,
the row *all* counts the numbers of all studies together, so a study weighs as much as the numbers of
it that were measured."""


def text(card: Card, language: str = "en") -> str:
    """Lines about a study and its run, above its table. `language`: that of the title."""
    return "\n".join(
        [f"{card.study.id}: {getattr(card.study.title, language)}", f"  {_run(card)}", f"  {_figures(card.scorecard)}"]
    )


def together(cards: Sequence[Card]) -> str:
    """A line about the numbers of all studies."""
    errors = [error for card in cards for error in scorecard.errors(card.scorecard["rows"])]
    counted = f"{len(cards)} studies: {len(errors)} predicted numbers measured"
    if not errors:
        return counted
    error = f"median error {tenths(median(errors))} %"
    return f"{counted}; {error}"


def columns() -> list[str]:
    """Titles of the columns of a table of rows."""
    return ["published number", "published", "measured", "interval", "error", "mark"]


def cells(row: Json, language: str = "en") -> list[str]:
    """A row of the table."""
    error = scorecard.error(language, row)
    return [
        full_name(row, language),
        scorecard.published(language, row),
        scorecard.measured(language, row),
        scorecard.interval(language, row),
        error if row["valid"] else f"{error} (invalid)",
        scorecard.mark(language, row),
    ]


def markdown(cards: Sequence[Card]) -> str:
    """The page docs/scorecard.md."""
    parts = (_runs, _overview, _explained, _rows)
    return "\n".join([HEADER, ABOUT, *(line for part in parts for line in part(cards))]) + "\n"


def _run(card: Card) -> str:
    """The run in one line: its form, its state, its points."""
    run = card.run
    if run is None:
        return f"not run; the full form takes about {_duration(card.full_seconds)}"
    form = "quick form" if run.quick else "full form"
    parts = [f"run {run.name}", form, f"{run.points} of {card.points} points"]
    parts += [f"{run.repetitions} repetition{'s' if run.repetitions > 1 else ''}", f"hakaru {run.version}"]
    parts += [run.status] if run.status != "done" else []
    return ", ".join(parts) + _warnings(run) + _change(run)


def _warnings(run: Run) -> str:
    """The warnings of points (docs/methodology/checks.md), each with their number."""
    listed = [f"{name} ({points} point{'s' if points > 1 else ''})" for name, points in run.warnings.items()]
    return f"; warnings: {', '.join(listed)}" if listed else ""


def _change(run: Run) -> str:
    return "; the study has changed after this run" if run.changed else ""


def _figures(figures: Json) -> str:
    """Counts and errors in one line."""
    predicted = f"{figures['predicted']} predicted ({figures['predicted_measured']} measured)"
    marks = f"{figures['calibrated']} calibrated, {predicted}, {figures['by_definition']} by definition"
    counts = f"{len(figures['rows'])} published numbers: {marks}"
    worst = figures["worst"]
    if worst is None:
        return counts
    errors = f"median error {tenths(figures['median_error_percent'])} %, worst {scorecard.error('en', worst)}"
    return f"{counts}; {errors}: {full_name(worst, 'en')}"


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 100 else f"{minutes / 60:.1f} hours"


# --- The page


def _runs(cards: Sequence[Card]) -> Iterator[str]:
    yield "\n## Runs"
    if any(_is_incomplete(card) for card in cards):
        yield "**These runs are incomplete.** The quick form measures fewer points, for a shorter time."
    total = sum(card.full_seconds for card in cards)
    times = ", ".join(f"{_duration(card.full_seconds)} for {card.study.id}" for card in cards)
    about = f"`make scorecard` runs the full forms, which take about {_duration(total)}: {times}."
    yield fill(f"{about} It can be interrupted, and continues where it stopped.", WIDTH) + "\n"
    yield "| study | run |"
    yield "|---|---|"
    for card in cards:
        yield _line([card.study.id, _run(card)])


def _is_incomplete(card: Card) -> bool:
    return card.run is None or card.run.quick or card.run.points < card.points


def _overview(cards: Sequence[Card]) -> Iterator[str]:
    yield "\n## Overview"
    yield "| study | numbers | calibrated | predicted | of these compared | by definition | median | worst |"
    yield "|---|---|---|---|---|---|---|---|"
    for card in cards:
        yield _line(_overview_cells(card.study.id, card.scorecard["rows"]))
    if len(cards) > 1:
        yield _line(_overview_cells("all", [row for card in cards for row in card.scorecard["rows"]]))


def _overview_cells(name: str, rows: Sequence[Json]) -> list[str]:
    """A row of the overview: counts and errors of rows, which may belong to several studies."""
    figures = scorecard.figures(rows)
    counts = [figures[count] for count in ("calibrated", "predicted", "predicted_measured", "by_definition")]
    cells = [name, str(len(rows)), *map(str, counts)]
    worst = figures["worst"]
    if worst is None:
        return [*cells, MISSING, MISSING]
    error = f"{scorecard.error('en', worst)}: {full_name(worst, 'en')}"
    return [*cells, f"{tenths(figures['median_error_percent'])} %", error]


def _explained(cards: Sequence[Card]) -> Iterator[str]:
    yield f"\n## Errors above {EXPLAINED_PERCENT:g} %"
    lines = [line for card in cards for line in _explanations(card)]
    if not lines:
        yield "None."
        return
    yield "| study | published number | published | measured | error | mark | explanation |"
    yield "|---|---|---|---|---|---|---|"
    yield from lines


def _explanations(card: Card) -> Iterator[str]:
    for row in filter(is_large, card.scorecard["rows"]):
        note = row["note"]["en"] if row["note"] else "none yet"
        shown = [scorecard.published("en", row), scorecard.measured("en", row), scorecard.error("en", row)]
        yield _line([card.study.id, full_name(row, "en"), *shown, scorecard.mark("en", row), note])


def is_large(row: Json) -> bool:
    """Whether the error of a row needs an explanation."""
    return bool(row["counted"]) and abs(row["error_percent"]) > EXPLAINED_PERCENT


def _rows(cards: Sequence[Card]) -> Iterator[str]:
    for card in cards:
        yield f"\n## {card.study.id}"
        for publication in card.scorecard["publications"]:
            yield fill(f"{publication['title']['en']}: {publication['source']}.", WIDTH) + "\n"
        yield _line(columns())
        yield "|---|---|---|---|---|---|"
        yield from (_line(cells(row)) for row in card.scorecard["rows"])
        yield from _not_judged(card.scorecard["rows"])


def _not_judged(rows: Sequence[Json]) -> Iterator[str]:
    """Reasons why rows were not judged, each with its rows."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row["not_judged"]:
            by_reason.setdefault(row["not_judged"]["en"], []).append(full_name(row, "en"))
    for reason, names in by_reason.items():
        yield ""
        yield fill(f"{_escaped(reason)} This concerns {len(names)} rows: {_escaped('; '.join(names))}.", WIDTH)


def _line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escaped, texts))} |"


def _escaped(cell: str) -> str:
    """A cell of a Markdown table, with characters that would end it or start markup escaped."""
    special = str.maketrans({c: f"\\{c}" for c in "\\|<>*_`["})
    return " ".join(cell.translate(special).split())
