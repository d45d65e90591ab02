"""Network interfaces of a guest: their models, and what QEMU and the guest must do for each.

`Nic` is the description, which a study may contain. `MODELS` is the one table of models.
`hakaru.guest.requirements` decides whether this machine can run a NIC. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

NicModel = Literal[
    "virtio-net",
    "vhost-net",
    "vhost-user",
    "macvtap",
    "e1000",
    "e1000e",
    "igb",
    "igbvf",
    "rtl8139",
    "vmxnet3",
    "vfio",
    "sr-iov",
]
Backend = Literal["tap", "vhost-user", "macvtap", "function"]
"""Path of the frames outside the guest: a TAP, shared memory of a vhost-user process, a macvtap of
a host's interface, or the wire of an adapter of which the guest has a function.
"""

# Locally administered, of QEMU's range, so that captures show guests.
_MAC_PREFIX = "52:54:00:68"
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


@dataclass(frozen=True)
class Traits:
    """Properties of a model."""

    device: str
    """Name of QEMU's device."""
    driver: str
    """Module in the guest's kernel. Empty: the one for the adapter."""
    backend: Backend = "tap"
    queues_max: int = 1
    """Limit of QEMU. An adapter may have fewer."""
    rx_ring: range = range(0)
    """Allowed numbers of descriptors; empty: fixed."""
    tx_ring: range = range(0)
    rings_by: Literal["qemu", "guest", ""] = ""
    """Place at which the rings are set: QEMU's device, or ethtool in the guest."""
    virtual_functions: bool = False
    """Whether QEMU's device has them (SR-IOV)."""
    physical_driver: str = ""
    """Module of QEMU's device, one of whose virtual functions is the interface. Empty: the device
    is the interface.
    """

    @property
    def virtio(self) -> bool:
        """Whether the device is QEMU's virtio-net."""
        return self.device == "virtio-net-pci"


# QEMU: virtio-net.c. Only a vhost-user process may read more than 256 transmit descriptors.
_VIRTIO_RX, _VIRTIO_TX, _VHOST_USER_TX = range(256, 1025), range(256, 257), range(256, 1025)
_VIRTIO_QUEUES_MAX = 64
# The guest's drivers: E1000_MIN_TXD and E1000_MAX_TXD of e1000.h, IGB_MIN_TXD of igb.h and
# IGBVF_MIN_TXD of igbvf.h. Multiples of 8.
_INTEL_RING = range(80, 4097)
_E1000E_RING = range(64, 4097)
_VMXNET3_RING = range(32, 4097)
# The widest limits of drivers of adapters. ethtool reports those of the one in the guest.
_ADAPTER_RING = range(32, 8193)


def _virtio(backend: Backend, tx_ring: range = _VIRTIO_TX) -> Traits:
    return Traits("virtio-net-pci", "virtio_net", backend, _VIRTIO_QUEUES_MAX, _VIRTIO_RX, tx_ring, "qemu")


def _intel(device: str, driver: str, rings: range = _INTEL_RING) -> Traits:
    return Traits(device, driver, rx_ring=rings, tx_ring=rings, rings_by="guest")


def _function() -> Traits:
    rings = _ADAPTER_RING
    return Traits("vfio-pci", "", "function", _VIRTIO_QUEUES_MAX, rings, rings, rings_by="guest")


MODELS: Mapping[NicModel, Traits] = {
    "virtio-net": _virtio("tap"),
    "vhost-net": _virtio("tap"),
    "vhost-user": _virtio("vhost-user", _VHOST_USER_TX),
    "macvtap": _virtio("macvtap"),
    "e1000": _intel("e1000", "e1000"),
    "e1000e": _intel("e1000e", "e1000e", _E1000E_RING),
    "igb": replace(_intel("igb", "igb"), virtual_functions=True),
    "igbvf": replace(_intel("igb", "igbvf"), virtual_functions=True, physical_driver="igb"),
    "rtl8139": Traits("rtl8139", "8139cp"),
    "vmxnet3": Traits("vmxnet3", "vmxnet3", rx_ring=_VMXNET3_RING, tx_ring=_VMXNET3_RING, rings_by="guest"),
    "vfio": _function(),
    "sr-iov": _function(),
}

# Offloads by which a virtio device exchanges frames larger than the MTU or without checksum.
_VIRTIO_OFFLOADS = (
    *("csum", "gso", "host_tso4", "host_tso6", "host_ecn", "host_ufo"),
    *("guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"),
)
# The same offloads by their names in ethtool, for all other devices.
_ETHTOOL_OFFLOADS = ("rx", "tx", "sg", "tso", "gso", "gro")


