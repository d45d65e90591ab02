"""Comparison with the published numbers of a study: one row of the scorecard per printed number.

    compared = compare(run, points)     for every kind of study
    compared.rows                       every row, in the order of the study
    compared.tables                     the rows of each published table and metric, for figures

A row needs the points that its reference selects. If a run has only some of them (`--quick`,
`--only`), rows that compare several points use those that were measured, and say how many are
missing. A row that they cannot decide has no error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from hakaru.analysis.estimate import Estimate, SampleMean, difference, ratio_or_zero
from hakaru.analysis.points import Point
from hakaru.analysis.rows import DIFFERS_PERCENT, Mark, Measured, Row, relative_error
from hakaru.analysis.run_data import RunData
from hakaru.analysis.sweep import like_peak
from hakaru.study import Study
from hakaru.study.part import Level
from hakaru.study.references import (
    DifferenceReference,
    ExtremeReference,
    Needs,
    PeakReference,
    Publication,
    RankingReference,
    RatioReference,
    ReachesReference,
    SingleReference,
    TableReference,
    ValueReference,
)
from hakaru.study.tables import cells_of
from hakaru.study.where import same_level, selects
from hakaru.units import unit_in
from hakaru.wording import LANGUAGES, say


@dataclass(frozen=True)
class Comparison:
    """One metric against one published table."""

    table: str
    title: dict[str, str]
    source: str
    metric: str
    over: str
    where: dict[str, Any]
    """Levels of the other factors of the compared points."""
    rows: tuple[Row, ...]

    @property
    def compared(self) -> list[Row]:
        """Rows with a measured value."""
        return [r for r in self.rows if r.error_percent is not None]

    @property
    def worst(self) -> Row | None:
        """The row with the largest error."""
        return max(self.compared, key=lambda r: abs(r.error_percent or 0.0), default=None)

    @property
    def is_counted(self) -> bool:
        """Whether the metric does not merely follow from another one."""
        return any(r.mark != "by_definition" for r in self.rows)


@dataclass(frozen=True)
class Compared:
    """The rows of a run."""

    publications: Mapping[str, Publication]
    rows: tuple[Row, ...] = ()
    tables: tuple[Comparison, ...] = ()
    """Tables and metrics with at least one measured row."""


NOTHING = Compared({})
"""The comparison of a run that has nothing to be compared with."""


def compare(run: RunData, points: Sequence[Point]) -> Compared:
    """Compare every published number of the study with the points of the run."""
    return compare_points(run.study, run.tables, points, run.machine)


def compare_points(
    study: Study,
    tables_of: Sequence[Sequence[Mapping[str, Any]]],
    points: Sequence[Point],
    machine: Mapping[str, Any] | None = None,
) -> Compared:
    """Compare every published number of a study with these points. `tables_of`: the rows of each
    reference's table, in the order of the study; empty for other references. Without points, the
    result has all rows, and none of them is measured. `machine`: machine.json of the run; None: no
    run.
    """
    rows: list[Row] = []
    tables: list[Comparison] = []
    for reference, published in zip(study.reference, tables_of, strict=True):
        reasons = _missing(reference.needs, points, machine)
        if not isinstance(reference, TableReference):
            rows.append(_unjudged(_single(study, reference, points), reasons))
            continue
        for metric, column in reference.metrics.items():
            of_metric = [_unjudged(row, reasons) for row in _of_table(reference, published, points, metric, column)]
            rows += of_metric
            if any(row.error_percent is not None for row in of_metric):
                tables.append(_comparison(study, reference, metric, of_metric, points))
    return Compared(study.publications, tuple(rows), tuple(tables))


# --- Needs


def _missing(needs: Needs | None, points: Sequence[Point], machine: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Reasons, by language, why a machine cannot be compared with a publication; None if it can, or
    if there is no run.
    """
    if needs is None or machine is None:
        return None
    cpus = machine.get("cpus")
    emulated = any(point.is_emulated for point in points)
    reasons = {}
    for language in LANGUAGES:
        parts = []
        if needs.hardware is not None:
            parts.append(say(language, "scorecard.needs.hardware", {"hardware": needs.hardware.model_dump()[language]}))
        if needs.kvm and emulated:
            parts.append(say(language, "scorecard.needs.kvm"))
        if needs.cpus is not None and isinstance(cpus, int) and cpus < needs.cpus:
            parts.append(say(language, "scorecard.needs.cpus", {"cpus": cpus, "needed": needs.cpus}))
        if parts:
            joined = say(language, "scorecard.needs.separator").join(parts)
            reasons[language] = say(language, "scorecard.not_judged", {"reasons": joined})
    return reasons or None


