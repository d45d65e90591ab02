"""Single TCP connections, watched by the real engine: its sources agree, `ss` agrees, a planted
timeout is found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hakaru.analysis.tcp_series import timeouts
from hakaru.engine.binary import find_engine
from hakaru.store import read_series, series_table

ROOT = Path(__file__).resolve().parents[2]
# Tracepoints are the machine's: root of a user namespace may not open them.
ALONE = {"on": ["unshare", "--net"], "auto": ["unshare", "--user", "--map-root-user", "--net"]}

# The kernel reads a connection without waiting for what it is just doing to it: a segment's event
# is stamped before the segment is looked at, and a reading made in between shows a part of what it
# changes.
SETTLED_NS = 1_000_000


class Seen:
    """What a scenario said, and the series of it."""

    def __init__(self, what: str, trace: str, folder: Path) -> None:
        alone = ALONE[trace]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
            pytest.skip(f"{' '.join(alone)} is forbidden here")
        series = folder / "a.series"
        done = subprocess.run(
            [*alone, sys.executable, "-m", "tests.watch.scenario", find_engine(), series, what, trace],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")])},
        )
        assert done.returncode == 0, done.stderr
        self.said: dict[str, Any] = json.loads(done.stdout)
        read = read_series(series)
        assert not read.cut
        self.table = series_table("a", read)

    def of(self, *sources: str) -> pa.Table:
        """Rows of some sources, in order."""
        return self.table.filter(pc.is_in(self.table["source"].cast(pa.string()), pa.array(sources)))


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """A flow that loses every 400th segment, traced."""
    if os.geteuid() != 0:
        pytest.skip("only root may trace")
    return Seen("loss", "on", tmp_path_factory.mktemp("lossy"))


def column(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = table[name].to_numpy()
    return found


def test_trace_and_readings_agree_on_the_congestion_window_at_every_common_instant(lossy: Seen) -> None:
    readings, probes = lossy.of("sock_diag"), lossy.of("tcp_probe")
    assert lossy.said["values"]["tcp_events_lost"] == 0
    at, until = column(readings, "at_ns"), column(readings, "at_ns") + column(readings, "within_ns")
    window = column(readings, "congestion_window_segments")
    probe_at, probe_window = column(probes, "at_ns"), column(probes, "congestion_window_segments")
    after = np.searchsorted(probe_at, until, side="right")
    # Between two probes, none of them while the kernel was reading, and both there.
    common = (after == np.searchsorted(probe_at, at, side="left")) & (after > 0) & (after < len(probe_at))
    before = after[common] - 1
    same = probe_window[before] == probe_window[before + 1]
    assert (window[common][same] == probe_window[before][same]).all()
    # A probe tells the window as it was until then: also where it changed since the probe before
    # it. Between the two only the kernel's timers can have changed it (retransmission, reordering),
    # and they tell of themselves.
    timers = column(lossy.of("state", "retransmit"), "at_ns")
    first, last = np.searchsorted(timers, probe_at[before]), np.searchsorted(timers, probe_at[before + 1])
    undisturbed = first == last
    as_later = window[common] == probe_window[before + 1]
    settled = at[common] - probe_at[before] > SETTLED_NS
    assert as_later[undisturbed & settled].all()
    assert (as_later | (window[common] == probe_window[before]))[undisturbed].all()
    assert (undisturbed & settled).sum() > 200
    # That was no agreement about nothing.
    assert common.sum() > 200
    assert len(np.unique(window[common])) > 10
    assert (~same).sum() > 10


def test_trace_and_readings_agree_on_when_was_sent_again(lossy: Seen) -> None:
    readings, again_at = lossy.of("sock_diag"), column(lossy.of("retransmit"), "at_ns")
    at, until = column(readings, "at_ns"), column(readings, "at_ns") + column(readings, "within_ns")
    # An event is of one packet, which may hold several segments; the counter counts segments.
    grew = np.diff(column(readings, "retransmits"))
    certain = np.searchsorted(again_at, [until[:-1] + SETTLED_NS, at[1:] - SETTLED_NS])
    possible = np.searchsorted(again_at, [at[:-1] - SETTLED_NS, until[1:] + SETTLED_NS])
    assert (grew >= certain[1] - certain[0]).all()
    assert ((grew == 0) | (possible[1] > possible[0])).all()
    assert grew.sum() >= len(again_at) > 10


def test_trace_and_readings_agree_on_the_round_trip_time(lossy: Seen) -> None:
    readings, probes = lossy.of("sock_diag"), lossy.of("tcp_probe")
    rtt = column(readings, "rtt_us")
    assert set(column(probes, "rtt_us")[1:]) & set(rtt)
    assert rtt.min() > 19_000, "20 ms of the wire, less what its clock is coarser than the kernel's"


def test_ss_agrees_with_both(lossy: Seen) -> None:
    rows = lossy.of("sock_diag", "tcp_probe")
    at, window = column(rows, "at_ns"), column(rows, "congestion_window_segments")
    compared = 0
    for began, ended, said in lossy.said["ss"]:
        # What held while `ss` ran: rows from the one before it began to the first that a probe told
        # after it.
        first, last = np.searchsorted(at, began) - 1, np.searchsorted(at, ended, side="right") + 1
        if first < 0 or last > len(at):
            continue
        held = set(window[first:last])
        assert said in held or min(held) <= said <= max(held)
        if len(held) == 1:
            assert said == held.pop()
            compared += 1
    assert compared > 5


def test_a_planted_timeout_is_found_and_named_by_the_trace(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may trace")
    seen = Seen("timeout", "on", tmp_path)
    check_timeout(seen, traced=True)
    assert seen.said["found"]["trace"]
    assert column(seen.of("retransmit"), "at_ns").tolist() == [pytest.approx(timeouts(seen.table)[0].at_ns, abs=10**7)]


def test_a_planted_timeout_is_found_and_named_without_any_privilege(tmp_path: Path) -> None:
    seen = Seen("timeout", "auto", tmp_path)
    assert not seen.said["found"]["trace"]
    assert "CAP_" in seen.said["found"]["why_not_traced"]
    assert set(seen.table["source"].to_pylist()) == {"sock_diag"}
    check_timeout(seen, traced=False)


def check_timeout(seen: Seen, *, traced: bool) -> None:
    """One segment was lost and nothing told of it for the minimum of 200 ms and a round trip."""
    assert seen.said["left_to_lose"] == 0, "the planted loss happened"
    (found,) = timeouts(seen.table)
    assert found.local == seen.said["local"]
    assert found.traced is traced
    assert found.silent_ns is not None
    assert found.over_ns is not None
    assert found.silent_ns >= 200_000_000
    assert seen.said["began_ns"] + 200_000_000 <= found.at_ns < found.over_ns <= seen.said["ended_ns"] + 50_000_000
    readings = seen.of("sock_diag")
    count, state = column(readings, "timeouts"), readings["congestion_state"].to_pylist()
    if np.isnan(count.astype(float)).all():
        pytest.skip("this kernel (before 6.7) counts no timeouts")
    assert (count[0], count[-1]) == (0, 1)
    assert "loss" in state
    assert column(readings, "retransmits")[-1] == 1
    # While it waited: the segment under way, nothing to send, no acknowledgement, for the whole
    # silence.
    fired = int(np.argmax(count > 0))
    assert column(readings, "unacked_segments")[fired - 1] == 1
    assert column(readings, "not_sent_bytes")[fired - 1] == 0
    assert column(readings, "ack_received_ago_ms")[: fired + 1].max() >= 190
