"""Tables of packet forwarding: rates, also over the frame sizes and for each goal; delays; places
where frames were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hakaru.kinds.packets import names
from hakaru.report import common
from hakaru.report.blocks import Cell, Column, Row, Table
from hakaru.report.sweep import factor_title
from hakaru.wording import MISSING, number, say, tenths

Json = dict[str, Any]
Cells = Callable[[Json], list[Cell | str]]
RATE_COLUMNS = ("n", "frames", "variation", "mbit", "generator", "trials", "search", "cpu_busiest", "cpu_all")
DELAY = "latency_us_"
FAULTY = ("reordered_frames", "duplicated_frames", "corrupted_frames")


def of_run(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """The tables of the run."""
    points = summary["points"]
    return [
        _rates(points, letters, language),
        *_over_sizes(points, language),
        *_goals(points, letters, language),
        *_delays(points, letters, language),
        _losses(points, letters, language),
    ]


def _table(
    points: list[Json], letters: Mapping[str, str], language: str, title: str, columns: list[Column], cells: Cells
) -> Table:
    return common.points_table(points, letters, language, title=title, metric=names.RATE, columns=columns, cells=cells)


def _rates(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    columns = [Column(say(language, f"table.packets.{name}")) for name in RATE_COLUMNS]
    columns.append(Column(say(language, "table.limiter"), "words"))

    def cells(point: Json) -> list[Cell | str]:
        metrics = point["metrics"]
        return [
            str(metrics[names.RATE]["n"]),
            common.with_interval(metrics[names.RATE], language),
            tenths(metrics[names.VARIATION]["mean"], language),
            number(metrics["mbit_per_s"]["mean"], language),
            tenths(metrics["share_of_tester_percent"]["mean"], language),
            number(metrics["trials"]["mean"], language),
            say(language, f"search.{point['search'].replace(' ', '_')}"),
            tenths(metrics["busiest_cpu_percent"]["mean"], language),
            tenths(metrics["machine_percent"]["mean"], language),
            say(language, f"limiter.{point['limiter']}"),
        ]

    return _table(points, letters, language, "table.packets.rates", columns, cells)


def _over_sizes(points: list[Json], language: str) -> list[Table]:
    """Mean, lowest and highest rate over the frame sizes whose searches bracketed a rate, as
    publications print them; none if no set of points has enough sizes.
    """
    shown = [group for group in names.over_sizes(points).values() if len(group) >= names.SIZES_MIN]
    if not shown:
        return []
    varied, about = common.factors([point for group in shown for point in group], language, names.RATE)
    varied = [factor for factor in varied if factor != names.FRAME]
    columns = [Column(factor_title(factor, language), "level", header=True) for factor in varied]
    columns += [Column(say(language, f"table.packets.sizes.{name}")) for name in ("count", "mean", "lowest", "highest")]
    rows = []
    for group in shown:
        rates = [point["metrics"][names.RATE]["mean"] for point in group]
        values = [number(value, language) for value in (sum(rates) / len(rates), min(rates), max(rates))]
        rows.append(Row([*(common.level(group[0], f, language) for f in varied), str(len(group)), *values]))
    caption = say(language, "table.points.caption", {"title": say(language, "table.packets.sizes"), "about": about})
    return [Table(caption, columns, rows)]


def _goals(points: list[Json], letters: Mapping[str, str], language: str) -> list[Table]:
    """The rate for each goal; none if there is one goal, whose rate is that of the point."""
    count = max((sum(name.startswith(f"{names.RATE}/") for name in point["metrics"]) for point in points), default=0)
    if count < 2:
        return []
    shown = [names.goal_rate(place) for place in range(1, count + 1)]
    columns = [Column(say(language, "table.packets.goal", {"goal": place})) for place in range(1, count + 1)]

    def cells(point: Json) -> list[Cell | str]:
        found = [point["metrics"].get(name) for name in shown]
        return [MISSING if each is None else common.with_interval(each, language) for each in found]

    return [_table(points, letters, language, "table.packets.goals", columns, cells)]


def _delays(points: list[Json], letters: Mapping[str, str], language: str) -> list[Table]:
    shown = list(dict.fromkeys(name for point in points for name in point["metrics"] if name.startswith(DELAY)))
    if not shown:
        return []
    columns = []
    for name in shown:
        percentile, share = name.removeprefix(DELAY).split("/")
        columns.append(Column(say(language, "table.packets.delay", {"percentile": percentile, "share": share})))

    def cells(point: Json) -> list[Cell | str]:
        found = [point["metrics"].get(name) for name in shown]
        return [MISSING if each is None else common.with_interval(each, language) for each in found]

    return [_table(points, letters, language, "table.packets.delays", columns, cells)]


def _losses(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    shown = [names.lost_at(place) for place in names.LOSS_PLACES]
    columns = [Column(say(language, f"table.packets.lost.{place}")) for place in names.LOSS_PLACES]
    columns += [Column(say(language, f"table.packets.{name}")) for name in FAULTY]

    def cells(point: Json) -> list[Cell | str]:
        lost: list[Cell | str] = [tenths(point["metrics"][name]["mean"], language) for name in shown]
        return lost + [number(point["metrics"][name]["mean"], language) for name in FAULTY]

    return _table(points, letters, language, "table.packets.losses", columns, cells)
