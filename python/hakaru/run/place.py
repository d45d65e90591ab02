"""Place of a run's engines: in a lab, or on the hosts of a site.

The runner knows only this interface. `LabPlace` is here, `SitePlace` in `hakaru.run.site`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.engine.offset import ClockRecord
from hakaru.engine.session import EngineSession
from hakaru.errors import DeviceError
from hakaru.fileserver.chain_spec import ChainPlan
from hakaru.lab.check import CheckedLab
from hakaru.lab.plan import fabric_config, plan_lab
from hakaru.run import kind
from hakaru.run.configure import MS, seed_of
from hakaru.run.devices import device_caveats
from hakaru.run.dialogue import Dialogue, Losses
from hakaru.run.events import Link, TimedEvent
from hakaru.run.file_servers import PlacedServer
from hakaru.run.kind import Engines
from hakaru.study import Expanded, Repetition, Study

if TYPE_CHECKING:
    from hakaru.lab.build.load_guests import LoadGuests


class Chains(Protocol):
    """The chains of file servers in guests, in one repetition. Only labs have guests."""

    async def build(self, arrays: Mapping[str, EngineSession]) -> None:
        """Build them, while their arrays serve, by node. Raises DeviceError if a layer fails,
        LostError if an array does.
        """
        ...

    async def watch(self) -> None:
        """Wait until one cannot store anything more, and raise DeviceError. Return if that cannot
        happen. To be cancelled once the load has ended.
        """
        ...

    async def empty_caches(self) -> None:
        """Write back and empty the caches of the guests, so that reads reach the arrays. Raises
        DeviceError.
        """
        ...

    async def extend(self, node: str, disk_bytes: int, lu_bytes: int) -> dict[str, Any]:
        """Extend the virtual disk of a node's guest, its LU and the file systems on both while they
        are used. Returns the record. Raises DeviceError if a layer fails, LostError if the array
        does.
        """
        ...

    async def examine(self, rewritten_bytes: Mapping[str, int]) -> dict[str, Any]:
        """Take them down after the load, and return node → its record.

        `rewritten_bytes`: node of a load → bytes written over files that existed. Raises
        DeviceError if a layer was damaged or lost, LostError if an array was.
        """
        ...

    async def find_cause(self) -> DeviceError | None:
        """Return the error of one that made a load fail; None if there is none."""
        ...


class Place(Protocol):
    """Nodes on which engines are started, and the engines of a repetition."""

    origin: str
    """Origin of every number measured here: `emulated` or `measured`."""

    @property
    def nodes(self) -> Sequence[str]:
        """Nodes with a watch engine."""
        ...

    @property
    def machines(self) -> Sequence[str]:
        """Nodes whose watch also reads the counters of the machine: one node of each machine."""
        ...

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        """Whether the links have been checked in the point's state; if not, `adjust` does it."""
        ...

    async def adjust(self, expanded: Expanded, turn: Repetition) -> list[Caveat]:
        """Apply the point's settings and check its links, while no engine runs. Returns a caveat
        for each link that deviates.
        """
        ...

    async def start(self, node: str, config: contract.EngineConfig) -> EngineSession:
        """Start and configure an engine on a node."""
        ...

    async def start_watch(self, node: str, config: contract.WatchConfig) -> EngineSession:
        """Start and configure a watch of a node: where the connections of its load are, or where
        its frames can be captured, if it captures any. Raises DeviceError if its guest fails.
        """
        ...

    def chains(self, expanded: Expanded, turn: Repetition) -> Chains | None:
        """The chains of file servers in guests; None without any."""
        ...

    async def start_load(self, study: Study, node: str, config: contract.EngineConfig) -> EngineSession:
        """Start and configure a load of a point: on its node, or in the guest that takes the place
        of the node. Raises DeviceError if the guest fails.
        """
        ...

    async def finish_loads(self) -> None:
        """End what loads need besides their engines, after their results. Raises DeviceError."""
        ...

    async def release(self) -> None:
        """End the guests of a repetition, in whatever state it ended."""
        ...

    def fabrics(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.FabricEngineConfig]:
        """Node → the emulated network that runs there; empty if there is none."""
        ...

    def servers(self, expanded: Expanded, turn: Repetition) -> Engines:
        """Node → the array or other server to start there; empty if they are running already."""
        ...

    def file_servers(self, expanded: Expanded, turn: Repetition) -> Mapping[str, PlacedServer]:
        """Node → the file server to start there; empty if there are none."""
        ...

    def loads(self, expanded: Expanded, turn: Repetition) -> Engines:
        """Host → the engine that generates load there. Hosts without load are left out."""
        ...

    def dialogue(self, expanded: Expanded, turn: Repetition) -> Dialogue | None:
        """The controller of the loads while they run; None if they end by themselves."""
        ...

    def events(self, expanded: Expanded, turn: Repetition) -> Sequence[TimedEvent]:
        """Changes in the measuring phase; empty if there are none."""
        ...

    @property
    def links(self) -> Mapping[str, Link]:
        """Links of the kernel that events may cut, by name; empty if there are none."""
        ...

    @property
    def device(self) -> dict[str, Any] | None:
        """The guest under test, as built; None without one."""
        ...

    @property
    def guests(self) -> dict[str, Any]:
        """Node → the guest that takes its place in the current repetition; empty without any."""
        ...

    @property
    def clocks(self) -> Mapping[str, ClockRecord]:
        """Node → offset of its clock in the current repetition, of nodes on other machines."""
        ...

    def check_guests(self) -> None:
        """Raise DeviceError if the guest of a load has ended."""
        ...

    async def count_losses(self) -> Losses:
        """Frames that the device under test has lost so far, by its own counters. Raises
        DeviceError if the device has ended or does not respond.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Return the contents of lab.json."""
        ...