def _unjudged(row: Row, reasons: dict[str, str] | None) -> Row:
    """The row without an error, if this machine cannot be compared with the publication, or if the
    value is that of the test setup, because this was the bottleneck.
    """
    if reasons is None and row.measured.is_limited_by_setup:
        reasons = {
            language: say(language, "scorecard.not_judged", {"reasons": say(language, "scorecard.needs.setup")})
            for language in LANGUAGES
        }
    return row if reasons is None else replace(row, error_percent=None, not_judged=reasons)


# --- Tables


def _of_table(
    reference: TableReference,
    published: Sequence[Mapping[str, Any]],
    points: Sequence[Point],
    metric: str,
    column: str,
) -> list[Row]:
    rows = []
    for level, numbers in cells_of(reference, published, column):
        value = sum(numbers) if reference.combine == "sum" else numbers[0]
        measured = _of_estimate(_only(points, reference.where | {reference.over: level}), metric)
        rows.append(
            Row(
                id=f"{reference.table}/{metric}/{_level_id(level)}",
                kind="table",
                publication=reference.publication,
                metric=metric,
                published=value,
                measured=measured,
                error_percent=relative_error(_number(measured.value), value),
                mark=_mark(metric in reference.by_definition, reference.is_calibrated(metric, level)),
                unit=_unit(points, metric),
                where=dict(reference.where),
                over=reference.over,
                level=level,
                table=reference.table,
                note=reference.note.model_dump() if reference.note else None,
                parts=tuple(numbers) if len(numbers) > 1 else (),
            )
        )
    return rows


def _comparison(
    study: Study, reference: TableReference, metric: str, rows: list[Row], points: Sequence[Point]
) -> Comparison:
    publication = study.publications[reference.publication]
    compared = [p for row in rows for p in points if selects(row.levels, p.factors)]
    others = [{f: v for f, v in p.factors.items() if f != reference.over} for p in compared]
    where = others[0] if all(other == others[0] for other in others) else dict(reference.where)
    return Comparison(
        reference.table,
        publication.title.model_dump(),
        publication.source,
        metric,
        over=reference.over,
        where=where,
        rows=tuple(rows),
    )


def _level_id(level: Level) -> str:
    return f"{level:g}" if isinstance(level, float) else str(level)


# --- Single rows


def _single(study: Study, reference: SingleReference, points: Sequence[Point]) -> Row:
    measured, error, unit, needed = _judge(study, reference, points)
    where = {} if isinstance(reference, RatioReference | DifferenceReference) else dict(reference.where)
    return Row(
        id=reference.id,
        kind=reference.kind,
        publication=reference.publication,
        metric=reference.metric,
        published=reference.published,
        measured=measured,
        error_percent=error,
        mark=_mark(reference.by_definition, reference.calibrated),
        unit=unit,
        name=reference.name.model_dump(),
        where=where,
        over=getattr(reference, "over", None),
        points_needed=needed,
        note=reference.note.model_dump() if reference.note else None,
    )


def _judge(
    study: Study, reference: SingleReference, points: Sequence[Point]
) -> tuple[Measured, float | None, str, int]:
    """The measured side, the error, the unit, and the number of points of the full form."""
    metric, unit = reference.metric, _unit(points, reference.metric)
    if isinstance(reference, ValueReference):
        measured = _of_estimate(_only(points, reference.where), metric)
        return measured, relative_error(_number(measured.value), reference.published), unit, 1
    if isinstance(reference, RatioReference):
        of, to = (_alike(points, where, metric, reference.mean_over) for where in (reference.of, reference.to))
        if reference.mean_over is not None:
            of, to = _common(study, (of, reference.of), (to, reference.to), over=reference.mean_over)
        measured = _of_two(of, to, metric, ratio_or_zero)
        return measured, relative_error(_number(measured.value), reference.published), "times", 2
    if isinstance(reference, DifferenceReference):
        of, to = (_alike(points, where, metric, None) for where in (reference.of, reference.to))
        measured = _of_two(of, to, metric, difference)
        return measured, relative_error(_number(measured.value), reference.published), unit, 2
    if isinstance(reference, ExtremeReference):
        measured = _extreme(reference, points)
        needed = sum(selects(reference.where, p) for p in _full_form(study))
        return measured, relative_error(_number(measured.value), reference.published), unit, needed
    needed = sum(reference.over in p and selects(reference.where, p) for p in _full_form(study))
    if isinstance(reference, RankingReference):
        return *_ranking(study, reference, points), "order", len(reference.published)
    by_level = _by_level(points, reference.over, reference.where, metric)
    if isinstance(reference, PeakReference):
        return *_peak(reference, by_level, is_searched=study.goal is not None), "level", needed
    return *_reaches(reference, by_level), "level", needed


