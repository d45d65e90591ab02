"""Repeat link checks that this machine or the host of its virtual machine disturbed.

Links can only be measured reliably while nothing else runs. A lab whose checks were disturbed is
therefore built again, up to `LABS_MAX` times. The host of a virtual machine may use its CPU all the
time, which the kernel counts as `steal`. A test of rates is then skipped with the measured share,
after it has checked that the lab has a caveat about each slow link.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LABS_MAX = 6
# Share of all CPU time, in the attempt with the least. A link of 1 Gbit/s misses its rate by more
# than 1 % if 1 ms in 100 is missing.
STOLEN_MIN = 0.01
# Stolen time explains no larger error than this.
OFF_MAX_PERCENT = 5.0


def _ticks() -> tuple[int, int]:
    """Return the stolen and the total CPU time since boot, in ticks."""
    cpu = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return cpu[7], sum(cpu)


def undisturbed_lines(build: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the result of `build` for the first lab whose links all reach their rates, or for the
    last lab if none does.

    `build` returns lines of a scenario; the first has `lab` and may have `caveats`.
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
            assert len(named) == len(off(lines[0])), "each slow link has a caveat"
        pytest.skip(f"the host took {min(shares):.1%} to {max(shares):.1%} of this machine's CPU: links were off by it")
    return lines


def off(first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the checks of a lab that missed their rates."""
    return [check for check in first["lab"]["checks"] if not check["as_asked"]]
