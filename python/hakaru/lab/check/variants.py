"""States of a lab's links, as the points of a study change them. Each state is checked once, when a
point first uses it.

    variants = Variants(lab.plan, lab.checks)              after the check of the lab as built
    checks = await variants.check(lab, "p03")              after the lab was adjusted to the plan of
                                                           that point
    variants.describe()                                    `variants` of lab.json

Only paths with a changed link are measured again, and briefly: at least 0.2 s per direction, a
quarter of a second for round trips, and 40 round trips on links with a long delay. A path that
deviates is measured again as thoroughly as in the first check.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hakaru.errors import EnvironmentError_
from hakaru.lab.build import Lab
from hakaru.lab.check.link_check import LinkCheck
from hakaru.lab.check.links import BRIEF, check_links
from hakaru.lab.plan import LabPlan, Link, Trunk
from hakaru.lab.plan.rounds import link_state, rounds_of

Json = dict[str, Any]


@dataclass
class Variant:
    """A state of the links other than the first. `links`: fields that differ, by link; `seconds`:
    duration of the check.
    """

    links: Json
    checks: list[LinkCheck]
    seconds: float
    points: list[str] = field(default_factory=list)

    def describe(self) -> Json:
        """Return the entry of `variants` in lab.json."""
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
        """Whether the links of a plan have been checked in the state that it asks for."""
        return all(round_.key in self._known for round_ in rounds_of(plan))

    async def check(self, lab: Lab, point: str) -> list[LinkCheck]:
        """Return the checks of paths that differ from the first plan, and measure those that are
        new.

        Raises EnvironmentError_ with the point if this machine carries too little, and as engines
        do.
        """
        keys = [round_.key for round_ in rounds_of(lab.plan)]
        changed_keys = tuple(key for key in keys if key not in self._first_keys)
        if not changed_keys:
            return []
        if changed_keys not in self._variants:
            began = time.monotonic()
            try:
                checks = await check_links(lab, self._known, BRIEF)
            except EnvironmentError_ as e:
                hint = f"{e.hint}; --only leaves the point out"
                raise EnvironmentError_(f"the links of point {point}: {e.message}", hint) from e
            self._known |= dict(zip(keys, checks, strict=True))
            seconds = round(time.monotonic() - began, 3)
            self._variants[changed_keys] = Variant(
                _changed(self._first, lab.plan), [self._known[key] for key in changed_keys], seconds
            )
        variant = self._variants[changed_keys]
        if point not in variant.points:
            variant.points.append(point)
        return variant.checks

    def describe(self) -> list[Json]:
        """Return all variants for lab.json in the order of their checks, those of the resumed run
        first.
        """
        current = [variant.describe() for variant in self._variants.values()]
        only_earlier = []
        for earlier in self._earlier:
            same = next((variant for variant in current if variant["links"] == earlier["links"]), None)
            if same is None:
                only_earlier.append(earlier)
            else:
                same["points"] = sorted({*earlier["points"], *same["points"]})
        return [*only_earlier, *current]


def _changed(first: LabPlan, current: LabPlan) -> Json:
    """Return link → fields that differ from the first plan, with their current values."""
    before, after = _states(first), _states(current)
    differ = {name: {k: v for k, v in state.items() if before[name].get(k) != v} for name, state in after.items()}
    return {name: fields for name, fields in differ.items() if fields}


def _states(plan: LabPlan) -> dict[str, dict[str, object]]:
    # The state of an interface on a trunk follows from the trunk.
    hops: tuple[Link | Trunk, ...] = (*(link for link in plan.links if not link.inside), *plan.trunks)
    return {hop.name: dict(link_state(plan, hop)) for hop in hops}
