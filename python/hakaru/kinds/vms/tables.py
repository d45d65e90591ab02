"""Tables of one sweep: rates and response times, and the utilisation of each resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.vms import figures
from hakaru.report import common
from hakaru.report.blocks import Cell, Column, Row, Table
from hakaru.report.sweep import Sweep, factor_title
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
RATES = ("read", "write", "mb_per_s")
LATENCIES = ("latency", "p50", "p99", "p999", "max")


def of_sweep(sweep: Sweep, letters: Mapping[str, str], language: str) -> list[Table]:
    """The table of points, and that of utilisation if any was monitored."""
    return [_points(sweep, letters, language), *_utilisation(sweep, language)]


def _points(sweep: Sweep, letters: Mapping[str, str], language: str) -> Table:
    published = {r["level"]: r for ref in sweep.references if ref["metric"] == "iops" for r in ref["rows"]}
    names = ["n", "iops", *(("published", "difference") if published else ()), *RATES, *LATENCIES]
    columns = [
        Column(factor_title(sweep, language), header=True),
        *(Column(say(language, f"table.{n}")) for n in names),
    ]
    origins = dict.fromkeys(point["origin"] for point in sweep.points)
    about = {
        "series": sentences.series(sweep.where, language) or factor_title(sweep, language),
        "origin": say(language, "list.separator").join(say(language, f"origin.{origin}") for origin in origins),
    }
    rows = []
    for point in sweep.points:
        peak = sweep.peak is not None and point["point"] == sweep.peak["point"] and len(sweep.points) > 1
        cells = _cells(sweep, point, published, language)
        rows.append(common.row(point, cells, letters, "peak" if peak else ""))
    return Table(say(language, "table.caption", about), columns, rows, caveats=True)


def _cells(sweep: Sweep, point: Json, published: Mapping[float, Json], language: str) -> list[Cell | str]:
    metrics = point["metrics"]

    def mean(name: str) -> str:
        return number(metrics[name]["mean"], language)

    published_cells: list[str] = []
    if published:
        row = published.get(sweep.level(point))
        error = row["error_percent"] if row else None
        difference = "" if error is None else sentences.signed(language, error)
        published_cells = [number(row["published"], language) if row else "", difference]
    return [
        number(sweep.level(point), language),
        str(metrics["iops"]["n"]),
        common.with_interval(metrics["iops"], language),
        *published_cells,
        *(mean(name) for name in ("read_iops", "write_iops", "mb_per_s")),
        common.with_interval(metrics["latency_ms_mean"], language),
        *(mean(f"latency_ms_{name}") for name in ("p50", "p99", "p999", "max")),
    ]


def _utilisation(sweep: Sweep, language: str) -> list[Table]:
    names = list(dict.fromkeys(name for point in sweep.measured for name in point["utilisation"]))
    chosen = figures.resources(sweep)
    shown = [name for name in names if name in chosen or name == "drives_average"]
    if not shown:
        return []
    columns = [Column(factor_title(sweep, language), header=True)]
    columns += [Column(sentences.resource(language, name)) for name in shown]
    rows = []
    for point in sweep.points:
        use = point["utilisation"]
        percents = [tenths(use.get(name, {}).get("mean"), language) for name in shown]
        rows.append(Row([number(sweep.level(point), language), *percents]))
    return [Table(say(language, "table.utilisation"), columns, rows, "numbers use")]
