"""The contract with `hakaru-engine`: what may stand on a line of its stdin and stdout.

A mirror of `crates/contract`, which defines it; `tests/engine/test_contract.py` holds the two together through
`schema/contract.schema.json`. Field by field meaning, units, bounds and defaults stand in the Rust sources and the
schema; here are the shapes. Strict: nothing unknown, nothing coerced.

    Configure(contract=CONTRACT_VERSION, config=ProbeServer(listen="10.77.0.1:0")).line()   → bytes for stdin
    parse_event(line)                                                                     → Hello | Ready | … of stdout
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

CONTRACT_VERSION = 1


class Message(BaseModel):
    """A part of the contract."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SizeWeight(Message):
    """A request length and how often it is drawn."""

    bytes: int
    weight: int = 1


class Pattern(Message):
    """Which requests a VM makes."""

    sizes: list[SizeWeight]
    read_percent: int
    random_percent: int
    align_bytes: int | None = None


class ClosedLoad(Message):
    """A fixed number of requests always outstanding."""

    kind: Literal["closed"] = "closed"
    queue_depth: int


class OpenLoad(Message):
    """Requests due at given instants."""

    kind: Literal["open"] = "open"
    rate_per_s: float
    arrivals: Literal["uniform", "poisson"]
    in_flight_max: int


Load = Annotated[ClosedLoad | OpenLoad, Field(discriminator="kind")]


class Region(Message):
    """A range of an LU, device or file; `length_bytes` 0: to the end."""

    offset_bytes: int
    length_bytes: int


class IscsiDestination(Message):
    """An LU behind a portal."""

    kind: Literal["iscsi"] = "iscsi"
    portal: str
    target_name: str
    lun: int
    initiator_name: str


class FileDestination(Message):
    """A block device or file of this machine."""

    kind: Literal["file"] = "file"
    path: str
    direct: bool = False


Destination = Annotated[IscsiDestination | FileDestination, Field(discriminator="kind")]


class Vm(Message):
    """One emulated VM."""

    name: str
    destination: Destination
    region: Region
    pattern: Pattern
    load: Load
    seed: int


class LoginKeys(Message):
    """iSCSI login keys that the initiator offers."""

    max_recv_data_segment_length: int = 262_144
    max_burst_length: int = 16_776_192
    first_burst_length: int = 262_144
    initial_r2t: bool = False
    immediate_data: bool = True
    max_outstanding_r2t: int = 1
    header_digest: bool = False
    data_digest: bool = False


class SecretFile(Message):
    """A secret that is the only line of a file; the engine reads it."""

    kind: Literal["file"] = "file"
    path: str


class SecretText(Message):
    """A secret. Does not show where the configuration, or an error about it, is printed."""

    model_config = ConfigDict(hide_input_in_errors=True)

    kind: Literal["text"] = "text"
    text: str = Field(repr=False)


Secret = Annotated[SecretFile | SecretText, Field(discriminator="kind")]


class ChapUser(Message):
    """A CHAP name and its secret."""

    model_config = ConfigDict(hide_input_in_errors=True)

    name: str
    secret: Secret


ChapAlgorithm = Literal["sha3_256", "sha256", "sha1", "md5"]
STRONG: list[ChapAlgorithm] = ["sha3_256", "sha256"]


class ChapConfig(Message):
    """CHAP of an initiator."""

    user: ChapUser
    target: ChapUser | None = None
    algorithms: list[ChapAlgorithm] = STRONG


class InitiatorConfig(Message):
    """The `initiator` engine."""

    engine: Literal["initiator"] = "initiator"
    vms: list[Vm]
    login: LoginKeys = LoginKeys()
    chap: ChapConfig | None = None
    warmup_s: float
    measure_s: float
    sample_interval_ms: int = 1000
    verify: bool = False
    command_timeout_s: float = 30.0
    coalesce_us: int = 50
    allow_writes: bool = True


class MemoryStore(Message):
    """Sparse memory."""

    kind: Literal["memory"] = "memory"


class FileStore(Message):
    """A sparse file, made if absent, or a block device."""

    kind: Literal["file"] = "file"
    path: str
    direct: bool = False


class ThinStore(Message):
    """A volume of a pool."""

    kind: Literal["thin"] = "thin"
    pool: str
    volume: str
    quota_bytes: int | None = None


Store = Annotated[MemoryStore | FileStore | ThinStore, Field(discriminator="kind")]


class Placement(Message):
    """Place of an LU on the modelled drives."""

    group: int
    offset_bytes: int


