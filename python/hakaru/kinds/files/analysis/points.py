"""One point of a study of files: estimates over its repetitions, and its bottleneck."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hdrh.histogram import HdrHistogram

from hakaru.analysis import checks, emulated, hops, rules, steady
from hakaru.analysis.estimate import finite
from hakaru.analysis.gathered import Gathered
from hakaru.analysis.latency import Latencies, merge, percentiles_ms, total_ns
from hakaru.analysis.points import Point
from hakaru.analysis.run_data import Repetition, RunData
from hakaru.analysis.utilisation import Nic, of_repetition
from hakaru.kinds.files import names
from hakaru.kinds.files.analysis import (
    amplification,
    below,
    building,
    changes,
    cold,
    extensions,
    guests,
    parts,
    pools,
    returned,
    space,
)
from hakaru.kinds.files.analysis.changes import Change
from hakaru.kinds.files.analysis.parts import Servers
from hakaru.kinds.files.events import EXTEND, disk_sizes, grows
from hakaru.kinds.files.load import FilesLoad, load_at
from hakaru.kinds.files.rules import STAGES, FilesEvidence
from hakaru.study.model import Study

MACHINE = "cpu/machine"


@dataclass
class FilesPoint(Point):
    """Results of one combination of levels."""

    load: FilesLoad = field(kw_only=True)
    """The load with these levels."""
    space: dict[str, Any] | None = field(default=None, kw_only=True)
    """Bytes of the layers below the trees (`space.of_repetitions`); None without a chain."""
    pool_use: pools.OverTime | None = field(default=None, kw_only=True)
    """Use of the pools below the trees in the first repetition (`pools.over_time`)."""
    extension: dict[str, dict[str, float]] | None = field(default=None, kw_only=True)
    """Sizes and times of the layers of disks that were extended (`extensions.of_repetitions`)."""
    caches: dict[str, Any] = field(kw_only=True)
    """Caches before each load (`cold.of_repetitions`)."""
    servers: Servers = field(default_factory=dict, kw_only=True)
    """File server → its clients; empty if there is one of each."""
    study: Study = field(kw_only=True)
    """The study with these levels, whose load is `load`."""

    def to_json(self) -> dict[str, Any]:
        """One element of `points` of the report."""
        described = super().to_json()
        described["repetitions"][names.RATE] = [finite(rate) for rate in self.per_repetition.get(names.RATE, [])]
        described["caches"] = self.caches
        if self.servers:
            described["servers"] = [{"server": server, "clients": hosts} for server, hosts in self.servers.items()]
        if self.pool_use is not None:
            described["pool_use"] = self.pool_use
        if self.extension is not None:
            described["extension"] = self.extension
        return described if self.space is None else described | {"space": self.space}


def analyse(run: RunData, raw: Mapping[str, Any]) -> FilesPoint:
    """Analyse one point of the run."""
    study = run.study_at(raw["point"], raw["factors"])
    load = load_at(study)
    shared = parts.servers_of(run, load)
    units = names.metrics_of(load) | names.metrics_of_parts(parts.names_of(shared))
    nics = run.nics_at(study)
    gathered = Gathered(str(run.run.get("origin")), units)
    spaces: list[list[Mapping[str, Any]]] = []
    pool_use = None
    extended: list[list[Change]] = []
    checks: list[cold.Check | None] = []
    for repetition in run.repetitions(str(raw["point"])):
        if gathered.accept(repetition):
            _add(
                gathered,
                repetition,
                load,
                nics,
                shared,
                is_timed=run.study.measure.time is not None,
                spins=bool(run.study.lab.spin),
                is_site=run.is_site,
            )
            checks.append(cold.check(repetition, load))
            gathered.caveats += cold.caveats(checks[-1])
            extended.append(changes.of(repetition, EXTEND))
            if repetition.chains:
                spaces.append(list(repetition.chains.values()))
                pool_use = pool_use or pools.over_time(repetition)
    gathered.caveats += [caveat for chains in spaces for record in chains for caveat in space.caveats(record)]
    fields = gathered.point_fields(raw, run.study.measure, units, names.RATE)
    evidence = replace(_evidence(fields, load), lost_packets=gathered.lost, late_us=gathered.late_us)
    return FilesPoint(
        **fields,
        evidence=evidence,
        verdict=rules.judge(STAGES, evidence),
        load=load,
        space=space.of_repetitions(spaces),
        pool_use=pool_use,
        extension=extensions.of_repetitions(extended),
        caches=cold.of_repetitions(load, checks),
        servers=shared,
        study=study,
    )


def _add(
    gathered: Gathered,
    repetition: Repetition,
    load: FilesLoad,
    nics: list[Nic],
    shared: Servers,
    *,
    is_timed: bool,
    spins: bool,
    is_site: bool,
) -> None:
    """Add one repetition that gave a result. `is_timed`: the study sets its measuring time. A load
    without one ends with its last file, and is not expected to be steady. `spins`: the emulated
    network busy-polls. `is_site`: the server is real equipment, whose disks are not watched.
    """
    use = of_repetition(repetition.counters, repetition.window, nics)
    if spins:
        use.pop("cpu/fabric", None)
    histograms = _histograms(repetition)
    values = {**_rates(repetition, load), **_latencies(histograms, load), **_shares(histograms, repetition, load)}
    if load.users is not None and load.users.rate is not None:
        values[names.ACHIEVED] = 100 * values[names.RATE] / (load.users.rate * load.servers)
    values["machine_percent"] = use[MACHINE].percent if MACHINE in use else math.nan
    values["read_below_percent"] = math.nan if is_site else cold.read_below_percent(repetition, load)
    values |= parts.values(repetition, shared)
    if load.to.chain is not None:
        values |= {names.BUILD: building.mb_per_s(repetition), **below.of_repetition(repetition)}
        values |= guests.of_repetition(repetition) | amplification.of_repetition(repetition)
        values[names.RETURNED] = returned.percent(repetition)
        values[names.RUN] = pools.run_bytes(repetition, repetition.window[1]) / 1024
    values |= pools.growth(repetition) if grows(load.events) else {}
    values |= extensions.metrics(repetition) if disk_sizes(load.events) else {}
    latencies = Latencies(histograms.get("read") or merge(()), histograms.get("write") or merge(()))
    gathered.add_values(repetition, values, use, latencies)
    gathered.caveats += checks.machine(repetition.counters, repetition.window, use)
    gathered.caveats += [*hops.conserved(repetition.counters), *emulated.of_repetition(repetition, use)]
    gathered.caveats += checks.dropped(repetition.counters, repetition.window)
    if is_timed and values[names.RATE] >= steady.OFTEN_PER_S:
        gathered.caveats += steady.while_measured(
            repetition.counters,
            repetition.window,
            engine="files",
            entity=names.ENTITY,
            names=names.COUNTERS[names.RATE],
        )


def _rates(repetition: Repetition, load: FilesLoad) -> dict[str, float]:
    def rate(*counters: str) -> float:
        return sum(
            repetition.counters.total_rate(repetition.window, engine="files", entity=names.ENTITY, name=name)
            for name in counters
        )

    found = {metric: rate(*counters) for metric, counters in names.COUNTERS.items()}
    found |= {"read_mb_per_s": rate("read_bytes") / 1e6, "write_mb_per_s": rate("written_bytes") / 1e6}
    found["mb_per_s"] = found["read_mb_per_s"] + found["write_mb_per_s"]
    found["operations_per_s"] = rate(*(_counter(operation) for operation in names.operations(load)))
    found["load_s"] = max(engine["values"].get("load_ns", math.nan) / 1e9 for engine in _loads(repetition))
    return found


def _counter(operation: str) -> str:
    """Name of the counter of an operation."""
    return {"flush": "flushes"}.get(operation, f"{operation}s")


def _loads(repetition: Repetition) -> list[dict[str, Any]]:
    return [engine for engine in repetition.engines if engine["engine"] == "files"]


def _histograms(repetition: Repetition) -> dict[str, HdrHistogram]:
    """Operation → times in the measuring phase, of all hosts."""
    encoded: dict[str, list[str]] = {}
    table = repetition.histograms
    for row in table.to_pylist() if table.num_rows else []:
        if row["entity"] == names.ENTITY and row["at_ns"] is None:
            encoded.setdefault(str(row["name"]).removesuffix("_latency_ns"), []).append(str(row["hdr"]))
    return {operation: merge(texts) for operation, texts in encoded.items()}


def _latencies(histograms: dict[str, HdrHistogram], load: FilesLoad) -> dict[str, float]:
    values: dict[str, float] = {}
    for operation in names.timed(load):
        histogram = histograms.get(operation)
        percents = names.PERCENTILES.values()
        found = percentiles_ms(histogram, percents) if histogram else [math.nan] * len(percents)
        values |= {names.latency(operation, name): ms for name, ms in zip(names.PERCENTILES, found, strict=True)}
    return values


def _shares(histograms: dict[str, HdrHistogram], repetition: Repetition, load: FilesLoad) -> dict[str, float]:
    """Share of the tools' time that each operation takes, in percent. The times are those of each
    client's own measuring phase, and clients whose tools end later have a longer one than all have
    together.
    """
    start, end = repetition.window
    phases = [float(each.get("values", {}).get("measured_ns") or end - start) for each in _loads(repetition)]
    tools_ns = sum(phases) / len(phases) * load.tools * load.servers if phases else 0.0
    shares = {}
    for operation in names.operations(load):
        histogram = histograms.get(operation)
        spent = total_ns(histogram) if histogram else 0
        shares[names.share(operation)] = 100.0 * spent / tools_ns if tools_ns else math.nan
    return shares


def _evidence(fields: dict[str, Any], load: FilesLoad) -> FilesEvidence:
    metrics = fields["metrics"]
    used = {name: estimate.mean for name, estimate in fields["utilisation"].items() if estimate.mean is not None}
    # A load of metadata moves no bytes, and still has a rate and a bottleneck.
    rate = metrics["mb_per_s"].mean if metrics[names.RATE].mean is not None else None
    shares = {operation: metrics[names.share(operation)].mean for operation in names.operations(load)}
    time_percent = {operation: share for operation, share in shares.items() if share is not None}
    users: dict[str, Any] = {}
    if load.users is not None:
        users = {
            "is_of_users": True,
            "achieved_percent": metrics[names.ACHIEVED].mean,
            "delay_ms": metrics[names.latency(names.DELAY, "p99")].mean,
        }
    return FilesEvidence(rate, used, served=load.to.smb is not None, time_percent=time_percent, **users)
