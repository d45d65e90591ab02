"""Tables of a study of files: rates, times of operations, bytes of the layers below the trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hakaru.fileserver.space import LAYERS, STAGES
from hakaru.kinds.files import names
from hakaru.kinds.files.figures import label
from hakaru.report import common
from hakaru.report.blocks import Across, Cell, Column, Row, Table
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
Cells = Callable[[Json], list[Cell | str]]
RATE_COLUMNS = ("n", "files", "mb", "read_mb", "write_mb", "seconds", "cpu")


def of_run(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """The tables of the run."""
    points = summary["points"]
    if not points:
        return []
    tables = [_rates(points, letters, language), _times(points, letters, language)]
    chained = [point for point in points if point.get("space")]
    return [*tables, _space(chained, language), _growth(chained, language)] if chained else tables


def _table(
    points: list[Json], letters: Mapping[str, str], language: str, title: str, columns: list[Column], cells: Cells
) -> Table:
    return common.points_table(points, letters, language, title=title, metric=names.RATE, columns=columns, cells=cells)


def _rates(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    columns = [Column(say(language, f"table.files.{name}")) for name in RATE_COLUMNS]
    columns.append(Column(say(language, "table.limiter"), "words"))

    def cells(point: Json) -> list[Cell | str]:
        metrics = point["metrics"]
        means = ("read_mb_per_s", "write_mb_per_s", "load_s")
        return [
            str(metrics[names.RATE]["n"]),
            common.with_interval(metrics[names.RATE], language),
            common.with_interval(metrics["mb_per_s"], language),
            *(number(metrics[name]["mean"], language) for name in means),
            tenths(metrics["machine_percent"]["mean"], language),
            say(language, f"limiter.{point['limiter']}"),
        ]

    return _table(points, letters, language, "table.files.rates", columns, cells)


def _times(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    timed = [name for name in (*names.SHARED, *names.WHOLE) if names.latency(name, "p50") in points[0]["metrics"]]
    columns = [Column(say(language, f"operation.{name}")) for name in timed]

    def cells(point: Json) -> list[Cell | str]:
        metrics = point["metrics"]
        median, tail = (
            [number(metrics[names.latency(name, percentile)]["mean"], language) for name in timed]
            for percentile in ("p50", "p99")
        )
        return [Cell(first, second, bold=True) for first, second in zip(median, tail, strict=True)]

    return _table(points, letters, language, "table.files.times", columns, cells)


def _space(points: list[Json], language: str) -> Table:
    """Bytes of each layer after each stage."""
    columns = [Column(say(language, "table.files.space.stage"), "level", header=True)]
    columns += [Column(say(language, f"layer.{layer}")) for layer in LAYERS]
    rows: list[Row | Across] = []
    for point in points:
        rows.append(Across(label(point, language), heading=True))
        for stage in STAGES:
            sizes = point["space"]["stages"][stage]
            rows.append(Row([say(language, f"stage.{stage}"), *(_mib(sizes[layer], language) for layer in LAYERS)]))
    return Table(say(language, "table.files.space"), columns, rows)


def _growth(points: list[Json], language: str) -> Table:
    """Growth of each pair of layers, and whether it agrees."""
    names = ("upper", "lower", "difference", "allowed")
    columns = [Column(say(language, "table.files.growth.pair"), "level", header=True)]
    columns += [Column(say(language, f"table.files.growth.{name}")) for name in names]
    columns.append(Column(say(language, "table.files.growth.agrees"), "words"))
    rows: list[Row | Across] = []
    for point in points:
        rows.append(Across(label(point, language), heading=True))
        for growth in point["space"]["growths"]:
            upper, lower = growth["upper_bytes"], growth["lower_bytes"]
            layers = {name: say(language, f"layer.{growth[name]}") for name in ("upper", "lower")}
            rows.append(
                Row(
                    [
                        say(language, "table.files.growth.pair.words", layers),
                        *(_mib(size, language) for size in (upper, lower, lower - upper, growth["allowed_bytes"])),
                        say(language, f"table.files.growth.{'yes' if growth['agrees'] else 'no'}"),
                    ]
                )
            )
    return Table(say(language, "table.files.growth"), columns, rows)


def _mib(size: float, language: str) -> str:
    return tenths(size / (1 << 20), language)
