"""TCP connections watched by the real engine: its sources agree with each other and with `ss`, and
a planted timeout is found.
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

from tests.peers.array import need
from tests.watch.scenario import RTO_MIN_MS

ROOT = Path(__file__).resolve().parents[2]
# Tracepoints belong to the machine: root of a user namespace may not open them.
UNSHARE = {"on": ["unshare", "--net"], "auto": ["unshare", "--user", "--map-root-user", "--net"]}

# Order of events and readings. The kernel locks a socket while it processes a segment or a timer,
# with their events, and while it copies the fields of a reading. The exception is the congestion
# window, which a reading copies before it waits for the lock.
#
# So a reading has all changes that belong to events before its start, apart from the window, and
# none of those that belong to events after its end. Its window has the changes of all events before
# the start of the reading before it, which has waited for them.


class WatchedScenario:
    """The report of a scenario and its series."""

    def __init__(self, scenario: str, trace: str, folder: Path) -> None:
        need("ethtool", "ethtool")
        need("ss", "iproute2")
        unshare = UNSHARE[trace]
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
            pytest.skip(f"{' '.join(unshare)} is forbidden here")
        series = folder / "a.series"
        done = subprocess.run(
            [*unshare, sys.executable, "-m", "tests.watch.scenario", find_engine(), series, scenario, trace],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")])},
        )
        assert done.returncode == 0, done.stderr
        self.report: dict[str, Any] = json.loads(done.stdout)
        read = read_series(series)
        assert not read.cut
        self.table = series_table("a", read)

    def rows_of(self, *sources: str) -> pa.Table:
        """Return the rows of these sources in order."""
        return self.table.filter(pc.is_in(self.table["source"].cast(pa.string()), pa.array(sources)))


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> WatchedScenario:
    """Run a traced flow that loses every 400th segment."""
    if os.geteuid() != 0:
        pytest.skip("only root may trace")
    return WatchedScenario("loss", "on", tmp_path_factory.mktemp("lossy"))


def column(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    values: np.ndarray[Any, Any] = table[name].to_numpy()
    return values


def test_trace_and_readings_agree_on_the_congestion_window_at_every_common_instant(lossy: WatchedScenario) -> None:
    readings, probes = lossy.rows_of("sock_diag"), lossy.rows_of("tcp_probe")
    assert lossy.report["values"]["tcp_events_lost"] == 0
    at, until = column(readings, "at_ns"), column(readings, "at_ns") + column(readings, "within_ns")
    window = column(readings, "congestion_window_segments")
    probe_at, probe_window = column(probes, "at_ns"), column(probes, "congestion_window_segments")
    after = np.searchsorted(probe_at, until, side="right")
    # Readings between two probes, with no probe during the reading.
    common = (after == np.searchsorted(probe_at, at, side="left")) & (after > 0) & (after < len(probe_at))
    before = after[common] - 1
    unchanged = probe_window[before] == probe_window[before + 1]
    # A probe has the window before its segment, including changes since the probe before it.
    # Between both probes only timers of the kernel (retransmission, reordering) can change the
    # window, and they have events of their own.
    timers = column(lossy.rows_of("state", "retransmit"), "at_ns")
    first, last = np.searchsorted(timers, probe_at[before]), np.searchsorted(timers, probe_at[before + 1])
    undisturbed = first == last
    assert (window[common] == probe_window[before])[unchanged & undisturbed].all()
    assert (unchanged & undisturbed).sum() > 200
    as_later = window[common] == probe_window[before + 1]
    reading_before = np.concatenate([np.zeros(1, at.dtype), at[:-1]])
    settled = reading_before[common] > probe_at[before]
    assert as_later[undisturbed & settled].all()
    assert (as_later | (window[common] == probe_window[before]))[undisturbed].all()
    assert (undisturbed & settled).sum() > 200
    # The comparison covers enough readings and changes.
    assert common.sum() > 200
    assert len(np.unique(window[common])) > 10
    assert (~unchanged).sum() > 10


def test_trace_and_readings_agree_on_retransmissions(lossy: WatchedScenario) -> None:
    readings, again_at = lossy.rows_of("sock_diag"), column(lossy.rows_of("retransmit"), "at_ns")
    at, until = column(readings, "at_ns"), column(readings, "at_ns") + column(readings, "within_ns")
    # An event is about a packet, which may hold several segments; the counter counts segments.
    grew = np.diff(column(readings, "retransmits"))
    certain = np.searchsorted(again_at, at[1:]) - np.searchsorted(again_at, until[:-1], side="right")
    possible = np.searchsorted(again_at, until[1:], side="right") - np.searchsorted(again_at, at[:-1])
    assert (grew >= certain).all()
    assert ((grew == 0) | (possible > 0)).all()
    assert grew.sum() >= len(again_at) > 10


def test_trace_and_readings_agree_on_the_round_trip_time(lossy: WatchedScenario) -> None:
    readings, probes = lossy.rows_of("sock_diag"), lossy.rows_of("tcp_probe")
    rtt = column(readings, "rtt_us")
    assert set(column(probes, "rtt_us")[1:]) & set(rtt)
    assert rtt.min() > 19_000, "20 ms of the wire, less the coarser resolution of its clock"


def test_ss_agrees_with_trace_and_readings(lossy: WatchedScenario) -> None:
    rows = lossy.rows_of("sock_diag", "tcp_probe")
    at, window = column(rows, "at_ns"), column(rows, "congestion_window_segments")
    compared = 0
    for began, ended, ss_window in lossy.report["ss"]:
        # The windows while `ss` ran: from the last row before its start to the first row after its
        # end.
        first, last = np.searchsorted(at, began) - 1, np.searchsorted(at, ended, side="right") + 1
        if first < 0 or last > len(at):
            continue
        windows = set(window[first:last])
        assert min(windows) <= ss_window <= max(windows)
        # The window grows by a segment in each round trip, and `ss` runs for several on a busy
        # machine.
        compared += max(windows) - min(windows) <= 4
    assert compared > 5


def test_a_planted_timeout_is_found_and_named_by_the_trace(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may trace")
    watched = WatchedScenario("timeout", "on", tmp_path)
    check_timeout(watched, traced=True)
    assert watched.report["found"]["trace"]
    assert column(watched.rows_of("retransmit"), "at_ns").tolist() == [
        pytest.approx(timeouts(watched.table)[0].at_ns, abs=10**7)
    ]


def test_a_planted_timeout_is_found_and_named_without_any_privilege(tmp_path: Path) -> None:
    watched = WatchedScenario("timeout", "auto", tmp_path)
    assert not watched.report["found"]["trace"]
    assert "CAP_" in watched.report["found"]["why_not_traced"]
    assert set(watched.table["source"].to_pylist()) == {"sock_diag"}
    check_timeout(watched, traced=False)


def check_timeout(watched: WatchedScenario, *, traced: bool) -> None:
    """Check that one segment was lost and recovered by a timeout of at least `RTO_MIN_MS`."""
    assert watched.report["left_to_lose"] == 0, "the planted loss occurred"
    (timeout,) = timeouts(watched.table)
    assert timeout.local == watched.report["local"]
    assert timeout.traced is traced
    assert timeout.silent_ns is not None
    assert timeout.over_ns is not None
    rto_min_ns = RTO_MIN_MS * 10**6
    assert timeout.silent_ns >= rto_min_ns
    # A busy machine may read the end of the timeout late.
    latest_ns = watched.report["ended_ns"] + rto_min_ns
    assert watched.report["began_ns"] + rto_min_ns <= timeout.at_ns < timeout.over_ns <= latest_ns
    readings = watched.rows_of("sock_diag")
    count, state = column(readings, "timeouts"), readings["congestion_state"].to_pylist()
    if np.isnan(count.astype(float)).all():
        pytest.skip("this kernel (before 6.7) counts no timeouts")
    assert (count[0], count[-1]) == (0, 1)
    assert "loss" in state
    assert column(readings, "retransmits")[-1] == 1
    # During the wait one segment was in flight, nothing was left to send, and no acknowledgement
    # came: a busy machine may read the last part of the wait late.
    fired = int(np.argmax(count > 0))
    assert column(readings, "unacked_segments")[fired - 1] == 1
    assert column(readings, "not_sent_bytes")[fired - 1] == 0
    assert column(readings, "ack_received_ago_ms")[: fired + 1].max() >= RTO_MIN_MS / 2
