"""Recorded TCP series in the summary of every kind of study."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hakaru.analysis import summarise
from hakaru.store import TCP

from tests.analysis import small_backup, small_run


def record_series(run: Path, start: int) -> None:
    """Record a connection whose timer fires twice within the first second of p01, and once before
    the measurement.
    """
    readings = [
        (-900, 0, 40, 1, 0),
        (-800, 4, 40, 1, 1),
        (-700, 0, 50, 0, 1),
        (100, 0, 60, 1, 1),
        (300, 4, 60, 1, 2),
        (500, 4, 60, 1, 3),
        (600, 0, 70, 0, 3),
    ]
    states = {0: "open", 4: "loss"}
    rows = [
        {"node": "a", "source": "sock_diag", "local": "x", "peer": "y", "socket": 1, "at_ns": start + ms * 1_000_000,
         "within_ns": 0, "congestion_state": states[state], "acked_bytes": acked, "unacked_segments": unacked,
         "timeouts": count}
        for ms, state, acked, unacked, count in readings
    ]  # fmt: skip
    (run / "tcp").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=TCP), run / "tcp" / "p01-1.parquet")


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
    assert (series["connections"], series["timeouts"], series["traced"]) == (1, 2, 0)
    assert series["silence_s_max"] == pytest.approx(0.4)
    assert series["recovery_s"] == pytest.approx(0.3 + 0.1)
    (finding,) = [f for f in summary["findings"] if f["kind"] == "tcp_series"]
    assert "2 retransmission timeouts on 1 connections" in finding["text"]
    assert "400 ms" in finding["text"] and "400 ms" in finding["text_ja"]


def test_a_run_without_series_has_none(tmp_path: Path) -> None:
    run = small_run.write_run(tmp_path, [small_run.Pt({"vms": 1}, [small_run.Rep()])])
    assert "tcp_series" not in summarise(run)["points"][0]
