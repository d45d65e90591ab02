"""Checks of the published numbers and expectations of a study: against its points, its metrics, and
each other. Pure.

A row that no point can produce, or that several points could produce, is refused: it would never be
compared, or the choice would depend on the order of the points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hakaru.study import kind
from hakaru.study.consistency_points import blocks_of
from hakaru.study.expectations import ExpectBelowPeak, ExpectPeak, ExpectReference
from hakaru.study.model import Study
from hakaru.study.part import level_text
from hakaru.study.references import (
    DifferenceReference,
    PeakReference,
    RankingReference,
    RatioReference,
    ReachesReference,
    Reference,
    TableReference,
    ValueReference,
)
from hakaru.study.variables import Problem
from hakaru.study.where import is_number, same_level, selects
from hakaru.suggest import did_you_mean, listed

Place = tuple[str | int, ...]
DISTINGUISH = "name a level of every factor that distinguishes them; `null` selects points without a factor"


def comparison_problems(study: Study) -> list[Problem]:
    """All problems, references first."""
    return [*_references(study), *_expectations(study)]


def _references(study: Study) -> Iterator[Problem]:
    ids: dict[str, int] = {}
    for i, reference in enumerate(study.reference):
        place: Place = ("reference", i)
        if reference.publication not in study.publications:
            hint = did_you_mean(reference.publication, study.publications, "add it under `publications`")
            yield (*place, "publication"), f"no publication {reference.publication!r}", hint
        if isinstance(reference, TableReference):
            yield from _table(study, place, reference)
        else:
            if reference.id in ids:
                yield (*place, "id"), f"reference[{ids[reference.id]}] has the same id", "choose another id"
            ids.setdefault(reference.id, i)
            yield from _metric(study, (*place, "metric"), reference.metric)
        selection = [*_where(study, place, reference)]
        yield from selection or _single_points(study, place, reference)


def _table(study: Study, place: Place, reference: TableReference) -> Iterator[Problem]:
    for metric in reference.metrics:
        yield from _metric(study, (*place, "metrics", metric), metric)
    for i, metric in enumerate(reference.by_definition):
        if metric not in reference.metrics:
            hint = did_you_mean(metric, reference.metrics)
            yield (*place, "by_definition", i), f"{metric!r} is not one of the table's `metrics`", hint
    for metric in reference.calibrated:
        if metric not in reference.metrics:
            hint = did_you_mean(metric, reference.metrics)
            yield (*place, "calibrated", metric), f"{metric!r} is not one of the table's `metrics`", hint
        elif metric in reference.by_definition:
            hint = "keep it under one of the two"
            yield (*place, "calibrated", metric), f"{metric!r} is also listed under `by_definition`", hint
    known = _levels(study).get(reference.over, [])
    for level in reference.levels if known else ():
        if level not in known:
            message = f"no point has {reference.over} {level}"
            yield (*place, "levels", level), message, did_you_mean(level, known)


def _expectations(study: Study) -> Iterator[Problem]:
    for i, expect in enumerate(study.expect):
        place: Place = ("expect", i)
        if isinstance(expect, ExpectReference):
            yield from _published(study, place, expect)
        elif (metric := getattr(expect, "metric", None)) is not None:
            yield from _metric(study, (*place, "metric"), metric)
        selection = [*_where(study, place, expect)]
        yield from selection
        resources = getattr(expect, "resources", ())
        verdicts = kind.of(study).verdicts(study) if resources else ()
        for j, verdict in enumerate(resources):
            if verdict not in verdicts:
                yield (*place, "resources", j), f"no bottleneck {verdict!r}", did_you_mean(verdict, verdicts)
        if expect.kind == "ratio" and not selection:
            yield from _one_point(study, place, {"of": expect.of, "to": expect.to})
        elif isinstance(expect, ExpectPeak | ExpectBelowPeak) and not selection:
            yield from _one_sweep(study, place, expect)


def _published(study: Study, place: Place, expect: ExpectReference) -> Iterator[Problem]:
    """Problems of an expectation that names rows of `reference`."""
    if expect.id is not None:
        ids = [r.id for r in study.reference if not isinstance(r, TableReference)]
        if expect.id not in ids:
            hint = did_you_mean(expect.id, ids, "add the row under `reference`")
            yield (*place, "id"), f"no row {expect.id!r} in `reference`", hint
        return
    tables = [r for r in study.reference if isinstance(r, TableReference)]
    named = [r for r in tables if r.table == expect.table]
    if not named:
        hint = did_you_mean(str(expect.table), {r.table for r in tables}, "add it under `reference`")
        yield (*place, "table"), f"no reference {expect.table!r}", hint
        return
    if not any(_has_rows(r, expect.where) for r in named):
        rows = " or ".join(", ".join([r.over, *map(_shown, r.where.items())]) for r in named)
        yield (*place, "where"), f"no row of {expect.table} has these levels", f"its rows have {rows}"
    compared = [metric for r in named for metric in r.metrics]
    if expect.metric not in compared:
        # A misspelt name deserves a better hint than the few metrics of the table.
        known = kind.of(study).metrics(study)
        if expect.metric not in known:
            yield from _metric(study, (*place, "metric"), str(expect.metric))
        else:
            hint = f"it has {listed(compared)}; add the metric to its `metrics`"
            yield (*place, "metric"), f"{expect.table} is not compared with {expect.metric!r}", hint


def _shown(selected: tuple[str, Any]) -> str:
    name, level = selected
    return f"{name} {'null' if level is None else level_text(level)}"


def _has_rows(reference: TableReference, where: Mapping[str, Any]) -> bool:
    """Whether a table has rows with these levels."""
    return all(
        name == reference.over or (name in reference.where and same_level(reference.where[name], level))
        for name, level in where.items()
    )


def _metric(study: Study, place: Place, metric: str) -> Iterator[Problem]:
    metrics = kind.of(study).metrics(study)
    if metric not in metrics:
        yield place, f"no metric {metric!r}", did_you_mean(metric, metrics)


def _where(study: Study, place: Place, part: Any) -> Iterator[Problem]:
    """Problems of levels that no point has: an expectation about them would never be judged."""
    known = _levels(study)
    for field in ("where", "of", "to"):
        for name, level in (getattr(part, field, None) or {}).items():
            if name not in known:
                yield (*place, field, name), f"no factor {name!r}", did_you_mean(name, known)
            elif level is not None and level_text(level) not in known[name]:
                message = f"no point has {name} {level_text(level)}"
                yield (*place, field, name), message, did_you_mean(level_text(level), known[name])
    over = getattr(part, "over", None)
    if over is not None and over not in known:
        yield (*place, "over"), f"no factor {over!r}", did_you_mean(over, known)
    at = getattr(part, "at", None)
    if at is not None and over in known and not any(_is_number(level, at) for level in known[over]):
        yield (*place, "at"), f"no point has {over} {at:g}", f"{over} has the levels {listed(known[over])}"
    if isinstance(part, RankingReference) and over in known:
        for i, level in enumerate(part.published):
            if not any(same_level(level, each) for each in known[part.over]):
                message = f"no point has {part.over} {level_text(level)}"
                yield (*place, "published", i), message, did_you_mean(level_text(level), known[part.over])
    if isinstance(part, ReachesReference) and over in known:
        for each in known[part.over]:
            if not _is_a_number(each):
                yield (*place, "over"), f"the level {each} of {part.over} is not a number", "name a numeric factor"
                return


def _levels(study: Study) -> dict[str, list[str]]:
    """Factor → its levels as text, from every block of both forms, in the order of the study."""
    levels_of: dict[str, dict[str, None]] = {}
    for _, block in blocks_of(study):
        for name, levels in block.levels().items():
            levels_of.setdefault(name, {}).update(dict.fromkeys(map(level_text, levels)))
    return {name: list(levels) for name, levels in levels_of.items()}


def _is_number(level: str, number: float) -> bool:
    return _is_a_number(level) and float(level) == number


def _is_a_number(level: str) -> bool:
    try:
        float(level)
    except ValueError:
        return False
    return True


def _single_points(study: Study, place: Place, reference: Reference) -> Iterator[Problem]:
    """Problems of a reference that needs one point, or one point per level, and has none or several
    in the full form. The quick form may lack points.
    """
    mean_over = getattr(reference, "mean_over", None)
    if mean_over is not None and mean_over not in _levels(study):
        yield (*place, "mean_over"), f"no factor {mean_over!r}", did_you_mean(mean_over, _levels(study))
        return
    if isinstance(reference, RatioReference | DifferenceReference):
        yield from _one_point(study, place, {"of": reference.of, "to": reference.to}, mean_over)
    elif isinstance(reference, ValueReference):
        yield from _one_point(study, place, {"where": reference.where})
    elif isinstance(reference, TableReference | PeakReference | ReachesReference | RankingReference):
        yield from _one_point_per_level(study, place, reference.over, reference.where, mean_over)


def _one_point(
    study: Study, place: Place, selections: Mapping[str, Mapping[str, Any]], mean_over: str | None = None
) -> Iterator[Problem]:
    """`mean_over`: a factor whose levels count as one point."""
    points = [point for block in study.factors for point in block.points()]
    for field, where in selections.items():
        # Points that differ only in that factor are the same here.
        chosen = {_key(point, mean_over) for point in points if selects(where, point)}
        matching = len(chosen)
        if matching > 1:
            yield (*place, field), f"{matching} points match; exactly one is needed", DISTINGUISH
        elif not matching:
            yield (*place, field), "no point matches", "`hakaru plan` lists the points"


def _key(point: Mapping[str, Any], mean_over: str | None) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, level_text(level)) for name, level in point.items() if name != mean_over))


def _one_point_per_level(
    study: Study, place: Place, over: str, where: Mapping[str, Any], mean_over: str | None = None
) -> Iterator[Problem]:
    points: dict[str, set[tuple[tuple[str, str], ...]]] = {}
    for block in study.factors:
        for point in block.points():
            if over in point and selects(where, point):
                points.setdefault(level_text(point[over]), set()).add(_key(point, mean_over))
    counts = {level: len(keys) for level, keys in points.items()}
    if not counts:
        yield (*place, "where"), f"no point with a level of {over} matches", "`hakaru plan` lists the points"
    for level, count in counts.items():
        if count > 1:
            message = f"{count} points with {over} {level} match; exactly one is needed"
            yield (*place, "where"), message, DISTINGUISH
            return


def _one_sweep(study: Study, place: Place, expect: ExpectPeak | ExpectBelowPeak) -> Iterator[Problem]:
    """Problems of an expectation that needs a single sweep with at least two levels, and points at
    the levels that it names.
    """
    over = expect.over
    points = [p for block in study.factors for p in block.points() if over in p and selects(expect.where, p)]
    levels = list(dict.fromkeys(p[over] for p in points))
    text = next((level for level in levels if not is_number(level)), None)
    if text is not None:
        message = f"the level {level_text(text)} of {over} is not a number"
        yield (*place, "over"), message, "name a factor whose levels are numbers: only these have a peak"
        return
    ambiguous = [*_one_point_per_level(study, place, over, expect.where)]
    yield from ambiguous
    if ambiguous:
        return
    shown = f"the points of `where` have the levels {listed([level_text(level) for level in levels])}"
    if len(levels) < 2:
        message = f"only one level of {over} matches, which is always the peak"
        yield (*place, "where"), message, "leave levels of the factor `over` out of `where`"
    elif isinstance(expect, ExpectBelowPeak):
        if not any(same_level(level, expect.at) for level in levels):
            yield (*place, "at"), f"no point has {over} {expect.at:g}", shown
    elif not any(expect.low <= float(level) <= expect.high for level in levels):
        yield (*place, "low"), f"no point has {over} from {expect.low:g} to {expect.high:g}", shown
