"""A site instead of a lab: the hosts of the load, existing equipment, and whether it may be written
to.

An LU is written to only if the site declares it `expendable: true`. Otherwise a run is refused if a
point would write, and the engine is configured to refuse writes as well. Results from a site have
the origin `measured`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.engine.offset import ClockRecord
from hakaru.engine.session import EngineSession
from hakaru.errors import UsageError
from hakaru.remote.host import LoadHost, open_hosts, together
from hakaru.run import kind
from hakaru.run.devices import device_caveats
from hakaru.run.dialogue import Dialogue, Losses
from hakaru.run.events import Link, TimedEvent
from hakaru.run.file_servers import PlacedServer
from hakaru.run.kind import Engines
from hakaru.run.site_file import Site, SiteLu
from hakaru.study import Expanded, Repetition, Study

if TYPE_CHECKING:
    from hakaru.run.site_guest import SiteGuest


def check_writes(site: Site, expanded: Expanded) -> bool:
    """Whether writes are allowed. Raises `UsageError` if a point writes to an LU that is not
    expendable.
    """
    _check_recordings(site, expanded)
    part = kind.of(expanded.study).site_part
    if not getattr(site, part):
        raise UsageError(
            f"nothing was sent or written: site {site.name!r} has no `{part}`, which a study of kind "
            f"{expanded.study.kind!r} loads",
            f"add `{part}` to the site file",
        )
    return kind.of(expanded.study).check_site(expanded, site)


def check_hosts(site: Site) -> None:
    """Reach all hosts of the load and compare their engines, before a run begins. Raises the error
    of a host that cannot be used.
    """

    async def check() -> None:
        async with open_hosts(site.hosts):
            pass

    if site.load_hosts is not None:
        asyncio.run(check())


def _check_recordings(site: Site, expanded: Expanded) -> None:
    """Refuse captures at arrays, where no engine runs, and recordings on other machines, because
    watches write them to files of their machine.
    """
    watch = expanded.study.watch
    other = next((host for host in site.hosts if host.ssh is not None), None)
    if watch is not None and other is not None:
        raise UsageError(
            f"nothing was written: the study has `watch`, which records on this machine only, and the load host "
            f"{other.name!r} is another one",
            "leave `watch` out of the study, or the host out of the site file",
        )
    if watch is not None and watch.capture is not None and watch.capture.at != "hosts":
        raise UsageError(
            f"nothing was written: the study captures at {watch.capture.at}, but a site's arrays are other machines",
            "set `watch.capture.at` to `hosts`",
        )


def refusal(site: Site, lu: SiteLu, reason: str, otherwise: str) -> UsageError:
    return UsageError(
        f"nothing was written: {reason}, and site {site.name!r} does not declare "
        f"LU {lu.lun} of {lu.target_name} at {lu.portal} expendable",
        "; ".join(part for part in ("if all data on it may be lost, add `expendable: true` to it", otherwise) if part),
    )


class SitePlace:
    """The hosts of the load, as the place of loads on a site's LUs."""

    def __init__(self, site: Site, hosts: Mapping[str, LoadHost], *, allow_writes: bool) -> None:
        self.site = site
        self._hosts = hosts
        self.origin = "measured"
        self.nodes: Sequence[str] = site.host_names
        self.machines = self.nodes
        self.allow_writes = allow_writes
        self._guest: SiteGuest | None = None

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        """Return True, because the links of a site are not checked."""
        return True

    async def adjust(self, expanded: Expanded, turn: Repetition) -> list[Caveat]:
        """Measure the clocks of the hosts, and boot the guest between the ports, if it is the
        device. Other equipment cannot be adjusted. Raises DeviceError.
        """
        await together(host.begin() for host in self._hosts.values())
        if self.site.ports is not None and self.site.ports.functions:
            from hakaru.run.site_guest import SiteGuest  # loads QEMU's client

            lab = expanded.at(turn.point).lab
            assert lab.device is not None, "checked before the run"
            self._guest = await SiteGuest.boot(lab.device.guest, self.site.ports, lab.mtu)
        return device_caveats(self.device)

    async def start(self, node: str, config: contract.EngineConfig) -> EngineSession:
        """Start an engine on a host, in the host's network."""
        return await self._hosts[node].spawn(config)

    async def start_watch(self, node: str, config: contract.WatchConfig) -> EngineSession:
        """Start the watch of a host."""
        return await self.start(node, config)

    def chains(self, expanded: Expanded, turn: Repetition) -> None:
        """Return None, because a site has no guests."""

    async def start_load(self, study: Study, node: str, config: contract.EngineConfig) -> EngineSession:
        """Start a load on a host."""
        return await self.start(node, config)

    async def finish_loads(self) -> None:
        """Measure the clocks of the hosts again."""
        await together(host.end() for host in self._hosts.values())

    async def release(self) -> None:
        """End the guest that is the device."""
        guest, self._guest = self._guest, None
        if guest is not None:
            await guest.close()

    def fabrics(self, expanded: Expanded, turn: Repetition) -> dict[str, contract.FabricEngineConfig]:
        """Return nothing, because a site's network is not emulated."""
        return {}

    def servers(self, expanded: Expanded, turn: Repetition) -> Engines:
        """Return nothing, because a site's arrays are running already."""
        return {}

    def file_servers(self, expanded: Expanded, turn: Repetition) -> dict[str, PlacedServer]:
        """Return nothing, because a site's servers are running already."""
        return {}

    def loads(self, expanded: Expanded, turn: Repetition) -> Engines:
        """The entire load, distributed over the hosts. Engines check whether images fit when they
        read the capacity.
        """
        site = self.site if self._guest is None else self.site.model_copy(update={"ports": self._guest.ports})
        return kind.of(expanded.study).site_loads(expanded, turn, site, allow_writes=self.allow_writes)

    def dialogue(self, expanded: Expanded, turn: Repetition) -> Dialogue | None:
        """The controller that the study's kind provides for a site."""
        return kind.of(expanded.study).site_dialogue(expanded, turn, self.site)

    def events(self, expanded: Expanded, turn: Repetition) -> Sequence[TimedEvent]:
        """Return nothing, because studies with events are refused for sites."""
        return ()

    links: Mapping[str, Link] = MappingProxyType({})
    """None: the network of a site is not under hakaru's control."""

    @property
    def device(self) -> dict[str, Any] | None:
        """The guest that is the device, as built. Other equipment is not under hakaru's control."""
        return None if self._guest is None else self._guest.describe()

    @property
    def guests(self) -> dict[str, Any]:
        """None: loads of a site run on its hosts."""
        return {}

    @property
    def clocks(self) -> Mapping[str, ClockRecord]:
        """The clocks of other machines."""
        clocks = {name: host.clock for name, host in self._hosts.items()}
        return {name: clock for name, clock in clocks.items() if clock is not None}

    def check_guests(self) -> None:
        """Nothing to check."""

    async def count_losses(self) -> Losses:
        """Frames lost in the guest that is the device. The counters of other equipment cannot be
        read. Raises DeviceError.
        """
        return {} if self._guest is None else await self._guest.count_losses()

    def describe(self) -> dict[str, Any]:
        """Return the equipment for lab.json. hakaru has built and checked none of it,
        apart from the engines and clocks of the hosts.
        """
        return {
            "nodes": [host.describe() for host in self._hosts.values()],
            "links": [],
            "checks": [],
            "sandbox": None,
            "site": self.site.model_dump(mode="json"),
        }
