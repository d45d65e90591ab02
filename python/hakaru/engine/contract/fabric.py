"""Configuration of the `fabric` engine."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from hakaru.engine.contract.part import Message


class NoJitter(Message):
    """Every frame has the same delay."""

    kind: Literal["none"] = "none"


class UniformJitter(Message):
    """Jitter uniformly distributed between 0 and `max_us`."""

    kind: Literal["uniform"] = "uniform"
    max_us: float


class ExponentialJitter(Message):
    """Exponentially distributed jitter."""

    kind: Literal["exponential"] = "exponential"
    mean_us: float


class NormalJitter(Message):
    """Normally distributed jitter."""

    kind: Literal["normal"] = "normal"
    mean_us: float
    deviation_us: float


class NoLoss(Message):
    """No frame is lost."""

    kind: Literal["none"] = "none"


class RandomLoss(Message):
    """Frames are lost independently of each other."""

    kind: Literal["random"] = "random"
    percent: float


class BurstLoss(Message):
    """Frames are lost in bursts (Gilbert-Elliott model)."""

    kind: Literal["bursts"] = "bursts"
    percent: float
    burst_frames: float
    bad_percent: float = 100.0


class TailDrop(Message):
    """Frames are dropped when the queue is full."""

    kind: Literal["tail_drop"] = "tail_drop"


class Red(Message):
    """Random early detection."""

    kind: Literal["red"] = "red"
    min_bytes: int
    max_bytes: int
    percent: float = 10.0
    weight: float = 0.002
    ecn: bool = False


class Mark(Message):
    """Marks frames (ECN) while the queue is longer than `above_bytes`."""

    kind: Literal["mark"] = "mark"
    above_bytes: int


class Queue(Message):
    """An egress queue."""

    bytes: int = 524_288
    discipline: Annotated[TailDrop | Red | Mark, Field(discriminator="kind")] = TailDrop()


class Direction(Message):
    """One direction of a link."""

    rate_bits_per_s: int | None = None
    delay_us: float = 0.0
    jitter: Annotated[NoJitter | UniformJitter | ExponentialJitter | NormalJitter, Field(discriminator="kind")] = (
        NoJitter()
    )
    loss: Annotated[NoLoss | RandomLoss | BurstLoss, Field(discriminator="kind")] = NoLoss()
    duplicate_percent: float = 0.0
    corrupt_percent: float = 0.0
    reorder_percent: float = 0.0
    reorder_us: float = 0.0
    queue: Queue = Queue()
    pause: bool = False


class InterfaceEnd(Message):
    """An interface of the engine's namespace."""

    kind: Literal["interface"] = "interface"
    name: str


class VhostUserEnd(Message):
    """A port in the shared memory of a guest. `socket`: the Unix socket on which the engine
    listens, a path or `@` and a name in the engine's network namespace.
    """

    kind: Literal["vhost_user"] = "vhost_user"
    name: str
    socket: str


class SwitchEnd(Message):
    """A port of a switch. `vlan` None: a trunk of the VLANs `allowed` (None: all)."""

    kind: Literal["switch"] = "switch"
    name: str
    vlan: int | None = 1
    allowed: list[int] | None = None

    @model_serializer(mode="wrap")
    def _omit_unset_fields(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `allowed` if it is None, so that engines without this field accept the rest."""
        data: dict[str, Any] = dump(self)
        return data if self.allowed is not None else {k: v for k, v in data.items() if k != "allowed"}


End = Annotated[InterfaceEnd | VhostUserEnd | SwitchEnd, Field(discriminator="kind")]


class SharedBuffer(Message):
    """Memory that the egress queues of a switch share."""

    bytes: int
    alpha: float = 1.0


class RouterInterface(Message):
    """An address of an L3 switch, in a VLAN."""

    vlan: int = 1
    address: str
    prefix_length: int
    mtu_bytes: int = 1500


class RouteConfig(Message):
    """A static route. `via` is in the network of one of the router's interfaces."""

    destination: str
    prefix_length: int
    via: str


class RouterConfig(Message):
    """The routing half of an L3 switch (IPv4)."""

    interfaces: list[RouterInterface]
    routes: list[RouteConfig] = []


class SwitchConfig(Message):
    """A learning switch."""

    name: str
    forwarding: Literal["store_and_forward", "cut_through"] = "store_and_forward"
    shared_buffer: SharedBuffer | None = None
    addresses_max: int = 16_384
    address_age_s: int = 300
    router: RouterConfig | None = None


class LinkConfig(Message):
    """A link between two ends, with its two directions."""

    name: str
    a: End
    b: End
    mtu_bytes: int = 1500
    a_to_b: Direction = Direction()
    b_to_a: Direction = Direction()


class FabricConfig(Message):
    """Switches and links."""

    switches: list[SwitchConfig] = []
    links: list[LinkConfig]
    seed: int = 0


class FabricEngineConfig(Message):
    """The `fabric` engine."""

    engine: Literal["fabric"] = "fabric"
    fabric: FabricConfig
    sample_interval_ms: int = 1000
    spin_us: int = 0
