"""Decision whether this machine can run a guest's NIC, before anything is started. Pure.

    requirements(nic, RECIPES["cloud"], facts) -> Refusal | None

`Facts` describes a machine. `hakaru.guest.facts` collects those of this one, and
`hakaru.guest.function` reads the functions of adapters that a guest gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hakaru.guest.function import Function, function_refusal
from hakaru.guest.nic import Nic
from hakaru.guest.recipe import RECIPES, Recipe
from hakaru.guest.refusal import Refusal

AcceleratorKind = Literal["kvm", "tcg"]
MEMORY_DEFAULT_BYTES = 768 * 1024**2
"""Memory of a guest. Its root file system is in memory too."""
EMULATOR_BYTES = 128 * 1024**2
"""Memory of QEMU besides that of its guest, with the translated code of TCG."""
Version = tuple[int, int, int]

_QEMU_PACKAGE = "sudo apt-get install qemu-system-x86"
# QEMU 7.2 dereferences a missing notifier when a vhost-user device with MSI-X is switched on under
# TCG. 10.0 does not; versions between them were not tried.
_VHOST_USER_FIXED: Version = (10, 0, 0)
# QEMU's own memory that it locks beside that of the guest: firmware and tables.
_LOCKED_BESIDE_BYTES = 16 * 1024**2


@dataclass(frozen=True)
class Accelerator:
    """Execution of a guest's processor: by hardware (`kvm`), or by QEMU, which translates every
    instruction and is about 20 times slower (`tcg`).
    """

    kind: AcceleratorKind
    reason: str = ""
    """Reason why it is not `kvm`, or why it may not stay `kvm`."""


@dataclass(frozen=True)
class Facts:
    """Properties of a machine that decide which guests it can run."""

    qemu: Version | None
    """Version of qemu-system-x86_64. None: not installed."""
    devices: frozenset[str]
    """Names of the devices that QEMU can emulate."""
    netdevs: frozenset[str]
    """Names of the network backends that QEMU has."""
    accelerator: Accelerator
    tun: str = ""
    """Reason why TAPs cannot be opened; empty: they can."""
    vhost_net: str = ""
    macvtap: str = ""
    processors: frozenset[int] = frozenset()
    """Processors of the host that this process may use. Empty: unknown."""
    memory_bytes: int | None = None
    """Memory that new processes may use. None: unknown."""
    locked_bytes: int | None = None
    """Memory that a process may lock. None: any."""


def vectors_of(nic: Nic, facts: Facts) -> int | None:
    """Return the number of MSI-X vectors of a NIC: None for QEMU's choice, 0 for INTx.

    A vhost-user device with MSI-X crashes QEMU 7.2 under TCG.
    """
    if not nic.traits.virtio:
        return None
    if nic.model == "vhost-user" and facts.accelerator.kind == "tcg" and (facts.qemu or (0, 0, 0)) < _VHOST_USER_FIXED:
        return 0
    # One vector per direction of a pair, one for the control queue, one for configuration changes.
    return 2 * nic.queues + 2 if nic.queues > 1 else None


def requirements(
    nic: Nic, recipe: Recipe, facts: Facts, *, cpus: int = 2, functions: Sequence[Function] = ()
) -> Refusal | None:
    """Return the first reason why this machine cannot run `nic` in a guest of `cpus` processors.

    `functions`: those of the host that the guest gets, if the model is one of functions.
    """
    return (
        _missing_in_qemu(nic, facts)
        or _missing_here(nic, facts)
        or _unusable_functions(nic, facts, functions)
        or _missing_in_kernel(nic, recipe)
        or (_impossible_sizes(nic, facts, cpus))
    )


def _missing_in_qemu(nic: Nic, facts: Facts) -> Refusal | None:
    if facts.qemu is None:
        return Refusal("qemu-system-x86_64 is not installed", _QEMU_PACKAGE)
    version = ".".join(map(str, facts.qemu))
    if nic.traits.device not in facts.devices:
        newer = "QEMU 8.0 or newer has it (Debian 12: bookworm-backports)"
        return Refusal(
            f"QEMU {version} has no device `{nic.traits.device}`",
            newer if nic.traits.device == "igb" else "use another model",
        )
    backend = "vhost-user" if nic.traits.backend == "vhost-user" else "tap"
    if nic.traits.backend != "function" and backend not in facts.netdevs:
        return Refusal(f"QEMU {version} was built without the network backend `{backend}`", _QEMU_PACKAGE)
    return None


def _missing_here(nic: Nic, facts: Facts) -> Refusal | None:
    if nic.traits.backend == "tap" and facts.tun:
        return Refusal(facts.tun, "`sudo modprobe tun`; every user may open /dev/net/tun if its mode is 0666")
    if nic.model == "vhost-net" and facts.vhost_net:
        return Refusal(facts.vhost_net, "`sudo modprobe vhost_net`, and give this user access; or use `virtio-net`")
    if nic.traits.backend == "macvtap" and facts.macvtap:
        return Refusal(facts.macvtap, "use `virtio-net`, which works in namespaces without root")
    return None


def _unusable_functions(nic: Nic, facts: Facts, functions: Sequence[Function]) -> Refusal | None:
    if nic.traits.backend != "function":
        return None
    if not functions:
        return Refusal(
            f"`{nic.model}` passes functions of this machine's adapters to a guest, which only a site file names",
            "add `function` to both `ports` of a site file, and give it with --site; `hakaru docs sites` describes it",
        )
    for function in functions:
        if (refusal := function_refusal(function, nic.model)) is not None:
            return refusal
    needed = MEMORY_DEFAULT_BYTES + _LOCKED_BESIDE_BYTES
    if facts.locked_bytes is not None and facts.locked_bytes < needed:
        return Refusal(
            f"an adapter needs the whole memory of its guest locked, {needed >> 20} MiB, and this user may lock "
            f"{facts.locked_bytes >> 20} MiB",
            "set `memlock` in /etc/security/limits.conf to `unlimited` and log in again, or run as root",
        )
    return None


def has_driver(nic: Nic, recipe: Recipe) -> bool:
    """Return whether the kernel of an image has a driver for a NIC. The guest finds out which of
    those for adapters it needs.
    """
    return bool(recipe.adapters) if nic.traits.backend == "function" else nic.traits.driver in recipe.drivers


def _missing_in_kernel(nic: Nic, recipe: Recipe) -> Refusal | None:
    if has_driver(nic, recipe):
        return None
    others = [other.name for other in RECIPES.values() if has_driver(nic, other)]
    return Refusal(
        f"the kernel of guest image `{recipe.name}` has no driver {nic.traits.driver or nic.model}",
        f"use the image {' or '.join(f'`{name}`' for name in others)}" if others else "use another model",
    )


def _impossible_sizes(nic: Nic, facts: Facts, cpus: int) -> Refusal | None:
    traits = nic.traits
    if nic.queues > traits.queues_max:
        return Refusal(f"QEMU's {traits.device} has one pair of queues, not {nic.queues}", "use `virtio-net`")
    if nic.queues > 1 and vectors_of(nic, facts) == 0:
        return Refusal(
            f"`{nic.model}` needs `vectors=0` on this QEMU without KVM, so it has one interrupt and one pair of queues",
            "use `queues: 1`, QEMU 10.0 or newer, or a machine with KVM",
        )
    if nic.queues > cpus:
        return Refusal(
            f"{nic.queues} pairs of queues need as many processors in the guest, which has {cpus}",
            f"use at most `queues: {cpus}`, or more processors",
        )
    for direction, size, allowed in (("rx", nic.rx_ring, traits.rx_ring), ("tx", nic.tx_ring, traits.tx_ring)):
        if size is not None and (refusal := _impossible_ring(nic, direction, size, allowed)):
            return refusal
    return None


def _impossible_ring(nic: Nic, direction: str, size: int, allowed: range) -> Refusal | None:
    if not allowed:
        return Refusal(f"the {direction} ring of `{nic.model}` has a fixed size", f"remove `{direction}_ring`")
    bounds = f"{allowed[0]}" if len(allowed) == 1 else f"{allowed[0]} to {allowed[-1]}"
    step = "a power of two" if nic.traits.rings_by == "qemu" else "a multiple of 8"
    possible = size & (size - 1) == 0 if nic.traits.rings_by == "qemu" else size % 8 == 0
    if size not in allowed or not possible:
        return Refusal(
            f"the {direction} ring of `{nic.model}` cannot have {size} descriptors",
            f"`{direction}_ring` must be {bounds}, and {step}",
        )
    return None
