"""The guests in which the load of a lab runs: their boot, their cables, their disks, their engines.

    guests = LoadGuests()
    await guests.plug(plan, namespaces, ["host-1"])     boots them
    paths = await guests.attach("host-1", disks)        logs in with open-iscsi
    await guests.build_chain(plan, array)               or builds a file server's disk
    engine = await guests.start("host-1", config)
    …
    records = await guests.examine_chains(rewritten)    bytes of every layer, while arrays serve
    await guests.finish()                               logs out, measures the clocks again
    await guests.unplug()                               ends them; the nodes have their links again
    await guests.close()

Every repetition boots guests of its own, so that repetitions are independent: where a boot puts
memory and interrupts, it keeps them. Every failure of a guest is a GuestError.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from hakaru.engine import contract
from hakaru.engine.session import EngineSession
from hakaru.errors import EnvironmentError_, GuestError, HakaruError
from hakaru.fileserver.chain_spec import ChainPlan
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import Port
from hakaru.guest.engine import EngineHost, engine_options
from hakaru.guest.facts import collect_facts
from hakaru.guest.image import find_image
from hakaru.guest.joined_paths import JoinedPaths
from hakaru.guest.login import KernelDisk, KernelLogin
from hakaru.guest.machine import Guest, GuestCommandError, GuestSpec
from hakaru.guest.open_iscsi import IscsiSession, OpenIscsi
from hakaru.guest.pinning import Pinning
from hakaru.guest.requirements import vectors_of
from hakaru.lab.build.apply import Namespaces
from hakaru.lab.build.guest_chain import ArrayLostError, GuestChain
from hakaru.lab.build.guest_links import give_links, open_taps, return_links
from hakaru.lab.plan import LabPlan
from hakaru.lab.plan.load_guests import LoadGuest, load_guests, network_script

_INITIATOR_NAME = "iqn.2011-10.example.hakaru"
_ENGINES = 2  # load and watch
_NETWORK_TIMEOUT_S = 60.0
_NUD_PERMANENT = 0x80  # linux/neighbour.h


class _Running:
    """A guest, and what it does in the current repetition."""

    def __init__(self, planned: LoadGuest, guest: Guest, unknown_sysctls: Sequence[str]) -> None:
        self.planned = planned
        self.guest = guest
        self.unknown_sysctls = unknown_sysctls
        self.engines: EngineHost | None = None
        self.spawned: list[EngineSession] = []
        self.initiator: OpenIscsi | None = None
        self.joined: JoinedPaths | None = None
        self.chain: GuestChain | None = None
        self.uses_kernel_initiator = False

    def describe(self) -> dict[str, Any]:
        """The guest for the record of a repetition."""
        spec, accelerator = self.planned.spec, self.guest.accelerator
        return {
            "initiator": "open-iscsi" if self.uses_kernel_initiator else "hakaru",
            "kernel": self.guest.kernel_version,
            "nic": spec.nic.model_dump(exclude_none=True),
            "cpus": spec.cpus,
            "memory_bytes": spec.memory,
            "accelerator": accelerator.kind,
            "accelerator_reason": accelerator.reason,
            "unknown_sysctls": list(self.unknown_sysctls),
            "booted_ns": self.guest.booted_ns,
            "clock": self.engines.clock.describe() if self.engines else None,
        }


async def watch_together(watches: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait until all watches have ended, or until one of them raises, and raise its error. None of
    them runs afterwards.
    """
    tasks = [asyncio.create_task(watch) for watch in watches]
    try:
        await asyncio.gather(*tasks)
    finally:
        # After an error, the others would continue to ask arrays that are about to end.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class LoadGuests:
    """The guests of a lab, by node."""

    def __init__(self) -> None:
        self._running: dict[str, _Running] = {}
        self._plugged: dict[str, LoadGuest] = {}
        self._namespaces = Namespaces()
        self._ends: tuple[str, ...] = ()

    @property
    def plugged(self) -> tuple[str, ...]:
        """Nodes whose guests have their links."""
        return tuple(self._plugged)

    async def plug(self, plan: LabPlan, namespaces: Namespaces, nodes: Sequence[str]) -> None:
        """Boot a guest for each of `nodes`, and give it the links of the node.

        Does nothing if the load of the plan runs in the nodes themselves. Raises GuestError.
        """
        self._namespaces = namespaces
        self._ends = (*plan.loading_names, *plan.array_names)
        for wanted in load_guests(plan, nodes):
            async with self._failing(wanted.node):
                await self._plug(wanted)
        # Addresses have moved to other interfaces.
        if self._plugged:
            await asyncio.to_thread(self._forget_neighbours)

    async def _plug(self, wanted: LoadGuest) -> None:
        if wanted.node in self._running:
            await self._discard(wanted.node)
        self._running[wanted.node] = await self._boot(wanted)
        # Before the links are given: after an error, `unplug` returns those that were.
        self._plugged[wanted.node] = wanted
        await asyncio.to_thread(give_links, self._namespaces, wanted)

    async def _boot(self, wanted: LoadGuest) -> _Running:
        spec = wanted.spec
        image = find_image(spec.recipe)
        accelerator = await find_accelerator(image)
        facts = await asyncio.to_thread(collect_facts, accelerator)
        refusal = spec.refusal(facts)
        if refusal is not None:
            raise GuestError(f"no guest with {spec.nic.model}: {refusal.reason}", refusal.hint)
        # In a thread, which changes its network namespace.
        taps = await asyncio.to_thread(open_taps, self._namespaces, wanted)
        try:
            ports = tuple(
                Port(link.interface, spec.nic, tap.descriptors, vectors_of(spec.nic, facts))
                for link, tap in zip(wanted.links, taps, strict=True)
            )
            described = GuestSpec(
                wanted.node,
                image,
                memory_bytes=spec.memory,
                cpus=spec.cpus,
                ports=ports,
                host_network=False,
                pinning=Pinning(spec.pinning.vcpus, spec.pinning.others, spec.pinning.interrupts),
                number=wanted.number % 256,
                **engine_options(image, _ENGINES),
            )
            guest = await Guest.boot(described, accelerator)
        finally:
            # QEMU has inherited descriptors of its own.
            for tap in taps:
                tap.close()
        try:
            unknown = (await guest.run(network_script(wanted), timeout_s=_NETWORK_TIMEOUT_S)).split()
        except BaseException:
            await guest.close()
            raise
        return _Running(wanted, guest, unknown)

    def _forget_neighbours(self) -> None:
        for node in self._ends:
            with self._namespaces.inside(node), IPRoute() as links:
                for known in list(links.get_neighbours()):
                    if known.get("dst") and not known["state"] & _NUD_PERMANENT:
                        # The kernel may have dropped it since it was listed.
                        with contextlib.suppress(NetlinkError):
                            links.neigh("del", dst=known.get("dst"), ifindex=known["ifindex"])

    async def attach(self, node: str, disks: Sequence[KernelDisk]) -> dict[KernelDisk, str]:
        """Log in to the targets of `disks` over all of their paths, and return the device of each.
        Raises GuestError.
        """
        running = self._running[node]
        async with self._failing(node):
            windows = [disk.login.window_bytes for disk in disks if disk.login.window_bytes is not None]
            if windows:
                await running.guest.run(_buffers_script(max(windows)))
            initiator = OpenIscsi(running.guest, f"{_INITIATOR_NAME}:{node}")
            # iscsid may run even if its start fails here.
            running.initiator, running.uses_kernel_initiator = initiator, True
            await initiator.begin()
            sessions: dict[KernelLogin, IscsiSession] = {}
            found: dict[KernelDisk, list[str]] = {disk: [] for disk in disks}
            for disk in disks:
                for login in disk.logins:
                    if login not in sessions:
                        sessions[login] = await initiator.log_in(
                            login.portal,
                            login.target_name,
                            settings=dict(login.settings),
                            initiator_name=login.initiator_name,
                        )
                    found[disk].append(await sessions[login].disk(disk.lun))
                    await running.guest.run(_limits_script(disk, found[disk][-1].removeprefix("/dev/")))
            paths = {disk: each[0] for disk, each in found.items()}
            # Limits of the disks apply to a device that is made of them afterwards.
            for use in dict.fromkeys(disk.multipath for disk in disks if disk.multipath is not None):
                several = [disk for disk in disks if disk.multipath == use]
                running.joined = running.joined or JoinedPaths(running.guest)
                devices = await running.joined.join([found[disk] for disk in several], use)
                paths |= dict(zip(several, devices, strict=True))
            return paths
        raise AssertionError("unreachable")

    async def build_chain(self, plan: ChainPlan, array: EngineSession) -> None:
        """Build the chain of a file server in the guest of its node, on an LU of the array. Raises
        GuestError, or LostError if the array is lost.
        """
        running = self._running[plan.node]
        async with self._failing(plan.node):
            running.uses_kernel_initiator = True
            running.chain = await GuestChain.build(running.guest, plan, array)

    async def empty_caches(self) -> None:
        """Write back and empty the caches of the chains and of their arrays. Raises GuestError, or
        LostError if an array is lost.
        """
        for node in self.plugged:
            chain = self._running[node].chain
            if chain is not None:
                async with self._failing(node):
                    await chain.empty_caches()

    async def examine_chains(self, rewritten_bytes: Mapping[str, int]) -> dict[str, Any]:
        """Take the chains down, after the load and while their arrays serve, and return the record
        of each, by node. `rewritten_bytes`: node of a load → bytes written over files that existed.

        Raises GuestError if a layer was damaged or lost, LostError if the array was.
        """
        records = {}
        for node in self.plugged:
            running = self._running[node]
            if running.chain is not None:
                written = sum(rewritten_bytes.get(host, 0) for host in running.chain.plan.hosts)
                async with self._failing(node):
                    records[node] = await running.chain.examine(written)
                    running.chain = None
        return records

    async def extend_chain(self, node: str, disk_bytes: int, lu_bytes: int) -> dict[str, Any]:
        """Extend all layers of the chain in the guest of a node (`GuestChain.extend`). Raises
        GuestError, or LostError if the array is lost.
        """
        chain = self._running[node].chain
        assert chain is not None, f"{node} has no chain"
        async with self._failing(node):
            return await chain.extend(disk_bytes, lu_bytes)
        raise AssertionError("unreachable")

    async def watch_chains(self) -> None:
        """Wait until the pool of a chain is full, and raise GuestError. To be cancelled."""
        chains = [self._running[node].chain for node in self.plugged]
        await watch_together([chain.watch() for chain in chains if chain is not None])

    async def find_cause(self) -> GuestError | None:
        """Return the error of a chain that made a load fail; None if there is none."""
        for node in self.plugged:
            running = self._running[node]
            if running.chain is not None and running.guest.emulator.running:
                cause = await running.chain.find_cause()
                if cause is not None:
                    return cause
        return None

    async def start(self, node: str, config: contract.EngineConfig) -> EngineSession:
        """Start and configure an engine in a guest. Raises GuestError."""
        running = self._running[node]
        async with self._failing(node):
            if running.engines is None:
                running.engines = await EngineHost.open(running.guest)
            engine = await running.engines.spawn(node, config)
            running.spawned.append(engine)
            return engine
        raise AssertionError("unreachable")

    async def finish(self) -> None:
        """End the engines of a repetition and its sessions, and measure the clocks again. Raises
        GuestError.
        """
        for node in self.plugged:
            async with self._failing(node):
                await self._finish(self._running[node])

    async def _finish(self, running: _Running) -> None:
        for engine in running.spawned:
            await engine.close()
        running.spawned.clear()
        if running.engines is not None:
            await running.engines.close()
        if running.joined is not None:
            await running.joined.part()
            running.joined = None
        if running.initiator is not None:
            await running.initiator.log_out_all()
            await running.initiator.end()
            running.initiator = None

    def describe(self) -> dict[str, Any]:
        """Node → its guest in the current repetition."""
        return {node: self._running[node].describe() for node in self.plugged}

    def check(self) -> None:
        """Raise GuestError if a guest with load has ended."""
        for node in self.plugged:
            emulator = self._running[node].guest.emulator
            if not emulator.running:
                raise GuestError(f"guest {node} has ended", f"its console: {emulator.console()}")

    async def unplug(self) -> None:
        """Return the links to the nodes, and end the guests.

        Raises EnvironmentError_ if the kernel refuses to return the links of a node. Those of the
        others are returned, and the next call tries again.
        """
        refused: EnvironmentError_ | None = None
        plugged = dict(self._plugged)
        for node, guest in plugged.items():
            try:
                await asyncio.to_thread(return_links, self._namespaces, guest)
            except (NetlinkError, OSError, EnvironmentError_) as error:
                refused = refused or _not_returned(node, error)
                continue
            del self._plugged[node]
            await self._discard(node)
        if plugged:
            await asyncio.to_thread(self._forget_neighbours)
        if refused is not None:
            raise refused

    async def _discard(self, node: str) -> None:
        running = self._running.pop(node)
        await running.guest.close()
        for engine in running.spawned:
            await engine.close()

    async def close(self) -> None:
        """End all guests. Their links are not returned: the lab is closed next, or built anew."""
        self._plugged.clear()
        for node in list(self._running):
            await self._discard(node)

    @contextlib.asynccontextmanager
    async def _failing(self, node: str) -> AsyncIterator[None]:
        """Convert failures of a guest to GuestError. A lost array is none."""
        try:
            yield
        except (GuestError, ArrayLostError):
            raise
        except (NetlinkError, OSError, ValueError) as error:
            reason = error.args[-1] if isinstance(error, NetlinkError) else error
            raise GuestError(
                f"guest {node} cannot be connected: {reason}", "`hakaru doctor` checks the kernel"
            ) from error
        except GuestCommandError as error:
            # The script is no news to a reader; the words of the program that failed are.
            words = "; ".join(line.strip() for line in error.output.splitlines() if line.strip())
            console = running.guest.emulator.console() if (running := self._running.get(node)) else ""
            raise GuestError(f"guest {node}: status {error.status}: {words}", f"its console: {console}") from error
        except HakaruError as error:
            raise GuestError(f"guest {node}: {error.message}", error.hint) from error


