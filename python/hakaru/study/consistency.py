"""What has to fit together in a study beyond the shape of each field.

`problems` is pure: a study → places, messages and hints. Called by `load` once the shapes are right. Storage and lab
are looked at as they are written and as they are at every point (`consistency_points`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hakaru.lab.plan import ImpossibleLabError, LabPlan, check_adjustable, plan_lab
from hakaru.study import consistency_load, kind
from hakaru.study.consistency_points import blocks_of, forms_of, point_problems
from hakaru.study.expectations import Where
from hakaru.study.factors import LOAD_FACTORS
from hakaru.study.model import POINTS_MAX, ArraySpec, InlineModel, NoModel, Study
from hakaru.study.part import level_text
from hakaru.study.variables import Problem, Sets, near
from hakaru.units import format_size


def problems(study: Study) -> list[Problem]:
    """What does not fit together, in the order in which it is found."""
    found = [*kind.of(study).problems(study), *one_study(study), *_factors(study), *_variables(study)]
    # Points of a study that does not hold together would only say the same again.
    if found:
        return found
    lab = plan_lab(study.lab)
    return [
        *_room(study),
        *point_problems(study, lambda changed: one_study(changed) or [*_standing(lab, changed)]),
        *_expectations(study),
    ]


def one_study(study: Study) -> list[Problem]:
    """What does not fit together at one point: lab, storage, what is copied."""
    found = [*_lab(study)]
    for name, array in arrays_of(study).items():
        found += _lus(("arrays", name) if study.arrays else ("array",), array)
    return found or [*kind.of(study).point_problems(study)]


def _standing(lab: LabPlan, changed: Study) -> Iterator[Problem]:
    """The lab is built once: a point can change what its nodes and links do, not which there are."""
    try:
        check_adjustable(lab, plan_lab(changed.lab))
    except ImpossibleLabError as e:
        yield ("lab", *e.path), e.message, e.hint


def arrays_of(study: Study) -> dict[str, ArraySpec]:
    """Every array by its name in the lab."""
    if study.arrays:
        return study.arrays
    names = plan_names(study)
    return {names[0] if names else "array": study.only_array}


def plan_names(study: Study) -> Sequence[str]:
    """Nodes of the lab that arrays run on; empty where the lab cannot be."""
    try:
        return plan_lab(study.lab).array_names
    except ImpossibleLabError:
        return ()


def _lab(study: Study) -> Iterator[Problem]:
    try:
        plan = plan_lab(study.lab)
    except ImpossibleLabError as e:
        yield ("lab", *e.path), e.message, e.hint
        return
    names = plan.array_names
    if study.array is not None and len(names) != 1:
        yield ("array",), f"the lab has {len(names)} arrays", f"write `arrays:` with {', '.join(names) or 'each'}"
    for name in study.arrays:
        if name not in names:
            yield ("arrays", name), f"the lab has no array {name!r}", near(name, names)
    for name in names:
        if study.arrays and name not in study.arrays:
            yield ("arrays",), f"array {name!r} of the lab is missing", f"add `{name}:` here"


def _lus(place: tuple[str | int, ...], array: ArraySpec) -> Iterator[Problem]:
    for i, lu in enumerate(array.lus):
        if lu.size % lu.block:
            yield (*place, "lus", i, "size"), f"not a multiple of the block length {lu.block}", ""
        if lu.placement is None and not isinstance(array.model, NoModel):
            yield (*place, "lus", i), "placement is missing", "say on which RAID group the LU lies"
    yield from _overlaps(place, array)
    model = array.model
    groups = len((model.model_extra or {}).get("groups") or []) if isinstance(model, InlineModel) else None
    for i, lu in enumerate(array.lus):
        if groups is not None and lu.placement and lu.placement.group >= groups:
            yield (*place, "lus", i, "placement", "group"), f"the model has {groups} groups, counted from 0", ""


def _overlaps(place: tuple[str | int, ...], array: ArraySpec) -> Iterator[Problem]:
    """Two LUs on the same bytes of a RAID group: the model would serve both as one place."""
    ends: dict[int, tuple[int, int]] = {}
    placed = [(lu.placement.group, lu.placement.offset, i) for i, lu in enumerate(array.lus) if lu.placement]
    for group, offset, i in sorted(placed):
        end, lun = ends.get(group, (0, -1))
        if offset < end:
            message = f"overlaps with LU {lun} on group {group}"
            yield (*place, "lus", i, "placement"), message, f"place it from {format_size(end)} on"
        ends[group] = max(ends.get(group, (0, -1)), (offset + array.lus[i].size, array.lus[i].lun))


def _variables(study: Study) -> Iterator[Problem]:
    used = {name for _, block in blocks_of(study) for name in block.levels()}
    for name in study.variables:
        if name in LOAD_FACTORS:
            yield ("variables", name), f"{name!r} is a factor of loads by itself", "choose another name"
        elif name not in used:
            yield ("variables", name), "never used: no block of `factors` varies it", "use it, or leave it out"


def _factors(study: Study) -> Iterator[Problem]:
    own = LOAD_FACTORS if study.backup is None else ()
    for place, block in blocks_of(study):
        for name, levels in block.levels().items():
            if name in own:
                continue
            if name not in study.variables:
                what = f"no factor {name!r}: neither {', '.join(own)} nor" if own else f"no factor {name!r}: not"
                yield (*place, name), f"{what} one of the study's variables", near(name, [*own, *study.variables])
                continue
            variable = study.variables[name]
            if isinstance(variable, Sets):
                continue
            for i, level in enumerate(levels):
                if level_text(level) not in variable:
                    message = f"variable {name} has no level {level_text(level)!r}"
                    yield (*place, name, i), message, near(level_text(level), variable)
        for name in ("pattern", "vms") if study.backup is None else ():
            if name not in block.levels():
                yield (*place, name), "missing", f"add `{name}:` here"
    yield from _repeated(study)


def _repeated(study: Study) -> Iterator[Problem]:
    for place, blocks in forms_of(study):
        seen: set[tuple[tuple[str, str], ...]] = set()
        count = 0
        for i, block in enumerate(blocks):
            count += block.size
            if count > POINTS_MAX:
                yield (*place, i), f"more than {POINTS_MAX} points", "leave out levels"
                break
            for point in block.points():
                levels = tuple(sorted((k, level_text(v)) for k, v in point.items()))
                if levels in seen:
                    shown = ", ".join(f"{k} {v}" for k, v in point.items())
                    yield (*place, i), f"the point {shown} stands there twice", "leave one out"
                    return
                seen.add(levels)


def _room(study: Study) -> Iterator[Problem]:
    if study.backup is None:
        yield from consistency_load.block_problems(study, blocks_of(study))


def _expectations(study: Study) -> Iterator[Problem]:
    factors = {*(LOAD_FACTORS if study.backup is None else ()), *study.variables}
    metrics = kind.of(study).metrics(study)
    tables = {r.table for r in study.reference}
    for i, reference in enumerate(study.reference):
        for metric in reference.metrics:
            if metric not in metrics:
                yield ("reference", i, "metrics", metric), f"no metric {metric!r}", near(metric, metrics)
    parts: list[tuple[tuple[str | int, ...], Any]] = [(("reference", i), r) for i, r in enumerate(study.reference)]
    parts += [(("expect", i), e) for i, e in enumerate(study.expect)]
    for place, part in parts:
        for field in ("where", "of", "to"):
            for name in getattr(part, field, None) or {}:
                if name not in factors:
                    yield (*place, field, name), f"no factor {name!r}", near(name, factors)
        over = getattr(part, "over", None)
        if over is not None and over not in factors:
            yield (*place, "over"), f"no factor {over!r}", near(over, factors)
        named = getattr(part, "metric", None)
        if named is not None and named not in metrics:
            yield (*place, "metric"), f"no metric {named!r}", near(named, metrics)
        table = getattr(part, "table", None)
        if table is not None and table not in tables:
            hint = near(table, tables) if tables else "add it under `reference`"
            yield (*place, "table"), f"no reference {table!r}", hint
        if getattr(part, "kind", None) == "ratio":
            yield from _single_points(study, place, part)


def _has(point: Mapping[str, Any], where: Where) -> bool:
    return all(
        name not in point if level is None else name in point and level_text(point[name]) == level_text(level)
        for name, level in where.items()
    )


def _single_points(study: Study, place: tuple[str | int, ...], ratio: Any) -> Iterator[Problem]:
    """Both sides of a ratio must be one point each in the full form; the quick form may lack it."""
    points = [point for block in study.factors for point in block.points()]
    for field in ("of", "to"):
        fit = [p for p in points if _has(p, getattr(ratio, field))]
        if len(fit) != 1:
            what = "no point is" if not fit else f"{len(fit)} points are"
            hint = "name a level of every factor that tells them apart" if fit else "`hakaru plan` lists the points"
            yield (*place, field), f"{what} so", hint