class LuConfig(Message):
    """A logical unit."""

    lun: int
    size_bytes: int
    block_bytes: int = 512
    physical_block_bytes: int | None = None
    store: Store
    placement: Placement | None = None
    read_only: bool = False
    thin: bool = False
    unmap_any_data: bool = False
    removable: bool = False
    sanitize: bool = False


class GroupConfig(Message):
    """A RAID group of a pool."""

    name: str
    size_bytes: int
    placement: Placement | None = None


class PoolConfig(Message):
    """A thin-provisioned pool."""

    name: str
    directory: str
    page_bytes: int = 262_144
    soft_threshold_percent: int = 70
    direct: bool = False
    groups: list[GroupConfig]


class NoModel(Message):
    """Every request completes at once."""

    kind: Literal["none"] = "none"


class PresetModel(Message):
    """A timing model that the engine knows by name."""

    kind: Literal["preset"] = "preset"
    name: str


class ArrayModel(BaseModel):
    """A timing model with every parameter. Python passes it on; the engine checks it (`drive::config::ArrayModel`)."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    kind: Literal["array"] = "array"
    controller: dict[str, Any]
    groups: list[dict[str, Any]]


Model = Annotated[NoModel | PresetModel | ArrayModel, Field(discriminator="kind")]


class LuAccess(Message):
    """An LU that a rule shows."""

    lun: int
    read_only: bool = False


class AccessRule(Message):
    """Lets in whom all of this fits."""

    initiator_name: str | None = None
    address: str | None = None
    user: str | None = None
    lus: list[LuAccess] | None = None


class AccessConfig(Message):
    """Who may log in, and what each finds."""

    users: list[ChapUser] = []
    target: ChapUser | None = None
    algorithms: list[ChapAlgorithm] = STRONG
    rules: list[AccessRule] | None = None


class ArrayConfig(Message):
    """The `array` engine."""

    engine: Literal["array"] = "array"
    target_name: str
    portals: list[str]
    pools: list[PoolConfig] = []
    lus: list[LuConfig]
    model: Model
    state_directory: str | None = None
    access: AccessConfig = AccessConfig()
    allow_external: bool = False
    isolated_network: bool = False
    seed: int = 0
    sample_interval_ms: int = 1000
    sessions_max: int = 16_384
    spin_us: int = 0


class WatchConfig(Message):
    """The `watch` engine."""

    engine: Literal["watch"] = "watch"
    sample_interval_ms: int = 1000
    machine: bool = False


class ProbeServer(Message):
    """The `probe` engine that answers."""

    engine: Literal["probe"] = "probe"
    role: Literal["server"] = "server"
    listen: str


class ProbeClient(Message):
    """The `probe` engine that measures."""

    engine: Literal["probe"] = "probe"
    role: Literal["client"] = "client"
    connect: str
    seconds: float
    round_trips: int


class NoJitter(Message):
    """Every frame is delayed alike."""

    kind: Literal["none"] = "none"


class UniformJitter(Message):
    """0 to `max_us`, all alike."""

    kind: Literal["uniform"] = "uniform"
    max_us: float


class ExponentialJitter(Message):
    """Exponential."""

    kind: Literal["exponential"] = "exponential"
    mean_us: float


class NormalJitter(Message):
    """Normal."""

    kind: Literal["normal"] = "normal"
    mean_us: float
    deviation_us: float


class NoLoss(Message):
    """No frame vanishes."""

    kind: Literal["none"] = "none"


class RandomLoss(Message):
    """Each frame by itself."""

    kind: Literal["random"] = "random"
    percent: float


class BurstLoss(Message):
    """In bursts (Gilbert and Elliott)."""

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
    """Marks (ECN) while the queue is long."""

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


class SwitchEnd(Message):
    """A port of a switch; `vlan` None: a trunk."""

    kind: Literal["switch"] = "switch"
    name: str
    vlan: int | None = 1


End = Annotated[InterfaceEnd | SwitchEnd, Field(discriminator="kind")]


class SharedBuffer(Message):
    """Memory that the egress queues of a switch share."""

    bytes: int
    alpha: float = 1.0


class SwitchConfig(Message):
    """A learning switch."""

    name: str
    forwarding: Literal["store_and_forward", "cut_through"] = "store_and_forward"
    shared_buffer: SharedBuffer | None = None
    addresses_max: int = 16_384
    address_age_s: int = 300


class LinkConfig(Message):
    """A link with its two directions."""

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


EngineConfig = ArrayConfig | InitiatorConfig | WatchConfig | ProbeServer | ProbeClient | FabricEngineConfig


class Command(Message):
    """To an engine."""

    def line(self) -> bytes:
        """The command as one line of JSON."""
        return self.model_dump_json().encode() + b"\n"


class Configure(Command):
    """Become one engine."""

    type: Literal["configure"] = "configure"
    contract: int
    config: EngineConfig


class Start(Command):
    """Begin at an instant of `CLOCK_MONOTONIC`."""

    type: Literal["start"] = "start"
    at_ns: int


class StatusAction(Message):
    """Tell of pools, volumes, LUs, portals."""

    kind: Literal["status"] = "status"


class GrowAction(Message):
    """Add a group to a pool."""

    kind: Literal["grow"] = "grow"
    pool: str
    group: GroupConfig


class CreateAction(Message):
    """Serve a thin LU; make its volume if it is not there."""

    kind: Literal["create"] = "create"
    lu: LuConfig


class SnapshotAction(Message):
    """Make a copy that takes no writes."""

    kind: Literal["snapshot"] = "snapshot"
    pool: str
    volume: str
    name: str


class CloneAction(Message):
    """Make a copy that takes writes."""

    kind: Literal["clone"] = "clone"
    pool: str
    volume: str
    name: str
    quota_bytes: int | None = None


class ResizeAction(Message):
    """Make a volume larger."""

    kind: Literal["resize"] = "resize"
    pool: str
    volume: str
    size_bytes: int


class SetQuotaAction(Message):
    """Set or lift a quota."""

    kind: Literal["set_quota"] = "set_quota"
    pool: str
    volume: str
    quota_bytes: int | None = None


class DeleteAction(Message):
    """Forget a volume."""

    kind: Literal["delete"] = "delete"
    pool: str
    volume: str


class WithdrawAction(Message):
    """Withdraw a thin LU."""

    kind: Literal["withdraw"] = "withdraw"
    lun: int


class SetPortStateAction(Message):
    """Set a portal's asymmetric access state."""

    kind: Literal["set_port_state"] = "set_port_state"
    portal: int
    state: Literal["optimized", "non_optimized", "standby", "unavailable"]


