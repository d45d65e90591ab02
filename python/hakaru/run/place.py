"""Place of a run's engines: in a lab, or on this host with a site's LUs.

The runner knows only this interface. `LabPlace` is here, `SitePlace` in `hakaru.run.site`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.lab.check import CheckedLab
from hakaru.lab.plan import LabPlan, fabric_config, plan_lab
from hakaru.run import kind
from hakaru.run.configure import MS, Reaches, seed_of
from hakaru.run.dialogue import Dialogue
from hakaru.run.kind import Engines
from hakaru.study import Expanded, Repetition


class Place(Protocol):
    """Nodes on which engines are started, and the engines of a repetition."""

    origin: str
    """Origin of every number measured here: `emulated` or `measured`."""

    @property
    def nodes(self) -> Sequence[str]:
        """Nodes with a watch engine. The last one's watch also reads the counters of the
        machine.
        """
        ...

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        """Whether the links have been checked in the point's state; if not, `adjust` does it."""
        ...

    async def adjust(self, expanded: Expanded, turn: Repetition) -> list[Caveat]:
        """Apply the point's settings and check its links, while no engine runs. Returns a caveat
        for each link that deviates.
        """
        ...

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """Start and configure an engine on a node."""
        ...

    def fabrics(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.FabricEngineConfig]:
        """Node → the emulated network that runs there; empty if there is none."""
        ...

    def servers(self, expanded: Expanded, turn: Repetition) -> Engines:
        """Node → the array or other server to start there; empty if they are running already."""
        ...

    def loads(self, expanded: Expanded, turn: Repetition) -> Engines:
        """Host → the engine that generates load there. Hosts without load are left out."""
        ...

    def dialogue(self, expanded: Expanded, turn: Repetition) -> Dialogue | None:
        """The controller of the loads while they run; None if they end by themselves."""
        ...

    @property
    def device(self) -> dict[str, Any] | None:
        """The guest under test, as built; None without one."""
        ...

    def check_device(self) -> None:
        """Raise DeviceError if the device under test has ended."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the contents of lab.json."""
        ...


class LabPlace:
    """A built lab."""

    def __init__(self, checked: CheckedLab, origin: str) -> None:
        self._checked, self.lab = checked, checked.lab
        self.origin = origin

    @property
    def nodes(self) -> Sequence[str]:
        """The namespaces of the lab in its current state."""
        return self.lab.plan.namespaces

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        """Whether the links have been measured in the state that the point asks for."""
        return self._checked.is_known(plan_lab(expanded.at(turn.point).lab))

    async def adjust(self, expanded: Expanded, turn: Repetition) -> list[Caveat]:
        """Apply the point's links, TCP and MTU; links in a new state are measured."""
        caveats = await self._checked.adjust(plan_lab(expanded.at(turn.point).lab), turn.point.id)
        if self.device is not None and self.device["accelerator"] == "tcg":
            caveats.append(Caveat("cpu_emulated", {"reason": self.device["accelerator_reason"]}))
        return caveats

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """Start and configure an engine in a node's namespace."""
        return await self.lab.start_engine(node, config)

    def fabrics(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.FabricEngineConfig]:
        """The lab's switches and links in the state of the point."""
        plan = self.lab.plan
        if plan.fabric_node is None:
            return {}
        seed = seed_of(expanded.seed, turn.name, plan.fabric_node)
        interval_ms = expanded.measure.sample_interval // MS
        return {plan.fabric_node: fabric_config(plan, seed=seed, sample_interval_ms=interval_ms)}

    def servers(self, expanded: Expanded, turn: Repetition) -> Engines:
        """The study's arrays on the lab's portals, or the other servers of its kind."""
        return kind.of(expanded.study).servers(expanded, turn, self.lab.plan)

    def loads(self, expanded: Expanded, turn: Repetition) -> Engines:
        """The study's load, distributed over the lab's hosts."""
        return kind.of(expanded.study).loads(expanded, turn, self.lab.plan)

    def dialogue(self, expanded: Expanded, turn: Repetition) -> Dialogue | None:
        """The controller that the study's kind provides."""
        return kind.of(expanded.study).dialogue(expanded, turn, self.lab.plan)

    @property
    def device(self) -> dict[str, Any] | None:
        """The guest under test, as built; None without one."""
        return self.lab.device

    def check_device(self) -> None:
        """Raise DeviceError if the guest under test has ended."""
        self.lab.check_device()

    def describe(self) -> dict[str, Any]:
        """The lab as built and measured."""
        return self._checked.describe()


def reaches(plan: LabPlan) -> Reaches:
    """Return a function that says whether a host can reach a portal. Paths are looked up once."""
    addresses = {host: plan.reachable_addresses(host) for host in plan.loading_names}
    return lambda host, portal: portal.rpartition(":")[0] in addresses[host]
