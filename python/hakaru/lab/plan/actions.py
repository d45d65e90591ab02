"""Actions that build a lab, each one small step. The planning modules list them; `hakaru.lab.build`
applies them.

**Structure** cannot change once a lab is built: namespaces, cables, bridges, addresses.
**Settings** can be set again: a lab changes to another plan by the settings that differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from hakaru.lab.plan.parts import Line


@dataclass(frozen=True)
class CreateNamespace:
    """Creates a namespace, sets `lo` up, and sets each of these sysctls (relative to /proc/sys) to
    the first of its values that the kernel allows.

    `own_sysfs`: files below /sys/class/net can be written, as `OwnThread` does, without root too.
    """

    node: str
    sysctls: tuple[tuple[str, tuple[str, ...]], ...]
    own_sysfs: bool = False


@dataclass(frozen=True)
class CreateBridge:
    """Creates an Ethernet switch without spanning tree or multicast snooping, and sets it up."""

    node: str
    interface: str


@dataclass(frozen=True)
class CreateVeth:
    """Creates a cable from `interface` of `node` to `peer_interface` of `peer`. Either end may be
    plugged into a bridge, and may have a MAC address of its own; None: a random one.
    """

    node: str
    interface: str
    bridge: str | None
    peer: str
    peer_interface: str
    peer_bridge: str | None = None
    mac: str | None = None
    peer_mac: str | None = None


@dataclass(frozen=True)
class AddAddress:
    """Adds an IPv4 address to an interface, without the route that the kernel would derive."""

    node: str
    interface: str
    address: str
    prefix_length: int


@dataclass(frozen=True)
class AddNeighbour:
    """Adds a neighbour that never expires, so that no ARP is needed for its address."""

    node: str
    interface: str
    address: str
    mac: str


@dataclass(frozen=True)
class SetUp:
    """Sets an interface up."""

    node: str
    interface: str


@dataclass(frozen=True)
class SetDown:
    """Sets an interface down. Frames of its cable are lost in both directions."""

    node: str
    interface: str


@dataclass(frozen=True)
class Poll:
    """Makes an interface receive by polling (NAPI), from a queue of 256 frames; with `own_thread`
    in a kernel thread of its own, which runs before all programs if it is `first`. Frames of the
    other end of its cable pass the queue by unless that end has `SendSingly`. Redirected frames
    always wait in it.
    """

    node: str
    interface: str
    own_thread: bool
    first: bool = False


@dataclass(frozen=True)
class SendSingly:
    """Makes an interface hand over TCP segments instead of super-frames, so that the other end of
    its cable can poll.
    """

    node: str
    interface: str


@dataclass(frozen=True)
class Redirect:
    """Makes the driver of an interface send each frame that arrives out of `target` (XDP)."""

    node: str
    interface: str
    target: str


@dataclass(frozen=True)
class LimitPort:
    """Makes an interface send at most at this rate, which counts every frame with `overhead_bytes`
    more than the kernel does, and drop frames that no longer fit in its queue.
    """

    node: str
    interface: str
    rate_bytes_per_s: int
    burst_bytes: int
    queue_bytes: int
    overhead_bytes: int


@dataclass(frozen=True)
class SetMtu:
    """Sets the largest IP packet of an interface, in bytes."""

    node: str
    interface: str
    mtu: int


@dataclass(frozen=True)
class SetRoute:
    """Sets a route out of an interface, and the initial windows of connections over it, in
    segments. None: Linux's defaults.

    `network`: the interface's own subnet, or another one that is reached through the router `via`.
    `congestion_control`: the first of these that the kernel has is set; empty: Linux's default.
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
    """Removes a route that `SetRoute` set."""

    node: str
    network: str


@dataclass(frozen=True)
class SetSysctl:
    """Sets a sysctl of a namespace (relative to /proc/sys), if the kernel has it."""

    node: str
    name: str
    value: str


@dataclass(frozen=True)
class Shape:
    """Puts a token bucket on the frames that `interface` sends. `rate_bytes_per_s` counts frames as
    the kernel does, see `shape`.
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
    """Puts netem (delay, loss and other impairments) on the frames that `interface` sends, before
    its token bucket; see `Shape.after_netem`.
    """

    node: str
    interface: str
    line: Line
    queue_frames: int


@dataclass(frozen=True)
class Unqueue:
    """Removes token bucket and netem from an interface."""

    node: str
    interface: str


Structure = (
    CreateNamespace
    | CreateBridge
    | CreateVeth
    | AddAddress
    | AddNeighbour
    | SetUp
    | Poll
    | SendSingly
    | Redirect
    | LimitPort
)
Setting = SetMtu | SetRoute | SetSysctl | Shape | Impair
Action = Structure | Setting | SetDown | Unqueue | UnsetRoute
