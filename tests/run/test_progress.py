"""What is shown while a run goes on."""

from __future__ import annotations

import io
import json

import pytest
from hakaru.engine.contract import NamedHistogram, Sample
from hakaru.run.meter import Meter, Now
from hakaru.run.progress import JsonLines, Lines, duration, now_text
from hakaru.study import Point, Repetition
from hdrh.histogram import HdrHistogram

TURN = Repetition(Point("p01", {"pattern": "random-32k", "vms": 7}), 2, 3)


def sample(at_s: float, reads: float, latency_ns: int | None = None) -> Sample:
    histograms = []
    if latency_ns is not None:
        hdr = HdrHistogram(1, 3_600_000_000_000, 3)
        hdr.record_value(latency_ns, 100)
        histograms = [NamedHistogram(entity="vms", name="read_latency_ns", hdr=hdr.encode().decode())]
    counters = {"vms": {"reads": reads, "writes": 0.0, "read_bytes": reads * 1000, "write_bytes": 0.0}}
    return Sample(at_ns=int(at_s * 1e9), counters=counters, histograms=histograms)


def test_meter_sums_hosts_and_merges_their_histograms() -> None:
    meter = Meter(2)
    assert meter.add("a", sample(1, 0)) is None
    assert meter.add("b", sample(1, 0)) is None
    assert meter.add("a", sample(3, 200, 1_000_000)) is None
    now = meter.add("b", sample(2, 50, 9_000_000))
    assert now is not None
    assert now.iops == pytest.approx(150)
    assert now.mb_per_s == pytest.approx(0.15)
    assert now.latency_ms_p99 == pytest.approx(9, rel=0.01)


def test_meter_without_a_request_has_no_latency() -> None:
    meter = Meter(1)
    meter.add("a", sample(1, 0))
    assert meter.add("a", sample(2, 0)) == Now(0, 0, None)


def test_json_events_are_valid_lines() -> None:
    stream = io.StringIO()
    events = JsonLines(stream)
    events.phase("lab", "4 hosts", 90)
    events.turn(TURN, 2, 12, 60)
    events.now(TURN, Now(3280.4, 107.5, None), 59.6)
    events.event("done", run="x")
    read = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [e["event"] for e in read] == ["phase", "repetition_started", "sample", "done"]
    assert read[2]["iops"] == 3280.4
    assert read[2]["latency_ms_p99"] is None


def test_plain_lines_name_point_rate_p99_and_time_left() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    lines.turn(TURN, 2, 12, 65)
    lines.now(TURN, Now(3280.4, 107.52, 120.3), 60)
    lines.event("repetition")
    assert stream.getvalue().splitlines() == [
        "load 3/12: random-32k, vms 7, repetition 2 (1:05 left)",
        "  3,280 IOPS, 108 MB/s, p99 120 ms",
    ]


def test_durations_are_minutes_and_seconds() -> None:
    assert [duration(s) for s in (-1, 5, 65, 3723)] == ["0:00", "0:05", "1:05", "1:02:03"]


def copied(at_s: float, megabytes: float) -> Sample:
    counters = {"backups": {"written_bytes": megabytes * 1e6}, "backup/vm01": {"read_bytes": megabytes * 1e6}}
    return Sample(at_ns=int(at_s * 1e9), counters=counters)


def test_copy_shows_what_arrives_and_how_far_each_job_is() -> None:
    meter = Meter(1, 100_000_000)
    assert meter.add("a", copied(1, 0)) is None
    now = meter.add("a", copied(2, 25))
    assert now == Now(0.0, 25.0, None, {"vm01": 25.0})
    assert now is not None and now_text(now) == "25 MB/s, vm01 25 %"
    done = meter.add("a", copied(3, 100))
    assert done is not None and now_text(done) == "75 MB/s, vm01 done"
