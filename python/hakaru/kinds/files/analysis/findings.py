"""Findings about loads on files. Those of pairs of points are in `differences` and `misalignment`.

servers   the rates of several file servers or clients, and fairness
space     the bytes of the layers below the trees, and what TRIM and compaction gave back
growth    the pool that grew during the load, and the rates before, meanwhile and after
extension the disk that was extended during the load, its layers, and the same rates
peak      the number of tools with the highest rate, of each sweep
limiter   the rate of each point, and its bottleneck
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.analysis.points import Point
from hakaru.analysis.rules.judge import words
from hakaru.analysis.sweep import Sweep
from hakaru.fileserver.space import LAYERS
from hakaru.kinds.files import names
from hakaru.kinds.files.analysis.points import FilesPoint
from hakaru.kinds.files.chain import THRESHOLD_PERCENT
from hakaru.kinds.files.events import grows
from hakaru.wording import LANGUAGES, number, say

KEPT_SHARE = 0.25
"""Share of the deleted files below which a layer is said to have given nothing back."""


def of_run(points: Sequence[FilesPoint], sweeps: list[Sweep]) -> list[Finding]:
    """All findings of a run: the peaks, then the points in their order."""
    several = len(points) > 1
    peaks = [_peak(sweep, len(sweeps) > 1) for sweep in sweeps if len(sweep.measured(names.RATE)) > 1]
    return [*(peak for peak in peaks if peak is not None), *(_limiter(point, several) for point in points)]


def of_servers(points: Sequence[FilesPoint], several: bool) -> list[Finding]:
    """A finding about each point with several file servers, or several clients of one."""
    return [_servers(point, several) for point in points if point.servers and point.mean(names.RATE) is not None]


def _servers(point: FilesPoint, several: bool) -> Finding:
    rates = {server: point.mean(f"{names.RATE}/{server}") or 0.0 for server in point.servers}
    fast, slow = (choose(rates, key=lambda server: rates[server]) for choose in (max, min))
    fairness = {name: point.mean(name) for name in names.FAIRNESS}
    text = {}
    for language in LANGUAGES:
        values: dict[str, Any] = {
            "servers": len(rates),
            "clients": point.load.clients,
            "files": point.mean(names.RATE),
            "fast": fast,
            "slow": slow,
            "ratio": rates[fast] / rates[slow] if rates[slow] > 0 else None,
            "jain": fairness["server_jain_index"],
        }
        own = say(language, "files.servers" if len(rates) > 1 else "files.servers.one", values)
        text[language] = sentences.in_series(language, point.factors if several else {}, own, several)
    evidence = {"files_per_s": rates, **fairness}
    return Finding("servers", dict(point.factors) if several else {}, text, None, evidence)


def of_spaces(points: Sequence[FilesPoint], several: bool) -> list[Finding]:
    """Findings about the layers below the trees, of each point that has a chain."""
    return [_space(point, point.space, several) for point in points if point.space is not None]


def _space(point: FilesPoint, space: Mapping[str, Any], several: bool) -> Finding:
    stages = space["stages"]
    loaded = {layer: stages["loaded"][layer] - stages["created"][layer] for layer in LAYERS}
    returned = {
        "image": stages["deleted"]["image"] - stages["guest_trimmed"]["image"],
        "lu": stages["deleted"]["lu"] - stages["host_trimmed"]["lu"],
    }
    compacted = None
    if "compacted" in stages:
        before = stages["host_trimmed"]
        compacted = {layer: before[layer] - stages["compacted"][layer] for layer in returned}
    text = {}
    for language in LANGUAGES:
        values = {layer: mib(size, language) for layer, size in loaded.items()}
        parts = [say(language, "files.space", values)]
        if space["chains"] > 1:
            parts.append(say(language, "files.space.chains", {"chains": space["chains"]}))
        for layer, size in returned.items():
            # Less than that may be metadata, and does not count as returned.
            kept = size < KEPT_SHARE * loaded["files"]
            message = f"files.space.{layer}.{'kept' if kept else 'returned'}"
            parts.append(say(language, message, {"returned": mib(max(0.0, size), language)}))
        if compacted is not None:
            sizes = {layer: mib(max(0.0, size), language) for layer, size in compacted.items()}
            parts.append(say(language, "files.space.compacted", sizes))
        levels = point.factors if several else {}
        text[language] = sentences.in_series(language, levels, sentences.sentences(language, *parts), bool(levels))
    counts = {name: space[name] for name in ("repetitions", "chains")}
    evidence = {"loaded": loaded, "returned": returned, "compacted": compacted, **counts}
    return Finding("space", dict(point.factors) if several else {}, text, None, evidence)


def of_growths(points: Sequence[FilesPoint], several: bool) -> list[Finding]:
    """Findings about the pools that grew during the load, of each point with such events."""
    known = "pool_used_percent_after_growth"
    return [_growth(point, several) for point in points if grows(point.load.events) and point.mean(known) is not None]


def _growth(point: FilesPoint, several: bool) -> Finding:
    evidence = {name: point.mean(name) for name in names.GROWTH} | {"threshold_percent": THRESHOLD_PERCENT}
    before, after = (evidence[f"pool_used_percent_{when}_growth"] for when in ("before", "after"))
    rates = {when: evidence[f"{names.RATE}_{when}_growth"] for when in ("before", "during", "after")}
    text = {}
    for language in LANGUAGES:
        count = sum(event.grow_pool is not None for event in point.load.events)
        parts = [say(language, "files.growth", {**evidence, "growths": count})]
        if before is not None and after is not None and before >= THRESHOLD_PERCENT:
            state = "above" if after >= THRESHOLD_PERCENT else "relieved"
            parts.append(say(language, f"files.growth.{state}", evidence))
        if None not in rates.values():
            parts.append(say(language, "files.growth.rates", rates))
        levels = point.factors if several else {}
        text[language] = sentences.in_series(language, levels, sentences.sentences(language, *parts), bool(levels))
    return Finding("growth", dict(point.factors) if several else {}, text, None, evidence)


def of_extensions(points: Sequence[FilesPoint], several: bool) -> list[Finding]:
    """Findings about the disks that were extended during the load, of each point with such
    events.
    """
    return [_extension(point, point.extension, several) for point in points if point.extension is not None]


def _extension(point: FilesPoint, layers: Mapping[str, Mapping[str, float]], several: bool) -> Finding:
    metrics = {name: point.mean(name) for name in names.EXTENSION}
    rates = {when: metrics[f"{names.RATE}_{when}_extension"] for when in ("before", "during", "after")}
    longest = max(layers, key=lambda layer: layers[layer]["ms"])
    disk = layers["virtual_disk"]
    text = {}
    for language in LANGUAGES:
        values = {
            "before": mib(disk["before_bytes"], language),
            "after": mib(disk["after_bytes"], language),
            "ms": metrics["extension_ms"],
            "held": metrics["extension_held_ms"],
            "longest": say(language, f"extension.{longest}"),
            "longest_ms": layers[longest]["ms"],
        }
        parts = [say(language, "files.extension", values)]
        if None not in rates.values():
            parts.append(say(language, "files.extension.rates", rates))
        levels = point.factors if several else {}
        text[language] = sentences.in_series(language, levels, sentences.sentences(language, *parts), bool(levels))
    evidence = {**metrics, "layers": {layer: dict(sizes) for layer, sizes in layers.items()}}
    return Finding("extension", dict(point.factors) if several else {}, text, None, evidence)


def mib(size: float, language: str) -> str:
    """Bytes in MiB, without the unit."""
    return number(size / (1 << 20), language)


def level_words(sweep: Sweep, point: Point, language: str) -> str:
    """The level of a point in words."""
    return sentences.level(language, sweep.over, sweep.level(point))


def _peak(sweep: Sweep, several: bool) -> Finding | None:
    peak = sweep.peak(names.RATE)
    if peak is None:
        return None
    near, like = sweep.near_peak(names.RATE), sweep.like_peak(names.RATE)
    rate = peak.metrics[names.RATE]
    text = {}
    for language in LANGUAGES:
        values = {
            "level": level_words(sweep, peak, language),
            "files": rate.mean,
            "mb": peak.mean("mb_per_s"),
            "first": round(sweep.level(near[0])),
            "last": round(sweep.level(near[-1])),
        }
        parts = [say(language, "files.peak", values)]
        levels, measured = ([sweep.level(point) for point in each] for each in (like, sweep.measured(names.RATE)))
        parts += [sentences.alike(language, sweep.over, levels, measured)] if len(like) > 1 else []
        parts += [say(language, "files.near", values)] if len(near) > 1 else []
        own = sentences.sentences(language, *parts)
        text[language] = sentences.in_series(language, sweep.where, own, several)
    evidence = {
        "over": sweep.over,
        "level": sweep.level(peak),
        **rate.to_json(),
        "near_peak": [sweep.level(point) for point in near],
        "like_peak": [sweep.level(point) for point in like],
    }
    return Finding("peak", dict(sweep.where), text, None, evidence)


def _limiter(point: FilesPoint, several: bool) -> Finding:
    levels = dict(point.factors) if several else {}
    text = {}
    for language in LANGUAGES:
        rate = point.mean(names.RATE)
        values = {"files": rate, "mb": point.mean("mb_per_s")}
        message = "files.rate"
        if (users := point.load.users) is not None:
            message = "files.rate.users"
            if users.rate is not None:
                message = "files.rate.requested"
                values |= {"requested": users.rate * point.load.servers, "achieved": point.mean(names.ACHIEVED)}
        parts = [] if rate is None else [say(language, message, values)]
        parts += words(language, point.verdict, point.evidence)
        text[language] = sentences.in_series(language, levels, sentences.sentences(language, *parts), bool(levels))
    evidence = point.evidence.to_json() | {"resource": point.verdict.resource}
    return Finding("limiter", levels, text, point.verdict.limiter, evidence)
