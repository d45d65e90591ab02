"""Configurations of the `probe` engine."""

from __future__ import annotations

from typing import Literal

from hakaru.engine.contract.initiator import SocketOptions
from hakaru.engine.contract.part import Message


class ProbeServer(Message):
    """The `probe` engine that answers measurements."""

    engine: Literal["probe"] = "probe"
    role: Literal["server"] = "server"
    listen: str
    socket: SocketOptions = SocketOptions()


class ProbeClient(Message):
    """The `probe` engine that measures."""

    engine: Literal["probe"] = "probe"
    role: Literal["client"] = "client"
    connect: str
    seconds: float
    round_trips: int


class ProbeStream(Message):
    """The `probe` engine that sends plain TCP streams for as long as a load runs."""

    engine: Literal["probe"] = "probe"
    role: Literal["stream"] = "stream"
    connect: str
    streams: int
    socket: SocketOptions = SocketOptions()
    warmup_s: float
    measure_s: float
    sample_interval_ms: int
