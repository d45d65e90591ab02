"""Configuration of the `watch` engine."""

from __future__ import annotations

from typing import Literal

from hakaru.engine.contract.part import Message


class WatchConfig(Message):
    """The `watch` engine."""

    engine: Literal["watch"] = "watch"
    sample_interval_ms: int = 1000
    machine: bool = False
