"""The offset between two clocks, with known answers: constructed exchanges, one clock of this
machine read by two processes, and a clock that a time namespace has moved. No guest is booted.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hakaru.engine.binary import find_engine
from hakaru.engine.offset import ClockOffset, ClockRecord, Exchange, estimate, measure

MOVED_S = 1000


def test_shortest_round_trip_decides_and_bounds_the_offset() -> None:
    # The other clock is 1000 ahead and was read at once, in the middle, and at the end.
    exchanges = [Exchange(0, 1000, 90), Exchange(100, 1105, 110), Exchange(200, 1300, 300)]
    assert estimate(exchanges) == ClockOffset(offset_ns=1000, bound_ns=5, at_ns=105, exchanges=3)


def test_true_offset_is_within_the_bound_wherever_the_other_clock_was_read() -> None:
    for sent, received in ((0, 10), (0, 11), (7, 7), (7, 8)):
        for read in range(sent, received + 1):
            offset = estimate([Exchange(sent, read + 1000, received)])
            assert abs(offset.offset_ns - 1000) <= offset.bound_ns


def test_drift_follows_from_two_offsets() -> None:
    start, end = ClockOffset(1000, 5, 0, 1), ClockOffset(3000, 15, 1_000_000_000, 1)
    assert ClockRecord(start).drift_ppm is None
    record = ClockRecord(start, end)
    assert record.drift_ppm == pytest.approx(2.0) and record.drift_bound_ppm == pytest.approx(0.02)
    assert record.describe()["end"]["offset_ns"] == 3000


@asynccontextmanager
async def clock_of(*command: str) -> AsyncIterator[ClockOffset]:
    """Measure the clock of `hakaru-engine clock`, started by `command`."""
    process = await asyncio.create_subprocess_exec(
        *command, find_engine(), "clock", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def ask() -> int:
        stdin.write(b"now\n")
        line = await stdout.readline()
        word, at_ns = line.split()
        assert word == b"now"
        return int(at_ns)

    try:
        yield await measure(ask)
    finally:
        stdin.close()
        assert await process.wait() == 0


def test_same_clock_has_the_offset_zero() -> None:
    async def work() -> None:
        async with clock_of() as offset:
            assert abs(offset.offset_ns) <= offset.bound_ns < 1_000_000_000

    asyncio.run(work())


def test_time_namespace_moves_the_clock_by_a_known_amount() -> None:
    command = ("unshare", "--user", "--map-root-user", "--time", "--monotonic", str(MOVED_S))
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode != 0:
        pytest.skip("time namespaces are not available")

    async def work() -> None:
        async with clock_of(*command) as offset:
            assert abs(offset.offset_ns - MOVED_S * 10**9) <= offset.bound_ns < 1_000_000_000

    asyncio.run(work())
