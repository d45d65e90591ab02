"""Configuration of the `initiator` engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hakaru.engine.contract.access import ChapConfig
from hakaru.engine.contract.part import Message
from hakaru.login_defaults import INITIATOR


class SizeWeight(Message):
    """A request length and its relative frequency."""

    bytes: int
    weight: int = 1


class Pattern(Message):
    """The requests of a VM."""

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
    """A range of an LU, device or file. `length_bytes` 0: up to the end."""

    offset_bytes: int
    length_bytes: int


class IscsiDestination(Message):
    """An LU behind a portal."""

    kind: Literal["iscsi"] = "iscsi"
    portal: str
    target_name: str
    lun: int
    initiator_name: str
    other_portals: list[str] = []


class FileDestination(Message):
    """A block device or file of this machine."""

    kind: Literal["file"] = "file"
    path: str
    direct: bool = False
    multipath: bool = False


Destination = Annotated[IscsiDestination | FileDestination, Field(discriminator="kind")]


class Vm(Message):
    """One emulated VM."""

    name: str
    destination: Destination
    region: Region
    pattern: Pattern
    load: Load
    seed: int
    group: int | None = None


class LoginKeys(Message):
    """iSCSI login keys: those that an initiator offers, or that an array declares and accepts. The
    defaults are those of an initiator.
    """

    max_recv_data_segment_length: int = INITIATOR.max_recv_data_segment_length
    max_burst_length: int = INITIATOR.max_burst_length
    first_burst_length: int = INITIATOR.first_burst_length
    initial_r2t: bool = INITIATOR.initial_r2t
    immediate_data: bool = INITIATOR.immediate_data
    max_outstanding_r2t: int = INITIATOR.max_outstanding_r2t
    header_digest: bool = INITIATOR.header_digest
    data_digest: bool = INITIATOR.data_digest


class SocketOptions(Message):
    """Options of TCP sockets, set before they connect or listen."""

    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    congestion_control: str | None = None
    not_sent_low_water_bytes: int | None = None
    pacing_bytes_per_s: int | None = None
    no_delay: bool = True


class GuestQueue(Message):
    """The queue between each VM and its disk."""

    ring_descriptors: int
    segments_max: int
    indirect: bool = False
    in_flight_max: int | None = None


class Multipath(Message):
    """Use of several paths by every VM."""

    policy: Literal["round_robin", "least_queue_depth", "failover"] = "round_robin"
    nop_interval_s: float = 5.0
    nop_timeout_s: float = 5.0
    recovery_s: float = 5.0
    login_timeout_s: float = 5.0
    retry_s: float = 1.0
    check_s: float = 5.0
    failback_s: float = 0.0
    no_path_s: float = 30.0
    stale_s: float = 5.0


class InitiatorConfig(Message):
    """The `initiator` engine."""

    engine: Literal["initiator"] = "initiator"
    vms: list[Vm]
    groups: list[str] = []
    login: LoginKeys = LoginKeys()
    socket: SocketOptions = SocketOptions()
    sessions_per_vm: int = 1
    command_bytes_max: int | None = None
    commands_max: int | None = None
    session_commands_max: int | None = None
    share_sessions: bool = False
    multipath: Multipath | None = None
    guest_queue: GuestQueue | None = None
    chap: ChapConfig | None = None
    warmup_s: float
    measure_s: float
    sample_interval_ms: int = 1000
    verify: bool = False
    command_timeout_s: float = 30.0
    coalesce_us: int = 0
    coalesce_percent: float = 10.0
    allow_writes: bool = True
    real_time: bool = False
