"""Parts of the report of a study of distance, as text: answer, tiles, tables and method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.kinds.vms import path_figures
from hakaru.kinds.vms.analysis.flows import SHARES
from hakaru.report import common
from hakaru.report.blocks import Cell, Column, Row, Table
from hakaru.report.sweep import factor_title
from hakaru.study.part import level_text
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
TILES_MAX = 4
COLUMNS = (
    "n",
    "mb_per_s",
    "bound",
    "of_bound",
    "of_payload",
    "r2ts",
    "wait_r2t",
    "tcp_idle",
    "tcp_receive_window",
    "tcp_send_buffer",
    "again",
    "timeouts",
)
LIMITER_AT = 5
"""Index of the column of the bottleneck among these columns."""


def is_distance(summary: Json) -> bool:
    """Whether the distance between VMs and array varies, so that the report is about rates over the
    round-trip time.
    """
    return bool(summary.get("curves"))


def _chief_points(summary: Json) -> list[Json]:
    """Return the points of the first group at the chief distance (`path_figures.chief_rtt`);
    without curves, the first points of the run.
    """
    rtt = path_figures.chief_rtt(summary)
    if rtt is None:
        return list(summary["points"][:TILES_MAX])
    return [p for p in path_figures.bar_points(summary) if p["path"]["rtt_ms"] == rtt]


def chief_findings(summary: Json) -> list[Json]:
    """Return the findings that answer the question: the gain of the settings at the chief distance,
    and the limiter of each setting.
    """
    points = _chief_points(summary)
    levels = [p["factors"] for p in points]
    gains = [
        f
        for f in summary["findings"]
        if f["kind"] == "gain" and any(f["where"].items() <= point_levels.items() for point_levels in levels)
    ]
    return gains[:1] + [f for f in summary["findings"] if f["kind"] == "limiter" and (f["where"] in levels)]


def tiles(summary: Json, language: str) -> list[Json]:
    """The rate of each setting at the chief distance, and its limiter."""
    tiles = []
    for point in _chief_points(summary)[:TILES_MAX]:
        metrics = point["metrics"]
        limiter, percent = say(language, f"limiter.{point['limiter']}"), metrics["payload_percent"]["mean"]
        share = {"percent": tenths(percent, language), "limiter": limiter}
        small = limiter if percent is None else say(language, "tile.distance.share", share)
        value = f"{number(metrics['mb_per_s']['mean'], language)} MB/s"
        title = say(language, "tile.distance", {"series": path_figures.label(summary, point)})
        tiles.append({"title": title, "value": value, "small": small})
    return tiles


def tables(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """Tables of points with their bounds, one for each set of factors."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for point in summary["points"]:
        groups.setdefault((*point["factors"], str(point["factors"].get("pattern"))), []).append(point)
    streams = streams_table(summary, letters, language)
    return [*streams, *(_table(points, letters, language) for points in groups.values())]


STREAM_COLUMNS = ("stream", "iscsi", "of_stream", "tcp_idle", "tcp_receive_window", "tcp_send_buffer", "tcp_path")


def streams_table(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """Each load beside the plain TCP stream over the same path with the same sockets: rates, and
    for both the shares of the time of the sender's TCP. No table without streams.
    """
    by_id = {p["point"]: p for p in summary["points"]}
    pairs = [(p, by_id[p["plain_stream"]["point"]]) for p in summary["points"] if p.get("plain_stream")]
    if not pairs:
        return []
    columns = [
        Column(say(language, "table.load"), "level", header=True),
        *(Column(say(language, f"table.{name}")) for name in STREAM_COLUMNS),
        Column(say(language, "table.limiter"), "words"),
    ]
    rows = [_beside(summary, point, stream, letters, language) for point, stream in pairs]
    return [Table(say(language, "table.streams"), columns, rows, "numbers copies", caveats=True)]


def _beside(summary: Json, point: Json, stream: Json, letters: Mapping[str, str], language: str) -> Row:
    def share(p: Json, state: str) -> str:
        return tenths(p["metrics"][f"tcp_{state}_percent"]["mean"], language)

    def limiter(p: Json) -> str:
        return say(language, f"limiter.{p['limiter']}")

    shares = [Cell(share(point, state), share(stream, state)) for state in SHARES]
    cells: list[Cell | str] = [
        path_figures.label(summary, point),
        common.with_interval(stream["metrics"]["mb_per_s"], language),
        common.with_interval(point["metrics"]["mb_per_s"], language),
        tenths(point["plain_stream"]["percent"], language),
        *shares,
        Cell(limiter(point), limiter(stream)),
    ]
    return common.row(point, cells, letters)


def _table(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    varied, caption = common.factors(points, language, "mb_per_s")
    columns = [
        *(Column(factor_title(factor, language), "level", header=True) for factor in varied),
        *(Column(say(language, f"table.{name}")) for name in COLUMNS),
    ]
    columns.insert(len(varied) + LIMITER_AT, Column(say(language, "table.limiter"), "words"))
    rows = [_row(point, varied, letters, language) for point in points]
    return Table(caption, columns, rows, "numbers copies path", caveats=True)


def _row(point: Json, varied: list[str], letters: Mapping[str, str], language: str) -> Row:
    metrics = point["metrics"]

    def percent(name: str) -> str:
        return tenths(metrics[f"{name}_percent"]["mean"], language)

    def mean(name: str) -> str:
        return number(metrics[name]["mean"], language)

    cells: list[Cell | str] = [level_text(point["factors"].get(factor, "")) for factor in varied]
    cells += [
        str(metrics["mb_per_s"]["n"]),
        common.with_interval(metrics["mb_per_s"], language),
        mean("bound_mb_per_s"),
        percent("bound_share"),
        percent("payload"),
        say(language, f"limiter.{point['limiter']}"),
        mean("r2ts_per_command"),
        percent("wait_r2t"),
        *(percent(f"tcp_{state}") for state in ("idle", "receive_window", "send_buffer")),
        percent("retransmitted"),
        mean("timeouts"),
    ]
    return common.row(point, cells, letters)


def method(language: str) -> list[str]:
    """Sentences that define rates and bounds."""
    return [say(language, "method.distance"), say(language, "method.distance.bounds")]
