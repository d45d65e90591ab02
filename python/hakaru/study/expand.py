"""Expansion of a study to its points, and their repetitions in the order of the run. Pure.

The order is a randomised complete block design: a run goes round by round, and each round measures
every point once, in an order of its own. A drift during the run (temperature, other programs)
therefore affects all points alike, and an interrupted run has measured all points about equally
often. The same study, form and seed give the same order.

With a goal, the points are those that a search may measure, and `searches` has them in the order of
the searched factor. The repetitions follow from the results (`hakaru.run.schedule`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hakaru.study.factors import Factors
from hakaru.study.model import Measure, Study, quick_form
from hakaru.study.part import level_text
from hakaru.study.tables import Row


@dataclass(frozen=True)
class Point:
    """One combination of factor levels. `id` is `p` and its number in the study, counted from 1."""

    id: str
    factors: dict[str, Any]
    study: Study | None = field(default=None, compare=False, repr=False)
    """The study with the changes of these levels; None if it was not expanded."""
    label: str = field(default="", compare=False)
    """Text shown while the point runs, instead of its factors."""


@dataclass(frozen=True)
class Repetition:
    """One repetition (counted from 1) of a point. `order` (from 1) is its position in the run."""

    point: Point
    repetition: int
    order: int

    @property
    def name(self) -> str:
        """Point and repetition: `p03-2`."""
        return f"{self.point.id}-{self.repetition}"


@dataclass(frozen=True)
class Searched:
    """The points of one search, which differ only in the factor `over`, the lowest level first."""

    over: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Expanded:
    """A study with its points, order, seed and times; the contents of `study.json`."""

    study: Study
    quick: bool
    seed: int
    measure: Measure
    points: tuple[Point, ...]
    repetitions: tuple[Repetition, ...]
    """All repetitions in their order; empty for a study with a goal."""
    searches: tuple[Searched, ...] = ()

    def at(self, point: Point) -> Study:
        """The study at a point, with the changes of its levels."""
        return point.study or self.study

    def describe(self, tables: dict[str, list[Row]]) -> dict[str, Any]:
        """Return the contents of study.json. Each published table includes its rows."""
        described = self.study.model_dump(mode="json", by_alias=True, exclude={"quick", "seed", "measure"})
        for reference in described["reference"]:
            if reference["kind"] == "table":
                reference["rows"] = tables[reference["table"]]
        described |= {
            "quick": self.quick,
            "seed": self.seed,
            "measure": self.measure.model_dump(mode="json"),
            "points": [{"point": p.id, "factors": p.factors} for p in self.points],
            "order": [{"point": r.point.id, "repetition": r.repetition} for r in self.repetitions],
            "searches": [{"over": s.over, "points": [p.id for p in s.points]} for s in self.searches],
        }
        return described


def shown(point: Point) -> str:
    """The point's levels as text: `case throttled, tcp 2009`."""
    return ", ".join(f"{name} {level_text(level)}" for name, level in point.factors.items())


def of_described(described: Mapping[str, Any]) -> Study:
    """Restore a study from study.json (`Expanded.describe`), without published tables. Raises
    ValidationError if the file was changed.
    """
    fields = {field.alias or name for name, field in Study.model_fields.items()} - {"quick"}
    written = {k: v for k, v in described.items() if k in fields}
    written["reference"] = [{k: v for k, v in r.items() if k != "rows"} for r in written.get("reference") or []]
    return Study.model_validate(written)


def expand(
    study: Study,
    *,
    quick: bool = False,
    seed: int | None = None,
    repetitions: int | None = None,
    only: dict[str, set[str]] | None = None,
) -> Expanded:
    """Points in the order of the study, repetitions in the order of the run.

    `only` keeps only points with one of the given levels (as text) of each factor: `{"vms": {"1",
    "7"}}`. `seed` and `repetitions` override those of the study.
    """
    form = study.quick if quick else None
    if form is not None:
        study = quick_form(study)
    blocks = (form and form.factors) or study.factors
    measure = (form and form.measure) or study.measure
    if repetitions is not None:
        measure = measure.model_copy(update={"repetitions": repetitions})
    seed = study.seed if seed is None else seed
    combinations = [(factors, block) for block in blocks for factors in block.points()]
    width = max(2, len(str(len(combinations))))
    # An ID is the point's number in the study even if `only` leaves out other points, so that it
    # means the same in all runs.
    numbered = [
        (Point(f"p{place:0{width}}", factors, study.at(factors)), block)
        for place, (factors, block) in enumerate(combinations, start=1)
        if all(name in factors and level_text(factors[name]) in levels for name, levels in (only or {}).items())
    ]
    points = tuple(point for point, _ in numbered)
    if study.goal is not None:
        return Expanded(study, quick, seed, measure, points, (), tuple(_searches(numbered)))
    order: list[tuple[Point, int]] = []
    generator = random.Random(seed)
    for r in range(1, measure.repetitions + 1):
        order += [(point, r) for point in generator.sample(points, len(points))]
    repetitions_in_order = tuple(Repetition(point, r, place) for place, (point, r) in enumerate(order, start=1))
    return Expanded(study, quick, seed, measure, points, repetitions_in_order)


def _searches(numbered: Iterable[tuple[Point, Factors]]) -> Iterator[Searched]:
    """Yield the searches of all blocks, in the order of the study. A block has one range."""
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for point, block in numbered:
        (over,) = block.ranges
        rest = tuple((name, level_text(level)) for name, level in point.factors.items() if name != over)
        groups.setdefault((id(block), over, rest), []).append(point)
    for (_, over, _), points in groups.items():
        yield Searched(over, tuple(sorted(points, key=lambda point: float(point.factors[over]))))