ManageAction = Annotated[
    StatusAction
    | GrowAction
    | CreateAction
    | SnapshotAction
    | CloneAction
    | ResizeAction
    | SetQuotaAction
    | DeleteAction
    | WithdrawAction
    | SetPortStateAction,
    Field(discriminator="kind"),
]


class Manage(Command):
    """Do something beside serving."""

    type: Literal["manage"] = "manage"
    id: int
    action: ManageAction


class Stop(Command):
    """End cleanly."""

    type: Literal["stop"] = "stop"


class NamedHistogram(Message):
    """A mergeable histogram: HdrHistogram V2, deflated, base64."""

    entity: str
    name: str
    hdr: str


class Hello(Message):
    """The first line."""

    type: Literal["hello"] = "hello"
    contract: int
    version: str


class Ready(Message):
    """Configured; waits for `start`."""

    type: Literal["ready"] = "ready"
    found: dict[str, Any]


class Phase(Message):
    """A phase began: `warmup`, `measure`, `drain`."""

    type: Literal["phase"] = "phase"
    phase: str
    at_ns: int


class Sample(Message):
    """Cumulative counters at an instant, and histograms of the interval before it."""

    type: Literal["sample"] = "sample"
    at_ns: int
    counters: dict[str, dict[str, float]]
    histograms: list[NamedHistogram] = []


class Result(Message):
    """The end of the work."""

    type: Literal["result"] = "result"
    at_ns: int
    values: dict[str, float]
    histograms: list[NamedHistogram]


ErrorClass = Literal["usage", "environment", "verification", "peer", "internal"]


class ReplyError(Message):
    """Why an order was not carried out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    class_: ErrorClass = Field(alias="class")
    message: str
    hint: str


class Reply(Message):
    """What came of a `manage`: `value` or `error`."""

    type: Literal["reply"] = "reply"
    id: int
    value: dict[str, Any] | None = None
    error: ReplyError | None = None


class Error(Message):
    """The engine cannot do or go on with what was asked."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    type: Literal["error"] = "error"
    class_: ErrorClass = Field(alias="class")
    message: str
    hint: str
    fatal: bool


Event = Annotated[Hello | Ready | Phase | Sample | Result | Reply | Error, Field(discriminator="type")]
_EVENT: TypeAdapter[Hello | Ready | Phase | Sample | Result | Reply | Error] = TypeAdapter(Event)


def parse_event(line: bytes) -> Hello | Ready | Phase | Sample | Result | Reply | Error:
    """The event on a line of an engine's stdout. Raises ValueError with what is wrong with it."""
    try:
        return _EVENT.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place}: {first['msg']}" if place else str(first["msg"])) from None
