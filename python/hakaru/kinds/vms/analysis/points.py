"""One point of a load of VMs: estimates over its repetitions, closed forms, hop table and
bottleneck.

The steps are the same for every form of lab. Data that a star, a lab described link by link or a
site lacks (counters of a fabric, a known path) is left out.

**The rate** of a closed load of one size with fewer than 200 requests is the number of requests
outstanding times their length over the mean latency (Little's law), because a count of so few
requests would be off by up to one at each end. If Little's law does not hold because requests take
about as long as the measuring phase, the rate is that of the bytes that TCP delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hakaru.analysis import cache, hops, rules, tcp_counts, tcp_window
from hakaru.analysis.bounds import Bound, Op
from hakaru.analysis.estimate import finite
from hakaru.analysis.gathered import Gathered
from hakaru.analysis.hops import Passage
from hakaru.analysis.latency import Latencies
from hakaru.analysis.points import Point, service_ms
from hakaru.analysis.rules.evidence import Cache
from hakaru.analysis.rules.fabric import AT_BOUND_PERCENT
from hakaru.analysis.run_data import Repetition, RunData
from hakaru.analysis.utilisation import Nic, Use
from hakaru.caveats import Caveat
from hakaru.kinds.vms import stream_meter
from hakaru.kinds.vms.analysis import (
    checks,
    equipment,
    failover,
    flows,
    metrics,
    over_time,
    path_events,
    queues,
    roles,
)
from hakaru.kinds.vms.analysis.evidence import FlowValues, evidence_of
from hakaru.kinds.vms.analysis.setup import OPS, Setup, of_negotiated, setup_at
from hakaru.kinds.vms.entities import TOTAL
from hakaru.kinds.vms.rules import STAGES

UNITS = metrics.UNITS | equipment.UNITS | queues.UNITS | flows.UNITS


@dataclass
class VmsPoint(Point):
    """Results of one combination of levels: a `Point` with its setup, closed forms, hop table and
    TCP counters.
    """

    setup: Setup
    bounds: list[Bound]
    """Closed forms, the lowest first."""
    passages: list[Passage]
    tcp: dict[str, Any]
    lateness_us: float | None
    hosts: list[equipment.HostValues]
    """Every host with its VMs, sessions and rates."""
    plain_stream: VmsPoint | None = None
    """The point with plain TCP streams over the same path and TCP, if the study has one."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Its events of paths with their results, in order."""

    def to_json(self) -> dict[str, Any]:
        """One element of `points` of the report."""
        exchange, path = self.setup.exchange, self.setup.path
        return (
            super().to_json()
            | {
                "path": None
                if path is None
                else {
                    "from": list(self.setup.hosts),
                    "to": self.setup.array,
                    "rtt_ms": path.rtt_s * 1e3,
                    "rate_bits_per_s": path.rate_bits_per_s,
                },
                "request": None
                if exchange is None
                else {"op": exchange.op, "bytes": exchange.request_bytes, "queue_depth": exchange.queue_depth},
                "bounds": [{"bound": b.name, "mb_per_s": b.bytes_per_s / 1e6, **b.numbers} for b in self.bounds],
                "hops": [passage.to_json() for passage in self.passages],
                "tcp": self.tcp,
                "hosts": [host.to_json() for host in self.hosts],
                "settings": self.setup.settings,
                "fabric_late_us_p99": finite(self.lateness_us),
            }
            | ({} if self.plain_stream is None else {"plain_stream": self._beside(self.plain_stream)})
            | ({"events": self.events} if self.events else {})
        )

    def _beside(self, stream: VmsPoint) -> dict[str, Any]:
        """The point with plain streams, and this point's rate in percent of its rate."""
        rate, plain = self.mean("mb_per_s"), stream.mean("mb_per_s")
        return {"point": stream.id, "percent": 100 * rate / plain if rate is not None and plain else None}


