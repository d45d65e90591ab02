"""Recorded TCP series in the summary of every kind of study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hakaru.analysis import summarise
from hakaru.analysis.tcp_series import Timeout, recovering_ns
from hakaru.store import TCP

from tests.analysis import small_backup, small_run

STATES = {0: "open", 4: "loss"}
Reading = tuple[int, int, int, int, int]
"""Milliseconds after the start of the measuring phase, state, bytes acknowledged, segments in
flight, timeouts.
"""
FIRES_TWICE: list[Reading] = [
    (-900, 0, 40, 1, 0),
    (-800, 4, 40, 1, 1),
    (-700, 0, 50, 0, 1),
    (100, 0, 60, 1, 1),
    (300, 4, 60, 1, 2),
    (500, 4, 60, 1, 3),
    (600, 0, 70, 0, 3),
]
"""A timer that fires twice within the first second of the measurement, and once before it."""
RECEIVES: list[Reading] = [(-900, 0, 0, 0, 0), (600, 0, 0, 0, 0)]


def record_series(run: Path, start: int, repetition: int = 1) -> None:
    """Record a connection of p01 at both of its ends, and a connection without timeouts at one; a
    watch has lost events.
    """

    def of_socket(node: str, socket: int, local: str, peer: str, readings: list[Reading]) -> list[dict[str, Any]]:
        common = {"source": "sock_diag", "node": node, "socket": socket, "local": local, "peer": peer, "within_ns": 0}
        return [
            common
            | {"at_ns": start + ms * 1_000_000, "congestion_state": STATES[state], "acked_bytes": acked}
            | {"unacked_segments": unacked, "timeouts": count}
            for ms, state, acked, unacked, count in readings
        ]

    rows = [
        *of_socket("a", 1, "x", "y", FIRES_TWICE),
        *of_socket("b", 2, "y", "x", RECEIVES),
        *of_socket("a", 3, "x", "z", RECEIVES),
        {"node": "a", "source": "lost", "at_ns": start + 400_000_000, "lost_events": 12},
    ]
    (run / "tcp").mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=TCP), run / "tcp" / f"p01-{repetition}.parquet")


@pytest.mark.parametrize("kind", ["vms", "copy"])
def test_recorded_timeouts_are_counted_and_reported(tmp_path: Path, kind: str) -> None:
    if kind == "vms":
        run = small_run.write_run(tmp_path, [small_run.Pt({"vms": 1}, [small_run.Rep()])])
        record_series(run, small_run.START)
    else:
        run = small_backup.write_run(tmp_path, [small_backup.Pt({"case": "unthrottled"}, [small_backup.FULL])])
        record_series(run, small_backup.START)
    summary = summarise(run)
    series = summary["points"][0]["tcp_series"]
    assert (series["connections"], series["timeouts"], series["traced"]) == (2, 2, 0)
    assert series["silence_s_max"] == pytest.approx(0.4)
    # The recovery lasts from the first expiry, at 0.3 s, to 0.6 s.
    assert series["recovery_s"] == pytest.approx(0.3)
    (finding,) = [f for f in summary["findings"] if f["kind"] == "tcp_series"]
    assert "of 2 connections show 2 retransmission timeouts in 1 repetition." in finding["text"]
    assert "2 コネクションの TCP 時系列では、繰り返し 1 回で再送タイムアウトが合計 2 回" in finding["text_ja"]
    assert "400 ms" in finding["text"] and "400 ms" in finding["text_ja"]


def test_connections_are_those_of_one_repetition_and_times_those_of_all(tmp_path: Path) -> None:
    run = small_run.write_run(tmp_path, [small_run.Pt({"vms": 1}, [small_run.Rep()] * 2)])
    record_series(run, small_run.START)
    record_series(run, small_run.START, repetition=2)
    summary = summarise(run)
    series = summary["points"][0]["tcp_series"]
    assert (series["repetitions"], series["connections"], series["timeouts"]) == (2, 2, 4)
    assert series["recovery_s"] == pytest.approx(0.6)
    (finding,) = [f for f in summary["findings"] if f["kind"] == "tcp_series"]
    assert "of 2 connections show 4 retransmission timeouts in 2 repetitions." in finding["text"]


def timeout(at_ns: int, over_ns: int | None, ends: tuple[str, str] = ("x", "y"), last_ns: int = 2_100) -> Timeout:
    return Timeout("a", *ends, at_ns=at_ns, traced=True, silent_ns=None, over_ns=over_ns, last_ns=last_ns)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], 0),
        ([timeout(0, 1000), timeout(200, 1000), timeout(600, 1000)], 1000),
        ([timeout(0, 100), timeout(200, 500)], 400),
        ([timeout(0, 300), timeout(100, 300, ("y", "x"))], 300),
        ([timeout(0, 300), timeout(100, 300, ("x", "z"))], 500),
        ([timeout(-500, 100), timeout(1900, 2500)], 200),
        ([timeout(-500, -100), timeout(1500, None)], 500),
        ([timeout(100, None, last_ns=400), timeout(300, None, last_ns=400)], 300),
    ],
    ids=["none", "consecutive", "separate", "both-ends", "two-connections", "borders", "unfinished", "ended"],
)
def test_each_instant_of_recovery_counts_once_per_connection(found: list[Timeout], expected: int) -> None:
    assert recovering_ns(found, (0, 2000)) == expected


def test_a_run_without_series_has_none(tmp_path: Path) -> None:
    run = small_run.write_run(tmp_path, [small_run.Pt({"vms": 1}, [small_run.Rep()])])
    assert "tcp_series" not in summarise(run)["points"][0]
