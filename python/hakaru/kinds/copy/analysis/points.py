"""One point of a study of copies: estimates over its repetitions, hop table, TCP counters and
bottleneck.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hakaru.analysis import cache, hops, rules, tcp_counts
from hakaru.analysis.counters import Counters, Series
from hakaru.analysis.estimate import Estimate, finite
from hakaru.analysis.gathered import Gathered
from hakaru.analysis.hops import Passage
from hakaru.analysis.latency import Latencies
from hakaru.analysis.points import Point
from hakaru.analysis.rules.evidence import Cache
from hakaru.analysis.run_data import Repetition, RunData
from hakaru.analysis.utilisation import Use
from hakaru.kinds.copy.analysis import checks, metrics, tape
from hakaru.kinds.copy.analysis.evidence import evidence_of
from hakaru.kinds.copy.analysis.setup import Setup, setup_at
from hakaru.kinds.copy.names import TAPE_UNITS, of_jobs
from hakaru.kinds.copy.rules import STAGES

ENTITY = "backups"


@dataclass
class CopyPoint(Point):
    """Results of one combination of levels: a `Point` with its setup, hop table and TCP
    counters.
    """

    setup: Setup
    drive: tape.Drive | None
    """The parameters of all tape drives; None without tapes, or if the drives differ."""
    passages: list[Passage]
    tcp: dict[str, Any]
    lateness_us: float | None
    """99th percentile of the lateness of frames in the fabric, µs, in the worst repetition."""

    def to_json(self) -> dict[str, Any]:
        """One element of `points` of the report."""
        narrowest, path = self.setup.narrowest, self.setup.payload_bytes_per_s
        return super().to_json() | {
            "hops": [passage.to_json() for passage in self.passages],
            "tcp": self.tcp,
            "path": {
                "from": self.setup.hosts[0] if self.setup.hosts else None,
                "to": self.setup.destination,
                "payload_mib_per_s": path / metrics.MIB if path else None,
                "narrowest": narrowest.link if narrowest else None,
                "rate_bits_per_s": narrowest.rate_bits_per_s if narrowest else None,
                "queue_bytes": narrowest.queue_bytes if narrowest else None,
            },
            "image_bytes": self.setup.image_bytes,
            "settings": self.setup.settings,
            "fabric_late_us_p99": finite(self.lateness_us),
        }


def analyse(run: RunData, raw: Mapping[str, Any]) -> CopyPoint:
    """Analyse one point of the run."""
    changed = run.study_at(raw["point"], raw["factors"])
    setup, nics = setup_at(run.study, changed, site=run.is_site), run.nics_at(changed)
    units = metrics.UNITS | (TAPE_UNITS if setup.tape else {})
    gathered = _GatheredCopies(str(run.run.get("origin")), units)
    data_hops = [*setup.read, *setup.write]
    for repetition in run.repetitions(str(raw["point"])):
        if gathered.accept(repetition):
            use = hops.use(repetition, nics, data_hops, spins=bool(run.study.lab.spin))
            gathered.caveats += checks.of_repetition(repetition, setup, use)
            gathered.add(repetition, setup, use)
    names = [n.removeprefix("mib_per_s/") for n in gathered.values if n.startswith("mib_per_s/")]
    fields, passages, late_us = (
        gathered.point_fields(raw, run.study.measure, units | of_jobs(names), "mib_per_s"),
        hops.passages(setup.legs, gathered.hops),
        gathered.late_us,
    )
    baseline = _baseline_bits_per_s(run) if changed.lab == run.study.lab else None
    values = [] if baseline is None else [baseline / 1e9]
    fields["metrics"]["baseline_gbit_per_s"] = Estimate.over(values, metrics.UNITS["baseline_gbit_per_s"])
    evidence = evidence_of(
        setup,
        fields["metrics"],
        fields["utilisation"],
        passages,
        lost=gathered.lost,
        late_us=late_us,
        of_hosts=_of_hosts(gathered.tcp_growths, setup),
        cache=cache.mean(gathered.caches),
    )
    return CopyPoint(
        **fields,
        setup=setup,
        drive=gathered.drive,
        passages=passages,
        tcp=tcp_counts.to_json(gathered.tcp_growths),
        lateness_us=late_us,
        evidence=evidence,
        verdict=rules.judge(STAGES, evidence),
    )


def _baseline_bits_per_s(run: RunData) -> float | None:
    """Plain TCP between the first two hosts, which was measured once in the lab as the study
    defines it, from the first to the second; None without it.
    """
    hosts = [node["name"] for node in run.lab.get("nodes") or [] if node["kind"] == "host"]
    for baseline in run.lab.get("baselines") or []:
        if [baseline["from"], baseline["to"]] == hosts[:2]:
            value = baseline.get("forward_payload_bits_per_s")
            return None if value is None else float(value)
    return None


def _of_hosts(growths: list[tcp_counts.Growth], setup: Setup) -> dict[str, float]:
    """TCP counters of the hosts' kernels: their sum, mean over repetitions."""
    nodes = [f"nodes/{host}" for host in setup.hosts]
    return {
        name: float(np.mean([sum(growth.get(node, {}).get(name, 0.0) for node in nodes) for growth in growths]))
        for name in tcp_counts.NODE_NAMES
        if any(name in growth.get(node, {}) for growth in growths for node in nodes)
    }