def analyse(run: RunData, raw: Mapping[str, Any]) -> VmsPoint:
    """Analyse one point of the run."""
    changed = run.study_at(raw["point"], raw["factors"])
    setup, nics = setup_at(run.study, changed, site=run.is_site), run.nics_at(changed)
    gathered = _GatheredLoads(str(run.run.get("origin")), UNITS, setup)
    spins = bool(run.study.lab.spin)
    for repetition in run.repetitions(str(raw["point"])):
        if gathered.accept(repetition):
            gathered.add(run, repetition, nics, spins)
    compared = "mb_per_s" if setup.is_stream else "iops"
    units = UNITS | (roles.UNITS if setup.groups else {})
    units |= failover.UNITS if setup.failover_timers_ms is not None else {}
    units |= path_events.UNITS if setup.path_load is not None else {}
    fields, setup, late_us = (
        gathered.point_fields(raw, run.study.measure, units, compared),
        gathered.setup,
        gathered.late_us,
    )
    directions: list[Op] = list(gathered.flows) or ["write"]
    passages = hops.passages([(op, setup.hops(op)) for op in directions], gathered.hops)
    evidence = evidence_of(
        setup,
        fields["metrics"],
        fields["utilisation"],
        gathered.flows,
        passages,
        bounds=gathered.bounds,
        lost=gathered.lost,
        late_us=late_us,
        cache=cache.mean(gathered.caches),
        device_s=float(np.mean(gathered.devices)) if gathered.devices else 0.0,
    )
    services = float(np.mean(gathered.services)) if gathered.services else None
    return VmsPoint(
        **fields | {"service_ms": services},
        setup=setup,
        bounds=gathered.bounds,
        passages=passages,
        tcp=tcp_counts.to_json(gathered.tcp_growths),
        lateness_us=late_us,
        hosts=equipment.mean_hosts(gathered.host_values),
        events=path_events.to_json(gathered.events),
        evidence=evidence,
        verdict=rules.judge(STAGES, evidence),
    )


class _GatheredLoads(Gathered):
    """Values gathered over the repetitions of a point."""

    def __init__(self, origin: str, metrics: Iterable[str], setup: Setup) -> None:
        super().__init__(origin, metrics)
        self.setup = setup
        self.bounds = setup.bounds()
        self.flows: dict[Op, FlowValues] = {}
        self.hops: list[dict[str, hops.Counts]] = []
        self.tcp_growths: list[tcp_counts.Growth] = []
        self.caches: list[Cache] = []
        self.services: list[float] = []
        self.devices: list[float] = []
        self.host_values: list[list[equipment.HostValues]] = []
        self.events: list[list[path_events.EventResult]] = []

    def add(self, run: RunData, repetition: Repetition, nics: list[Nic], spins: bool) -> None:
        """Add one repetition that gave a result, with the caveats of its checks."""
        self.setup = of_negotiated(self.setup, _agreed(repetition))
        self.bounds = self.setup.bounds()
        latencies = Latencies.of_table(repetition.histograms, repetition.window, TOTAL)
        values, use, caveats = measured(repetition, self.setup, latencies, nics, spins=spins)
        values |= roles.of_repetition(repetition, self.setup.groups)
        values |= failover.of_repetition(repetition, self.setup.failover_timers_ms)
        events = path_events.of_repetition(repetition, self.setup.path_load)
        self.events.append(events)
        values |= path_events.metrics_of(events)
        caveats = [*caveats, *path_events.caveats_of(events)]
        main = self._flows(repetition, use)
        values |= {name: main[name] for name in flows.FLOW_UNITS} if main else {}
        values |= _shares(values["mb_per_s"], self.bounds)
        self.caveats += caveats
        self.add_values(repetition, values, use, latencies)
        self.hops.append(hops.of_repetition(repetition))
        self.tcp_growths.append(tcp_counts.of_nodes(repetition, (self.setup.array, *self.setup.hosts)))
        self.caches += cache.of_repetition(repetition)[:1]
        self.services += service_ms(repetition)
        self.devices.append(flows.device_s(repetition))
        self.host_values.append(equipment.hosts_of(repetition))
        if not self.over_time:
            op: Op = next(iter(self.flows), "write")
            self.over_time = over_time.of_repetition(repetition) | _window(run, repetition, self.setup, op)
            self.over_time |= path_events.over_time(repetition, self.over_time.get("t_s", []))

    def _flows(self, repetition: Repetition, use: dict[str, Use]) -> dict[str, float]:
        """Store the values of every direction of the data, and return those of the direction with
        most bytes.
        """
        main: dict[str, float] = {}
        for op, rate in flows.payload(repetition, self.setup).items():
            values = flows.of_flow(repetition, self.setup, op, use) | {"mb_per_s": rate / 1e6}
            windows = flows.sender_series(repetition, self.setup, op, "congestion_window_bytes_now")
            growth = tcp_window.growth(windows, repetition.window)
            self.flows.setdefault(op, FlowValues()).add(values | ({} if growth is None else {"window_growth": growth}))
            main = main or values
        return main


def _window(run: RunData, repetition: Repetition, setup: Setup, op: Op) -> tcp_window.WindowSeries:
    """TCP's window at the sender of the data over time."""
    senders = (setup.array,) if op == "read" else setup.hosts
    table = run.tcp_series(repetition.point, repetition.number)
    watched = tcp_window.of_watch(table, repetition.window, senders, setup.rtt_s)
    if watched:
        return watched
    gauges = {name: flows.sender_series(repetition, setup, op, gauge) for name, gauge in tcp_window.GAUGES.items()}
    return tcp_window.of_gauges(gauges, repetition.window)


