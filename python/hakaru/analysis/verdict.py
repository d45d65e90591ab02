"""What gave out first, with the numbers that say so: what `limiter` and `backup.limiter` come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNDETERMINED = "undetermined"


@dataclass(frozen=True)
class Verdict:
    """The limiter, the resource behind it, and the numbers that say so."""

    limiter: str
    """`drives`, `controller`, `port`, `link`, `generator_cpu`, `array_cpu`, `machine_cpu`, `fabric` or `undetermined`;
    of a backup also `switch_buffer`, `congestion_marks` and `rate_limit`."""
    resource: str | None
    evidence: dict[str, Any]

    @property
    def tester_limited(self) -> bool:
        """Whether it is the tool or its machine that gave out."""
        return self.limiter in ("generator_cpu", "machine_cpu", "fabric")