class _GatheredCopies(Gathered):
    """Values gathered over the repetitions of a point."""

    def __init__(self, origin: str, names: Iterable[str]) -> None:
        super().__init__(origin, names)
        self.hops: list[dict[str, hops.Counts]] = []
        self.tcp_growths: list[tcp_counts.Growth] = []
        self.caches: list[Cache] = []
        self.drive: tape.Drive | None = None

    def add(self, repetition: Repetition, setup: Setup, use: dict[str, Use]) -> None:
        """Add one repetition that gave a result."""
        latencies = Latencies.of_table(repetition.histograms, repetition.window, ENTITY)
        hop_counts = hops.of_repetition(repetition)
        values = metrics.of_repetition(repetition, setup, latencies) | tape.of_repetition(repetition, setup)
        drives = set(tape.drives_of(repetition, setup)) if setup.tape else set()
        self.drive = self.drive or (drives.pop() if len(drives) == 1 else None)
        for metric, name in (("dropped_frames", "dropped"), ("marked_frames", "marked"), ("pauses", "pauses")):
            values[metric] = sum(c.get(name, 0.0) for c in hop_counts.values()) if hop_counts else metrics.NAN
        self.add_values(repetition, values, use, latencies)
        self.hops.append(hop_counts)
        self.caches += cache.of_repetition(repetition)[:1]
        self.tcp_growths.append(_tcp(repetition, setup))
        self.over_time = self.over_time or timeline(repetition, setup)


def _tcp(repetition: Repetition, setup: Setup) -> tcp_counts.Growth:
    """TCP counters of the nodes on the path, and sums over the jobs' connections at either end."""
    sums = {
        end: {name: metrics.socket_total(repetition, end, name) for name in tcp_counts.SOCKET_NAMES}
        for end in ("source", "destination")
    }
    nodes = (setup.source, *setup.hosts, setup.destination)
    return tcp_counts.of_nodes(repetition, nodes) | tcp_counts.of_connections(sums)


def timeline(repetition: Repetition, setup: Setup) -> dict[str, list[float | None]]:
    """Values between samples: MiB/s written, timeouts, and at the narrowest port the longest queue
    and the frames dropped.

    Seconds count from the end of the warm-up.
    """
    counters, start = repetition.counters, repetition.window[0]
    written = [s for _, s in counters.select(engine="backup", entity=ENTITY, name="written_bytes")]
    if not written:
        return {}
    # The engine of a host ends with its last copy. The host that ends last gives the instants.
    instants = np.unique(max(written, key=lambda series: series.at_ns[-1]).at_ns)
    # Samples after the copy only cover the end of its engine, which is no rate.
    instants = instants[
        (instants >= start) & (instants <= repetition.window[1] + (repetition.window[1] - start) // 100)
    ]
    if len(instants) < 2:
        return {}
    # The engine takes its last sample when it ends, soon after the previous one. Such a short
    # interval gives no meaningful rate.
    instants = instants[np.concatenate(([True], np.diff(instants) > np.median(np.diff(instants)) / 2))]
    seconds = np.diff(instants) / 1e9
    values_by_name: dict[str, list[float | None]] = {
        "t_s": [float(t) for t in (instants[1:] - start) / 1e9],
        "mib_per_s": [finite(v) for v in _steps(written, instants) / seconds / metrics.MIB],
        "measured_s": [0.0, (repetition.window[1] - start) / 1e9],
    }
    timeouts = [
        s
        for key, s in counters.select(engine="backup", entity="tcp/", name="timeouts")
        if key.entity.endswith("/destination")
    ]
    if timeouts:
        values_by_name["timeouts"] = [float(v) for v in np.rint(_steps(timeouts, instants))]
    return values_by_name | _port_over_time(counters, setup, instants)


def _port_over_time(counters: Counters, setup: Setup, instants: Any) -> dict[str, list[float | None]]:
    hop = setup.narrowest
    entity = f"link/{hop.link}/{hop.direction}" if hop else ""
    dropped = [
        s for cause in hops.CAUSES for _, s in counters.select(engine="fabric", entity=entity, name=f"dropped_{cause}")
    ]
    peaks = [s for _, s in counters.select(engine="fabric", entity=entity, name="queue_peak_bytes_now")]
    values_by_name: dict[str, list[float | None]] = {}
    if dropped:
        values_by_name["dropped_frames"] = [float(v) for v in np.rint(_steps(dropped, instants))]
    if peaks:
        values_by_name["queue_peak_kib"] = [_highest(peaks[0], a, b) for a, b in pairwise(instants)]
    return values_by_name


def _steps(series: list[Series], instants: Any) -> Any:
    """Growth of the sum of the series between consecutive instants."""
    return np.diff(np.sum([[s.at(int(t)) for t in instants] for s in series], axis=0))


def _highest(series: Series, start: int, end: int) -> float:
    """Highest value of the samples within an interval, in KiB. Without one, the first sample after
    it, because a peak is reported at the end of its interval.
    """
    inside = [i for i, t in enumerate(series.at_ns) if start < t <= end]
    after = [i for i, t in enumerate(series.at_ns) if t > end][:1]
    return max((float(series.value[i]) for i in (inside or after)), default=0.0) / 1024
