"""Configuration of the `packets` engine, its trials and their outcomes."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from hakaru.engine.contract.part import Message


class PacketPort(Message):
    """A port of the generator: an interface of its namespace."""

    name: str
    interface: str


class FrameSize(Message):
    """A size of frames with FCS, and its share."""

    bytes: int
    weight: int = 1


class PacketStream(Message):
    """A stream of frames from one port to another."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True, serialize_by_alias=True)

    name: str
    from_: str = Field(alias="from")
    to: str
    source_mac: str | None = None
    destination_mac: str | None = None
    source_address: str
    destination_address: str
    source_port: int = 49_152
    destination_port: int = 9
    flows: int = 1
    sizes: list[FrameSize]


class PacketsConfig(Message):
    """The generator and receiver of packets."""

    engine: Literal["packets"] = "packets"
    ports: list[PacketPort]
    streams: list[PacketStream]
    transmit: Literal["auto", "af_xdp", "sendmmsg"] = "auto"
    receive: Literal["auto", "tpacket_v3", "af_xdp"] = "auto"
    sample_interval_ms: int = 1000
    avoid_processors: list[int] = []


class TesterFault(Message):
    """A reason why a trial is invalid."""

    kind: Literal["unsent", "late", "receive_ring", "receive_interface", "transmit_interface", "surplus"]
    entity: str
    message: str


class ProcessorStops(Message):
    """Stops of processors of the tester's machine; `excluded_ns` of the trial are not judged."""

    count: int
    longest_ns: int
    excluded_ns: int


class StreamOutcome(Message):
    """Counts of one stream in one trial: `sent == received + lost`. They include `excluded` frames,
    which were due in times that are not judged.
    """

    name: str
    intended: int | None = None
    sent: int
    unsent: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    corrupted: int
    sent_bytes: int
    received_bytes: int
    first_sent_ns: int | None = None
    last_sent_ns: int | None = None
    first_received_ns: int | None = None
    last_received_ns: int | None = None
    lateness_ns_max: int
    excluded: int
    excluded_unsent: int
    excluded_lost: int


class PortOutcome(Message):
    """Counts of one port in one trial."""

    name: str
    tx_dropped: int
    refused: int
    rx_dropped: int
    ring_dropped: int
    foreign: int
    late: int
    transmit_cpu_ns: int
    receive_cpu_ns: int
