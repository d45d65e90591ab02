"""Tables of a study of files: rates, times of operations, caches before the loads, use of arrays,
LUs and guests below the trees, rates of file servers and clients, accesses of the LU for those of
the virtual disk, bytes of the layers below the trees, layers of disks that were extended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hakaru.fileserver.space import LAYERS, STAGES
from hakaru.kinds.files import names
from hakaru.kinds.files.figures import label
from hakaru.report import common
from hakaru.report.blocks import Across, Cell, Column, Row, Table
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
Cells = Callable[[Json], list[Cell | str]]
LU_COLUMNS = ("lu_reads_per_s", "lu_writes_per_s", "lu_read_mb_per_s", "lu_write_mb_per_s", "lu_write_to_read")
ARRAY_COLUMNS = ("busy", "commands", "controller", "pending", "waits", "hits")
RATE_COLUMNS = ("n", "files", "mb", "read_mb", "write_mb", "seconds", "below", "cpu")


def of_run(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """The tables of the run."""
    points = summary["points"]
    if not points:
        return []
    tables = [_rates(points, letters, language), _times(points, letters, language)]
    if any(point["caches"]["emptied"] for point in points):
        tables.append(_caches(points, letters, language))
    if modelled := [point for point in points if _mean(point, "drive_busy_percent") is not None]:
        tables.append(_array(modelled, letters, language))
    for name, metrics in (("lu", LU_COLUMNS), ("guest", tuple(names.GUEST))):
        # Points without a chain have neither, and short loads may have no two samples of them.
        if counted := [point for point in points if any(_mean(point, metric) is not None for metric in metrics)]:
            tables.append(_means(counted, letters, language, name, metrics))
    if shared := [point for point in points if point.get("servers")]:
        tables.append(_servers(shared, language))
    if counted := [point for point in points if any(_mean(point, name) is not None for name in names.BELOW_DISK)]:
        tables.append(_below_disk(counted, letters, language))
    chained = [point for point in points if point.get("space")]
    if chained:
        tables += [_space(chained, language), _growth(chained, language)]
    extended = [point for point in points if point.get("extension")]
    return [*tables, _extension(extended, language)] if extended else tables


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
            *(tenths(metrics[name]["mean"], language) for name in ("read_below_percent", "machine_percent")),
            say(language, f"limiter.{point['limiter']}"),
        ]

    return _table(points, letters, language, "table.files.rates", columns, cells)


def _times(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    every = (*names.SHARED, *names.WHOLE)
    timed = [name for name in every if any(names.latency(name, "p50") in point["metrics"] for point in points)]
    columns = [Column(say(language, f"operation.{name}")) for name in timed]

    def cells(point: Json) -> list[Cell | str]:
        median, tail = (
            [number(_mean(point, names.latency(name, percentile)), language) for name in timed]
            for percentile in ("p50", "p99")
        )
        return [Cell(first, second, bold=True) for first, second in zip(median, tail, strict=True)]

    return _table(points, letters, language, "table.files.times", columns, cells)


def _array(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    """Use of the array below the LUs. Drives have a mean, and their highest value below it."""
    columns = [Column(say(language, f"table.files.array.{name}")) for name in ARRAY_COLUMNS]
    others = ("controller_busy_percent", "write_pending_percent", "write_waits_percent", "cache_hit_percent")

    def cells(point: Json) -> list[Cell | str]:
        drives: list[Cell | str] = [
            Cell(tenths(_mean(point, name), language), tenths(_mean(point, f"{name}_max"), language), bold=True)
            for name in ("drive_busy_percent", "commands_per_drive")
        ]
        return [*drives, *(tenths(_mean(point, name), language) for name in others)]

    return _table(points, letters, language, "table.files.array", columns, cells)


def _means(points: list[Json], letters: Mapping[str, str], language: str, name: str, metrics: Sequence[str]) -> Table:
    """A column of means for each metric."""
    columns = [Column(say(language, f"table.files.{name}.{metric}")) for metric in metrics]

    def cells(point: Json) -> list[Cell | str]:
        return [number(_mean(point, metric), language) for metric in metrics]

    return _table(points, letters, language, f"table.files.{name}", columns, cells)


def _caches(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    """Whether the caches were emptied before each load, and the check of the layers below."""
    columns = [Column(say(language, f"table.files.caches.{name}"), "words") for name in ("state", "layer")]
    columns += [Column(say(language, f"table.files.caches.{name}")) for name in ("percent", "drives")]

    def cells(point: Json) -> list[Cell | str]:
        caches = point["caches"]
        return [
            say(language, f"caches.{_state(caches)}"),
            say(language, f"caches.layer.{caches['layer']}"),
            *(tenths(caches[name], language) for name in ("percent", "drives_percent")),
        ]

    return _table(points, letters, language, "table.files.caches", columns, cells)


def _state(caches: Json) -> str:
    if not caches["emptied"]:
        return "kept"
    return {True: "cold", False: "not_cold", None: "emptied"}[caches["cold"]]


def _below_disk(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    """Accesses of the LU for each one of the virtual disk, and bytes for each byte."""
    columns = [Column(say(language, f"table.files.below_disk.{name}")) for name in ("misaligned", *names.BELOW_DISK)]

    def cells(point: Json) -> list[Cell | str]:
        metrics = point["metrics"]
        ratios = (common.with_interval(metrics[name], language) for name in names.BELOW_DISK)
        return [tenths(_mean(point, names.MISALIGNED), language), *ratios]

    return _table(points, letters, language, "table.files.below_disk", columns, cells)


def _mean(point: Json, metric: str) -> float | None:
    """The mean of a metric; None for a point without it, such as one without an array."""
    found: float | None = point["metrics"].get(metric, {}).get("mean")
    return found


def _servers(points: list[Json], language: str) -> Table:
    """Rates of each file server, and of each client if they are more."""
    columns = [Column(say(language, "table.files.servers.node"), "level", header=True)]
    columns.append(Column(say(language, "table.files.servers.role"), "words"))
    columns += [Column(say(language, f"table.files.{name}")) for name in ("files", "mb", "servers.share")]
    rows: list[Row | Across] = []
    for point in points:
        rows.append(Across(label(point, language), heading=True))
        metrics = point["metrics"]
        for each in point["servers"]:
            server = each["server"]
            rows.append(_of_node(metrics, server, say(language, "table.files.servers.server"), language))
            role = say(language, "table.files.servers.client", {"server": server})
            clients = [host for host in each["clients"] if f"{names.RATE}/{host}" in metrics]
            rows += [_of_node(metrics, host, role, language) for host in clients]
    return Table(say(language, "table.files.servers"), columns, rows)


def _of_node(metrics: Json, node: str, role: str, language: str) -> Row:
    rate, total = metrics[f"{names.RATE}/{node}"], metrics[names.RATE]["mean"]
    share = None if rate["mean"] is None or not total else 100 * rate["mean"] / total
    return Row(
        [
            node,
            role,
            common.with_interval(rate, language),
            common.with_interval(metrics[f"mb_per_s/{node}"], language),
            tenths(share, language),
        ]
    )


def _space(points: list[Json], language: str) -> Table:
    """Bytes of each layer after each stage."""
    columns = [Column(say(language, "table.files.space.stage"), "level", header=True)]
    columns += [Column(say(language, f"layer.{layer}")) for layer in LAYERS]
    rows: list[Row | Across] = []
    for point in points:
        rows.append(Across(label(point, language), heading=True))
        for stage in STAGES:
            if (sizes := point["space"]["stages"].get(stage)) is None:
                continue
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


def _extension(points: list[Json], language: str) -> Table:
    """Size of each layer before and after its extension, and the time of the step."""
    columns = [Column(say(language, "table.files.extension.layer"), "level", header=True)]
    columns += [Column(say(language, f"table.files.extension.{name}")) for name in ("before", "after", "ms")]
    rows: list[Row | Across] = []
    for point in points:
        rows.append(Across(label(point, language), heading=True))
        for layer, found in point["extension"].items():
            sizes = (_mib(found[f"{when}_bytes"], language) for when in ("before", "after"))
            rows.append(Row([say(language, f"extension.{layer}"), *sizes, number(found["ms"], language)]))
    return Table(say(language, "table.files.extension"), columns, rows)


def _mib(size: float, language: str) -> str:
    return tenths(size / (1 << 20), language)
