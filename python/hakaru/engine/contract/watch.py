"""Configuration of the `watch` engine."""

from __future__ import annotations

from typing import Literal

from hakaru.engine.contract.part import Message

TcpTrace = Literal["auto", "on", "off"]


class TcpWatch(Message):
    """TCP connections to record, and the interval between readings. The engine writes the series of
    their states to `file`.
    """

    interval_us: int
    ports: list[int] = []
    trace: TcpTrace = "auto"
    file: str
    file_bytes_max: int = 4 * 1024**3


class Capture(Message):
    """Capture of an interface's packets to pcapng files. The engine's schema defines the bounds."""

    interface: str
    file: str
    snap_bytes: int = 1024
    ring_bytes: int = 16 << 20
    rotate_bytes: int | None = None
    files_max: int | None = None
    ports: list[int] = []


class WatchConfig(Message):
    """The `watch` engine."""

    engine: Literal["watch"] = "watch"
    sample_interval_ms: int = 1000
    machine: bool = False
    tcp: TcpWatch | None = None
    capture: Capture | None = None
