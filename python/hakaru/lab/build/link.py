"""A link or trunk of a built lab on the kernel backend, which a load's events cut and mend."""

from __future__ import annotations

import asyncio

from hakaru.lab.build.apply import Namespaces, apply_actions, await_active
from hakaru.lab.plan import LabPlan
from hakaru.lab.plan.cuts import cut, far_end, mend


class KernelLink:
    """The link `name` of a lab with this plan (`hakaru.lab.plan.cuts`)."""

    def __init__(self, plan: LabPlan, namespaces: Namespaces, name: str) -> None:
        self._plan, self._namespaces, self._name = plan, namespaces, name

    async def set(self, up: bool) -> None:
        """Cut the link, or mend it. No effect if it is in that state. Raises EnvironmentError_ if
        the kernel refuses.
        """
        action = mend(self._plan, self._name) if up else cut(self._plan, self._name)
        await asyncio.to_thread(apply_actions, self._namespaces, [action])

    async def restore(self) -> None:
        """Mend the link, and wait until both of its ends send again. Raises EnvironmentError_ if
        the kernel refuses, or takes too long.
        """
        await self.set(True)
        await asyncio.to_thread(await_active, self._namespaces, *far_end(self._plan, self._name))
