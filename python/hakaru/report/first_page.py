"""The first page of a report: the badge with origin and form of the numbers, and what to do
next.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from hakaru.report.kind import ReportKind
from hakaru.study import Study
from hakaru.units import format_duration
from hakaru.wording import has, say

Json = dict[str, Any]
STEPS_MAX = 4
SETUP = frozenset(("generator_cpu", "machine_cpu", "fabric"))
"""Bottlenecks of the test setup, which make results say little about the system under test."""
REPETITIONS_MIN = 3
"""Repetitions below which a report recommends more."""


def badge(summary: Json, study: Study, language: str) -> Json:
    """Origin, form and measuring time of the numbers: `origin` selects the colour, `words` are
    shown.
    """
    origins = list(dict.fromkeys(point["origin"] for point in summary["points"]))
    origin_words = say(language, "list.separator").join(say(language, f"origin.{origin}") for origin in origins)
    words = [origin_words, say(language, "cover.quick" if summary["run"].get("quick") else "cover.full")]
    explained = ""
    if counts := _counts(summary):
        n = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
        time = study.measure.time
        values = {"n": n, "time": format_duration(time) if time else ""}
        message = "cover.repetitions" if time else "cover.repetitions.alone"
        words.append(say(language, "cover.repetitions.short" if time else "cover.repetitions.alone.short", values))
        explained = say(language, message, values)
    return {
        "origin": origins[0] if len(origins) == 1 else "mixed",
        "words": [word for word in words if word],
        "explained": explained,
    }


def _counts(summary: Json) -> list[int]:
    """The numbers of repetitions of the points, ascending, without points that have no result."""
    most = (max((int(m.get("n") or 0) for m in p["metrics"].values()), default=0) for p in summary["points"])
    return sorted({count for count in most if count})


def next_steps(summary: Json, run: Json, report_kind: ReportKind, language: str) -> list[Json]:
    """The next steps as `{text, command}`, the most urgent first. `run` is the content of
    run.json.
    """
    return list(_steps(summary, run, report_kind, language))[:STEPS_MAX]


def _steps(summary: Json, run: Json, report_kind: ReportKind, language: str) -> Iterator[Json]:
    def step(message: str, command: str = "", **values: Any) -> Json:
        return {"text": say(language, message, values), "command": command}

    name = str(summary["run"]["run"])
    if summary["run"].get("status") in ("running", "interrupted"):
        command = ["tune"] if summary["run"]["kind"] == "tuning" else ["run", str(run.get("study"))]
        yield step("next.resume", shlex.join(["hakaru", *command, "--resume", name]))
    if invalid := sum(not point["valid"] for point in summary["points"]):
        yield step("next.invalid", count=invalid)
    if breached := sum(e["held"] is False for e in summary["expectations"]):
        yield step("next.expectations", count=breached)
    for limiter in _limiters(report_kind.chief_findings(summary)):
        if has(f"next.limiter.{limiter}"):
            yield step(f"next.limiter.{limiter}")
    if run.get("quick"):
        full = report_kind.redo({**run, "quick": False})
        yield step("next.full", full if full != report_kind.redo(run) else "")
    elif (counts := _counts(summary)) and counts[0] < REPETITIONS_MIN:
        yield step("next.repetitions", least=REPETITIONS_MIN)
    yield step("next.compare", shlex.join(["hakaru", "compare", name, "latest"]))


def _limiters(chief: Sequence[Json]) -> list[str]:
    """The first bottleneck, and those of the test setup, each once."""
    limiters = list(dict.fromkeys(str(f["limiter"]) for f in chief if f["kind"] == "limiter" and f["limiter"]))
    return [limiter for i, limiter in enumerate(limiters) if i == 0 or limiter in SETUP]