class Nic(BaseModel):
    """One network interface of a guest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: NicModel = Field(default="virtio-net", description="Model of the interface.")
    queues: int = Field(default=1, ge=1, le=_VIRTIO_QUEUES_MAX, description="Pairs of queues.")
    rx_ring: int | None = Field(default=None, description="Receive descriptors. Default: QEMU's or the driver's.")
    tx_ring: int | None = Field(default=None, description="Transmit descriptors. Default: QEMU's or the driver's.")
    offloads: bool = Field(
        default=True, description="Whether checksums and segmentation may be left to the other side of the interface."
    )
    mac: str | None = Field(default=None, description="Ethernet address. Default: by guest and position.")
    socket: str | None = Field(
        default=None,
        description="Unix socket of the process behind `vhost-user`: a path, or `@` and an abstract name. "
        "A lab chooses it.",
    )

    @field_validator("mac")
    @classmethod
    def _check_mac(cls, mac: str | None) -> str | None:
        if mac is None:
            return None
        mac = mac.lower()
        if _MAC.fullmatch(mac) is None:
            raise ValueError("an Ethernet address has six bytes: 52:54:00:68:00:01")
        if int(mac[:2], 16) & 1:
            raise ValueError("an interface cannot have a multicast address; the first byte must be even")
        return mac

    @model_validator(mode="after")
    def _check_model(self) -> Self:
        if self.model != "vhost-user" and self.socket:
            raise ValueError(f"`socket` belongs to `vhost-user`; remove it from `{self.model}`")
        if self.mac is not None and self.traits.backend == "function":
            raise ValueError("a function of an adapter has an address of its own; remove `mac`")
        return self

    @property
    def traits(self) -> Traits:
        """Properties of the model."""
        return MODELS[self.model]


def mac_of(nic: Nic, guest: int, position: int) -> str:
    """Return the address of a NIC: its own, or one made of two numbers from 0 to 255."""
    assert 0 <= guest < 256 and 0 <= position < 256, f"guest {guest}, NIC {position}"
    return nic.mac or f"{_MAC_PREFIX}:{guest:02x}:{position:02x}"


def physical_mac_of(mac: str) -> str:
    """Return the address of the device whose virtual function has the address `mac`:
    52:54:00:69:… for 52:54:00:68:….
    """
    octets = mac.split(":")
    octets[3] = f"{int(octets[3], 16) ^ 1:02x}"
    return ":".join(octets)


def device_options(nic: Nic, *, mac: str, netdev: str, vectors: int | None) -> str:
    """Return the value of QEMU's `-device`.

    `vectors`: number of MSI-X vectors of a virtio device. None: QEMU's choice, 0: one interrupt
    line.
    """
    options = [nic.traits.device, f"netdev={netdev}", f"id={netdev}-nic", f"mac={mac}", "romfile="]
    if nic.traits.virtio:
        if nic.queues > 1:
            options.append("mq=on")
        if vectors is not None:
            options.append(f"vectors={vectors}")
        rings = (("rx_queue_size", nic.rx_ring), ("tx_queue_size", nic.tx_ring))
        options += [f"{name}={size}" for name, size in rings if size is not None]
        if not nic.offloads:
            options += [f"{name}=off" for name in _VIRTIO_OFFLOADS]
    return ",".join(options)


def settings_script(nic: Nic, interface: str) -> str:
    """Return shell commands for the settings that the guest itself makes, or an empty text."""
    lines = []
    if not nic.offloads:
        # A driver that lacks one of the features reports it and changes the others.
        features = " ".join(f"{name} off" for name in _ETHTOOL_OFFLOADS)
        lines.append(f"ethtool -K {interface} {features} || true")
    if nic.traits.rings_by == "guest" and (nic.rx_ring or nic.tx_ring):
        rings = (("rx", nic.rx_ring), ("tx", nic.tx_ring))
        lines.append(f"ethtool -G {interface} " + " ".join(f"{name} {size}" for name, size in rings if size))
    if nic.traits.virtio and nic.queues > 1:
        lines.append(f"ethtool -L {interface} combined {nic.queues}")
    if nic.traits.backend == "function":
        lines.append(_adapter_queues(interface, nic.queues))
    return "\n".join(lines)


def _adapter_queues(interface: str, queues: int) -> str:
    """Return shell commands that give an adapter a number of queues. Not all drivers change it."""
    return f"""ethtool -L {interface} combined {queues} 2>/dev/null || true
    has=$(ls -d /sys/class/net/{interface}/queues/rx-* | wc -l)
    if [ "$has" != {queues} ]; then
        echo "{interface} has $has pairs of queues, not {queues}, and its driver does not change that" >&2
        exit 1
    fi"""
