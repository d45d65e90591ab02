"""The progress display of a run."""

from __future__ import annotations

import errno
import io
import json
import os
from dataclasses import replace

import pytest
from hakaru.engine.contract import NamedHistogram, Sample
from hakaru.kinds.copy.meter import CopyMeter
from hakaru.kinds.vms.meter import VmsMeter, rates_of, result_of
from hakaru.run.progress import Events, Lines, Terminal, duration
from hakaru.run.publisher import Publisher
from hakaru.store import Histograms, Samples
from hakaru.study import Point, Repetition
from hdrh.histogram import HdrHistogram

TURN = Repetition(Point("p01", {"pattern": "random-32k", "vms": 7}), 2, 3)


def encoded(latency_ns: int) -> str:
    """Encode a histogram with one value, in the same size as an engine does."""
    hdr = HdrHistogram(1, 2 * latency_ns, 3)
    hdr.record_value(latency_ns, 100)
    return str(hdr.encode().decode())


def sample(at_s: float, reads: float, latency_ns: int | None = None) -> Sample:
    histograms = []
    if latency_ns is not None:
        histograms = [NamedHistogram(entity="vms", name="read_latency_ns", hdr=encoded(latency_ns))]
    counters = {"vms": {"reads": reads, "writes": 0.0, "read_bytes": reads * 1000, "write_bytes": 0.0}}
    return Sample(at_ns=int(at_s * 1e9), counters=counters, histograms=histograms)


def test_meter_sums_hosts_and_merges_their_histograms() -> None:
    meter = VmsMeter(2)
    assert meter.add("a", sample(1, 0)) is None
    assert meter.add("b", sample(1, 0)) is None
    assert meter.add("a", sample(3, 200, 1_000_000)) is None
    rates = meter.add("b", sample(2, 50, 9_000_000))
    assert rates is not None
    assert rates.values["iops"] == pytest.approx(150)
    assert rates.values["mb_per_s"] == pytest.approx(0.15)
    assert rates.values["latency_ms_p99"] == pytest.approx(9, rel=0.01)


def test_meter_adds_histograms_without_walking_their_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk(*_: object) -> None:
        raise AssertionError("HdrHistogram.add counts every value in Python, on the CPUs that engines share")

    monkeypatch.setattr(HdrHistogram, "add", walk)
    meter = VmsMeter(1)
    meter.add("a", sample(1, 0))
    rates = meter.add("a", sample(2, 200, 1_000_000))
    assert rates is not None and rates.values["latency_ms_p99"] == pytest.approx(1, rel=0.01)


def test_meter_without_a_request_has_no_latency() -> None:
    meter = VmsMeter(1)
    meter.add("a", sample(1, 0))
    assert meter.add("a", sample(2, 0)) == rates_of(0, 0, None)


def test_json_events_are_valid_lines() -> None:
    stream = io.StringIO()
    events = Events(Publisher(), stream)
    events.phase("lab", "4 hosts", 90)
    events.turn(TURN, 2, 12, 60)
    events.now(TURN, rates_of(3280.4, 107.5, None), {"drives": 3.5}, 59.6)
    events.result(TURN, rates_of(3000, 100, 7.5))
    events.event("done", run="x")
    read = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [e["event"] for e in read] == ["phase", "repetition_started", "sample", "result", "done"]
    assert read[2]["iops"] == 3280.4
    assert read[2]["latency_ms_p99"] is None
    assert (read[2]["text"], read[2]["queues"]) == ("3,280 IOPS, 108 MB/s", {"drives": 3.5})
    assert (read[3]["point"], read[3]["iops"], read[3]["latency_ms_p99"]) == ("p01", 3000, 7.5)


def test_plain_lines_show_the_result_of_a_repetition_not_its_last_interval() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    lines.turn(TURN, 2, 12, 65)
    lines.now(TURN, rates_of(1, 1, 1), {}, 60)
    lines.result(TURN, rates_of(3280.4, 107.52, 120.3))
    assert stream.getvalue().splitlines() == [
        "load 3/12: random-32k, vms 7, repetition 2 (1:05 left)",
        "  result: 3,280 IOPS, 108 MB/s, p99 120 ms",
    ]


class WithoutReader(io.StringIO):
    """Standard error whose reader, such as `head`, has ended."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def test_run_continues_when_its_lines_can_no_longer_be_written() -> None:
    lines = Lines(WithoutReader())
    lines.turn(TURN, 2, 12, 65)
    lines.result(TURN, rates_of(3280.4, 107.52, 120.3))


class Tty(io.StringIO):
    """A terminal, on which the line of progress is drawn."""

    def isatty(self) -> bool:
        return True


def test_level_in_brackets_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    stream = Tty()
    terminal = Terminal(stream)
    terminal.turn(Repetition(Point("p01", {"net": "lan [/24]"}), 1, 1), 0, 12, 65)
    terminal.close()
    assert "net lan [/24]" in stream.getvalue()


def test_terminal_keeps_the_result_of_each_repetition_above_its_line() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    for repetition, rate in ((1, 3280.4), (2, 3290.4)):
        turn = replace(TURN, repetition=repetition)
        terminal.turn(turn, repetition + 1, 12, 65)
        terminal.now(turn, rates_of(1, 1, 1), {}, 60)
        terminal.result(turn, rates_of(rate, 107.52, 120.3))
    terminal.close()
    # Lines of results end where the line of progress begins, with a sequence of the terminal.
    lines = [line for line in stream.getvalue().splitlines() if "repetition" in line]
    assert [line.strip() for line in lines] == [
        "load 3/12: random-32k, vms 7, repetition 1: 3,280 IOPS, 108 MB/s, p99 120 ms",
        "load 4/12: random-32k, vms 7, repetition 2: 3,290 IOPS, 108 MB/s, p99 120 ms",
    ]


def test_result_covers_only_the_measuring_phase() -> None:
    samples, histograms = Samples(), Histograms()
    # 500 requests per second in the measuring phase, fewer before and after it.
    for second, reads in enumerate((0, 1, 2, 502, 1002, 1502, 1503)):
        counters = {"reads": reads, "read_bytes": reads * 1000, "writes": 0, "write_bytes": 0}
        samples.add("a", "initiator", second * 10**9, {"vms": counters})
    histograms.add("a", "initiator", None, [{"entity": "vms", "name": "read_latency_ns", "hdr": encoded(4_000_000)}])
    rates = result_of((2 * 10**9, 5 * 10**9), samples, histograms, has_closed_form=False)
    assert rates.text == "500 IOPS, 0.500 MB/s, p99 4.00 ms"


def test_durations_are_minutes_and_seconds() -> None:
    assert [duration(s) for s in (-1, 5, 65, 3723)] == ["0:00", "0:05", "1:05", "1:02:03"]


def copied(at_s: float, megabytes: float) -> Sample:
    counters = {"backups": {"written_bytes": megabytes * 1e6}, "backup/vm01": {"read_bytes": megabytes * 1e6}}
    return Sample(at_ns=int(at_s * 1e9), counters=counters)


def test_copy_meter_shows_the_rate_and_the_progress_of_each_job() -> None:
    meter = CopyMeter(1, 100_000_000)
    assert meter.add("a", copied(1, 0)) is None
    rates = meter.add("a", copied(2, 25))
    assert rates is not None and rates.values == {"mib_per_s": 23.842, "copied_percent": {"vm01": 25.0}}
    assert rates.text == "23.8 MiB/s, vm01 25 %"
    done = meter.add("a", copied(3, 100))
    assert done is not None and done.text == "71.5 MiB/s, vm01 done"
