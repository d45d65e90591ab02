"""The comparison with the published numbers in a report: a section with every row, and the sentence
for the first page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from hakaru.analysis import scorecard, sentences
from hakaru.report.blocks import Across, Cell, Column, Row, Section, Table
from hakaru.wording import say, tenths, with_note

Json = dict[str, Any]
COLUMNS = ("published", "measured", "error", "mark")


def section(summary: Json, language: str) -> list[Section]:
    """The section, with a table for each publication; no section without published numbers."""
    card = summary["scorecard"]
    if not card["rows"]:
        return []
    about = sentences.sentences(language, counts(summary, language), say(language, "scorecard.about"))
    tables = []
    for publication in card["publications"]:
        rows = [row for row in card["rows"] if row["publication"] == publication["id"]]
        if rows:
            tables.append(_table(publication, rows, language))
    return [Section("scorecard", say(language, "section.scorecard"), about, tables)]


def answer(summary: Json, language: str) -> list[Json]:
    """The sentences for the first page: the median error of the predicted numbers, and the worst
    one. None without published numbers.
    """
    card = summary["scorecard"]
    if not card["rows"]:
        return []
    titles = [publication["title"][language] for publication in card["publications"]]
    name = say(language, "scorecard.answer", {"title": say(language, "list.separator").join(titles)})
    return [{"name": name, "text": sentences.sentences(language, *_errors(card, language))}]


def counts(summary: Json, language: str) -> str:
    """How many published numbers were compared; empty without published numbers."""
    card = summary["scorecard"]
    return say(language, "scorecard.counts", {**card, "rows": len(card["rows"])}) if card["rows"] else ""


def _errors(card: Json, language: str) -> Iterator[str]:
    """Sentences about the errors of the predicted rows."""
    worst = card["worst"]
    if worst is None:
        yield say(language, "scorecard.no_prediction")
        return
    values = {"median": tenths(card["median_error_percent"], language), "n": card["predicted_measured"]}
    yield say(language, "scorecard.errors", values)
    yield say(
        language,
        "scorecard.worst",
        {
            "name": full_name(worst, language),
            "published": scorecard.published(language, worst),
            "measured": scorecard.measured(language, worst),
            "error": scorecard.error(language, worst),
        },
    )


def full_name(row: Json, language: str) -> str:
    """Name of a row. The name of a row of a table includes the levels of the other factors."""
    series = sentences.series(row["where"], language) if row["table"] else ""
    return with_note(language, row["name"][language], series) if series else str(row["name"][language])


def _table(publication: Json, rows: Sequence[Json], language: str) -> Table:
    columns = [Column(say(language, "scorecard.number"), "words", header=True)]
    columns += [Column(say(language, f"scorecard.column.{name}")) for name in COLUMNS]
    shown: list[Row | Across] = []
    for (table, metric), group in groupby(rows, key=lambda row: (row["table"], row["metric"] if row["table"] else "")):
        members = list(group)
        if table:
            name = sentences.metric(language, metric)
            series = sentences.series(members[0]["where"], language)
            shown.append(Across(with_note(language, name, series) if series else name, heading=True))
        else:
            shown.append(Across(say(language, "scorecard.single"), heading=True))
        for i, row in enumerate(members):
            shown.append(_row(row, language))
            # The rows of a table share one note.
            if row["note"] and (i + 1 == len(members) or members[i + 1]["note"] != row["note"]):
                shown.append(Across(str(row["note"][language]), heading=False))
            reasons = row["not_judged"]
            if reasons and (i + 1 == len(members) or members[i + 1]["not_judged"] != reasons):
                shown.append(Across(str(reasons[language]), heading=False))
    caption = say(language, "scorecard.cited", {"title": publication["title"][language]})
    return Table(caption, columns, shown, "numbers scorecard")


def _row(row: Json, language: str) -> Row:
    name = sentences.level(language, row["over"], row["level"]) if row["table"] else str(row["name"][language])
    missing = row["points_needed"] - row["points"]
    partial = row["error_percent"] is not None and missing > 0
    counts = {"points": row["points"], "needed": row["points_needed"]}
    small = say(language, "scorecard.partial", counts) if partial else ""
    measured = Cell(scorecard.measured(language, row), scorecard.interval(language, row), bold=True)
    cells: list[Cell | str] = [
        Cell(name, small) if small else name,
        scorecard.published(language, row),
        measured,
        scorecard.error(language, row),
        scorecard.mark(language, row),
    ]
    return Row(cells, "" if row["valid"] else "invalid")
