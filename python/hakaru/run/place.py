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
from hakaru.run.kind import Engines
from hakaru.study import Expanded, Repetition


class Place(Protocol):
    """Nodes on which engines are started, and what is started there for a repetition."""

    origin: str
    """Of every number measured here: `emulated` or `measured`."""
    nodes: Sequence[str]
    """Nodes that are watched; the last one's watch takes the whole machine's counters."""

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        """Whether the links are checked as the point wants them; else `take_on` will."""
        ...

    async def take_on(self, expanded: Expanded, turn: Repetition) -> list[Caveat]:
        """Be as the point wants it, and checked so; no engine runs meanwhile. What is off is a
        caveat of the point.
        """
        ...

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """An engine on a node, configured."""
        ...

    def fabrics(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.FabricEngineConfig]:
        """Node → the emulated network that runs there; empty where there is none."""
        ...

    def servers(self, expanded: Expanded, turn: Repetition) -> Engines:
        """Node → the array, or another server, that is started there; empty where they are not
        ours.
        """
        ...

    def loads(self, expanded: Expanded, turn: Repetition) -> Engines:
        """Host → the engine that loads from there; hosts with nothing to do are left out."""
        ...

    def describe(self) -> dict[str, Any]:
        """For lab.json."""
        ...


class LabPlace:
    """A lab that stands."""

    def __init__(self, checked: CheckedLab, origin: str) -> None:
        self._checked, self.lab = checked, checked.lab
        self.origin = origin
        self.nodes: Sequence[str] = self.lab.plan.namespaces

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        """Whether the links were measured before in the state that the point asks for."""
        return self._checked.is_known(plan_lab(expanded.at(turn.point).lab))

    async def take_on(self, expanded: Expanded, turn: Repetition) -> list[Caveat]:
        """Apply the point's links, TCP and MTU; links in a new state are measured."""
        return await self._checked.take_on(plan_lab(expanded.at(turn.point).lab), turn.point.id)

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """An engine in a node's namespace, configured."""
        return await self.lab.start_engine(node, config)

    def fabrics(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.FabricEngineConfig]:
        """The lab's switches and links as they are at the point."""
        plan = self.lab.plan
        if plan.fabric_node is None:
            return {}
        seed = seed_of(expanded.seed, turn.name, plan.fabric_node)
        interval_ms = expanded.measure.sample_interval // MS
        return {plan.fabric_node: fabric_config(plan, seed=seed, sample_interval_ms=interval_ms)}

    def servers(self, expanded: Expanded, turn: Repetition) -> Engines:
        """The study's arrays on the lab's portals, or whatever else its kind has for a server."""
        return kind.of(expanded.study).servers(expanded, turn, self.lab.plan)

    def loads(self, expanded: Expanded, turn: Repetition) -> Engines:
        """The study's load, dealt to the lab's hosts."""
        return kind.of(expanded.study).loads(expanded, turn, self.lab.plan)

    def describe(self) -> dict[str, Any]:
        """The lab as built and measured."""
        return self._checked.describe()


def reaches(plan: LabPlan) -> Reaches:
    """Portals that a host can reach; looked up once."""
    reached = {host: plan.reached(host) for host in plan.host_names}
    return lambda host, portal: portal.rpartition(":")[0] in reached[host]
