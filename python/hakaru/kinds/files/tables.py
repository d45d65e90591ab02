"""Tables of a study of files: rates, and times of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hakaru.kinds.files import names
from hakaru.report import common
from hakaru.report.blocks import Cell, Column, Table
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
Cells = Callable[[Json], list[Cell | str]]
RATE_COLUMNS = ("n", "files", "mb", "read_mb", "write_mb", "seconds", "cpu")


def of_run(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """The tables of the run."""
    points = summary["points"]
    return [_rates(points, letters, language), _times(points, letters, language)] if points else []


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
