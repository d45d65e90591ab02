"""Analysis of a run directory into `summary.json`, which `hakaru report RUN --format json` prints
and HTML and PDF show.

The format is stable. It is documented in docs/reference/report-json.md and defined by
`hakaru.analysis.report_model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hakaru.analysis import (
    checks,
    expectation_words,
    expectations,
    findings,
    goals,
    kind,
    precision,
    reference,
    report_model,
    scorecard,
    sentences,
    tcp_pass,
)
from hakaru.analysis.bottleneck import SweepVerdict
from hakaru.analysis.captures import captures_of
from hakaru.analysis.points import Point
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.run_data import RunData
from hakaru.analysis.sweep import Sweep
from hakaru.caveats import Caveat
from hakaru.store import write_json
from hakaru.study import Loaded, Study
from hakaru.wording import LANGUAGES

COMPARED = ("iops", "mb_per_s", "mib_per_s", "sum_mib_per_s")
"""Metrics whose comparison with a published table is a finding, unless they follow from another
one. `references` contains all compared metrics.
"""


def summarise(run_dir: Path, published: Loaded | None = None) -> dict[str, Any]:
    """Analyse a run, write `summary.json` into its directory atomically, and return the content.

    `published`: a study whose published numbers replace those that the run recorded.
    Raises `UsageError` if the directory is not a run, `EnvironmentError_` if it cannot be written.
    """
    run = RunData.read(run_dir)
    summary = analyse(run if published is None else run.compared_with(published))
    write_json(run_dir / "summary.json", summary)
    return summary


def analyse(run: RunData) -> dict[str, Any]:
    """The summary of a run, as plain JSON without NaN, made by the kind of its study.

    It is validated against `report_model.Summary`. A summary that fails is a defect of its kind.
    """
    content = kind.of(run).analyse(run)
    report_model.Summary.model_validate(content)
    return content


def of_run(
    run: RunData,
    analysed: list[Point],
    all_findings: list[findings.Finding],
    compared: reference.Compared,
    results: expectations.Results,
    several: bool,
    answers: Sequence[goals.Answer] | None = None,
) -> dict[str, Any]:
    """The parts of a summary that all kinds of study have.

    `answers`: those of the searches, if the kind marks points after it computed them; the run chose
    its repetitions without these marks.
    """
    precision.mark(run.study.measure, analysed)
    tcp_by_point = {p.id: series for p in analysed if (series := tcp_pass.of_point(run, p.id)) is not None}
    tcp_findings = [
        tcp_pass.finding(p.factors, tcp_by_point[p.id], len(analysed) > 1) for p in analysed if p.id in tcp_by_point
    ]
    all_findings = [*all_findings, *(f for f in tcp_findings if f is not None)]
    answers = goals.answers_of(run, analysed) if answers is None else answers
    all_findings = [*goals.findings_of(answers), *all_findings]
    outcomes = expectations.evaluate([expect.model_dump(mode="json") for expect in run.study.expect], results)
    units = {name: estimate.unit for point in analysed for name, estimate in point.metrics.items()}
    return {
        "schema_version": report_model.SCHEMA_VERSION,
        "study": _study(run.study),
        "run": {"kind": run.kind}
        | {
            k: run.run.get(k)
            for k in ("run", "status", "quick", "seed", "origin", "started", "ended", "versions", "command")
        },
        "points": [_point(p, tcp_by_point.get(p.id)) for p in analysed],
        "findings": [f.to_json() for f in all_findings],
        "expectations": [_outcome(o, several, units) for o in outcomes],
        "references": [scorecard.table_json(c) for c in compared.tables],
        "scorecard": scorecard.to_json(compared),
        "goals": [answer.to_json() for answer in answers],
        "caveats": [
            _caveat(c)
            for c in [
                *(c for answer in answers for c in answer.caveats),
                *_run_caveats(run, any(r.error_percent is not None for r in compared.rows)),
            ]
        ],
        "links": link_checks(run.lab),
        "captures": captures_of(run),
        "valid": all(p.valid for p in analysed),
    }


def findings_of(compared: reference.Compared, several: bool) -> list[findings.Finding]:
    """Findings about the chief metrics of the published tables."""
    chief = [c for c in compared.tables if c.metric in COMPARED and c.is_counted]
    return [findings.of_comparison(c, several) for c in chief]


SATURATED = {"generator_cpu": "generator_saturated", "fabric": "fabric_saturated"}
"""Verdict → caveat of the points at which its resource was at its limit, beside those of machines
(`checks.saturated`).
"""


def mark_test_setup_limited(sweep: Sweep, verdict: SweepVerdict) -> None:
    """If the test setup is the bottleneck of the sweep, add a caveat to every point at which it was
    at its limit, if there is one for this verdict.
    """
    resource, name = verdict.resource, SATURATED.get(verdict.limiter)
    if resource is None or (name is None and verdict.limiter != "machine_cpu"):
        return
    for point in sweep.points:
        percent = point.percent(resource)
        if percent is None or percent < limit_of(resource):
            continue
        caveat = Caveat(name, {"percent": percent}) if name is not None else checks.saturated(resource, percent)
        if (caveat.name, caveat.values.get("host")) not in {(c.name, c.values.get("host")) for c in point.caveats}:
            point.caveats.append(caveat)


def _study(study: Study) -> dict[str, Any]:
    return study.model_dump(mode="json", include={"id", "title", "question", "expectation", "origin"})


def describe_sweep(sweep: Sweep, verdict: SweepVerdict) -> dict[str, Any]:
    """One element of `sweeps` of the report."""
    peak = sweep.peak()
    return {
        "over": sweep.over,
        "where": dict(sweep.where),
        "points": [p.id for p in sweep.points],
        "peak": peak.id if peak else None,
        "near_peak": [p.id for p in sweep.near_peak()],
        "like_peak": [p.id for p in sweep.like_peak()],
        "limiter": verdict.limiter,
        "resource": verdict.resource,
    }


def _point(point: Point, series: tcp_pass.TcpSeries | None) -> dict[str, Any]:
    described = point.to_json() | {"caveats": [_caveat(c) for c in point.caveats]}
    return described | ({"tcp_series": series.to_json()} if series is not None else {})


def _caveat(caveat: Caveat) -> dict[str, Any]:
    texts = {"text" if lang == "en" else f"text_{lang}": sentences.caveat(lang, caveat) for lang in LANGUAGES}
    return caveat.to_json() | texts


def _outcome(outcome: expectations.Outcome, several: bool, units: Mapping[str, str]) -> dict[str, Any]:
    texts: dict[str, Any] = {}
    for language in LANGUAGES:
        suffix = "" if language == "en" else f"_{language}"
        texts[f"text{suffix}"] = expectation_words.expectation(language, outcome, several, units)
        texts[f"found{suffix}"] = expectation_words.expectation_found(language, outcome, units)
    return {"kind": outcome.expect["kind"], "held": outcome.held, **texts, "evidence": outcome.evidence}


def _run_caveats(run: RunData, compared: bool) -> list[Caveat]:
    """Caveats that apply to the whole run."""
    caveats = [c for c in map(Caveat.from_json, run.run.get("caveats") or []) if c is not None]
    return [*caveats, Caveat("published_differs")] if compared else caveats


def link_checks(lab: dict[str, Any]) -> list[dict[str, Any]]:
    """Link checks that the lab recorded: first those of the lab as built, then those after points
    changed links, with the changes.
    """
    checks = list(lab.get("checks") or [])
    for variant in lab.get("variants") or []:
        variant_fields = {"points": variant["points"], "changed": variant["links"], "seconds": variant["seconds"]}
        checks += [{**check, **variant_fields} for check in variant["checks"]]
    return checks


__all__ = ["analyse", "link_checks", "summarise"]
