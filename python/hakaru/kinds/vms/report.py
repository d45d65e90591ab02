"""The report of a load by VMs: table for the terminal, tiles, figures, tables, method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.vms import (
    figures,
    neighbour_figures,
    neighbour_matrix,
    neighbour_tables,
    path,
    path_event_report,
    path_figures,
    path_gains,
    tables,
)
from hakaru.kinds.vms.hypervisor import CustomHypervisor, limits_of
from hakaru.kinds.vms.load import Open, Pattern, load_at
from hakaru.lab.plan import LabPlan
from hakaru.report import hops, intervals
from hakaru.report.blocks import Group, Section, Table
from hakaru.report.kind import ReportKind, TerminalTable
from hakaru.report.sweep import Sweep
from hakaru.study import Study
from hakaru.units import format_duration, format_size
from hakaru.wording import number, percent, say

Json = dict[str, Any]
COLUMNS = ("IOPS", "±", "MB/s", "mean ms", "p99 ms", "drives", "link")
LINKED_COLUMNS = ("MB/s", "±", "bound", "of bound", "of payload", "mean ms", "limited by")
ROLE_COLUMNS = ("victim IOPS", "p50 ms", "p99 ms", "aggressor IOPS", "MB/s", "capped IOPS", "wait ms", "limited by")
HOP_TABLES_MAX = 8
"""Maximum number of points with a hop table, in the order of the run."""
WITH_TILES = ("failover", "neighbours")
"""Findings with tiles of their own, which take the place of those about a curve."""
CHIEF = ("failover", "neighbour_cases", "neighbours", "initiators", "peak", "limiter", "decline", "paths")


class VmsReport(ReportKind):
    """The part of the kind `vms` that reports use."""

    def table(self, summary: Json) -> TerminalTable:
        """Rates, latencies and utilisation; in studies of distance, rates and bounds; with roles,
        the service of victims and aggressors.
        """
        if neighbour_tables.has_roles(summary):
            return TerminalTable(ROLE_COLUMNS, [_role_cells(point) for point in summary["points"]])
        if path.is_distance(summary):
            return TerminalTable(LINKED_COLUMNS, [_linked_cells(point) for point in summary["points"]])
        return TerminalTable(COLUMNS, [_cells(point) for point in summary["points"]])

    def chief_findings(self, summary: Json) -> list[Json]:
        """Findings about peak, limiter and decline of each sweep; in studies of distance, about
        gain and limiter.
        """
        if path.is_distance(summary):
            return path.chief_findings(summary)
        # That about all comparisons replaces those about each.
        left_out = () if neighbour_matrix.cases(summary) is None else ("neighbours",)
        return [f for f in summary["findings"] if f["kind"] in CHIEF and f["kind"] not in left_out]

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """The numbers of the first chief finding: gaps after failures of paths, the service of
        victims, or the four numbers of the first curve; in studies of distance, the rates at the
        chief distance.
        """
        if path.is_distance(summary):
            return path.tiles(summary, language)
        asked = (path_event_report.tiles, neighbour_figures.tiles, _tiles)
        return next(filter(None, (tiles(summary, language) for tiles in asked)), [])

    def tiles_about(self, summary: Json, language: str) -> str:
        """The sweep of the tiles, if the run has several."""
        of_curve = not path.is_distance(summary) and not any(f["kind"] in WITH_TILES for f in summary["findings"])
        if not of_curve or len(summary["sweeps"]) < 2:
            return ""
        sweeps = [Sweep(summary, i) for i in range(len(summary["sweeps"]))]
        return next((sweep.name(language) for sweep in sweeps if sweep.peak and len(sweep.points) > 1), "")

    def method(self, summary: Json, study: Study, plan: LabPlan | None, language: str) -> list[str]:
        """Times, patterns, bounds."""
        times: dict[str, Any] = {
            "warmup": format_duration(study.measure.warmup_ns),
            "time": format_duration(study.measure.time_ns),
            "interval": intervals.in_words(study.measure.intervals, language),
        }
        used = {str(p["factors"].get("pattern", load_at(study).pattern)) for p in summary["points"]}
        used |= {group.pattern for group in load_at(study).groups.values()}
        patterns = load_at(study).patterns
        pattern_sentences = [pattern(name, each, language) for name, each in patterns.items() if name in used]
        bounds = path.method(language) if path.is_distance(summary) else []
        hypervisor = _hypervisor(limits_of(load_at(study).hypervisor), language)
        steady = study.measure.steady
        if steady is not None:
            times["warmup"] = format_duration(study.measure.warmup_least_ns)
            times |= {"warmup_most": format_duration(steady.within), "range": steady.range, "drift": steady.drift}
        words = "method.time" if steady is None else "method.time.steady"
        return [say(language, words, times), *pattern_sentences, *hypervisor, *bounds]

    def groups(self, summary: Json, study: Study, language: str) -> list[Group]:
        """The service of victims, and curves of each sweep; in studies of distance, also bounds and
        shares of time.
        """
        sweeps = [Sweep(summary, i) for i in range(len(summary["sweeps"]))]
        groups = [
            Group(
                figures.of_sweep(summary, i, language),
                sweep.name(language),
                _about_sweep(study, sweep.where, language),
            )
            for i, sweep in enumerate(sweeps)
        ]
        events = path_event_report.groups(summary, self.point_name, language)
        groups = [*neighbour_figures.groups(summary, language), *events, *groups]
        return [*groups, *([Group(path_figures.of_run(summary, language))] if path.is_distance(summary) else [])]

    def tables(self, summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
        """The worth of further paths, and points of each sweep; in studies of distance, also points
        with their bounds.
        """
        all_tables = path.tables(summary, letters, language) if path.is_distance(summary) else []
        all_tables += path_gains.tables(summary, letters, language)
        all_tables += neighbour_matrix.tables(summary, language)
        all_tables += neighbour_tables.of_run(summary, letters, self.point_name, language)
        all_tables += path_event_report.tables(summary, letters, self.point_name, language)
        for i in range(len(summary["sweeps"])):
            all_tables += tables.of_sweep(Sweep(summary, i), letters, language)
        if all_tables or not summary["points"]:
            return all_tables
        # Points without a numeric factor in common are in no sweep.
        return [tables.of_points(summary["points"], letters, language)]

    def about_tables(self, summary: Json, language: str) -> str:
        """Meaning of the bounds, in studies of distance."""
        return say(language, "table.distance") if path.is_distance(summary) else ""

    def sections(self, summary: Json, language: str) -> list[Section]:
        """Hop tables of the first points that have hops."""
        return hops.section([(self.point_name(p, language), p) for p in summary["points"][:HOP_TABLES_MAX]], language)


def _about_sweep(study: Study, where: Mapping[str, Any], language: str) -> str:
    """The pattern of a sweep."""
    name, patterns = where.get("pattern"), load_at(study).patterns
    return pattern(str(name), patterns[name], language) if name in patterns else ""


def _hypervisor(limits: CustomHypervisor, language: str) -> list[str]:
    """Sentences about the queues of guests and hosts; none without limits."""
    parts = []
    if limits.guest is not None:
        values = {"ring": limits.guest.ring, "longest": format_size(limits.guest.request_bytes_max)}
        kind = "indirect" if limits.guest.indirect else "direct"
        parts.append(say(language, f"method.guest.{kind}", values))
    if limits.host is not None:
        parts.append(say(language, "method.host", limits.host.model_dump()))
    return parts


def pattern(name: str, described: Pattern, language: str) -> str:
    """A pattern in a sentence."""
    values = {
        "name": name,
        "sizes": ", ".join(format_size(each.size) for each in described.sizes),
        "read": described.read_percent,
        "random": described.random_percent,
    }
    if isinstance(described.load, Open):
        return say(language, "method.pattern.open", values | {"rate": described.load.rate_per_s})
    return say(language, "method.pattern.closed", values | {"depth": described.load.queue_depth})


def _tiles(summary: Json, language: str) -> list[Json]:
    curves = [i for i, s in enumerate(summary["sweeps"]) if s["peak"] and len(s["points"]) > 1]
    if not curves:
        return []
    sweep = Sweep(summary, curves[0])
    peak = sweep.peak
    assert peak is not None  # chosen above
    metrics, by_id = peak["metrics"], {p["point"]: p for p in summary["points"]}
    like = [sweep.level(by_id[i]) for i in sweep.raw["like_peak"]]
    measured = [sweep.level(by_id[i]) for i in sweep.raw["points"] if by_id[i]["metrics"]["iops"]["mean"] is not None]
    best = sentences.peak_range(language, sentences.level(language, sweep.over, sweep.level(peak)), like, measured)
    near = [sentences.level(language, sweep.over, sweep.level(by_id[i])) for i in sweep.raw["near_peak"]]
    iops, p99 = metrics["iops"], metrics["latency_ms_p99"]
    interval = "tile.interval" if iops["low"] is not None else "tile.no_interval"
    used = peak["utilisation"].get(sweep.raw["resource"] or "", {}).get("mean")
    within = say(language, "tile.near", {"first": near[0], "last": near[-1]}) if len(near) > 1 else ""
    latency = f"{number(metrics['latency_ms_mean']['mean'], language)} ms"
    return [
        _tile(language, "best", best, within),
        _tile(language, "rate", f"{number(iops['mean'], language)} IOPS", say(language, interval, iops)),
        _tile(language, "latency", latency, say(language, "tile.p99", {"value": p99["mean"]}) if p99["mean"] else ""),
        _tile(
            language,
            "limiter",
            say(language, f"limiter.{sweep.raw['limiter']}"),
            say(language, "tile.busy", {"percent": used}) if used is not None else "",
        ),
    ]


def _tile(language: str, name: str, value: str, small: str) -> Json:
    return {"title": say(language, f"tile.{name}"), "value": value, "small": small}


def _cells(point: Json) -> list[str]:
    metrics, use = point["metrics"], point["utilisation"]
    iops = metrics.get("iops") or {}
    half = None if iops.get("high") is None else (iops["high"] - iops["low"]) / 2
    links = [u["mean"] for name, u in use.items() if name.startswith("link/") and u["mean"] is not None]
    return [
        number(iops.get("mean")),
        number(half),
        *(_mean(metrics, name) for name in ("mb_per_s", "latency_ms_mean", "latency_ms_p99")),
        percent((use.get("drives") or {}).get("mean")),
        percent(max(links, default=None)),
    ]


def _role_cells(point: Json) -> list[str]:
    names = ("victim_iops", "victim_latency_ms_p50", "victim_latency_ms_p99", "aggressor_iops", "aggressor_mb_per_s")
    caps = ("cap_iops", "cap_wait_ms_mean")
    return [*(_mean(point["metrics"], name) for name in (*names, *caps)), str(point["limiter"])]


def _linked_cells(point: Json) -> list[str]:
    metrics = point["metrics"]
    rate = metrics["mb_per_s"]
    half = None if rate["high"] is None else (rate["high"] - rate["low"]) / 2
    return [
        number(rate["mean"]),
        number(half),
        _mean(metrics, "bound_mb_per_s"),
        *(percent(metrics[name]["mean"]) for name in ("bound_share_percent", "payload_percent")),
        _mean(metrics, "latency_ms_mean"),
        str(point["limiter"]),
    ]


def _mean(metrics: Json, name: str) -> str:
    return number((metrics.get(name) or {}).get("mean"))


REPORT = VmsReport()