def _extreme(reference: ExtremeReference, points: Sequence[Point]) -> Measured:
    matching = [p for p in points if selects(reference.where, p.factors) and p.mean(reference.metric) is not None]
    if not matching:
        return Measured()
    choose = max if reference.which == "highest" else min
    chosen = choose(matching, key=lambda p: p.mean(reference.metric) or 0.0)
    # A point that the test setup limited, or an invalid one, might be beyond the chosen one.
    _, _, valid, limited = _of_points(matching, reference.metric)
    measured = _of_estimate(chosen, reference.metric)
    return replace(measured, points=len(matching), valid=valid, is_limited_by_setup=limited)


Combine = Callable[[SampleMean | None, SampleMean | None], Estimate]


def _of_two(of: Sequence[Point], to: Sequence[Point], metric: str, combine: Combine) -> Measured:
    """Two means combined to one value: their ratio or difference."""
    means = [SampleMean.average([m for p in side if (m := p.sample_mean(metric))]) for side in (of, to)]
    value = combine(*means)
    if value.mean is None:
        return Measured()
    both = [*of, *to]
    limited = any(p.is_of_test_setup for p in both)
    return Measured(value.mean, value.low, value.high, value.n, 2, all(p.valid for p in both), limited)


def _peak(
    reference: PeakReference, by_level: Sequence[tuple[Level, Point]], *, is_searched: bool
) -> tuple[Measured, float | None]:
    """The highest of at least two levels, one of which is the published one."""
    metric = reference.metric
    if len(by_level) < 2 or not any(same_level(level, reference.published) for level, _ in by_level):
        return Measured(points=len(by_level)), None
    level, peak = max(by_level, key=lambda pair: pair[1].mean(metric) or 0.0)
    # Most levels that a search chose have a single repetition, so a range would say too little.
    is_known = peak.metrics[metric].low is not None and not is_searched
    like = like_peak([p for _, p in by_level], peak, metric) if is_known else []
    reaching = [each for each, p in by_level if any(p is other for other in like)]
    numbers = [float(each) for each in reaching if isinstance(each, int | float)]
    low, high = (min(numbers), max(numbers)) if numbers and len(numbers) == len(reaching) else (None, None)
    measured = Measured(level, low, high, *_of_points([p for _, p in by_level], metric))
    if same_level(level, reference.published):
        return measured, 0.0
    if isinstance(level, int | float) and isinstance(reference.published, int | float):
        return measured, relative_error(float(level), float(reference.published))
    return measured, DIFFERS_PERCENT


def _reaches(reference: ReachesReference, by_level: Sequence[tuple[Level, Point]]) -> tuple[Measured, float | None]:
    """The first level from which on every mean is high enough. It is known only if a level below
    the published one and one at or above it were measured.
    """
    metric, published = reference.metric, reference.published
    ordered = sorted((float(level), p.mean(metric) or 0.0) for level, p in by_level if not isinstance(level, str))
    if not ordered or ordered[0][0] >= published or ordered[-1][0] < published:
        return Measured(points=len(by_level)), None
    reaching = list(takewhile(lambda pair: pair[1] >= reference.at_least, reversed(ordered)))
    first = reaching[-1][0] if reaching else None
    measured = Measured(first, None, None, *_of_points([p for _, p in by_level], metric))
    if first is None:
        return measured, DIFFERS_PERCENT
    before = max((level for level, _ in ordered if level < first), default=float("-inf"))
    return measured, 0.0 if before < published <= first else relative_error(first, published)


