"""A guest as the device of a site: it gets functions of this machine's adapters, each at the other
end of a cable from one of the tester's interfaces.

    tester's interface ── cable ── adapter: function [guest] function: adapter ── cable ── interface

Frames do not pass this machine's kernel between the cable and the guest. Their losses are in the
counters of the guest's interfaces, which include those of the adapter that its driver can read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from hakaru.errors import DeviceError, EnvironmentError_, HakaruError
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import Port
from hakaru.guest.facts import collect_facts
from hakaru.guest.function import read_function
from hakaru.guest.image import find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.lab.build.guest import describe_guests, let_forward, pinning_of
from hakaru.lab.build.losses import count_in_guest
from hakaru.lab.model.device import GuestDeviceSpec
from hakaru.lab.plan.device import PORTS, Device, DevicePort
from hakaru.lab.plan.device_guests import device_guests
from hakaru.run.site_file import GUEST_PREFIX, HOST, SitePort, SitePorts

_NAME = "device"


class SiteGuest:
    """A running guest. Created by `boot`."""

    def __init__(self, guest: Guest, spec: GuestDeviceSpec, ports: SitePorts) -> None:
        self._guest = guest
        self._spec = spec
        self.ports = ports
        """The ports of the site, with the addresses of the guest's interfaces if it routes."""

    @classmethod
    async def boot(cls, spec: GuestDeviceSpec, ports: SitePorts, mtu: int) -> Self:
        """Boot the guest, and let it forward. Raises DeviceError with the reason if this machine
        cannot run it, or if it does not boot; nothing is left then.
        """
        try:
            return await cls._boot(spec, ports, mtu)
        except HakaruError as error:
            raise DeviceError(error.message, error.hint) from error

    @classmethod
    async def _boot(cls, spec: GuestDeviceSpec, ports: SitePorts, mtu: int) -> Self:
        ends = (ports.left, ports.right)
        device = Device(
            _NAME, HOST, "guest", own_thread=False, ports=tuple(map(_port, PORTS, ends)), loop=None, guest=spec
        )
        image = find_image(spec.recipe)
        accelerator = await find_accelerator(image)
        functions = [read_function(address) for address in ports.functions]
        refusal = spec.refusal(collect_facts(accelerator), functions)
        if refusal is not None:
            raise DeviceError(f"no guest with {spec.nic.model}: {refusal.reason}", refusal.hint)
        nics = [
            Port(name, spec.nic, function=function.address) for name, function in zip(PORTS, functions, strict=True)
        ]
        described = GuestSpec(
            _NAME, image, cpus=spec.cpus, ports=tuple(nics), host_network=False, pinning=pinning_of(spec)
        )
        guest = await Guest.boot(described, accelerator)
        try:
            await let_forward(guest, spec, device_guests(device)[0], mtu)
            if spec.forwards == "routing":
                macs = {name: await guest.mac_of(name) for name in PORTS}
                ports = ports.model_copy(
                    update={
                        name: end.model_copy(update={"device_mac": macs[name]})
                        for name, end in zip(PORTS, ends, strict=True)
                    }
                )
        except BaseException:
            await guest.close()
            raise
        return cls(guest, spec, ports)

    def describe(self) -> dict[str, Any]:
        """Return the guest as built, for the repetition's record."""
        return describe_guests([self._guest], self._spec, None) | {"functions": self.ports.functions}

    async def count_losses(self) -> dict[str, int]:
        """Return the frames that the guest has lost so far, by place. Raises DeviceError if it has
        ended or does not respond.
        """
        try:
            return await count_in_guest(self._guest)
        except HakaruError as error:
            raise DeviceError(error.message, error.hint) from error

    async def close(self) -> None:
        """End the guest."""
        await self._guest.close()


def _port(name: str, end: SitePort) -> DevicePort:
    """The port of a guest that has the interface of the tester as its neighbour."""
    address = Path("/sys/class/net") / end.interface / "address"
    try:
        tester_mac = address.read_text().strip()
    except OSError:
        raise EnvironmentError_(
            f"this machine has no interface {end.interface}", "`ip link` lists those of this machine"
        ) from None
    network = end.network
    router = next(str(host) for host in network.hosts() if str(host) != end.address)
    return DevicePort(name, tester_mac, "", end.address, router, GUEST_PREFIX, str(network))
