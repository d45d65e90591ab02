"""Rates and latencies over time are those of all hosts, each of which has its own instants."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hakaru.analysis.counters import Counters
from hakaru.analysis.run_data import Repetition
from hakaru.kinds.vms.analysis import over_time
from hakaru.store import Histograms, Samples

from tests.analysis.run_files import SECOND, alike

START = 1_000 * SECOND
MS = 1_000_000


def repetition(hosts: dict[str, tuple[Sequence[int], Sequence[float]]]) -> Repetition:
    """Return a repetition with 100 reads of each host per interval. `hosts`: instants of the
    samples after the start of the measuring phase in ns, and the latency of each interval in ms.
    """
    samples, histograms = Samples(), Histograms()
    for host, (instants, latencies_ms) in hosts.items():
        spent_ns = 0.0
        for i, at in enumerate(instants):
            spent_ns += 100 * latencies_ms[i - 1] * MS if i else 0
            counters = {"reads": 100.0 * i, "read_bytes": 409_600.0 * i, "read_latency_ns_sum": spent_ns}
            unused = dict.fromkeys(("writes", "write_bytes", "write_latency_ns_sum"), 0.0)
            samples.add(host, "initiator", START + at, {"vms": counters | unused})
            read = alike(latencies_ms[i - 1] * MS, 100) if i else alike(0, 0)
            named = [{"entity": "vms", "name": f"{kind}_latency_ns"} for kind in ("read", "write")]
            both = [each | {"hdr": hdr} for each, hdr in zip(named, (read, alike(0, 0)), strict=True)]
            histograms.add(host, "initiator", START + at, both)
    counters_of_all, window = Counters.of_table(samples.table()), (START, START + 3 * SECOND)
    return Repetition("p01", 1, 1, "done", None, window, "emulated", (), counters_of_all, histograms.table())


def seconds(late_ns: int) -> list[int]:
    """Instants of samples each second, all late (negative: early) by a time of the host."""
    return [i * SECOND + late_ns for i in range(4)]


def test_p99_over_time_is_that_of_the_requests_of_all_hosts() -> None:
    """The slowest host decides the p99 if it has a third of the requests, whichever host comes
    first, and whether it samples slightly before or after the others.
    """
    for late_ns in (-3_000, 0, 3_000, 40 * MS):
        hosts = {
            "host-1": (seconds(0), [1.0, 1.0, 1.0]),
            "host-2": (seconds(late_ns), [5.0, 9.0, 5.0]),
            "host-3": (seconds(1), [1.0, 1.0, 1.0]),
        }
        over = over_time.of_repetition(repetition(hosts))
        assert over["latency_ms_p99"] == pytest.approx([5.0, 9.0, 5.0], rel=0.01), late_ns
        assert over["iops"] == pytest.approx([300, 300, 300], rel=0.05)


def test_an_interval_without_requests_has_no_p99() -> None:
    silent = repetition({"host-1": (seconds(0), [1.0, 1.0, 1.0])})
    with_gap = Repetition(**(vars(silent) | {"histograms": silent.histograms.slice(0, 4)}))
    assert over_time.of_repetition(with_gap)["latency_ms_p99"] == [pytest.approx(1.0, rel=0.01), None, None]