def _ranking(study: Study, reference: RankingReference, points: Sequence[Point]) -> tuple[Measured, float | None]:
    """Share of pairs that are not in the published order, percent, of the levels that were
    measured.
    """
    metric, over = reference.metric, reference.over
    listed: list[tuple[int, Level, float]] = []
    chosen: list[Point] = []
    sides: list[tuple[int, Level, list[Point], dict[str, Any]]] = []
    for level in _levels(points, over, reference.where):
        where = {**reference.where, over: level}
        alike = _alike(points, where, metric, reference.mean_over)
        place = next((i for i, each in enumerate(reference.published) if same_level(level, each)), None)
        if alike and place is not None:
            sides.append((place, level, alike, where))
    means = [alike for _, _, alike, _ in sides]
    if reference.mean_over is not None and sides:
        means = _common(study, *((alike, where) for _, _, alike, where in sides), over=reference.mean_over)
    for (place, level, _, _), alike in zip(sides, means, strict=True):
        if alike:
            listed.append((place, level, sum(p.mean(metric) or 0.0 for p in alike) / len(alike)))
            chosen += alike
    if len(listed) < 2:
        return Measured(points=len(listed)), None
    ours = sorted(listed, key=lambda item: -item[2])
    pairs = [(a, b) for a in listed for b in listed if a[0] < b[0]]
    wrong = sum(a[2] <= b[2] for a, b in pairs)
    n, _, valid, limited = _of_points(chosen, metric)
    measured = Measured([level for _, level, _ in ours], None, None, n, len(listed), valid, limited)
    return measured, 100 * wrong / len(pairs)


# --- Points


def _full_form(study: Study) -> list[dict[str, Any]]:
    """Factors of every point of the study's full form, also in a run of the quick form."""
    return [point for block in study.factors for point in block.points()]


def _only(points: Sequence[Point], where: Mapping[str, Any]) -> Point | None:
    """The point that `where` selects; None if there is none, or several (in a quick form, which the
    checks of a study do not cover).
    """
    matching = [p for p in points if selects(where, p.factors)]
    return matching[0] if len(matching) == 1 else None


def _alike(points: Sequence[Point], where: Mapping[str, Any], metric: str, mean_over: str | None) -> list[Point]:
    """The points with the metric that count as the one that `where` selects: that point alone, or
    with `mean_over`, those that differ only in this factor. Empty if others differ, too.
    """
    if mean_over is None:
        only = _only(points, where)
        return [] if only is None or only.mean(metric) is None else [only]
    matching = [p for p in points if selects(where, p.factors) and p.mean(metric) is not None]
    others = [{name: level for name, level in p.factors.items() if name != mean_over} for p in matching]
    return [] if any(other != others[0] for other in others) else matching


def _common(study: Study, *sides: tuple[Sequence[Point], Mapping[str, Any]], over: str) -> list[list[Point]]:
    """The points of each side, which counts as their mean over the factor `over`. Sides with the
    same levels in the full form have only the levels that all of them measured. Otherwise an
    interrupted run would compare means over different levels.
    """
    full = [{str(p[over]) for p in _full_form(study) if over in p and selects(where, p)} for _, where in sides]
    measured = [{str(p.factors.get(over)) for p in points} for points, _ in sides]
    kept = set.intersection(*measured) if all(each == full[0] for each in full) else set.union(*measured)
    return [[p for p in points if str(p.factors.get(over)) in kept] for points, _ in sides]


def _levels(points: Sequence[Point], over: str, where: Mapping[str, Any]) -> list[Level]:
    """Levels of `over`, in the order of the run."""
    return list(dict.fromkeys(p.factors[over] for p in points if over in p.factors and selects(where, p.factors)))


def _by_level(points: Sequence[Point], over: str, where: Mapping[str, Any], metric: str) -> list[tuple[Level, Point]]:
    """Level of `over` → its only point that has the metric, in the order of the run."""
    chosen = [(level, _only(points, {**where, over: level})) for level in _levels(points, over, where)]
    return [(level, p) for level, p in chosen if p is not None and p.mean(metric) is not None]


def _of_points(points: Sequence[Point], metric: str) -> tuple[int, int, bool, bool]:
    """Lowest number of repetitions, number of points, whether all are valid, and whether the test
    setup limited any.
    """
    limited = any(p.is_of_test_setup for p in points)
    return min(p.metrics[metric].n for p in points), len(points), all(p.valid for p in points), limited


def _of_estimate(point: Point | None, metric: str) -> Measured:
    estimate = point.metrics.get(metric) if point else None
    if point is None or estimate is None or estimate.mean is None:
        return Measured()
    return Measured(estimate.mean, estimate.low, estimate.high, estimate.n, 1, point.valid, point.is_of_test_setup)


def _unit(points: Sequence[Point], metric: str) -> str:
    """Unit of a metric; if no point has the metric, the unit that its name contains."""
    return next((p.metrics[metric].unit for p in points if metric in p.metrics), unit_in(metric))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _mark(by_definition: bool, calibrated: bool) -> Mark:
    return "by_definition" if by_definition else "calibrated" if calibrated else "predicted"
