"""A built lab: made from a plan, with engines started in its nodes, and taken down at the end.

    async with Lab(plan_lab(study.lab)) as lab:
        array = await lab.start_engine(lab.plan.array_name, array_config)
        await array.ready()
        …
        lab.describe()                       # lab.json, without what `hakaru.lab.check` measures

Only inside the sandbox (`sandbox.enter`). Leaving the block ends every engine that was started
through it.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import DeviceError, EnvironmentError_, HakaruError, LostError
from hakaru.lab import sandbox
from hakaru.lab.build.apply import (
    Namespaces,
    apply_plan,
    apply_settings,
    read_routes,
    read_sysctl,
)
from hakaru.lab.build.guest_ports import GuestPorts
from hakaru.lab.build.link import KernelLink
from hakaru.lab.build.losses import count_here, count_in_guest
from hakaru.lab.plan import LabPlan, check_adjustable, fabric_config
from hakaru.lab.plan.actions import SetSysctl
from hakaru.lab.plan.cuts import cuttable
from hakaru.lab.plan.device_guests import device_guests, plan_guest_fabric
from hakaru.lab.plan.namespaces import CONGESTION_CONTROL
from hakaru.lab.plan.tcp import SACK, SACK_RACK, TCP_TODAY, TcpPlan, kernel_finds_losses_by_rack_only

if TYPE_CHECKING:
    from hakaru.guest.machine import Guest
    from hakaru.lab.build.load_guests import LoadGuests


class Lab:
    """The lab of a plan. `engine`: the program to run in its nodes; default: `find_engine()`."""

    def __init__(self, plan: LabPlan, *, engine: Path | None = None) -> None:
        self.plan = plan
        """The current plan; `adjust` changes it."""
        self._built = plan
        self._engine = engine
        self.namespaces = Namespaces()
        """Namespaces of the nodes; empty before the lab is built."""
        self._engines: list[EngineProcess] = []
        self._guests: list[Guest] = []
        self._load_guests: LoadGuests | None = None
        # The fabric behind the guest's NICs, if they are ports in its memory.
        self._ports: GuestPorts | None = None
        self._congestion_control: str | None = None
        # (node, sysctl) → value in the new namespace, for those that a plan has set.
        self._initial: dict[tuple[str, str], str] = {}
        # Description of every TCP plan that the lab has had.
        self._tcp: dict[TcpPlan, dict[str, Any]] = {}

    async def __aenter__(self) -> Self:
        if sandbox.current() is None:
            raise RuntimeError("a lab is built inside the sandbox: call sandbox.enter() first")
        try:
            # In a thread, because building temporarily changes the network namespace of its thread.
            await asyncio.to_thread(self._build)
            await self._boot_guest()
        except EnvironmentError_:
            self.namespaces.close()
            if self.plan.device is None:
                raise
            # The point that wants this device tries again, and is marked.
            self._forget_device()
        except BaseException:
            self.namespaces.close()
            raise
        return self

    def _build(self) -> None:
        plan = self.plan
        self.namespaces = apply_plan(replace(plan, settings=()))
        try:
            self._change(replace(plan, settings=()), plan)
        except BaseException:
            self.namespaces.close()
            raise
        self._congestion_control = read_sysctl(self.namespaces, _end_of(plan), CONGESTION_CONTROL)

    async def _rebuild(self) -> None:
        """Replace all nodes, and the guest. Engines in them must have ended. Raises DeviceError;
        the next change then builds the lab.
        """
        await self._close_guest()
        self.namespaces.close()
        self._initial.clear()
        try:
            await asyncio.to_thread(self._build)
            await self._boot_guest()
        except DeviceError:
            self._forget_device()
            raise
        except EnvironmentError_ as error:
            self._forget_device()
            raise DeviceError(error.message, error.hint) from error

    async def _boot_guest(self) -> None:
        device = self.plan.device
        if device is not None and device.guest is not None:
            from hakaru.lab.build.guest import boot_device  # loads QEMU's client

            mtu = self.plan.links[0].mtu
            try:
                if device.in_memory:
                    engine = await self.start_engine(device.node, plan_guest_fabric(device, mtu))
                    self._ports = await GuestPorts.start(engine, device)
                self._guests = await boot_device(device, self.namespaces, mtu)
            except LostError as error:
                await self._close_guest()
                raise DeviceError(error.message, error.hint) from error
            except BaseException:
                await self._close_guest()
                raise

    async def _close_guest(self) -> None:
        guests, self._guests = self._guests, []
        ports, self._ports = self._ports, None
        async with contextlib.AsyncExitStack() as stack:
            if ports is not None:
                stack.push_async_callback(ports.close)
            for guest in guests:
                stack.push_async_callback(guest.close)

    def _forget_device(self) -> None:
        """Make the current plan differ from every other one, so that the next change builds."""
        self.plan = replace(self.plan, structure=())

    @property
    def links(self) -> dict[str, KernelLink]:
        """The links and trunks that can be cut, by name; empty on the fabric backend, whose engine
        cuts them.
        """
        if self.plan.fabric_node is not None:
            return {}
        return {name: KernelLink(self.plan, self.namespaces, name) for name in cuttable(self.plan)}

    async def count_losses(self) -> dict[str, int]:
        """Frames that the device has lost so far, by the counters of its interfaces and of the
        fabric behind them (`hakaru.lab.build.losses`); empty in a lab without a device.

        Raises DeviceError if the guest that forwards, or the fabric behind its NICs, has ended or
        does not respond; the next change boots another.
        """
        device = self.plan.device
        if device is None:
            return {}
        losses = await asyncio.to_thread(count_here, self.namespaces, device)
        try:
            if self._ports is not None:
                losses |= await self._ports.count_losses()
            if self._guests:
                for guest, planned in zip(self._guests, device_guests(device), strict=True):
                    losses |= await count_in_guest(guest, planned.place)
        except HakaruError as error:
            self._forget_device()
            raise DeviceError(error.message, error.hint) from error
        return losses

    @property
    def device(self) -> dict[str, Any] | None:
        """The guests that forward, as built; None for other devices."""
        plan = self.plan.device
        if not self._guests or plan is None or plan.guest is None:
            return None
        from hakaru.lab.build.guest import describe_guests

        return describe_guests(self._guests, plan.guest, self._ports)

    @property
    def load_guests(self) -> LoadGuests:
        """The guests that take the place of nodes with load."""
        if self._load_guests is None:
            from hakaru.lab.build.load_guests import LoadGuests  # loads QEMU's client

            self._load_guests = LoadGuests()
        return self._load_guests

    async def end_guests(self) -> None:
        """End the guests of a repetition: those with load, whose nodes get their links again, and
        those that forward, which the next change boots anew.
        """
        try:
            if self._guests:
                self._forget_device()
                await self._close_guest()
        finally:
            if self._load_guests is not None:
                await self._load_guests.unplug()

    @property
    def has_load_guests(self) -> bool:
        """Whether nodes had guests in their place so far."""
        return self._load_guests is not None

    def _change(self, current: LabPlan, wanted: LabPlan) -> None:
        for setting in wanted.settings:
            if isinstance(setting, SetSysctl) and (setting.node, setting.name) not in self._initial:
                value = read_sysctl(self.namespaces, setting.node, setting.name)
                if value is not None:
                    self._initial[setting.node, setting.name] = value
        apply_settings(self.namespaces, current, wanted, self._initial)
        if wanted.tcp not in self._tcp:
            self._tcp[wanted.tcp] = self._describe_tcp()

    async def adjust(self, wanted: LabPlan) -> None:
        """Change to another plan with the same nodes, cables and addresses. MTU, TCP, rates and
        queues may differ. Another device under test is built anew, with its cables.

        Engines that load the lab must have ended. The caller starts a new fabric engine with the
        new plan's configuration. Raises ImpossibleLabError for another topology, EnvironmentError_
        for a setting that the kernel refuses.
        """
        check_adjustable(self.plan, wanted)
        current, self.plan = self.plan, wanted
        # A guest gets the MTU of its interfaces when it boots.
        has_guest = wanted.device is not None and wanted.device.guest is not None
        if (current.structure, current.device) != (wanted.structure, wanted.device) or (
            has_guest and current.links[0].mtu != wanted.links[0].mtu
        ):
            await self._rebuild()
        else:
            await asyncio.to_thread(self._change, current, wanted)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # In reverse order. An error does not keep the others from being closed.
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self.namespaces.close)
            if self._load_guests is not None:
                stack.push_async_callback(self._load_guests.close)
            stack.push_async_callback(self._close_guest)
            stack.push_async_callback(self._close_engines)

    async def _close_engines(self) -> None:
        await asyncio.gather(*(engine.close() for engine in self._engines))

    async def start_engine(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """Start and configure an engine in a node. The caller next awaits its `ready`. Raises as
        `EngineProcess.spawn`.
        """
        if node not in self.namespaces:
            raise KeyError(f"the lab has no node {node!r}")
        engine = await EngineProcess.spawn(node, config, namespace=self.namespaces[node], binary=self._engine)
        # A run starts engines for every point. Those that have ended need not be closed.
        self._engines = [*(engine for engine in self._engines if engine.running), engine]
        return engine

    @contextlib.asynccontextmanager
    async def fabric(self, *, seed: int = 1, checking: bool = False) -> AsyncIterator[EngineProcess | None]:
        """Run the plan's fabric engine, which implements the switches, while the block runs. Yields
        None with the kernel backend, which needs none.
        """
        node = self.plan.fabric_node
        if node is None:
            yield None
            return
        config = fabric_config(self.plan, seed=seed, sample_interval_ms=_SAMPLE_INTERVAL_MS, checking=checking)
        engine = await self.start_engine(node, config)
        try:
            await engine.ready()
            await engine.start(clock.now_ns())
            yield engine
        finally:
            await engine.close()

    def describe(self) -> dict[str, Any]:
        """The lab as built, for lab.json: nodes, links, link checks, sandbox, backend, TCP. Later
        adjustments add only their TCP.
        """
        inside = sandbox.current()
        assert inside is not None, "a Lab exists only inside the sandbox"
        by_route = (route.get("congestion_control") for route in (self.tcp or {"routes": []})["routes"])
        described = {
            **self._built.describe(),
            "sandbox": inside.describe(),
            "backend": {
                "name": self.plan.backend,
                "links": _BACKENDS[self.plan.backend],
                # A route's congestion control overrides that of the namespace.
                "tcp_congestion_control": next(filter(None, by_route), self._congestion_control),
                "pyroute2": version("pyroute2"),
            },
        }
        if self._built.device is None and (not self.plan.is_star or self.plan.backend == "fabric"):
            described["checked"] = _CHECKED
        if "checked" in described or self.plan.tcp != TCP_TODAY:
            described["tcp"] = list(self._tcp.values())
        return described

    @property
    def tcp(self) -> dict[str, Any]:
        """The current TCP: the settings made, the values that the kernel then reports, and the
        later features that remain. Empty if the lab of a device could not be built.
        """
        return self._tcp.get(self.plan.tcp, {})

    def _describe_tcp(self) -> dict[str, Any]:
        node = _end_of(self.plan)
        names = sorted({setting.name for setting in self.plan.settings if isinstance(setting, SetSysctl)})
        values = {name: read_sysctl(self.namespaces, node, name) for name in names}
        tcp = self.plan.tcp
        remains = list(tcp.remains)
        if tcp.stack == "2009" and kernel_finds_losses_by_rack_only(platform.release()) and values.get(SACK) != "0":
            remains.insert(0, SACK_RACK)
        return {
            "stack": tcp.stack,
            "set": {setting.name: setting.value for setting in self.plan.settings if isinstance(setting, SetSysctl)},
            "found": {name: value for name, value in values.items() if value is not None},
            "unknown_here": [name for name, value in values.items() if value is None],
            "routes": read_routes(self.namespaces, node),
            "remains": remains,
        }


def _end_of(plan: LabPlan) -> str:
    """A node whose TCP is that of all nodes: the first array, or in a lab without one the first
    host.
    """
    return (*plan.array_names, *plan.host_names)[0]


# Sample interval of a fabric whose samples are not read.
_SAMPLE_INTERVAL_MS = 1000
_BACKENDS = {
    "kernel": "veth and bridge in network namespaces, token buckets (TBF) at both ends of a link",
    "fabric": "hakaru's fabric engine between veth cables, token buckets (TBF) in the nodes",
}
_CHECKED = (
    "with the rates and delays of the study, room in every queue, nothing lost, marked or paused, and TCP with large "
    "buffers: the links themselves"
)
