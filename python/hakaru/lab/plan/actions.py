"""Actions that build a lab, each one small step. The planning modules list them; `hakaru.lab.build`
applies them.

**Structure** makes what a lab cannot change while it stands: namespaces, cables, bridges,
addresses. **Settings** can be set again: a lab takes on another plan by the settings that differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from hakaru.lab.plan.parts import Line


@dataclass(frozen=True)
class CreateNamespace:
    """A namespace, with `lo` up and these sysctls (relative to /proc/sys) set, each to the first
    value allowed.
    """

    node: str
    sysctls: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class CreateBridge:
    """An Ethernet switch without spanning tree or multicast snooping, up."""

    node: str
    interface: str


@dataclass(frozen=True)
class CreateVeth:
    """A cable from `interface` of `node` to `peer_interface` of `peer`; either end may be plugged
    into a bridge.
    """

    node: str
    interface: str
    bridge: str | None
    peer: str
    peer_interface: str
    peer_bridge: str | None = None


@dataclass(frozen=True)
class AddAddress:
    """An IPv4 address on an interface, without the route that the kernel would make of it."""

    node: str
    interface: str
    address: str
    prefix_length: int


@dataclass(frozen=True)
class SetUp:
    """An interface goes up."""

    node: str
    interface: str


@dataclass(frozen=True)
class SetMtu:
    """The largest IP packet of an interface."""

    node: str
    interface: str
    mtu: int


@dataclass(frozen=True)
class SetRoute:
    """A route out of an interface, and what connections over it begin with; None: as Linux does.

    `network`: the interface's own subnet, or, by the router `via` there, another.
    `congestion_control`: the first of these that the kernel has; empty: as Linux does.
    """

    node: str
    interface: str
    network: str
    address: str
    congestion_control: tuple[str, ...] = ()
    initial_window: int | None = None
    initial_receive_window: int | None = None
    via: str | None = None


@dataclass(frozen=True)
class UnsetRoute:
    """Takes away what `SetRoute` set."""

    node: str
    network: str


@dataclass(frozen=True)
class SetSysctl:
    """A sysctl of a namespace (relative to /proc/sys). A kernel that has it not is left alone."""

    node: str
    name: str
    value: str


@dataclass(frozen=True)
class Shape:
    """A token bucket on what `interface` sends. `rate_bytes_per_s` counts frames as the kernel
    does, see `shape`.
    """

    node: str
    interface: str
    rate_bytes_per_s: int
    bucket_bytes: int
    queue_bytes: int
    super_frame_bytes: int
    after_netem: bool = False


@dataclass(frozen=True)
class Impair:
    """Delay, loss and the like on what `interface` sends (netem), before its token bucket, see
    `Shape.after_netem`.
    """

    node: str
    interface: str
    line: Line
    queue_frames: int


@dataclass(frozen=True)
class Unqueue:
    """Takes bucket and netem off an interface."""

    node: str
    interface: str


Structure = CreateNamespace | CreateBridge | CreateVeth | AddAddress | SetUp
Setting = SetMtu | SetRoute | SetSysctl | Shape | Impair
Action = Structure | Setting | Unqueue | UnsetRoute
