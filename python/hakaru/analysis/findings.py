"""Findings: the results of a run in sentences, each with the numbers that support it.

peak        the best level, its rate and interval, the range within 5 % of it
decline     fall of the rate of a growing load past the peak, with the growth of response and
            service times
limiter     the bottleneck, or `undetermined` with the reason
scalability the universal scalability law fitted to the curve of a growing load
reference   deviation of the measured values from a published table
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hakaru.analysis import scorecard, sentences, usl
from hakaru.analysis.bottleneck import SweepVerdict
from hakaru.analysis.points import Point
from hakaru.analysis.reference import Comparison
from hakaru.analysis.rules.judge import words
from hakaru.analysis.rules.limits import is_machine, is_test_setup, limit_of
from hakaru.analysis.sweep import NEAR_PEAK, Sweep
from hakaru.wording import LANGUAGES, say, tenths

Write = Callable[[str], str]
"""Returns the text of a finding in a language."""


@dataclass(frozen=True)
class Finding:
    """One finding. `text` is by language; `evidence` is plain JSON."""

    kind: str
    where: dict[str, Any]
    text: dict[str, str]
    limiter: str | None
    evidence: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """One element of `findings` of the report."""
        texts = {"text": self.text["en"], **{f"text_{lang}": t for lang, t in self.text.items() if lang != "en"}}
        return {"kind": self.kind, "where": self.where, **texts, "limiter": self.limiter, "evidence": self.evidence}


def of_sweep(sweep: Sweep, verdict: SweepVerdict, several: bool, *, grows: bool) -> list[Finding]:
    """Findings about one sweep, the most important first. `grows`: whether the load grows with the
    level. A decline and the scalability law are those of a growing load only.
    """
    drafts: list[Draft | None] = [_peak(sweep), _limiter(sweep, verdict)]
    drafts += [_decline(sweep), _scalability(sweep)] if grows else []
    return [_finding(sweep, draft, several) for draft in drafts if draft is not None]


def of_comparison(comparison: Comparison, several: bool) -> Finding:
    """Return a finding about the deviation of one metric from a published table."""
    worst = comparison.worst
    # A comparison has measured rows, and every row of a table has a level.
    assert worst is not None and worst.error_percent is not None and worst.level is not None
    error, worst_level = worst.error_percent, worst.level

    def write(language: str) -> str:
        values: dict[str, Any] = {
            "metric": sentences.metric(language, comparison.metric),
            "title": comparison.title[language],
        }
        levels = len(comparison.compared)
        values |= {"levels": levels, "count": levels, "worst_percent": tenths(abs(error), language)}
        values |= {"error": sentences.signed(language, error)}
        return say(
            language, "finding.reference", values | {"level": sentences.level(language, comparison.over, worst_level)}
        )

    evidence = {k: v for k, v in scorecard.table_json(comparison).items() if k in ("table", "metric", "over", "rows")}
    evidence["worst_percent"] = error
    return Finding("reference", comparison.where, _texts(comparison.where, write, several), None, evidence)


def _finding(sweep: Sweep, draft: Draft, several: bool) -> Finding:
    kind, write, limiter, evidence = draft
    return Finding(kind, dict(sweep.where), _texts(dict(sweep.where), write, several), limiter, evidence)


def _texts(where: dict[str, Any], write: Write, several: bool) -> dict[str, str]:
    return {language: sentences.in_series(language, where, write(language), several) for language in LANGUAGES}


Draft = tuple[str, Write, str | None, dict[str, Any]]
"""Kind, text, limiter and evidence of a finding."""


def _level_words(sweep: Sweep, point: Point) -> Callable[[str], str]:
    return lambda language: sentences.level(language, sweep.over, sweep.level(point))


def _peak(sweep: Sweep) -> Draft:
    peak, near, like = sweep.peak(), sweep.near_peak(), sweep.like_peak()
    if peak is None:
        return "peak", lambda language: say(language, "finding.peak.none"), None, {"over": sweep.over}
    iops, last = peak.metrics["iops"], sweep.measured()[-1]
    evidence = {
        "over": sweep.over,
        "level": sweep.level(peak),
        "iops": iops.to_json(),
        "mb_per_s": peak.mean("mb_per_s"),
        "latency_ms_mean": peak.mean("latency_ms_mean"),
        "near_peak": [sweep.level(p) for p in near],
        "like_peak": [sweep.level(p) for p in like],
        "at_end_of_sweep": peak is last,
    }

    def write(language: str) -> str:
        values = {
            "level": _peak_words(sweep, peak, like, language),
            "iops": iops.mean,
            "mb_per_s": peak.mean("mb_per_s"),
        }
        values |= {"latency": peak.mean("latency_ms_mean")}
        single = len(sweep.measured()) == 1
        parts = [say(language, "finding.peak.single" if single else "finding.peak", values)]
        parts.append(_interval(language, iops.low, iops.high, iops.n))
        if len(like) > 1:
            parts.append(sentences.alike(language, sweep.over, *_levels(sweep, like)))
        if len(near) > 1:
            ends = {"first": _level_words(sweep, near[0])(language), "last": _level_words(sweep, near[-1])(language)}
            parts.append(say(language, "finding.peak.range", ends))
        if peak is last and not single:
            parts.append(say(language, "finding.peak.last"))
        if not peak.valid:
            parts.append(say(language, "finding.invalid" if single else "finding.peak.invalid"))
        return sentences.sentences(language, *parts)

    return "peak", write, None, evidence


def _peak_words(sweep: Sweep, peak: Point, like: list[Point], language: str) -> str:
    """`7 VMs (4 to 10)`: the peak, with the levels whose intervals overlap with its own."""
    return sentences.peak_range(language, _level_words(sweep, peak)(language), *_levels(sweep, like))


def _levels(sweep: Sweep, like: list[Point]) -> tuple[list[float], list[float]]:
    """Levels of these points, and of all measured ones."""
    return [sweep.level(p) for p in like], [sweep.level(p) for p in sweep.measured()]


def _interval(language: str, low: float | None, high: float | None, n: int) -> str:
    if low is None or high is None:
        return say(language, "finding.interval.none")
    return say(language, "finding.interval", {"low": low, "high": high, "n": n})


def _decline(sweep: Sweep) -> Draft | None:
    peak, measured = sweep.peak(), sweep.measured()
    if peak is None or peak is measured[-1]:
        return None
    last = measured[-1]
    top, end = peak.mean("iops") or 0.0, last.mean("iops") or 0.0
    percent = 100 * (1 - end / top) if top else 0.0
    evidence = {
        "over": sweep.over,
        "from_level": sweep.level(peak),
        "to_level": sweep.level(last),
        "percent": percent,
        "iops": [top, end],
        "latency_ms_mean": [peak.mean("latency_ms_mean"), last.mean("latency_ms_mean")],
        "drive_service_ms": [peak.service_ms, last.service_ms],
    }

    def write(language: str) -> str:
        level = _level_words(sweep, last)(language)
        invalid = [] if last.valid else [say(language, "finding.invalid")]
        if end >= NEAR_PEAK * top:
            return sentences.sentences(language, say(language, "finding.no_decline", {"level": level}), *invalid)
        latency = {"latency_at_peak": peak.mean("latency_ms_mean"), "latency": last.mean("latency_ms_mean")}
        parts = [say(language, "finding.decline", {"level": level, "percent": percent, "iops": end, **latency})]
        if peak.service_ms is not None and last.service_ms is not None:
            service = {"service": last.service_ms, "service_at_peak": peak.service_ms}
            parts.append(say(language, "finding.decline.service", service))
        return sentences.sentences(language, *parts, *invalid)

    return "decline", write, None, evidence


def _limiter(sweep: Sweep, sweep_verdict: SweepVerdict) -> Draft:
    evidence, verdict = sweep_verdict.to_json(), sweep_verdict.verdict

    def write(language: str) -> str:
        if verdict.values.get("reason") == "no_points":
            return say(language, "because.undetermined.no_points")
        parts = words(language, verdict, sweep_verdict.evidence)
        if verdict.rule is None:
            return sentences.sentences(language, *parts)
        if sweep_verdict.member is not None:
            parts.append(say(language, "finding.limiter.member", {"member": _member(language, sweep_verdict.member)}))
        if verdict.rule.is_capacity and len(sweep.measured()) > 1 and sweep_verdict.reached_at is not None:
            reached = sentences.level(language, sweep.over, sweep_verdict.reached_at)
            later = sweep_verdict.reached_at > sweep.level(sweep.near_peak()[-1])
            message = "finding.limiter.reached.later" if later else "finding.limiter.reached"
            parts.append(say(language, message, {"level": reached}))
        return sentences.sentences(language, *parts, *_other_resources(language, sweep_verdict))

    return "limiter", write, verdict.limiter, evidence | {"over": sweep.over}


def _member(language: str, name: str) -> str:
    """The name of a member of a resource: a drive, or a thread of a process."""
    return sentences.resource(language, name) if name.startswith("drive/") else name.replace("/", " ")


def _other_resources(language: str, sweep_verdict: SweepVerdict) -> list[str]:
    """Sentences about the next busiest device or link, and about a machine whose CPU was used up
    too. A bottleneck that is not a resource has no next one.
    """
    own_kind = (sweep_verdict.resource or "").partition("/")[0]
    others = {
        r: p
        for r, p in sweep_verdict.evidence.used.items()
        if r != sweep_verdict.resource and r.partition("/")[0] != own_kind
    }
    devices = {r: p for r, p in others.items() if not is_test_setup(r)}
    parts = []
    if devices and sweep_verdict.resource:
        second = max(devices, key=lambda r: devices[r])
        values = {"resource": sentences.resource(language, second), "percent": devices[second]}
        parts.append(say(language, "finding.limiter.next", values))
    machines = {r: p for r, p in others.items() if is_machine(r)}
    machine = max(machines, key=lambda r: machines[r], default=None)
    if machine is not None and machines[machine] >= limit_of(machine):
        values = {"resource": sentences.resource(language, machine), "percent": machines[machine]}
        parts.append(say(language, "finding.limiter.machine", values))
    return parts


def _scalability(sweep: Sweep) -> Draft | None:
    measured = [point for point in sweep.measured() if point.valid]
    fit = usl.fit([sweep.level(p) for p in measured], [p.mean("iops") or 0.0 for p in measured])
    if fit is None:
        return None
    names = ("value", "low", "high")
    parameters = {"lambda": fit.lambda_, "sigma": fit.sigma, "kappa": fit.kappa}
    evidence: dict[str, Any] = {n: dict(zip(names, v, strict=True)) for n, v in parameters.items()}
    evidence |= {"r_squared": fit.r_squared, "level_at_peak": fit.level_at_peak, "over": sweep.over}
    evidence["curve"] = [[sweep.level(p), fit.at(sweep.level(p))] for p in measured]

    def write(language: str) -> str:
        values = {"lambda_": fit.lambda_[0], "sigma": fit.sigma[0], "kappa": fit.kappa[0], "r_squared": fit.r_squared}
        parts = [say(language, "finding.usl", values)]
        if fit.level_at_peak is not None and fit.level_at_peak <= sweep.level(measured[-1]):
            level = sentences.level(language, sweep.over, round(fit.level_at_peak, 1))
            parts.append(say(language, "finding.usl.peak", {"level": level}))
        return sentences.sentences(language, *parts)

    return "scalability", write, None, evidence
