"""Configurations of the `probe` engine."""

from __future__ import annotations

from typing import Literal

from hakaru.engine.contract.part import Message


class ProbeServer(Message):
    """The `probe` engine that answers measurements."""

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
