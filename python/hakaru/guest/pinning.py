"""Placement of a guest's work on processors: QEMU's threads on those of the host, interrupts on
those of the guest.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from hakaru.errors import EnvironmentError_
from hakaru.guest.emulator import Emulator


@dataclass(frozen=True)
class Pinning:
    """Processors for the parts of a guest. Empty: wherever the scheduler places them."""

    vcpus: tuple[int, ...] = ()
    """Processor of the host for each virtual processor; used again from the start if there are
    more.
    """
    others: tuple[int, ...] = ()
    """Processors of the host for QEMU's main loop, iothreads and workers. The thread of a vhost-net
    belongs to them from Linux 6.4 on.
    """
    interrupts: tuple[int, ...] = ()
    """Processors of the guest for the interrupts of each NIC, one after another."""


ANYWHERE = Pinning()


async def pin_threads(emulator: Emulator, pinning: Pinning) -> None:
    """Move QEMU's threads. Raises EnvironmentError_ if this process may not use a processor."""
    if pinning.vcpus:
        for number, thread in enumerate(await emulator.vcpu_threads()):
            _pin(thread, {pinning.vcpus[number % len(pinning.vcpus)]}, f"virtual processor {number}")
    if pinning.others:
        for thread in await emulator.other_threads():
            _pin(thread, set(pinning.others), "a thread of QEMU")


def interrupts_script(interface: str, pinning: Pinning) -> str:
    """Return shell commands for the guest that pin the interrupts of a NIC; empty if none are
    pinned.

    A virtio device is below the PCI device that has the interrupts, other devices are that device.
    """
    if not pinning.interrupts:
        return ""
    processors = " ".join(map(str, pinning.interrupts))
    # A driver requests its interrupts when the interface is up. An interrupt without a handler
    # cannot be moved, nor can that of a virtio device's configuration.
    return f"""
    ip link set {interface} up
    device=$(readlink -f /sys/class/net/{interface}/device)
    [ -e "$device/irq" ] || device=${{device%/*}}
    interrupts=$(ls "$device/msi_irqs" 2>/dev/null || cat "$device/irq")
    set -- {processors}
    for interrupt in $interrupts; do
        [ -e "/proc/irq/$interrupt/smp_affinity_list" ] || continue
        echo "$1" >"/proc/irq/$interrupt/smp_affinity_list" 2>/dev/null || continue
        first=$1; shift; set -- "$@" "$first"
    done
    """


def _pin(thread: int, processors: set[int], part: str) -> None:
    try:
        os.sched_setaffinity(thread, processors)
    except ProcessLookupError:
        # Workers of QEMU end when they are idle.
        return
    except OSError as error:
        allowed = sorted(os.sched_getaffinity(0))
        raise EnvironmentError_(
            f"{part} cannot be pinned to processors {sorted(processors)}: {error.strerror}",
            f"this process may use the processors {allowed}",
        ) from error
