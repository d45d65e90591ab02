"""The run in progress in the form of Prometheus.

Rates are those of the last second, in base units. They exist only while a repetition is under load,
so a gap in a graph is a gap in the load. Counters of engines are not exported; they are in the run
(docs/reference/metrics.md).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from hakaru.live.state import State
from hakaru.run.queues import LINK

PREFIX = "hakaru_run_"
RATES = {
    "iops": ("requests_per_second", 1.0, "Requests that ended, per second"),
    "mb_per_s": ("bytes_per_second", 1e6, "Bytes moved, per second"),
    "mib_per_s": ("bytes_per_second", float(1 << 20), "Bytes moved, per second"),
    "latency_ms_p99": ("latency_p99_seconds", 1e-3, "99th percentile of the response time"),
    "files_per_s": ("files_per_second", 1.0, "Files processed, per second"),
    "built_per_s": ("files_built_per_second", 1.0, "Files built before the load, per second"),
    "sent_per_s": ("frames_sent_per_second", 1.0, "Frames sent, per second"),
    "received_per_s": ("frames_received_per_second", 1.0, "Frames received, per second"),
}
"""Rate of the event `sample` → name, factor, meaning. Other rates keep their name."""
LABELS = ("run", "point")


class RunExporter:
    """A collector for a Prometheus registry that exports the newest state."""

    def __init__(self, newest: Callable[[], State | None]) -> None:
        self._newest = newest

    def collect(self) -> Iterable[Metric]:
        """The metrics of one scrape."""
        state = self._newest()
        active = state is not None and not state.has_ended
        yield GaugeMetricFamily(f"{PREFIX}active", "1 while a run is in progress", value=float(active))
        if state is None:
            return
        about = {"run": state.run, "study": state.study, "kind": state.kind, "status": state.status}
        yield InfoMetricFamily("hakaru_run", "The newest run", value=about)
        yield _of_run("repetitions_done", "Repetitions that have ended", state, state.done)
        yield _of_run("repetitions_planned", "Repetitions in total", state, state.total)
        if active and state.left_s is not None:
            left_s = max(0.0, state.left_s - max(0.0, time.time() - state.at))
            yield _of_run("left_seconds", "Expected time until the report is written", state, left_s)
        if active and state.current is not None:
            yield from _rates(state)
            yield from _queues(state)


def _of_run(name: str, meaning: str, state: State, value: float) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}{name}", meaning, labels=["run"])
    family.add_metric([state.run], value)
    return family


def _rates(state: State) -> Iterable[Metric]:
    for name, values in state.series.rates.items():
        if values and values[-1] is not None:
            own = (re.sub(r"[^a-zA-Z0-9_]", "_", name), 1.0, f"{name} of the event `sample`")
            metric, factor, meaning = RATES.get(name, own)
            family = GaugeMetricFamily(f"{PREFIX}{metric}", meaning, labels=LABELS)
            family.add_metric([state.run, str(state.current)], values[-1] * factor)
            yield family


def _queues(state: State) -> Iterable[Metric]:
    lengths = GaugeMetricFamily(f"{PREFIX}queue_length", "Mean number of requests present", labels=[*LABELS, "queue"])
    bytes_ = GaugeMetricFamily(f"{PREFIX}link_queue_bytes", "Longest queue of a link", labels=LABELS)
    for name, values in state.series.queues.items():
        if values and values[-1] is not None:
            labels = [state.run, str(state.current)]
            if name == LINK:
                bytes_.add_metric(labels, values[-1])
            else:
                lengths.add_metric([*labels, name], values[-1])
    return [family for family in (lengths, bytes_) if family.samples]


def exposition(newest: Callable[[], State | None]) -> tuple[bytes, str]:
    """The answer to a scrape, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RunExporter(newest))
    return generate_latest(registry), CONTENT_TYPE_LATEST
