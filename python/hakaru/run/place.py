"""Where a run's engines stand: in a lab, or on this host in front of a site's LUs.

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
from hakaru.run.configure import MS, ONLY, Reaches, array_config, initiator_configs, lab_units, seed_of
from hakaru.run.configure_backup import backup_configs, lab_targets
from hakaru.study import Expanded, Repetition

Loads = Mapping[str, contract.InitiatorConfig | contract.BackupConfig]


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
        """Be as the point wants it, and checked so; no engine runs meanwhile. What is off is a caveat of the point."""
        ...

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """An engine on a node, configured."""
        ...

    def fabrics(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.FabricEngineConfig]:
        """Node → the emulated network that runs there; empty where there is none."""
        ...

    def arrays(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.ArrayConfig]:
        """Node → the array that is started there; empty where they are not ours."""
        ...

    def loads(self, expanded: Expanded, turn: Repetition) -> Loads:
        """Host → what loads or copies there; hosts with nothing to do are left out."""
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

    def arrays(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.ArrayConfig]:
        """The study's arrays on the lab's portals."""
        plan, study = self.lab.plan, expanded.at(turn.point)
        return {
            name: array_config(expanded, turn, plan.portals(name), name if study.arrays else ONLY)
            for name in plan.array_names
        }

    def loads(self, expanded: Expanded, turn: Repetition) -> Loads:
        """The study's VMs or jobs, dealt to the lab's hosts."""
        plan, study = self.lab.plan, expanded.at(turn.point)
        if study.backup is not None:
            targets = lab_targets(study, {name: plan.portals(name) for name in plan.array_names})
            return backup_configs(expanded, turn, plan.host_names, targets, reaches=_reaches(plan))
        units = lab_units(study, plan.portals())
        return initiator_configs(expanded, turn, plan.host_names, units, reaches=_reaches(plan))

    def describe(self) -> dict[str, Any]:
        """The lab as built and measured."""
        return self._checked.describe()


def _reaches(plan: LabPlan) -> Reaches:
    """Which portals a host has a way to; found once."""
    reached = {host: plan.reached(host) for host in plan.host_names}
    return lambda host, portal: portal.rpartition(":")[0] in reached[host]
