"""The end of a run, after its last repetition: analysis, report, and the verdict that determines
the exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hakaru.cli.options import LANGUAGES
from hakaru.errors import ExpectationBreach, InvalidPoints, LostError, UnjudgedError
from hakaru.extras import PANGO_HINT


def finish(directory: Path, watch: Any, formats: Sequence[str] | None) -> tuple[dict[str, Any], list[Path]]:
    """Analyse a finished run and write its reports. Returns the summary and the reports' paths.
    `formats` is None if the user names none.
    """
    from hakaru.analysis import summarise
    from hakaru.report import default_formats
    from hakaru.run.plan import REPORT_S

    watch.phase("analysis", "intervals, bottlenecks, findings", REPORT_S)
    summary = summarise(directory)
    for point in summary["points"]:
        watch.event("point", **point)
    watch.event("findings", findings=summary["findings"], expectations=summary["expectations"])
    formats = default_formats() if formats is None else formats
    if formats:
        watch.phase("report", " and ".join(formats), REPORT_S)
    reports = render_each(directory, formats, LANGUAGES, summary) if formats else []
    watch.event("done", run=str(directory), reports=[str(path) for path in reports], valid=summary["valid"])
    return summary, reports


def note_missing_pdf(reports: Sequence[Path]) -> None:
    """State why there is no PDF among reports whose formats the user did not name."""
    if not any(path.suffix == ".pdf" for path in reports):
        print(f"note: no PDF, because the system lacks Pango: {PANGO_HINT}", file=sys.stderr)


def render_each(
    directory: Path, formats: Sequence[str], languages: Sequence[str], summary: dict[str, Any]
) -> list[Path]:
    """Write a report per language, each in a process of its own, because drawing and typesetting
    take seconds. The report as JSON has all languages, so it is written once, by this process.

    Processes answer over pipes, because the named semaphores of a process pool stay in /dev/shm if
    all its processes are killed.
    """
    from multiprocessing import get_context

    from hakaru.report import render

    paths = render(directory, ["json"], languages, summary=summary) if "json" in formats else []
    drawn = [name for name in formats if name != "json"]
    context = get_context("spawn")
    started = []
    for language in languages if drawn else ():
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_render, args=(sender, directory, drawn, language, summary))
        process.start()
        sender.close()
        started.append((language, process, receiver))
    for language, process, receiver in started:
        try:
            answer = receiver.recv()
        except EOFError:
            answer = LostError(
                f"the process that writes the report ({language}) ended without one",
                "check whether the machine ran out of memory",
            )
        process.join()
        if isinstance(answer, BaseException):
            raise answer
        paths += answer
    return paths


def _render(sender: Connection, directory: Path, formats: list[str], language: str, summary: dict[str, Any]) -> None:
    """Entry point of a process: render the reports and send their paths, or the error."""
    from hakaru.report import render

    try:
        sender.send(render(directory, formats, [language], summary=summary))
    except Exception as error:
        sender.send(error)


def judge(summary: dict[str, Any], *, strict: bool = False) -> None:
    """Raise InvalidPoints, ExpectationBreach or, if `strict`, UnjudgedError. Invalid points come
    first, because they may breach expectations.
    """
    invalid = [point["point"] for point in summary["points"] if not point["valid"]]
    if invalid:
        raise InvalidPoints(
            f"{len(invalid)} of {len(summary['points'])} points are invalid: {', '.join(invalid)}",
            "their caveats in the report give the reasons and remedies",
        )
    breached = [expectation for expectation in summary["expectations"] if expectation["held"] is False]
    if breached:
        raise ExpectationBreach(
            "; ".join(f"expectation not met: {breach['text']} (found: {breach['found']})" for breach in breached),
            "the report shows each expectation beside the result",
        )
    unjudged = [expectation for expectation in summary["expectations"] if expectation["held"] is None]
    if strict and unjudged:
        raise UnjudgedError(
            "; ".join(f"expectation cannot be judged: {each['text']} (found: {each['found']})" for each in unjudged),
            "measure all points that it names, and use more repetitions if its interval is too wide",
        )
