"""Conditions of a tuning: its path and its load. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hakaru.errors import UsageError
from hakaru.units import format_duration, format_rate, format_size

Op = Literal["write", "read"]
RTT_MAX_NS = 10 * 10**9
BLOCK_MIN_BYTES, BLOCK_MAX_BYTES = 4096, 16 << 20
DEPTH_MAX = 64


@dataclass(frozen=True)
class Conditions:
    """Path and load. None: unknown (`rtt_ns` and `rate_bits_per_s` of a real path) or free
    (`depth`).
    """

    rtt_ns: int | None
    loss_percent: float
    """Percentage of frames lost in each direction."""
    rate_bits_per_s: int | None
    """Rate of the slowest link, including Ethernet framing."""
    block_bytes: int
    """Size of a request of the load. Requests are sequential on the LU."""
    op: Op
    depth: int | None
    """Requests outstanding; None: the search chooses the number."""
    mtu: int = 1500

    def check(self) -> None:
        """Raise `UsageError` for a value out of bounds."""
        if self.rtt_ns is not None and not 0 <= self.rtt_ns <= RTT_MAX_NS:
            raise UsageError(f"--rtt {format_duration(self.rtt_ns)} is out of range", "choose 0 to 10 s")
        if not 0 <= self.loss_percent < 100:
            hint = "choose the percentage of frames lost in each direction: at least 0, below 100"
            raise UsageError(f"--loss {self.loss_percent:g} is out of range", hint)
        if not BLOCK_MIN_BYTES <= self.block_bytes <= BLOCK_MAX_BYTES or self.block_bytes % 4096:
            hint = "choose a multiple of 4 KiB, at most 16 MiB"
            raise UsageError(f"--block {format_size(self.block_bytes)} is not a possible request size", hint)
        if self.depth is not None and not 1 <= self.depth <= DEPTH_MAX:
            raise UsageError(f"--depth {self.depth} is out of range", f"choose 1 to {DEPTH_MAX}, or `any`")

    def describe(self) -> dict[str, Any]:
        """Return a JSON object that `of_json` reads."""
        return {
            "rtt": None if self.rtt_ns is None else format_duration(self.rtt_ns),
            "rtt_ns": self.rtt_ns,
            "loss_percent": self.loss_percent,
            "rate": None if self.rate_bits_per_s is None else format_rate(self.rate_bits_per_s),
            "rate_bits_per_s": self.rate_bits_per_s,
            "block": format_size(self.block_bytes),
            "block_bytes": self.block_bytes,
            "op": self.op,
            "depth": self.depth,
            "mtu": self.mtu,
        }

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> Conditions:
        """Conditions from the output of `describe`."""
        return cls(**{name: value[name] for name in cls.__dataclass_fields__})
