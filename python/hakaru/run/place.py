"""Where a run's engines stand: in a lab, or on this host in front of a site's array.

The runner knows only this interface. `LabPlace` is here, `SitePlace` in `hakaru.run.site`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.lab.lab import Lab
from hakaru.run.configure import Unit, array_config, lab_units
from hakaru.study import Expanded, Repetition


class Place(Protocol):
    """Nodes on which engines are started, and the LUs that VMs reach from there."""

    origin: str
    """Of every number measured here: `emulated` or `measured`."""
    hosts: Sequence[str]
    """Nodes that VMs are dealt to."""
    nodes: Sequence[str]
    """Nodes that are watched; the last one's watch takes the whole machine's counters."""
    array: str | None
    """Node that a fresh array is started on for every repetition; None where it is not ours."""
    allow_writes: bool
    chap: contract.ChapConfig | None
    """What VMs log in with; None: nothing."""

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """An engine on a node, configured."""
        ...

    def array_config(self, expanded: Expanded, turn: Repetition) -> contract.ArrayConfig:
        """Configuration of the array; only where `array` is not None."""
        ...

    def units(self, expanded: Expanded) -> list[list[Unit]]:
        """Columns of LUs that VMs are dealt to."""
        ...

    def describe(self) -> dict[str, Any]:
        """For lab.json."""
        ...


class LabPlace:
    """A lab that stands."""

    def __init__(self, lab: Lab, origin: str) -> None:
        self.lab = lab
        self.origin = origin
        self.hosts: Sequence[str] = lab.plan.host_names
        self.array: str | None = lab.plan.array_name
        switches = [node.name for node in lab.plan.nodes if node.kind == "switch"]
        self.nodes: Sequence[str] = (*self.hosts, *switches, lab.plan.array_name)
        self.allow_writes = True
        self.chap: contract.ChapConfig | None = None

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """An engine in a node's namespace, configured."""
        return await self.lab.start_engine(node, config)

    def array_config(self, expanded: Expanded, turn: Repetition) -> contract.ArrayConfig:
        """The study's array on the lab's portals."""
        return array_config(expanded, turn, self.lab.plan.portals())

    def units(self, expanded: Expanded) -> list[list[Unit]]:
        """The study's LUs."""
        return lab_units(expanded.study, self.lab.plan.portals())

    def describe(self) -> dict[str, Any]:
        """The lab as built."""
        return self.lab.describe()