def measured(
    repetition: Repetition, setup: Setup, latencies: Latencies, nics: list[Nic], *, spins: bool
) -> tuple[dict[str, float], dict[str, Use], list[Caveat]]:
    """Metrics of one repetition (without those of its flows), utilisation, and the caveats of its
    checks.
    """
    values, use, caveats = _checked(repetition, setup, latencies, nics, spins=spins)
    # A late emulated network can only slow the load, and no setting exceeds the closed form, so a
    # rate this close to it is valid.
    at_bound = _shares(values["mb_per_s"], setup.bounds())["bound_share_percent"] >= AT_BOUND_PERCENT
    return values, use, [c for c in caveats if not (at_bound and c.name == "fabric_saturated")]


def _checked(
    repetition: Repetition, setup: Setup, latencies: Latencies, nics: list[Nic], *, spins: bool
) -> tuple[dict[str, float], dict[str, Use], list[Caveat]]:
    """Return the same as `measured`, with the caveats of all checks."""
    if setup.is_stream:
        values = metrics.of_stream(stream_meter.delivered_bytes_per_s(repetition.counters, repetition.window))
    else:
        values = metrics.of_repetition(repetition, latencies)
    use = hops.use(repetition, nics, [hop for op in OPS for hop in setup.hops(op)], spins=spins)
    if setup.is_stream:
        return values | flows.of_repetition(repetition), use, checks.of_stream(repetition, use)
    caveats = checks.of_repetition(repetition, values, use, nics, in_flight_max=setup.in_flight_max)
    if setup.exchange is not None:  # a closed load of one size
        corrected = metrics.by_latency(values, repetition.window)
        if not values["iops"] or any(c.name == "littles_law" for c in caveats):
            corrected = _delivered(repetition, setup) or corrected
        values = values | corrected
    values |= flows.of_repetition(repetition) | queues.of_repetition(repetition)
    return values | equipment.of_repetition(repetition, use, nics, values["iops"]), use, caveats


def _delivered(repetition: Repetition, setup: Setup) -> dict[str, float]:
    """Rates from the bytes that TCP delivered, for requests that take about as long as the
    measuring phase: their latency covers only the fast ones, and a count of them is too coarse.
    Empty if TCP was not counted.
    """
    exchange = setup.exchange
    series = flows.sender_series(repetition, setup, exchange.op, "acked_bytes") if exchange else []
    seconds = (repetition.window[1] - repetition.window[0]) / 1e9
    if not series or exchange is None or seconds <= 0:
        return {}
    lengths = exchange.command_lengths
    share = exchange.request_bytes / sum(exchange.on_stream(length) for length in lengths)
    rate = sum(s.increase(*repetition.window) for s in series) * share / seconds
    rates = {"iops": rate / exchange.request_bytes, "mb_per_s": rate / 1e6}
    directed_rates = {f"{exchange.op}_{name}": value for name, value in rates.items()}
    return rates | directed_rates | {"mib_per_s": rate / (1 << 20)}


def attach_streams(analysed: Iterable[VmsPoint]) -> None:
    """Give every point of a load that writes the point with plain streams over the same path and
    TCP.
    """
    all_points = list(analysed)
    streams = {p.setup.conditions: p for p in all_points if p.setup.is_stream}
    for point in all_points:
        if not point.setup.is_stream and point.setup.exchange is not None and point.setup.exchange.op == "write":
            point.plain_stream = streams.get(point.setup.conditions)


def _agreed(repetition: Repetition) -> dict[str, Any]:
    """The negotiated keys that the initiator reported when it was ready; empty without a report."""
    for engine in repetition.engines:
        report = engine.get("found") if engine.get("engine") == "initiator" else None
        if isinstance(report, dict) and isinstance(report.get("negotiated"), dict):
            return dict(report["negotiated"])
    return {}


def _shares(mb_per_s: float, bounds: list[Bound]) -> dict[str, float]:
    link = next((b.bytes_per_s for b in bounds if b.name == "link"), None)
    lowest = bounds[0].bytes_per_s if bounds else None
    return {
        "payload_percent": 1e8 * mb_per_s / link if link else flows.NAN,
        "bound_mb_per_s": lowest / 1e6 if lowest else flows.NAN,
        "bound_share_percent": 1e8 * mb_per_s / lowest if lowest else flows.NAN,
    }
