"""The end of a run, after its last repetition: analysis, report, and the verdict that becomes the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hakaru.cli.options import LANGUAGES
from hakaru.errors import ExpectationBreach, InvalidPoints


def finish(directory: Path, watch: Any, formats: Sequence[str]) -> tuple[dict[str, Any], list[Path]]:
    """Analyse a finished run and write its reports; returns the summary and the reports' paths."""
    from hakaru.analysis import summarise
    from hakaru.run.plan import REPORT_S

    watch.phase("analysis", "intervals, bottlenecks, findings", REPORT_S)
    summary = summarise(directory)
    for point in summary["points"]:
        watch.event("point", **point)
    watch.event("findings", findings=summary["findings"], expectations=summary["expectations"])
    if formats:
        watch.phase("report", " and ".join(formats), REPORT_S)
    reports = render_each(directory, formats, LANGUAGES, summary) if formats else []
    watch.event("done", run=str(directory), reports=[str(path) for path in reports], valid=summary["valid"])
    return summary, reports


def render_each(
    directory: Path, formats: Sequence[str], languages: Sequence[str], summary: dict[str, Any]
) -> list[Path]:
    """Write a report per language, each in a process of its own, because drawing and typesetting take seconds."""
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from multiprocessing import get_context

    from hakaru.report import render

    render_in = partial(render, directory, list(formats), summary=summary)
    with ProcessPoolExecutor(len(languages), mp_context=get_context("spawn")) as pool:
        return [path for paths in pool.map(render_in, [[language] for language in languages]) for path in paths]


def judge(summary: dict[str, Any]) -> None:
    """Raise InvalidPoints or ExpectationBreach; invalid points first, because they may breach expectations."""
    invalid = [point["point"] for point in summary["points"] if not point["valid"]]
    if invalid:
        raise InvalidPoints(
            f"{len(invalid)} of {len(summary['points'])} points are invalid: {', '.join(invalid)}",
            "their caveats in the report say why and what to do",
        )
    breached = [each for each in summary["expectations"] if each["held"] is False]
    if breached:
        raise ExpectationBreach(
            "; ".join(f"expectation not met: {each['text']} (found: {each['found']})" for each in breached),
            "the report shows each expectation beside what was found",
        )
