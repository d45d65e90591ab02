"""Findings about loads of VMs: the bottleneck of points in no sweep, and, over distances, the gain
and the reach of settings.

limiter   the bottleneck of a point, with the arithmetic
gain      rates of the settings of a group relative to its first one, at each distance
reach     the rate at the farthest point of a curve relative to that at its nearest

Invalid points are left out of gain and reach, as of expectations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.analysis.rules.judge import words
from hakaru.kinds.vms.analysis.curves import Curve
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.wording import LANGUAGES, say, tenths

Write = Callable[[str], str]


def of_run(curves: list[Curve], unswept: list[VmsPoint], several: bool) -> list[Finding]:
    """Findings in addition to those about sweeps, the most important first. `unswept`: points in no
    sweep.
    """
    findings = [f for group in _groups(curves) for f in _gains(group)]
    findings += [f for c in curves if (f := _reach(c)) is not None]
    return findings + [_limiter(p, several) for p in unswept]


def _finding(
    kind: str, levels: dict[str, Any], write: Write, evidence: dict[str, Any], limiter: str | None = None
) -> Finding:
    text = {language: sentences.in_series(language, levels, write(language), bool(levels)) for language in LANGUAGES}
    return Finding(kind, levels, text, limiter, evidence)


def _limiter(point: VmsPoint, several: bool) -> Finding:
    def write(language: str) -> str:
        return sentences.sentences(
            language, *words(language, point.verdict, point.evidence), *_rate_words(language, point)
        )

    evidence = point.evidence.to_json() | {"resource": point.verdict.resource}
    return _finding("limiter", dict(point.factors) if several else {}, write, evidence, point.verdict.limiter)


def _rate_words(language: str, point: VmsPoint) -> list[str]:
    """Sentences about the rate, with its shares of the lowest bound and of the payload rate if
    these are known.
    """
    if point.verdict.values.get("reason") == "no_value":
        return []
    values = {"mb_per_s": point.mean("mb_per_s")}
    shares = {"payload": point.mean("payload_percent"), "share": point.mean("bound_share_percent")}
    if None in shares.values():
        return [say(language, "distance.rate.only", values)]
    return [say(language, "distance.rate", values | {n: tenths(v, language) for n, v in shares.items()})]


def _groups(curves: list[Curve]) -> list[list[Curve]]:
    """Groups of at least two curves that differ in one factor, in the order of the study."""
    groups: list[list[Curve]] = []
    for curve in curves:
        for group in groups:
            first = group[0]
            differing = [f for f in curve.where if str(curve.where[f]) != str(first.where.get(f))]
            if first.group == curve.group and len(differing) == 1 and _varied_factor(group) in (None, differing[0]):
                group.append(curve)
                break
        else:
            groups.append([curve])
    return [g for g in groups if len(g) > 1]


def _varied_factor(group: list[Curve]) -> str | None:
    if len(group) < 2:
        return None
    return next(f for f in group[1].where if str(group[1].where[f]) != str(group[0].where.get(f)))


def _gains(group: list[Curve]) -> list[Finding]:
    """One finding per distance: every valid point of the group relative to the first setting's."""
    base_curve, gains = group[0], []
    over = _varied_factor(group)
    assert over is not None  # a group has at least two curves
    for base_point in base_curve.points:
        base_rate = base_point.mean("mb_per_s") if base_point.valid else None
        rivals = [(c, p) for c in group[1:] if (p := c.at(base_point.setup.rtt_s)) is not None]
        rates = [(c, p, p.mean("mb_per_s")) for c, p in rivals]
        measured = [(c, p, rate) for c, p, rate in rates if rate is not None and p.valid]
        if not base_rate or not measured:
            continue
        where = {f: v for f, v in base_point.factors.items() if f != over}
        evidence = {
            "over": over,
            "base": base_curve.where[over],
            "rtt_ms": base_point.setup.rtt_s * 1e3,
            "mb_per_s": {str(base_curve.where[over]): base_rate}
            | {str(c.where[over]): rate for c, _, rate in measured},
            "ratio": {str(c.where[over]): rate / base_rate for c, _, rate in measured},
            "limiter": {str(c.where[over]): p.verdict.limiter for c, p, _ in measured},
        }
        gains.append(_finding("gain", where, _gain_text(evidence), evidence))
    return gains


def _gain_text(evidence: dict[str, Any]) -> Write:
    def write(language: str) -> str:
        separator = say(language, "list.separator")
        rates = evidence["mb_per_s"]
        settings = [
            say(language, "distance.gain.each", {"name": n, "mb_per_s": rates[n], "ratio": round(r, 2)})
            for n, r in evidence["ratio"].items()
        ]
        base = {"base": str(evidence["base"]), "mb_per_s": rates[str(evidence["base"])]}
        return say(language, "distance.gain", base | {"settings": separator.join(settings)})

    return write


def _reach(curve: Curve) -> Finding | None:
    valid = [p for p in curve.points if p.valid]
    if len(valid) < 2:
        return None
    near, far = valid[0], valid[-1]
    first, last = near.mean("mb_per_s"), far.mean("mb_per_s")
    if not first or last is None:
        return None
    ends = [p.setup.rtt_s * 1e3 for p in (near, far)]
    evidence = {
        "over": curve.over,
        "rtt_ms": ends,
        "mb_per_s": [first, last],
        "percent": 100 * last / first,
    }

    def write(language: str) -> str:
        values = {"near": ends[0], "far": ends[1], "first": first, "last": last}
        return say(language, "distance.reach", values | {"percent": tenths(100 * last / first, language)})

    return _finding("reach", dict(curve.where), write, evidence)
