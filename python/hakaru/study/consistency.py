"""What has to fit together in a study beyond the shape of each field.

`problems` is pure: a study → places, messages and hints. Called by `load` once the shapes are right.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from hakaru.errors import UsageError
from hakaru.lab.plan import plan_lab
from hakaru.study.model import POINTS_MAX, Factors, InlineModel, NoModel, Open, Study
from hakaru.study.seating import seats
from hakaru.units import format_size

Problem = tuple[tuple[str | int, ...], str, str]

METRICS = frozenset(
    {"iops", "read_iops", "write_iops", "mb_per_s", "mib_per_s", "read_mb_per_s", "write_mb_per_s", "outstanding_mean"}
    | {f"{kind}latency_ms_{x}" for kind in ("", "read_", "write_") for x in ("mean", "p50", "p90", "p99", "p999")}
)
"""Metrics that references and expectations may name; a test holds that analysis computes them all."""


def problems(study: Study) -> list[Problem]:
    """What does not fit together, in the order in which it is found."""
    return [*_lab(study), *_lus(study), *_factors(study), *_images(study), *_patterns(study), *_expectations(study)]


def _near(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(names)}"


def _blocks(study: Study) -> Iterator[tuple[tuple[str | int, ...], Factors]]:
    for i, block in enumerate(study.factors):
        yield ("factors", i), block
    for i, block in enumerate((study.quick and study.quick.factors) or []):
        yield ("quick", "factors", i), block


def _lab(study: Study) -> Iterator[Problem]:
    try:
        plan_lab(study.lab)
    except UsageError as e:
        yield ("lab",), e.message, e.hint


def _lus(study: Study) -> Iterator[Problem]:
    luns = {lu.lun for lu in study.array.lus}
    for c, column in enumerate(study.vms.columns):
        for i, lun in enumerate(column):
            if lun not in luns:
                yield ("vms", "columns", c, i), f"the array has no LU {lun}", f"its LUs are {sorted(luns)}"
    for i, lu in enumerate(study.array.lus):
        if lu.size % lu.block:
            yield ("array", "lus", i, "size"), f"not a multiple of the block length {lu.block}", ""
        if lu.placement is None and not isinstance(study.array.model, NoModel):
            yield ("array", "lus", i), "placement is missing", "say on which RAID group the LU lies"
    yield from _overlaps(study)
    model = study.array.model
    groups = len((model.model_extra or {}).get("groups") or []) if isinstance(model, InlineModel) else None
    for i, lu in enumerate(study.array.lus):
        if groups is not None and lu.placement and lu.placement.group >= groups:
            yield ("array", "lus", i, "placement", "group"), f"the model has {groups} groups, counted from 0", ""


def _overlaps(study: Study) -> Iterator[Problem]:
    """Two LUs on the same bytes of a RAID group: the model would serve both as one place."""
    ends: dict[int, tuple[int, int]] = {}
    placed = [(lu.placement.group, lu.placement.offset, i) for i, lu in enumerate(study.array.lus) if lu.placement]
    for group, offset, i in sorted(placed):
        end, lun = ends.get(group, (0, -1))
        if offset < end:
            message = f"overlaps with LU {lun} on group {group}"
            yield ("array", "lus", i, "placement"), message, f"place it from {format_size(end)} on"
        ends[group] = max(ends.get(group, (0, -1)), (offset + study.array.lus[i].size, study.array.lus[i].lun))


def _factors(study: Study) -> Iterator[Problem]:
    for place, block in _blocks(study):
        for i, name in enumerate(block.pattern):
            if name not in study.patterns:
                yield (*place, "pattern", i), f"no pattern {name!r}", _near(name, study.patterns)
            elif block.queue_depth and isinstance(study.patterns[name].load, Open):
                yield (*place, "queue_depth"), f"pattern {name!r} has an open load, which has no queue depth", ""
    for place, blocks in (
        (("factors",), study.factors),
        (("quick", "factors"), (study.quick and study.quick.factors) or []),
    ):
        seen: list[dict[str, Any]] = []
        count = 0
        for i, block in enumerate(blocks):
            size = len(block.pattern) * len(block.vms) * len(block.queue_depth or [0])
            count += size
            if count > POINTS_MAX:
                yield (*place, i), f"more than {POINTS_MAX} points", "leave out levels"
                break
            for point in block.points():
                if point in seen:
                    shown = ", ".join(f"{k} {v}" for k, v in point.items())
                    yield (*place, i), f"the point {shown} stands there twice", "leave one out"
                    return
                seen.append(point)


def _images(study: Study) -> Iterator[Problem]:
    vms, sizes = study.vms, {lu.lun: lu.size for lu in study.array.lus}
    if vms.region is not None and not 0 < vms.region <= vms.image:
        yield ("vms", "region"), "larger than the image, or nothing", "a region is a part of a VM's image"
    named = [lun for column in vms.columns for lun in column]
    if len(set(named)) < len(named):
        yield ("vms", "columns"), "an LU stands there twice", "VMs would write over each other; name each LU once"
    elif set(named) <= set(sizes):
        most = max(n for _, block in _blocks(study) for n in block.vms)
        room = seats([[sizes[lun] // vms.image for lun in column] for column in vms.columns])
        if most > room:
            message = f"{most} VMs with images of {format_size(vms.image)} do not fit; there is room for {room}"
            yield ("vms", "columns"), message, "make the LUs larger or the images smaller"


def _patterns(study: Study) -> Iterator[Problem]:
    block = max(lu.block for lu in study.array.lus)
    for field, size in (("image", study.vms.image), ("region", study.vms.region_bytes)):
        if size % block:
            yield ("vms", field), f"not a multiple of the block length {block}", ""
    for name, pattern in study.patterns.items():
        for i, one in enumerate(pattern.sizes):
            place = ("patterns", name, "sizes", i, "size")
            if one.size % block:
                yield place, f"not a multiple of the block length {block}", ""
            if one.size > study.vms.region_bytes:
                yield place, "larger than a VM's region", ""
        if pattern.align is not None and (pattern.align % block or not pattern.align):
            yield ("patterns", name, "align"), f"not a multiple of the block length {block}", ""


def _expectations(study: Study) -> Iterator[Problem]:
    factors = set(Factors.model_fields)
    tables = {r.table for r in study.reference}
    for i, reference in enumerate(study.reference):
        for metric in reference.metrics:
            if metric not in METRICS:
                yield ("reference", i, "metrics", metric), f"no metric {metric!r}", _near(metric, METRICS)
    for place, part in [
        *((("reference", i), r) for i, r in enumerate(study.reference)),
        *((("expect", i), e) for i, e in enumerate(study.expect)),
    ]:
        for name in part.where:
            if name not in factors:
                yield (*place, "where", name), f"no factor {name!r}", _near(name, factors)
        over = getattr(part, "over", None)
        if over is not None and over not in factors:
            yield (*place, "over"), f"no factor {over!r}", _near(over, factors)
        named = getattr(part, "metric", None)
        if named is not None and named not in METRICS:
            yield (*place, "metric"), f"no metric {named!r}", _near(named, METRICS)
        table = getattr(part, "table", None)
        if table is not None and table not in tables:
            yield (
                (*place, "table"),
                f"no reference {table!r}",
                _near(table, tables) if tables else "add it under `reference`",
            )
