"""The links of a lab as the points of a study change them: each state is checked once, when a point
first takes it on.

    variants = Variants(lab.plan, lab.checks)              after the check of the lab as it was
                                                           built
    checks = await variants.take_on(lab, "p03")            the lab has adjusted to the plan of that
                                                           point
    variants.describe()                                    `variants` of lab.json

Only ways with a link that differs are measured anew, and briefly: 0.2 s each way at least, a
quarter of a second for round trips, 40 round trips where delay is long. One that is not as asked is
measured again as thoroughly as the first were.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hakaru.errors import EnvironmentError_
from hakaru.lab.build import Lab
from hakaru.lab.check.link_check import LinkCheck
from hakaru.lab.check.links import BRIEF, check_links, link_state, rounds_of
from hakaru.lab.plan import LabPlan, Link, Trunk

Json = dict[str, Any]


@dataclass
class Variant:
    """A state of the links other than the first. `links`: what differs; `seconds`: what checking
    took.
    """

    links: Json
    checks: list[LinkCheck]
    seconds: float
    points: list[str] = field(default_factory=list)

    def describe(self) -> Json:
        """For `variants` in lab.json."""
        checks = [check.describe() for check in self.checks]
        return {"points": sorted(self.points), "links": self.links, "seconds": self.seconds, "checks": checks}


class Variants:
    """States that the links of a lab have had. `earlier`: those of a resumed run, as `describe`
    returned them.
    """

    def __init__(self, plan: LabPlan, checks: Sequence[LinkCheck], earlier: Sequence[Json] = ()) -> None:
        self._first = plan
        self._known = dict(zip([round_.key for round_ in rounds_of(plan)], checks, strict=True))
        self._first_keys = frozenset(self._known)
        self._variants: dict[Hashable, Variant] = {}
        self._earlier = list(earlier)

    def is_known(self, plan: LabPlan) -> bool:
        """Whether the links of a plan have been checked as they are there."""
        return all(round_.key in self._known for round_ in rounds_of(plan))

    async def take_on(self, lab: Lab, point: str) -> list[LinkCheck]:
        """Checks of the ways that are not as in the first plan, measured now unless they have been.

        Raises EnvironmentError_ with the point where this machine carries too little, and as
        engines do.
        """
        keys = [round_.key for round_ in rounds_of(lab.plan)]
        other = tuple(key for key in keys if key not in self._first_keys)
        if not other:
            return []
        if other not in self._variants:
            began = time.monotonic()
            try:
                checks = await check_links(lab, self._known, BRIEF)
            except EnvironmentError_ as e:
                hint = f"{e.hint}; --only leaves the point out"
                raise EnvironmentError_(f"the links of point {point}: {e.message}", hint) from e
            self._known |= dict(zip(keys, checks, strict=True))
            seconds = round(time.monotonic() - began, 3)
            self._variants[other] = Variant(
                _changed(self._first, lab.plan), [self._known[key] for key in other], seconds
            )
        variant = self._variants[other]
        if point not in variant.points:
            variant.points.append(point)
        return variant.checks

    def describe(self) -> list[Json]:
        """For lab.json, in the order in which they were taken on; those of the run's beginning
        first.
        """
        now = [variant.describe() for variant in self._variants.values()]
        kept = []
        for before in self._earlier:
            again = next((one for one in now if one["links"] == before["links"]), None)
            if again is None:
                kept.append(before)
            else:
                again["points"] = sorted({*before["points"], *again["points"]})
        return [*kept, *now]


def _changed(first: LabPlan, now: LabPlan) -> Json:
    """Link → fields that differ, as they are now."""
    before, after = _states(first), _states(now)
    differ = {name: {k: v for k, v in state.items() if before[name].get(k) != v} for name, state in after.items()}
    return {name: fields for name, fields in differ.items() if fields}


def _states(plan: LabPlan) -> dict[str, dict[str, object]]:
    # The state of an interface on a trunk follows from the trunk.
    hops: tuple[Link | Trunk, ...] = (*(link for link in plan.links if not link.inside), *plan.trunks)
    return {hop.name: dict(link_state(plan, hop)) for hop in hops}
