"""Parts of a report about copies, as text: answer, tiles and method."""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.copy.figures import plain_points, slow_point
from hakaru.kinds.copy.load import load_at
from hakaru.lab.plan import LabPlan
from hakaru.study import Study
from hakaru.units import format_duration, format_size
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
ANSWERS = ("limiter", "tape", "ratio", "tcp_age", "initiators", "remedy")


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
        point["path"]["payload_mib_per_s"] != slow["path"]["payload_mib_per_s"] and point["limiter"] != slow["limiter"]
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
    value = f"{number(metrics['mib_per_s']['mean'], language)} MiB/s"
    return {"title": say(language, f"tile.{name}"), "value": value, "small": small}


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
    if load.warmup:
        texts.append(say(language, "method.backup.warmup", {"warmup": format_duration(load.warmup)}))
    return [*texts, say(language, f"method.network.{plan.backend}")] if plan else texts
