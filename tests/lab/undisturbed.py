"""Labs whose links are measured while this machine, or the host beneath it, may have something else
to do.

Whether links *can* carry what was asked shows only while nothing else runs, so a lab whose checks
were disturbed is built again, up to `LABS_MAX` times. A virtual machine may have a host that takes
CPU all along, and counts it (`steal`). Then a test of rates ends as skipped, naming the share; that
the lab *said* so is tested first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LABS_MAX = 6
# Of all CPU time, in the calmest of the attempts. A link of 1 Gbit/s leaves its 1 % when 1 ms in
# 100 is missing.
STOLEN_MIN = 0.01
# A host that steals does not excuse more than this.
OFF_MAX_PERCENT = 5.0


def _ticks() -> tuple[int, int]:
    """Stolen, and all, since boot."""
    cpu = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return cpu[7], sum(cpu)


def as_asked(build: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What `build` tells, of the first lab whose links are all as asked; of the last one if none
    is.

    `build` gives lines of a scenario, the first with `lab` and perhaps `caveats`.
    """
    shares: list[float] = []
    lines: list[dict[str, Any]] = []
    for _ in range(LABS_MAX):
        stolen, total = _ticks()
        lines = build()
        if not off(lines[0]):
            return lines
        stolen_since, total_since = _ticks()
        shares.append((stolen_since - stolen) / max(1, total_since - total))
    if min(shares) >= STOLEN_MIN:
        for check in off(lines[0]):
            assert abs(check["error_percent"]) < OFF_MAX_PERCENT, check
        if "caveats" in lines[0]:
            named = [caveat for caveat in lines[0]["caveats"] if caveat["caveat"] == "link_off_rate"]
            assert len(named) == len(off(lines[0])), "each is said"
        pytest.skip(f"the host took {min(shares):.1%} to {max(shares):.1%} of this machine's CPU: links were off by it")
    return lines


def off(first: dict[str, Any]) -> list[dict[str, Any]]:
    """The checks of a lab that are not as asked."""
    return [check for check in first["lab"]["checks"] if not check["as_asked"]]
