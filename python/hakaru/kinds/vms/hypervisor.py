"""`hypervisor:` of a study of VMs: what lies between a VM and the network in its host.

    hypervisor: {kind: preset, name: kvm-83}
    hypervisor:
      kind: custom
      guest: {ring: 128, segments: 126}
      host: {lu_commands: 32, session_commands: 128}

`guest` is the queue of each VM's disk. `host` makes the hosts own the iSCSI sessions, which their
VMs share. Default: no limits, and a session of its own for every VM. docs/concepts/hypervisor.md
explains the model and gives the sources of the presets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from hakaru.study.part import Part

PAGE_BYTES = 4096
"""Bytes of a memory page of a guest. Each page of a request's data is a segment."""
OVERHEAD = 2
"""Descriptors of a request in addition to those of its data: its header and its status."""
RING_MAX = 32_768
SEGMENTS_MAX = (16 << 20) // PAGE_BYTES


class Guest(Part):
    """The queue of a guest's disk: a ring of descriptors, as in virtio-blk."""

    ring: int = Field(ge=OVERHEAD + 1, le=RING_MAX, description="descriptors of the ring")
    segments: int = Field(
        ge=1, le=SEGMENTS_MAX, description="longest request in pages of 4 KiB; longer ones are split in the guest"
    )
    indirect: bool = Field(
        default=False, description="a request takes one descriptor; else one per page, and two for header and status"
    )
    in_flight: int | None = Field(
        default=None, ge=1, le=RING_MAX, description="maximum number of requests in the ring; default: as many as fit"
    )

    @property
    def request_bytes_max(self) -> int:
        """Length of the longest request."""
        return self.segments * PAGE_BYTES

    def in_flight_of(self, size: int) -> int:
        """Number of requests of `size` bytes, or of the longest pieces of such a request, that the
        ring holds.
        """
        pages = -(-min(size, self.request_bytes_max) // PAGE_BYTES)
        fitting = self.ring // (1 if self.indirect else pages + OVERHEAD)
        return min(fitting, self.in_flight or fitting)


class Host(Part):
    """Limits of the sessions that the VMs of a host share: one per path."""

    lu_commands: int = Field(ge=1, le=4096, description="outstanding per LU, as node.session.queue_depth")
    session_commands: int = Field(ge=1, le=4096, description="outstanding per session, as node.session.cmds_max")


class NoHypervisor(Part):
    """No limits: requests reach a session of the VM's own."""

    kind: Literal["none"] = "none"


class PresetHypervisor(Part):
    """A hypervisor with the defaults of its release."""

    kind: Literal["preset"]
    name: Literal["kvm-83", "current"]


class CustomHypervisor(Part):
    """Limits of one's own; a part that is left out has none."""

    kind: Literal["custom"]
    guest: Guest | None = None
    host: Host | None = None


Hypervisor = Annotated[NoHypervisor | PresetHypervisor | CustomHypervisor, Field(discriminator="kind")]

OPEN_ISCSI = Host(lu_commands=32, session_commands=128)
"""Defaults of open-iscsi, unchanged since 2.0-870: node.session.queue_depth and cmds_max."""
PRESETS = {
    "kvm-83": CustomHypervisor(kind="custom", guest=Guest(ring=128, segments=126), host=OPEN_ISCSI),
    "current": CustomHypervisor(kind="custom", guest=Guest(ring=256, segments=254, indirect=True), host=OPEN_ISCSI),
}
"""Name → limits. docs/concepts/hypervisor.md has the source of each number."""


def limits_of(hypervisor: Hypervisor) -> CustomHypervisor:
    """The limits of a hypervisor."""
    if isinstance(hypervisor, PresetHypervisor):
        return PRESETS[hypervisor.name]
    if isinstance(hypervisor, NoHypervisor):
        return CustomHypervisor(kind="custom")
    return hypervisor


def problems(
    hypervisor: Hypervisor, *, sessions: int, commands: int | None, command_max: int | None
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Place in the load, message and hint of each contradiction with the settings of the
    initiator.
    """
    limits = limits_of(hypervisor)
    guest, initiator = limits.guest, ("iscsi", "initiator")
    if limits.host is not None and sessions > 1:
        yield (*initiator, "sessions"), "the VMs of a host share its sessions", "leave it out, or leave out the host"
    if limits.host is not None and commands is not None:
        yield (*initiator, "commands"), "the hypervisor's host has this limit, `lu_commands`", "leave it out here"
    if guest is None:
        return
    if not guest.indirect and guest.segments > guest.ring - OVERHEAD:
        message = f"a ring of {guest.ring} descriptors holds at most {guest.ring - OVERHEAD} segments"
        yield ("hypervisor", "guest", "segments"), message, "use fewer segments, or `indirect: true`"
    if command_max is not None and command_max < guest.request_bytes_max:
        message = f"less than the longest request of a guest, {guest.request_bytes_max >> 10} KiB"
        yield (*initiator, "command_max"), message, "leave it out: the guest already splits requests"
