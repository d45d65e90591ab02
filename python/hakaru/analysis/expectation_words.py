"""Sentences about an expectation and its outcome, in one language at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import scorecard
from hakaru.analysis.expectations import Outcome, Results, evaluate
from hakaru.analysis.reference import compare_points
from hakaru.analysis.sentences import in_series, level, metric, series, signed, unit
from hakaru.study.load import Loaded
from hakaru.units import unit_in
from hakaru.wording import say


def expectation(language: str, outcome: Outcome, several: bool, units: Mapping[str, str]) -> str:
    """The expectation as a sentence. `units`: units of metrics, by name."""
    values = dict(outcome.evidence)
    over = str(outcome.expect.get("over") or outcome.over)
    for name in ("low", "high", "at"):
        if name in values:
            values[name] = level(language, over, float(values[name]))
    if outcome.message in ("expect.bound", "expect.ratio"):
        # In Japanese ("2.5 倍以上") the word for "times" is inside the bound, like a unit.
        times = " 倍" if language == "ja" else ""
        values["unit"] = unit(units.get(values["metric"], "")) if outcome.message == "expect.bound" else times
        values["bound"] = _bound(language, values)
    for side in ("of", "to"):
        if side in values:
            values[side] = series(values[side], language)
    if "resources" in values:
        values["resources"] = _any_of(language, [say(language, f"limiter.{r}") for r in values["resources"]])
    if "metric" in values:
        values["metric"] = metric(language, values["metric"])
    if outcome.message == "expect.row":
        row = values.get("row")
        values["name"] = row["name"][language] if row else values["id"]
        values["published"] = scorecard.published(language, row) if row else ""
    text = say(language, outcome.message, values)
    return in_series(language, outcome.expect.get("where") or {}, text, several)


def expected(language: str, loaded: Loaded) -> list[str]:
    """The expectations of a study as sentences, before a run."""
    study = loaded.study
    units = {name: unit_in(name) for expect in study.expect if (name := getattr(expect, "metric", None))}
    nothing = Results([], [], compare_points(study, loaded.reference_rows, []))
    outcomes = evaluate([expect.model_dump(mode="json") for expect in study.expect], nothing)
    return [expectation(language, outcome, True, units) for outcome in outcomes]


def expectation_found(language: str, outcome: Outcome, units: Mapping[str, str]) -> str:
    """The measured result as a sentence, or that the expectation could not be judged."""
    row = outcome.evidence.get("row")
    numbers = {"below_percent", "level", "of_value", "point", "worst_percent"} & outcome.evidence.keys()
    is_row_measured = row is not None and row["error_percent"] is not None
    judged = numbers or outcome.evidence.get("found") or is_row_measured
    if outcome.held is None and not judged:
        reasons = row["not_judged"] if row is not None else outcome.evidence.get("not_judged")
        return str(reasons[language]) if reasons else say(language, "expect.not_judged")
    values = dict(outcome.evidence)
    over = str(outcome.expect.get("over") or outcome.over)
    if row is not None:
        values |= {"value": scorecard.measured(language, row), "error": scorecard.error(language, row)}
    if outcome.message in ("expect.row", "expect.reference", "expect.bound", "expect.ratio"):
        ends = [row[name] for name in ("low", "high")] if row else [values.get(f"value_{n}") for n in ("low", "high")]
        values["interval"] = _interval(language, *ends, is_level=row is not None and row["kind"] == "peak")
    if "point" in values:
        values["point"] = series(values["point"], language)
    if "level" in values:
        values["level"] = level(language, over, values["level"])
    if "levels" in values:
        values["count"] = values["levels"]
    if "worst_percent" in values:
        values["error"] = signed(language, float(values["worst_percent"]))
    if "found" in values:
        values["found"] = _any_of(language, [say(language, f"limiter.{f}") for f in dict.fromkeys(values["found"])])
    if outcome.message == "expect.bound":
        values["unit"] = unit(units.get(values["metric"], ""))
    text = say(language, f"{outcome.message}.found", values)
    if outcome.held is not None:
        return text
    why = f"expect.open.{values['open']}" if "open" in values else "expect.unclear"
    return say(language, why, {"found": text})


def _bound(language: str, values: Mapping[str, Any]) -> str:
    """The bounds in words: `at least 2.5`, `at most 40`, `40 to 60`."""
    bounds = {name: values[name] for name in ("at_least", "at_most") if values.get(name) is not None}
    message = "expect.bound.between" if len(bounds) == 2 else f"expect.bound.{next(iter(bounds))}"
    return say(language, message, bounds | {"unit": values["unit"]})


def _any_of(language: str, names: list[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    separator = say(language, "list.separator")
    return say(language, "expect.or", {"first": separator.join(names[:-1]), "last": names[-1]})


def _interval(language: str, low: float | None, high: float | None, *, is_level: bool) -> str:
    """The interval of a measured value as an addition to a sentence; empty if there is none, or if
    it has no width. Of a peak (`is_level`), the levels that may be it.
    """
    if low is None or high is None or (low == high and not is_level):
        return ""
    values = {"interval": scorecard.interval(language, {"low": low, "high": high})}
    return say(language, "expect.levels" if is_level else "expect.interval", values)
