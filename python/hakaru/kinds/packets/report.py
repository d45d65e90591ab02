"""The report of packet forwarding: table for the terminal, figures, tables, method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.kinds.packets import figures, names, tables
from hakaru.kinds.packets.load import GoalSpec, load_at
from hakaru.lab.plan import LabPlan
from hakaru.report.blocks import Group, Table
from hakaru.report.kind import ReportKind, TerminalTable
from hakaru.study import Study
from hakaru.units import format_duration
from hakaru.wording import number, percent, say, tenths

Json = dict[str, Any]
COLUMNS = ("frames/s", "±", "Mbit/s", "of generator", "p99 µs at half", "busiest CPU", "trials", "search")


WITHOUT_THREADS = ("switch", "equipment")
"""Devices that receive no frames in threads of this machine's kernel."""


class PacketsReport(ReportKind):
    """The part of the kind `packets` that reports use."""

    def table(self, summary: Json) -> TerminalTable:
        """Rate found, share of what the generator reaches, delay at half of it, busiest CPU."""
        return TerminalTable(COLUMNS, [_cells(point) for point in summary["points"]])

    def chief_findings(self, summary: Json) -> list[Json]:
        """Findings about the fastest and the slowest point."""
        shown = [point["factors"] for _, point in extremes(summary)]
        return [f for f in summary["findings"] if f["where"] in shown] or list(summary["findings"])

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """The highest and the lowest rate, and the bottleneck of the lowest."""
        return tiles(summary, language)

    def method(self, summary: Json, study: Study, plan: LabPlan | None, language: str) -> list[str]:
        """The search, the generator, and the device."""
        searches = [load_at(study.at(point["factors"])).search for point in summary["points"]]
        searches = searches or [load_at(study).search]
        # A point may have more goals than the study. Its first ones are those of the others.
        most = max(searches, key=lambda search: len(search.goals))
        goals = [_words(goal, language) for goal in most.goals]
        texts = [say(language, "method.packets")]
        for procedure in dict.fromkeys(search.procedure for search in searches):
            texts.append(say(language, f"method.packets.{procedure}", goals[0]))
        for place, goal in enumerate(goals[1:], start=2):
            texts.append(say(language, "method.packets.goal", {"goal": place} | goal))
        devices = dict.fromkeys(point["device"] for point in summary["points"] if point["device"])
        texts += [say(language, f"method.device.{device}") for device in devices]
        has_threads = (
            plan is not None and plan.device is not None and plan.device.own_thread and not plan.device.in_memory
        )
        if has_threads and any(device not in WITHOUT_THREADS for device in devices):
            texts.append(say(language, "method.device.thread"))
        return texts

    def groups(self, summary: Json, study: Study, language: str) -> list[Group]:
        """Rates of all points and over the sizes, and loss and CPU against the rate offered."""
        return [Group(figures.of_run(summary, language))]

    def tables(self, summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
        """Tables of rates, of delays, and of the places of losses."""
        return tables.of_run(summary, letters, language)

    def about_tables(self, summary: Json, language: str) -> str:
        """Meaning of the columns."""
        return say(language, "table.packets")


def _words(goal: GoalSpec, language: str) -> dict[str, str]:
    """The limits of a goal as values of a message."""
    return {
        "loss": tenths(goal.loss_percent, language) if goal.loss_percent >= 0.1 else f"{goal.loss_percent:g}",
        "exceed": f"{goal.exceed_percent:g}",
        "width": f"{goal.width_percent:g}",
        "trial": format_duration(goal.trial),
    }


def _cells(point: Json) -> list[str]:
    metrics = point["metrics"]

    def mean(name: str) -> float | None:
        value: float | None = (metrics.get(name) or {}).get("mean")
        return value

    rate = metrics.get(names.RATE) or {}
    half = None if rate.get("high") is None else (rate["high"] - rate["low"]) / 2
    return [
        number(rate.get("mean")),
        number(half),
        number(mean("mbit_per_s")),
        percent(mean("share_of_tester_percent")),
        number(mean(names.latency(50.0, "p99"))),
        percent(mean("busiest_cpu_percent")),
        number(mean("trials")),
        point["search"],
    ]


def extremes(summary: Json) -> list[tuple[str, Json]]:
    """The fastest point as `fast` and the slowest as `slow`; one or none if there are no others."""
    measured = [p for p in summary["points"] if p["metrics"][names.RATE]["mean"] is not None]
    if not measured:
        return []
    slow, fast = (choose(measured, key=lambda p: p["metrics"][names.RATE]["mean"]) for choose in (min, max))
    return [("fast", fast), ("slow", slow)] if fast is not slow else [("fast", fast)]


def tiles(summary: Json, language: str) -> list[Json]:
    """The chief numbers: fastest and slowest point, and the bottleneck of the slowest."""
    shown = extremes(summary)
    if not shown:
        return []
    slow = shown[-1][1]
    rates = [
        {
            "title": say(language, f"tile.packets.{name}"),
            "value": say(
                language, "tile.packets.rate", {"rate": number(point["metrics"][names.RATE]["mean"], language)}
            ),
            "small": figures.label(point, language),
        }
        for name, point in shown
    ]
    limit = {
        "title": say(language, "tile.packets.limits"),
        "value": say(language, f"limiter.{slow['limiter']}"),
        "small": "",
    }
    return [*rates, limit]


REPORT = PacketsReport()
