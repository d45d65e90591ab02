"""Functions of the host's network adapters that a guest gets (VFIO): what Linux reports of one,
and the reason why it cannot be passed on.

    function = read_function("0000:03:10.0")
    function_refusal(function, "sr-iov") -> Refusal | None       pure

hakaru binds no driver, because that takes an interface away from its machine. The user binds
`vfio-pci`, and gets everything back in the same way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hakaru.guest.nic import NicModel
from hakaru.guest.refusal import Refusal

DRIVER = "vfio-pci"
ADDRESS = r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]"
"""Form of the address of a function."""
SYSFS, DEV = Path("/sys"), Path("/dev")
# Base classes of PCI (pci_ids.h). Bridges may share a group, because they send nothing themselves.
_NETWORK, _BRIDGE = 0x02, 0x06
_CLASS_SHIFT = 16


@dataclass(frozen=True)
class Function:
    """A function of a PCI device, as the kernel shows it."""

    address: str
    exists: bool = True
    base_class: int = _NETWORK
    driver: str = DRIVER
    """Driver that it is bound to; empty: none."""
    physical: str = ""
    """Address of the physical function; empty: it is one itself."""
    group: str = ""
    """Number of its IOMMU group; empty: it has none."""
    held: tuple[str, ...] = ()
    """Functions of the same group that another driver has."""
    closed: str = ""
    """Reason why the device file of the group cannot be opened; empty: it can."""


def read_function(address: str, *, sysfs: Path = SYSFS, dev: Path = DEV) -> Function:
    """Return what the kernel reports of a function."""
    folder = _devices(sysfs) / address
    if not folder.is_dir():
        return Function(address, exists=False, driver="")
    group = _link(folder / "iommu_group")
    node = dev / "vfio" / group
    closed = ""
    if not os.access(node, os.R_OK | os.W_OK):
        closed = f"this user may not open {node}" if node.exists() else f"this machine has no {node}"
    return Function(
        address,
        base_class=_class_of(folder),
        driver=_link(folder / "driver"),
        physical=_link(folder / "physfn"),
        group=group,
        held=tuple(_held(folder / "iommu_group" / "devices", address)) if group else (),
        closed=closed,
    )


def offered_functions(*, sysfs: Path = SYSFS, dev: Path = DEV) -> list[Function]:
    """Return the functions of network adapters that `vfio-pci` has."""
    addresses = sorted(path.name for path in (_devices(sysfs).iterdir() if _devices(sysfs).is_dir() else ()))
    functions = [read_function(address, sysfs=sysfs, dev=dev) for address in addresses]
    return [each for each in functions if each.base_class == _NETWORK and each.driver == DRIVER]


def has_iommu(*, sysfs: Path = SYSFS) -> bool:
    """Return whether an IOMMU protects this machine from its devices."""
    groups = sysfs / "kernel" / "iommu_groups"
    return groups.is_dir() and any(groups.iterdir())


def function_refusal(function: Function, model: NicModel) -> Refusal | None:
    """Return the first reason why a guest cannot get a function as a NIC of a model."""
    name = function.address
    if not function.exists:
        return Refusal(f"this machine has no PCI function {name}", "`lspci -D` lists those of this machine")
    if function.base_class != _NETWORK:
        return Refusal(f"PCI function {name} is no network adapter", "`lspci -D -d ::0200` lists those of this machine")
    if model == "sr-iov" and not function.physical:
        return Refusal(
            f"PCI function {name} is an adapter, not a virtual function of one",
            f"`echo 1 | sudo tee {_devices(SYSFS)}/{name}/sriov_numvfs` creates one if the adapter has SR-IOV; or use "
            "`vfio`, which passes whole adapters as well",
        )
    if not function.group:
        return Refusal(
            f"PCI function {name} has no IOMMU in front of it",
            "switch on VT-d or AMD-Vi in the firmware, and boot with `intel_iommu=on` on processors of Intel",
        )
    if function.driver != DRIVER:
        return Refusal(
            f"PCI function {name} is bound to the driver {function.driver or '-'}, not to {DRIVER}",
            f"`sudo driverctl set-override {name} {DRIVER}` takes it from this machine, and `sudo driverctl "
            f"unset-override {name}` gives it back",
        )
    if function.held:
        return Refusal(
            f"IOMMU group {function.group} of {name} also has {', '.join(function.held)}, which this machine uses",
            f"bind all of them to {DRIVER}, or put the adapter into another slot",
        )
    if function.closed:
        return Refusal(function.closed, f"`sudo chown $USER /dev/vfio/{function.group}`, or run as root")
    return None


def _devices(sysfs: Path) -> Path:
    return sysfs / "bus" / "pci" / "devices"


def _link(path: Path) -> str:
    """Return the last part of the target of a link; empty if there is none."""
    return path.resolve().name if path.is_symlink() else ""


def _class_of(folder: Path) -> int:
    """Return the base class of a function, 0 if it cannot be read."""
    found = re.fullmatch(r"0x([0-9a-f]{6})", _text(folder / "class"))
    return int(found[1], 16) >> _CLASS_SHIFT if found else 0


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _held(devices: Path, address: str) -> Iterator[str]:
    """Yield the other functions of a group that a driver of this machine has."""
    for folder in sorted(devices.iterdir() if devices.is_dir() else ()):
        driver = _link(folder / "driver")
        if folder.name != address and driver not in ("", DRIVER) and _class_of(folder) != _BRIDGE:
            yield folder.name
