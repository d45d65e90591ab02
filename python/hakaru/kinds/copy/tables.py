"""Tables of copies: one of points for each set of factors, and one of the VMs of the plain points.

The table of VMs has size, time and rate of each VM, as publications print them. Size and time are
those after the warm-up: the rate is their quotient. The table is sorted by rate, because another VM
may be the slowest one in each repetition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.kinds.copy.figures import label, plain_points, published
from hakaru.report import common
from hakaru.report.blocks import Cell, Column, Row, Table
from hakaru.report.sweep import factor_title
from hakaru.study.part import level_text
from hakaru.wording import MISSING, number, say, tenths

Json = dict[str, Any]
COLUMNS = (
    *("n", "mib_per_s", "sum", "path_percent", "fairness", "jain"),
    *("done", "again", "timeouts", "waiting", "dropped"),
)
VM_COLUMNS = ("rank", "mib", "seconds", "mib_per_s")


def of_run(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """All tables of the run."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for point in summary["points"]:
        groups.setdefault(tuple(point["factors"]), []).append(point)
    tables = [_points(points, letters, language) for points in groups.values()]
    return [*tables, *_vms(summary, language)]


def _points(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    varied, caption = common.factors(points, language, "mib_per_s")
    columns = [
        *(Column(factor_title(factor, language), "level", header=True) for factor in varied),
        *(Column(say(language, f"table.{name}")) for name in COLUMNS),
        Column(say(language, "table.limiter"), "words"),
    ]
    rows = [_point(point, varied, letters, language) for point in points]
    return Table(caption, columns, rows, "numbers copies", caveats=True)


def _point(point: Json, varied: list[str], letters: Mapping[str, str], language: str) -> Row:
    metrics = point["metrics"]

    def mean(name: str) -> str:
        return number(metrics[name]["mean"], language)

    fairness, jain = (metrics[name]["mean"] for name in ("fastest_to_slowest", "jain_index"))
    cells: list[Cell | str] = [level_text(point["factors"][factor]) for factor in varied]
    cells += [
        str(metrics["mib_per_s"]["n"]),
        common.with_interval(metrics["mib_per_s"], language),
        mean("sum_mib_per_s"),
        tenths(metrics["path_percent"]["mean"], language),
        MISSING if fairness is None else f"{fairness:.2f}",
        MISSING if jain is None else f"{jain:.2f}",
        _span(mean("first_done_s"), mean("last_done_s")),
        tenths(metrics["retransmitted_percent"]["mean"], language),
        mean("timeouts"),
        tenths(metrics["timeout_wait_percent"]["mean"], language),
        mean("dropped_frames"),
        say(language, f"limiter.{point['limiter']}"),
    ]
    return common.row(point, cells, letters)


def _span(first: str, last: str) -> str:
    """The times at which the first and the last job ended, as a range; `…` if one did not end."""
    return last if first == last else f"{first}–{'…' if last == MISSING else last}"


def _vms(summary: Json, language: str) -> list[Table]:
    """The VMs of the plain points; if a table has published rates, of the points that it covers."""
    points = [p for p in plain_points(summary) if _ranks(p) > 1]
    has_published = any(_published(summary, point, 1) is not None for point in points)
    if has_published:
        points = [point for point in points if _published(summary, point, 1) is not None]
    if not points:
        return []
    columns = [Column(say(language, "table.vms.copy"), "level", header=True)]
    columns += [Column(say(language, f"table.vms.{name}")) for name in VM_COLUMNS]
    columns += [Column(say(language, "table.vms.published"))] if has_published else []
    rows = []
    for point in points:
        for rank in range(1, _ranks(point) + 1):
            cells: list[Cell | str] = [label(summary, point), str(rank)]
            cells += [
                number(point["metrics"][f"{name}/{rank}"]["mean"], language)
                for name in ("ranked_mib", "ranked_seconds")
            ]
            cells.append(common.with_interval(point["metrics"][f"ranked_mib_per_s/{rank}"], language))
            cells += [number(_published(summary, point, rank), language)] if has_published else []
            rows.append(Row(cells))
    return [Table(say(language, "table.vms"), columns, rows)]


def _ranks(point: Json) -> int:
    return sum(name.startswith("ranked_mib_per_s/") for name in point["metrics"])


def _published(summary: Json, point: Json, rank: int) -> float | None:
    found = published(summary, point, f"ranked_mib_per_s/{rank}")
    return found[1]["published"] if found else None
