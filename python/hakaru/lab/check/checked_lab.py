"""A lab together with its measurements before the load: links, links that points change, plain TCP.

checked = CheckedLab(lab)
caveats = await checked.check_links()
await checked.measure_baselines(seed=1)
caveats = await checked.adjust(plan, "p03")        before each point
checked.describe()                                 lab.json
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.caveats import Caveat
from hakaru.lab.build import Lab
from hakaru.lab.check.baseline import measure_baselines
from hakaru.lab.check.link_check import LinkCheck
from hakaru.lab.check.links import check_links
from hakaru.lab.check.variants import Variants
from hakaru.lab.plan import LabPlan


class CheckedLab:
    """A lab and its checks. `earlier`: lab.json of the run that is resumed."""

    def __init__(self, lab: Lab, earlier: Mapping[str, Any] | None = None) -> None:
        self.lab = lab
        self.checks: list[LinkCheck] = []
        self.baselines: list[dict[str, Any]] = []
        self._earlier = earlier or {}
        self._variants: Variants | None = None

    async def check_links(self) -> list[Caveat]:
        """Measure every link of the lab in its current state. Raises as `links.check_links`."""
        self.checks = await check_links(self.lab)
        self._variants = Variants(self.lab.plan, self.checks, self._earlier.get("variants") or ())
        return [caveat for check in self.checks for caveat in check.caveats()]

    async def measure_baselines(self, *, seed: int = 1) -> list[dict[str, Any]]:
        """Measure plain TCP between hosts, and between hosts and arrays, while a fabric engine
        runs. Raises as engines do.
        """
        async with self.lab.fabric(seed=seed):
            self.baselines = await measure_baselines(self.lab)
        return self.baselines

    def is_known(self, plan: LabPlan) -> bool:
        """Whether the links of a plan have been measured in the state that the plan asks for."""
        return self._variants is None or self._variants.is_known(plan)

    async def adjust(self, plan: LabPlan, point: str) -> list[Caveat]:
        """Adjust the lab to the plan of a point, and measure links whose state has not been
        measured.
        """
        if plan != self.lab.plan:
            await self.lab.adjust(plan)
        if self._variants is None:
            return []
        checks = await self._variants.check(self.lab, point)
        return [caveat for check in checks for caveat in check.caveats()]

    def describe(self) -> dict[str, Any]:
        """The lab as built and measured, for lab.json."""
        described = self.lab.describe() | {"checks": [check.describe() for check in self.checks]}
        if self._variants is not None and (variants := self._variants.describe()):
            described["variants"] = variants
        if self.baselines:
            described["baselines"] = self.baselines
        if earlier := self._earlier.get("tcp"):
            current = described.get("tcp") or []
            described["tcp"] = [*(tcp for tcp in earlier if tcp not in current), *current]
        return described