def _not_returned(node: str, error: NetlinkError | OSError | EnvironmentError_) -> EnvironmentError_:
    reason = error.args[-1] if isinstance(error, NetlinkError) else error
    return EnvironmentError_(
        f"the links of guest {node} cannot be returned to its node: {reason}", "`hakaru doctor` checks the kernel"
    )


def _buffers_script(window_bytes: int) -> str:
    """Return commands that raise the largest buffers that a program may ask for, where they are
    smaller.
    """
    return "\n".join(
        f"[ $(cat /proc/sys/net/core/{name}) -ge {window_bytes} ] || echo {window_bytes} >/proc/sys/net/core/{name}"
        for name in ("wmem_max", "rmem_max")
    )


def _limits_script(disk: KernelDisk, name: str) -> str:
    lines = ["set -e"]
    if disk.command_bytes_max is not None:
        # No more than the hardware limit, which the target may have announced.
        lines.append(
            f"most=$(cat /sys/block/{name}/queue/max_hw_sectors_kb); want={disk.command_bytes_max // 1024}; "
            f"[ $want -le $most ] || want=$most; echo $want >/sys/block/{name}/queue/max_sectors_kb"
        )
    if disk.command_timeout_s is not None:
        lines.append(f"echo {disk.command_timeout_s} >/sys/block/{name}/device/timeout")
    return "\n".join(lines)