class LabChains:
    """Chains in the guests of a lab's nodes."""

    def __init__(self, plans: Sequence[ChainPlan], guests: LoadGuests) -> None:
        self._plans, self._guests = plans, guests

    async def build(self, arrays: Mapping[str, EngineSession]) -> None:
        """Build each chain in the guest of its node."""
        for plan in self._plans:
            await self._guests.build_chain(plan, arrays[plan.array])

    async def watch(self) -> None:
        """Wait for a full pool below a guest."""
        await self._guests.watch_chains()

    async def empty_caches(self) -> None:
        """Empty the caches of the guests."""
        await self._guests.empty_caches()

    async def extend(self, node: str, disk_bytes: int, lu_bytes: int) -> dict[str, Any]:
        """Extend the layers of one guest."""
        return await self._guests.extend_chain(node, disk_bytes, lu_bytes)

    async def examine(self, rewritten_bytes: Mapping[str, int]) -> dict[str, Any]:
        """The record of each chain."""
        return await self._guests.examine_chains(rewritten_bytes)

    async def find_cause(self) -> DeviceError | None:
        """The first error of a chain."""
        return await self._guests.find_cause()


class LabPlace:
    """A built lab."""

    def __init__(self, checked: CheckedLab, origin: str) -> None:
        self._checked, self.lab = checked, checked.lab
        self.origin = origin

    @property
    def nodes(self) -> Sequence[str]:
        """The namespaces of the lab in its current state."""
        return self.lab.plan.namespaces

    @property
    def machines(self) -> Sequence[str]:
        """Every guest in the place of a node, and one node of this machine, on which the others
        are.
        """
        guests = self.lab.load_guests.plugged if self.lab.has_load_guests else ()
        return (*guests, *[node for node in self.nodes if node not in guests][-1:])

    clocks: Mapping[str, ClockRecord] = MappingProxyType({})
    """None: all nodes are on this machine. Guests describe their clocks themselves."""

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        """Whether the links have been measured in the state that the point asks for."""
        return self._checked.is_known(plan_lab(expanded.at(turn.point).lab))

    async def adjust(self, expanded: Expanded, turn: Repetition) -> list[Caveat]:
        """Apply the point's links, TCP and MTU; links in a new state are measured. Then guests take
        the place of the nodes with load, if the point has any.
        """
        plan = plan_lab(expanded.at(turn.point).lab)
        caveats = await self._checked.adjust(plan, turn.point.id)
        if plan.load_guest is not None:
            chains = self._chain_plans(expanded, turn)
            nodes = tuple(chain.node for chain in chains) or tuple(self.loads(expanded, turn))
            await self.lab.load_guests.plug(plan, self.lab.namespaces, nodes)
        return [*caveats, *device_caveats(self.device)]

    async def start(self, node: str, config: contract.EngineConfig) -> EngineSession:
        """Start and configure an engine in a node's namespace."""
        return await self.lab.start_engine(node, config)

    async def start_watch(self, node: str, config: contract.WatchConfig) -> EngineSession:
        """Start a watch in the guest in the place of the node, or in the node's namespace, which
        all of the guest's frames pass.
        """
        if self.lab.has_load_guests and node in self.lab.load_guests.plugged:
            if config.capture is None:
                return await self.lab.load_guests.start(node, config)
            # Outside, it would read the counters of this machine, as another watch does.
            config = config.model_copy(update={"machine": False})
        return await self.start(node, config)

    async def start_load(self, study: Study, node: str, config: contract.EngineConfig) -> EngineSession:
        """Start a load in the namespace of its node, or in the guest in its place: on the disks of
        the guest's kernel, if the study wants it as initiator.
        """
        # Clients of a file server in a guest have no guests in their places.
        if self.lab.plan.load_guest is None or node not in self.lab.load_guests.plugged:
            return await self.start(node, config)
        kernel_load = kind.of(study).kernel_load(study, config)
        if kernel_load is not None:
            config = kernel_load.on(await self.lab.load_guests.attach(node, kernel_load.disks))
        return await self.lab.load_guests.start(node, config)

    def chains(self, expanded: Expanded, turn: Repetition) -> Chains | None:
        """The chains of the study's kind."""
        plans = self._chain_plans(expanded, turn)
        return LabChains(plans, self.lab.load_guests) if plans else None

    def _chain_plans(self, expanded: Expanded, turn: Repetition) -> Sequence[ChainPlan]:
        return kind.of(expanded.study).chains(expanded.at(turn.point), self.lab.plan)

    async def finish_loads(self) -> None:
        """Log the kernels of guests out, and measure their clocks again."""
        if self.lab.has_load_guests:
            await self.lab.load_guests.finish()

    async def release(self) -> None:
        """End the guests. Those of the next repetition are booted for it, so that repetitions are
        independent of each other.
        """
        await self.lab.end_guests()

    def fabrics(self, expanded: Expanded, turn: Repetition) -> Mapping[str, contract.FabricEngineConfig]:
        """The lab's switches and links in the state of the point."""
        plan = self.lab.plan
        if plan.fabric_node is None:
            return {}
        seed = seed_of(expanded.seed, turn.name, plan.fabric_node)
        interval_ms = expanded.measure.intervals.switches // MS
        return {plan.fabric_node: fabric_config(plan, seed=seed, sample_interval_ms=interval_ms)}

    def servers(self, expanded: Expanded, turn: Repetition) -> Engines:
        """The study's arrays on the lab's portals, or the other servers of its kind."""
        return kind.of(expanded.study).servers(expanded, turn, self.lab.plan)

    def file_servers(self, expanded: Expanded, turn: Repetition) -> Mapping[str, PlacedServer]:
        """The file servers of the study's kind, in the namespaces of their nodes."""
        servers = kind.of(expanded.study).file_servers(expanded, turn, self.lab.plan)
        return {node: PlacedServer(server, self.lab.namespaces[node]) for node, server in servers.items()}

    def loads(self, expanded: Expanded, turn: Repetition) -> Engines:
        """The study's load, distributed over the lab's hosts."""
        return kind.of(expanded.study).loads(expanded, turn, self.lab.plan)

    def dialogue(self, expanded: Expanded, turn: Repetition) -> Dialogue | None:
        """The controller that the study's kind provides."""
        return kind.of(expanded.study).dialogue(expanded, turn, self.lab.plan)

    def events(self, expanded: Expanded, turn: Repetition) -> Sequence[TimedEvent]:
        """The changes that the study's kind provides."""
        return kind.of(expanded.study).events(expanded.at(turn.point), self.lab.plan)

    @property
    def links(self) -> Mapping[str, Link]:
        """The links and trunks of the lab."""
        return self.lab.links

    @property
    def device(self) -> dict[str, Any] | None:
        """The guest under test, as built; None without one."""
        return self.lab.device

    @property
    def guests(self) -> dict[str, Any]:
        """The guests of the current repetition."""
        return self.lab.load_guests.describe() if self.lab.has_load_guests else {}

    def check_guests(self) -> None:
        """Raise DeviceError if the guest of a load has ended."""
        if self.lab.has_load_guests:
            self.lab.load_guests.check()

    async def count_losses(self) -> Losses:
        """As `Lab.count_losses`."""
        return await self.lab.count_losses()

    def describe(self) -> dict[str, Any]:
        """The lab as built and measured."""
        return self._checked.describe()
