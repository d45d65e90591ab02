"""Parts of a report about copies, as text: answer, tiles, tables and method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.copy.figures import plain_points, slow_point
from hakaru.kinds.copy.load import load_at
from hakaru.lab.plan import LabPlan
from hakaru.report import common
from hakaru.report.blocks import Cell, Column, Row, Table
from hakaru.study import Study
from hakaru.units import format_duration, format_size
from hakaru.wording import MISSING, number, say, tenths

Json = dict[str, Any]
ANSWERS = ("limiter", "ratio", "tcp_age", "remedy")
COLUMNS = ("n", "mb_per_s", "path_percent", "done", "again", "timeouts", "waiting", "dropped")


def chief_findings(summary: Json) -> list[Json]:
    """Return the findings that answer the question: those about the slow point, and the limiter of
    the first plain point on a different path.
    """
    slow = slow_point(summary)
    if slow is None:
        return [f for f in summary["findings"] if f["kind"] in ANSWERS][:1]
    levels = slow["factors"].items()
    on_slow_point = [f for f in summary["findings"] if f["kind"] in ANSWERS and f["where"].items() <= levels]
    other = next((p for p in plain_points(summary) if _is_on_other_path(p, slow)), None)
    on_other_point = [
        f for f in summary["findings"] if f["kind"] == "limiter" and other and f["where"] == other["factors"]
    ]
    return on_slow_point + on_other_point


def _is_on_other_path(point: Json, slow: Json) -> bool:
    """Whether a point has a different path rate and a different limiter than the slow point."""
    return bool(
        point["path"]["payload_mb_per_s"] != slow["path"]["payload_mb_per_s"] and point["limiter"] != slow["limiter"]
    )


def tiles(summary: Json, language: str) -> list[Json]:
    """The slow copy, the fast copy that it is compared with, their ratio, and the limiter."""
    slow = slow_point(summary)
    if slow is None:
        return []
    shown = [_rate_tile(language, "slow", slow)]
    for finding in summary["findings"]:
        evidence = finding["evidence"]
        if finding["kind"] != "ratio" or not finding["where"].items() <= slow["factors"].items():
            continue
        levels = finding["where"] | {evidence["over"]: evidence["fast"]}
        shown += [_rate_tile(language, "fast", p) for p in plain_points(summary) if p["factors"] == levels]
        published_ratio = evidence["published_ratio"]
        small = say(language, "tile.published", {"ratio": round(published_ratio, 2)}) if published_ratio else ""
        times = say(language, "tile.times", {"ratio": round(evidence["ratio"], 2)})
        shown.append({"title": say(language, "tile.ratio"), "value": times, "small": small})
    waited = slow["metrics"]["timeout_wait_percent"]["mean"]
    small = say(language, "tile.waited", {"percent": tenths(waited, language)}) if waited else ""
    limiter = {
        "title": say(language, "tile.limits"),
        "value": say(language, f"limiter.{slow['limiter']}"),
        "small": small,
    }
    return [*shown, limiter]


def _rate_tile(language: str, name: str, point: Json) -> Json:
    metrics = point["metrics"]
    share = {"percent": tenths(metrics["path_percent"]["mean"], language)}
    small = f"{sentences.series(point['factors'], language)}; {say(language, 'tile.path', share)}"
    value = f"{number(metrics['mb_per_s']['mean'], language)} MB/s"
    return {"title": say(language, f"tile.{name}"), "value": value, "small": small}


def tables(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """Tables of points, one for each set of factors."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for point in summary["points"]:
        groups.setdefault(tuple(point["factors"]), []).append(point)
    return [_table(points, letters, language) for points in groups.values()]


def _table(points: list[Json], letters: Mapping[str, str], language: str) -> Table:
    varied, caption = common.factors(points, language)
    columns = [
        *(Column(factor, "level", header=True) for factor in varied),
        *(Column(say(language, f"table.{name}")) for name in COLUMNS),
        Column(say(language, "table.limiter"), "words"),
    ]
    rows = [_row(point, varied, letters, language) for point in points]
    return Table(caption, columns, rows, "numbers copies", caveats=True)


def _row(point: Json, varied: list[str], letters: Mapping[str, str], language: str) -> Row:
    metrics = point["metrics"]

    def mean(name: str) -> str:
        return number(metrics[name]["mean"], language)

    cells: list[Cell | str] = [str(point["factors"][factor]) for factor in varied]
    cells += [
        str(metrics["mb_per_s"]["n"]),
        common.with_interval(metrics["mb_per_s"], language),
        tenths(metrics["path_percent"]["mean"], language),
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


def method(study: Study, plan: LabPlan | None, language: str) -> list[str]:
    """Sentences about the copy and the backend of the network."""
    load = load_at(study)
    values = {
        "jobs": load.jobs,
        "image": format_size(load.image),
        "block": format_size(load.block),
        "depth": load.depth,
        "streams": load.streams,
        "time_limit": format_duration(load.time_limit),
        "source": load.source.array,
        "target": load.destination.array,
    }
    texts = [say(language, "method.backup", values)]
    return [*texts, say(language, f"method.network.{plan.backend}")] if plan else texts
