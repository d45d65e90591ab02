"""The array ends on SIGTERM even if its storage stalls (T-07 of docs/reference/faults.md)."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import ExitStack

import pytest

from tests.peers.array import MIB, Engine, array, lu, need

ROUNDS = 20
DEPTH = 64
ENDED_S_MAX = 5.0
# Accesses run one after the other, one second each: the queued ones need more than a minute.
STALLED = {
    "kind": "array",
    "controller": {"command_us": 1_000_000, "data_us_per_mib": 0},
    "groups": [
        {"raid": "raid0", "drives": 1, "stripe_unit_bytes": MIB, "drive": {"kind": "preset", "name": "sas-15k-146"}}
    ],
}


def await_queue(engine: Engine) -> None:
    """Wait until most of the queue is at the controller."""
    before = None
    while True:
        sample = engine.wait_for("sample")
        queue_s = sample["counters"]["controller"]["queue_ns"] / 1e9
        now_s = sample["at_ns"] / 1e9
        if before is not None and (queue_s - before[0]) / (now_s - before[1]) > DEPTH / 2:
            return
        before = (queue_s, now_s)


@pytest.mark.alone
def test_sigterm_ends_the_array_in_five_seconds_while_its_storage_is_stalled() -> None:
    perf = need("iscsi-perf", "libiscsi-bin")
    with ExitStack() as stack:
        arrays = []
        for _ in range(ROUNDS):
            unit = lu(0, MIB, placement={"group": 0, "offset_bytes": 0})
            arrays.append(stack.enter_context(array(unit, model=STALLED, sample_interval_ms=100)))
            arrays[-1].engine.send({"type": "start", "at_ns": 0})
            command = [perf, "-m", str(DEPTH), "-b", "8", "-t", "60", arrays[-1].url()]
            load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(load.wait)
            stack.callback(load.kill)
        durations_s = []
        for stalled in arrays:
            await_queue(stalled.engine)
            signalled = time.monotonic()
            stalled.engine.process.send_signal(signal.SIGTERM)
            stalled.engine.process.wait(60)
            durations_s.append(time.monotonic() - signalled)
            assert stalled.engine.process.returncode == 0
    assert max(durations_s) <= ENDED_S_MAX, durations_s
