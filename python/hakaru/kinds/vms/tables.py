"""Tables of one sweep: rates and response times, hosts, network and array, and the utilisation of
each resource. Points of no sweep have a table of rates and response times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.vms import figures
from hakaru.report import common
from hakaru.report.blocks import Cell, Column, Row, Table
from hakaru.report.figures import origin_of
from hakaru.report.sweep import Sweep, factor_title
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
RATES = ("read", "write", "mb_per_s")
LATENCIES = ("latency", "p50", "p99", "p999", "max")
EQUIPMENT = {
    "hosts": (
        "mib_per_s",
        "read_latency_ms_mean",
        "write_latency_ms_mean",
        "guest_queue_percent",
        "host_queue_percent",
        "initiator_cpu_percent",
    ),
    "array": (
        "packets_per_s",
        "packets_per_io",
        "packet_errors",
        "array_mb_per_s",
        "array_mb_per_s_max",
        "controller_percent",
        "busiest_drive_percent",
    ),
}
"""Metrics of the tables of guests and hosts, and of network and array, in order. Those without any
value are left out.
"""


def of_sweep(sweep: Sweep, letters: Mapping[str, str], language: str) -> list[Table]:
    """The table of points, those of the equipment and of the hosts, and that of utilisation if any
    was monitored.
    """
    others = [*_equipment(sweep, language), *_hosts(sweep, language), *_utilisation(sweep, language)]
    name = sweep.name(language)
    if name:
        others = [replace(t, caption=say(language, "series", {"series": name, "text": t.caption})) for t in others]
    return [_points(sweep, letters, language), *others]


def of_points(points: Sequence[Json], letters: Mapping[str, str], language: str) -> Table:
    """The rates and response times of points that belong to no sweep."""
    columns = [Column(say(language, f"table.{name}")) for name in ("n", "iops", *RATES, *LATENCIES)]

    def cells(point: Json) -> list[Cell | str]:
        return _values(point["metrics"], [], language)

    return common.points_table(
        points, letters, language, title="table.points", metric="iops", columns=columns, cells=cells
    )


def _points(sweep: Sweep, letters: Mapping[str, str], language: str) -> Table:
    published = {r["level"]: r for ref in sweep.references if ref["metric"] == "iops" for r in ref["rows"]}
    names = ["n", "iops", *(("published", "difference") if published else ()), *RATES, *LATENCIES]
    columns = [
        Column(factor_title(sweep.over, language), header=True),
        *(Column(say(language, f"table.{n}")) for n in names),
    ]
    about = {
        "series": sweep.name(language) or factor_title(sweep.over, language),
        "origin": origin_of(sweep.points, language),
    }
    rows = []
    for point in sweep.points:
        peak = sweep.peak is not None and point["point"] == sweep.peak["point"] and len(sweep.points) > 1
        cells = _cells(sweep, point, published, language)
        rows.append(common.row(point, cells, letters, "peak" if peak else ""))
    return Table(say(language, "table.caption", about), columns, rows, caveats=True)


def _cells(sweep: Sweep, point: Json, published: Mapping[float, Json], language: str) -> list[Cell | str]:
    published_cells: list[str] = []
    if published:
        row = published.get(sweep.level(point))
        error = row["error_percent"] if row else None
        difference = "" if error is None else sentences.signed(language, error)
        published_cells = [number(row["published"], language) if row else "", difference]
    return [number(sweep.level(point), language), *_values(point["metrics"], published_cells, language)]


def _values(metrics: Json, published: Sequence[str], language: str) -> list[Cell | str]:
    """The cells of a point's rates and response times; those of the published rate follow the
    rate.
    """

    def mean(name: str) -> str:
        return number(metrics[name]["mean"], language)

    return [
        str(metrics["iops"]["n"]),
        common.with_interval(metrics["iops"], language),
        *published,
        *(mean(name) for name in ("read_iops", "write_iops", "mb_per_s")),
        common.with_interval(metrics["latency_ms_mean"], language),
        *(mean(f"latency_ms_{name}") for name in ("p50", "p99", "p999", "max")),
    ]


def _equipment(sweep: Sweep, language: str) -> list[Table]:
    """The columns that publications print beside the rates."""
    tables = []
    for part, names in EQUIPMENT.items():
        shown = [n for n in names if any(p["metrics"].get(n, {}).get("mean") is not None for p in sweep.measured)]
        columns = [Column(factor_title(sweep.over, language), header=True)]
        columns += [Column(say(language, f"table.{name}")) for name in shown]
        rows = [
            Row([number(sweep.level(p), language), *(_figure(p["metrics"], n, language) for n in shown)])
            for p in sweep.points
        ]
        if shown:
            tables.append(Table(say(language, f"table.equipment.{part}"), columns, rows))
    return tables


def _figure(metrics: Json, name: str, language: str) -> str:
    if name == "packet_errors":
        return _packet_errors(metrics, language)
    return number(metrics.get(name, {}).get("mean"), language)


def _packet_errors(metrics: Json, language: str) -> str:
    """Packets with errors and dropped ones, of all packets, as means: `0 of 1,234`. A mean is
    rounded up, so that 0 means none.
    """
    packets, errors = (metrics.get(name, {}).get("mean") for name in ("packets", "packet_errors"))
    if packets is None or errors is None:
        return ""
    return say(language, "table.packet_errors.of", {"errors": math.ceil(errors), "packets": round(packets)})


def _hosts(sweep: Sweep, language: str) -> list[Table]:
    """The hosts at the best point of the sweep, if there are several."""
    point = sweep.peak or (sweep.measured[0] if sweep.measured else None)
    hosts = point["hosts"] if point else []
    if point is None or len(hosts) < 2:
        return []
    names = ("vms", "sessions", "iops", "mb_per_s")
    columns = [Column(say(language, "table.host"), "level", header=True)]
    columns += [Column(say(language, f"table.host.{name}")) for name in names]
    rows = [Row([host["host"], *(number(host[name], language) for name in names)]) for host in hosts]
    level = sentences.level(language, sweep.over, sweep.level(point))
    return [Table(say(language, "table.hosts", {"level": level}), columns, rows)]


def _utilisation(sweep: Sweep, language: str) -> list[Table]:
    names = list(dict.fromkeys(name for point in sweep.measured for name in point["utilisation"]))
    chosen = figures.resources(sweep)
    shown = [name for name in names if name in chosen or name == "drives_average"]
    if not shown:
        return []
    columns = [Column(factor_title(sweep.over, language), header=True)]
    columns += [Column(sentences.resource(language, name)) for name in shown]
    rows = []
    for point in sweep.points:
        use = point["utilisation"]
        percents = [tenths(use.get(name, {}).get("mean"), language) for name in shown]
        rows.append(Row([number(sweep.level(point), language), *percents]))
    return [Table(say(language, "table.utilisation"), columns, rows, "numbers use")]
