"""Findings about copies: the reason for a slow copy, the settings that make it fast, the effect of
the age of TCP.

limiter   the bottleneck of each plain point (those of the study's first block)
ratio     the rate of the fastest plain point relative to the slowest on the same path
tcp_age   the rate with today's TCP relative to that with TCP of 2009
initiators  the rate with the initiator of Linux relative to that with hakaru's, in the same guests
collapse  the region of collapse in a map: the least buffer by number of streams
tape      what the tape drives did at each plain point, and why; at others, beside the copy to disks
remedy    single settings that end the collapse, the cheapest first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.findings import Finding
from hakaru.analysis.reference import Comparison
from hakaru.analysis.rules.arithmetic import count as counted
from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.judge import words
from hakaru.analysis.rules.rule import UNDETERMINED
from hakaru.kinds.copy.analysis import tape_finding
from hakaru.kinds.copy.analysis.maps import COLLAPSE_PERCENT, Map, collapsed
from hakaru.kinds.copy.analysis.metrics import MIB
from hakaru.kinds.copy.analysis.neighbours import (
    GOOD_SHARE,
    KINDS,
    Change,
    initiator_pairs,
    remedies,
    same_path,
    tcp_age_pairs,
)
from hakaru.kinds.copy.analysis.points import CopyPoint
from hakaru.kinds.copy.analysis.ratio import ratio_words
from hakaru.study import Study
from hakaru.study.where import same_level
from hakaru.units import format_rate, format_size
from hakaru.wording import LANGUAGES, say, tenths

SINGLE_RATIO = 1.1
"""Smallest ratio of two single repetitions that counts as a difference."""

Write = Callable[[str], str]


def of_run(study: Study, points: list[CopyPoint], maps: list[Map], comparisons: Sequence[Comparison]) -> list[Finding]:
    """All findings of a run, the most important first."""
    plain = plain_points(points)
    measured = [p for p in plain if p.mean("mib_per_s") is not None]
    findings = [_limiter(p, len(plain) > 1) for p in plain]
    findings += tape_finding.of_points(points, plain)
    valid = [p for p in measured if p.valid]
    findings += [f for group in _groups(valid) if (f := _ratio(group, comparisons)) is not None]
    # If the test setup was the bottleneck, a difference describes neither TCP nor the initiator.
    valid_for_tcp = [p for p in valid if not p.verdict.test_setup_limited]
    findings += [_tcp_age(old, new) for old, new in tcp_age_pairs(valid_for_tcp)]
    all_valid = [p for p in points if p.mean("mib_per_s") is not None and p.valid]
    for_initiators = [p for p in all_valid if not p.verdict.test_setup_limited]
    findings += [_initiators(ours, linux) for ours, linux in initiator_pairs(for_initiators)]
    findings += [_collapse(m) for m in maps if m.known]
    slow = [p for p in measured if collapsed(p)]
    fast = [p for p in points if p.valid and not collapsed(p)]
    findings += [f for p in slow if (f := _remedy(p, remedies(study, p, fast))) is not None]
    return findings


def plain_points(points: list[CopyPoint]) -> list[CopyPoint]:
    """The points with the same factors as the first point of the study: its patterns, without the
    points that vary other settings.
    """
    return [p for p in points if p.factors.keys() == points[0].factors.keys()]


def levels_of(point: CopyPoint) -> dict[str, Any]:
    """The levels of a point."""
    return dict(point.factors)


def _finding(
    kind: str, levels: dict[str, Any], write: Write, evidence: dict[str, Any], limiter: str | None = None
) -> Finding:
    text = {language: sentences.in_series(language, levels, write(language), bool(levels)) for language in LANGUAGES}
    return Finding(kind, levels, text, limiter, evidence)


# --- The bottleneck of a point


def _limiter(point: CopyPoint, several: bool) -> Finding:
    def write(language: str) -> str:
        return explanation(language, point)

    evidence = point.evidence.to_json() | {"resource": point.verdict.resource}
    return _finding("limiter", levels_of(point) if several else {}, write, evidence, point.verdict.limiter)


def explanation(language: str, point: CopyPoint) -> str:
    """Sentences about the bottleneck and the rate of a point."""
    parts, limiter = words(language, point.verdict, point.evidence), point.verdict.limiter
    if point.verdict.values.get("reason") == "no_value":
        return sentences.sentences(language, *parts)
    if limiter not in ("switch_buffer", "congestion_marks", UNDETERMINED):
        parts.append(_drops(language, point.evidence))
    return sentences.sentences(language, *parts, *_rates(language, point))


def _rates(language: str, point: CopyPoint) -> list[str]:
    """Sentences about the rate by wall clock, and about the sum of the jobs' own rates where it
    exceeds what the path carries.
    """
    path, total, capacity = point.mean("path_percent"), point.mean("sum_mib_per_s"), point.setup.payload_bytes_per_s
    values = {"mib_per_s": point.mean("mib_per_s"), "sum": total, "path": tenths(path, language)}
    if total is None:
        message = "backup.rate.whole" if path is not None else "backup.rate.only.whole"
    else:
        message = "backup.rate" if path is not None else "backup.rate.only"
    rates = [say(language, message, values)]
    if total is not None and capacity is not None and total > capacity / MIB:
        ends = {"first": point.mean("first_done_s"), "last": point.mean("last_done_s"), "capacity": capacity / MIB}
        rates.append(say(language, "backup.rate.above", ends))
    return rates


def _drops(language: str, evidence: Evidence) -> str:
    """A sentence about frames dropped on the path; empty if no fabric counted."""
    if evidence.dropped_frames is None:
        return ""
    count = counted(evidence.dropped_frames)
    return say(language, "backup.dropped" if count else "backup.dropped.none", {"count": count})


# --- Differences between points


def _groups(points: list[CopyPoint]) -> list[list[CopyPoint]]:
    """Groups of points on the same path that differ only in the first factor."""
    first = next(iter(points[0].factors), None) if points else None
    groups: dict[tuple[Any, ...], list[CopyPoint]] = {}
    for point in points:
        rest = tuple((f, str(v)) for f, v in point.factors.items() if f != first)
        groups.setdefault((rest, point.setup.payload_bytes_per_s), []).append(point)
    return [g for g in groups.values() if len(g) > 1 and same_path(g[0], g[-1])]


def _ratio(group: list[CopyPoint], comparisons: Sequence[Comparison]) -> Finding | None:
    """The finding `ratio`. It compares levels of a published table if the group has at least two of
    them, and all levels otherwise.
    """
    group = _published(group, comparisons) or group
    fast, slow = (choose(group, key=lambda p: p.mean("mib_per_s") or 0.0) for choose in (max, min))
    over = next(iter(fast.factors))
    slow_rate = slow.mean("mib_per_s") or 0.0
    if slow_rate <= 0 or fast is slow:
        return None
    ratio = fast.ratio_to(slow, "mib_per_s")
    rest = {f: v for f, v in fast.factors.items() if f != over}
    published = _published_ratio([c for c in comparisons if c.where == rest], fast, slow, over)
    evidence = {
        "over": over,
        "fast": fast.factors[over],
        "slow": slow.factors[over],
        "mib_per_s": [fast.mean("mib_per_s"), slow.mean("mib_per_s")],
        "path_percent": [fast.mean("path_percent"), slow.mean("path_percent")],
        **_ratio_evidence(ratio),
        "published_ratio": published,
    }

    def write(language: str) -> str:
        values = {
            "fast": fast.factors[over],
            "slow": slow.factors[over],
            "fast_rate": fast.mean("mib_per_s"),
            "slow_rate": slow.mean("mib_per_s"),
            **ratio_words(language, ratio),
        }
        text = say(language, "backup.ratio.alike" if _is_alike(ratio) else "backup.ratio", values)
        if published is None:
            return text
        return sentences.sentences(
            language, text, say(language, "backup.ratio.published", {"ratio": round(published, 2)})
        )

    return _finding("ratio", rest, write, evidence)


def _is_alike(ratio: Estimate) -> bool:
    """Whether the repetitions do not show that two rates differ."""
    if ratio.low is not None and ratio.high is not None:
        return ratio.low <= 1 <= ratio.high
    return ratio.mean is not None and 1 / SINGLE_RATIO < ratio.mean < SINGLE_RATIO


def _ratio_evidence(ratio: Estimate) -> dict[str, Any]:
    return {"ratio": ratio.mean, "ratio_low": ratio.low, "ratio_high": ratio.high, "n": ratio.n}


def _published(group: list[CopyPoint], comparisons: Sequence[Comparison]) -> list[CopyPoint]:
    over = next(iter(group[0].factors))
    levels = [r.level for c in comparisons if c.metric == "mib_per_s" and c.over == over for r in c.rows]
    points = [p for p in group if any(same_level(p.factors[over], level) for level in levels)]
    return points if len(points) > 1 else []


def _published_ratio(comparisons: Sequence[Comparison], fast: CopyPoint, slow: CopyPoint, over: str) -> float | None:
    for comparison in comparisons:
        if comparison.metric != "mib_per_s" or comparison.over != over:
            continue
        rows = [(r.level, r.published) for r in comparison.rows if isinstance(r.published, int | float)]
        above, below = (
            next((value for level, value in rows if same_level(p.factors[over], level)), None) for p in (fast, slow)
        )
        if above and below:
            return above / below
    return None


def _tcp_age(old: CopyPoint, new: CopyPoint) -> Finding:
    rates = [p.mean("mib_per_s") or 0.0 for p in (old, new)]
    ratio = new.ratio_to(old, "mib_per_s")
    common = {f: v for f, v in new.factors.items() if old.factors.get(f) == v}
    names = ("mib_per_s", "path_percent", "timeouts", "timeout_wait_percent", "retransmitted_percent", "dropped_frames")
    sides = ("old", "new")
    evidence: dict[str, Any] = {n: [p.mean(n) for p in (old, new)] for n in names}
    evidence |= _ratio_evidence(ratio) | {"limiter": [p.verdict.limiter for p in (old, new)]}

    def write(language: str) -> str:
        values: dict[str, Any] = {"old": rates[0], "new": rates[1], **ratio_words(language, ratio)}
        other_levels = [str(v) for f, v in old.factors.items() if new.factors.get(f) != v and str(v) != "2009"]
        values["name"] = say(language, "backup.age.name", {"level": ", ".join(other_levels)}) if other_levels else ""
        parts = [say(language, "backup.age.alike" if _is_alike(ratio) else "backup.age", values)]
        timeouts, shares = evidence["timeouts"], evidence["retransmitted_percent"]
        # Values that are written alike, as those that are 0, are no change.
        for message, found, write_one in (("timeouts", timeouts, counted), ("retransmitted", shares, tenths)):
            if None not in found and len(written := [write_one(value) for value in found]) == len(set(written)):
                parts.append(say(language, f"backup.age.{message}", dict(zip(sides, written, strict=True))))
        return sentences.sentences(language, *parts)

    return _finding("tcp_age", common, write, evidence | {"points": [old.id, new.id]})


def _initiators(ours: CopyPoint, linux: CopyPoint) -> Finding:
    ratio = linux.ratio_to(ours, "mib_per_s")
    names = ("mib_per_s", "path_percent", "dropped_frames")
    evidence: dict[str, Any] = {n: [p.mean(n) for p in (ours, linux)] for n in names}
    evidence |= _ratio_evidence(ratio) | {"limiter": [p.verdict.limiter for p in (ours, linux)]}

    def write(language: str) -> str:
        rates = {"ours": ours.mean("mib_per_s"), "linux": linux.mean("mib_per_s")}
        message = "backup.initiators.alike" if _is_alike(ratio) else "backup.initiators"
        return say(language, message, {**rates, **ratio_words(language, ratio)})

    return _finding("initiators", levels_of(ours), write, evidence | {"points": [ours.id, linux.id]})


# --- Collapse and remedies


def _collapse(map_: Map) -> Finding:
    least = {s: map_.least_buffer(s) for s in map_.streams if map_.column(s)}
    inside = sum(c.collapsed for c in map_.known)

    def write(language: str) -> str:
        total = {"inside": inside, "total": len(map_.known), "percent": COLLAPSE_PERCENT}
        parts = [say(language, "backup.collapse" if inside else "backup.collapse.none", total)]
        for streams, buffer in least.items() if inside else ():
            values = {"count": streams, "buffer": format_size(buffer) if buffer else "–"}
            parts.append(say(language, "backup.collapse.least" if buffer else "backup.collapse.always", values))
        return sentences.sentences(language, *parts)

    return _finding(
        "collapse", map_.where, write, {"collapse_percent": COLLAPSE_PERCENT, "least_buffer_bytes": _texts(least)}
    )


def _texts(by_streams: dict[int, int | None]) -> dict[str, int | None]:
    return {str(k): v for k, v in by_streams.items()}


def _remedy(slow: CopyPoint, changes: list[Change]) -> Finding | None:
    if not changes:
        return None

    def write(language: str) -> str:
        separator = say(language, "list.separator")
        settings = [f"{setting(language, c)} ({_rate(language, c)})" for c in changes]
        values = {
            "share": 100 * GOOD_SHARE,
            "settings": separator.join(settings),
            "cheapest": setting(language, changes[0]),
        }
        text = say(language, "backup.remedy", values | {"rate": slow.mean("mib_per_s")})
        return (
            sentences.sentences(language, text, say(language, "backup.remedy.cheapest", values))
            if len(changes) > 1
            else text
        )

    return _finding("remedy", levels_of(slow), write, {"changes": [c.to_json() for c in changes], "share": GOOD_SHARE})


def _rate(language: str, change: Change) -> str:
    return say(language, "backup.setting.rate", {"mib_per_s": change.point.mean("mib_per_s")})


def setting(language: str, change: Change) -> str:
    """A changed setting in words: `a buffer of 256 KiB (vtl)`."""
    after = change.after
    value = format_rate(int(after)) if change.kind == "send_rate" and isinstance(after, int) else _plain(after)
    message = f"backup.setting.{change.kind}" if change.kind in KINDS else "backup.setting.other"
    links = say(language, "list.separator").join(change.links)
    return say(language, message, {"value": value, "link": links, "place": change.place})


def _plain(value: Any) -> str:
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
