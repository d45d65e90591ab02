"""The scorecard of a run as JSON (`scorecard` of summary.json), and its values in words.

All rows are counted by their mark, whether they were measured or not, and `measured` is the number
of all rows with an error. Median and worst error, and `predicted_measured`, are of predicted rows
that were measured at valid points: rows that hold by definition cannot be wrong, and the numbers of
calibrated rows were used to choose parameters.

The functions that write words take rows as JSON, so that the report, the command line and
expectations show the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.reference import Compared, Comparison
from hakaru.analysis.rows import Row
from hakaru.wording import LANGUAGES, MISSING, number, say

Json = dict[str, Any]


def to_json(compared: Compared) -> Json:
    """`scorecard` of the summary."""
    rows = [row_json(row) for row in compared.rows]
    return {
        "publications": [
            {"id": name, "title": publication.title.model_dump(), "source": publication.source}
            for name, publication in compared.publications.items()
        ],
        "rows": rows,
        **figures(rows),
    }


def figures(rows: Sequence[Json]) -> Json:
    """Counts of all rows; median and worst error of the predicted rows measured at valid points."""
    sizes = errors(rows)
    return {
        **{mark: sum(row["mark"] == mark for row in rows) for mark in ("calibrated", "predicted", "by_definition")},
        "measured": sum(row["error_percent"] is not None for row in rows),
        "predicted_measured": len(sizes),
        "median_error_percent": median(sizes) if sizes else None,
        "worst": worst(rows),
    }


def errors(rows: Sequence[Json]) -> list[float]:
    """The sizes of the errors of the predicted rows measured at valid points, in percent."""
    return [abs(row["error_percent"]) for row in rows if row["counted"] and row["mark"] == "predicted"]


def worst(rows: Sequence[Json]) -> Json | None:
    """The predicted row with the largest error; None if none was measured at valid points."""
    counted = [row for row in rows if row["counted"] and row["mark"] == "predicted"]
    return max(counted, key=lambda row: abs(row["error_percent"]), default=None)


def row_json(row: Row) -> Json:
    """One row. `name` is in words."""
    measured = row.measured
    return {
        "row": row.id,
        "kind": row.kind,
        "publication": row.publication,
        "name": {language: _name(language, row) for language in LANGUAGES},
        "metric": row.metric,
        "where": row.where,
        "over": row.over,
        "level": row.level,
        "table": row.table,
        "unit": row.unit,
        "published": row.published,
        "mean": measured.value,
        "low": measured.low,
        "high": measured.high,
        "n": measured.n,
        "points": measured.points,
        "points_needed": row.points_needed,
        "valid": measured.valid,
        "error_percent": row.error_percent,
        "mark": row.mark,
        "counted": row.is_counted,
        "note": row.note,
        "not_judged": row.not_judged,
    }


def table_json(comparison: Comparison) -> Json:
    """One element of `references` of the report: a published table and metric, for figures."""
    return {
        "table": comparison.table,
        "title": comparison.title,
        "source": comparison.source,
        "metric": comparison.metric,
        "over": comparison.over,
        "where": comparison.where,
        "rows": [_level_json(row) for row in comparison.rows],
    }


def _level_json(row: Row) -> Json:
    measured = {"mean": row.measured.value, "low": row.measured.low, "high": row.measured.high}
    level = {"level": row.level, "published": row.published, **measured, "error_percent": row.error_percent}
    return level | ({"parts": list(row.parts)} if row.parts else {})


def _name(language: str, row: Row) -> str:
    if row.name is not None:
        return row.name[language]
    assert row.over is not None and row.level is not None  # every row of a table has a level
    level = sentences.level(language, row.over, row.level)
    return say(language, "scorecard.row", {"metric": sentences.metric(language, row.metric), "level": level})


# --- Words


def published(language: str, row: Mapping[str, Any]) -> str:
    """The published value with its unit."""
    return _value(language, row, row["published"])


def measured(language: str, row: Mapping[str, Any]) -> str:
    """The measured value with its unit; a dash if there is none."""
    if row["mean"] is None and row["error_percent"] is not None:
        return say(language, "scorecard.never")
    return _value(language, row, row["mean"])


def interval(language: str, row: Mapping[str, Any]) -> str:
    """The interval of the measured value; empty if there is none."""
    low, high = row["low"], row["high"]
    return "" if low is None or high is None else f"{number(low, language)}–{number(high, language)}"


def error(language: str, row: Mapping[str, Any]) -> str:
    """The error with its sign; a dash if nothing was measured."""
    if row["not_judged"]:
        return say(language, "scorecard.unjudged")
    percent = row["error_percent"]
    return MISSING if percent is None else sentences.signed(language, percent)


def mark(language: str, row: Mapping[str, Any]) -> str:
    """Calibrated, predicted or by definition."""
    return say(language, f"scorecard.mark.{row['mark']}")


def _value(language: str, row: Mapping[str, Any], value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, list):
        return " > ".join(sentences.level(language, row["over"] or "", each) for each in value)
    if row["unit"] == "level":
        return sentences.level(language, row["over"] or "", value)
    if row["unit"] == "times":
        return say(language, "scorecard.times", {"value": value})
    return f"{number(value, language)}{sentences.unit(row['unit'])}"
