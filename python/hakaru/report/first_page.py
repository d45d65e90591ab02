"""The first page of a report: the badge with origin and form of the numbers, and what to do
next.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from hakaru.report.kind import ReportKind
from hakaru.store import typed
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
    if summary["run"].get("status") == "failed":
        words.insert(1, say(language, "cover.failed"))
    explained = ""
    if counts := _counts(summary):
        n = range_text(counts)
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


def range_text(counts: Sequence[int]) -> str:
    """Ascending numbers as a range, such as `2–3`, or as the number that all are."""
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


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
    is_whole = summary["run"].get("status") not in ("running", "interrupted", "failed")
    if not is_whole:
        yield step("next.resume", typed.resume(run, name))
    invalid = [point for point in summary["points"] if not point["valid"]]
    if not is_whole:  # the command above measures points without results
        invalid = [point for point in invalid if not _is_missing(point)]
    if invalid:
        yield step("next.invalid", report_kind.redo(run), count=len(invalid))
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
    yield step("next.compare", shlex.join(["hakaru", "compare", name, "latest", *typed.options(run, typed.OUT)]))


def _is_missing(point: Json) -> bool:
    """Whether a point is invalid only because it has no results."""
    return {c["caveat"] for c in point["caveats"] if c["severity"] == "invalid"} == {"no_data"}


def _limiters(chief: Sequence[Json]) -> list[str]:
    """The first bottleneck, and those of the test setup, each once."""
    limiters = list(dict.fromkeys(str(f["limiter"]) for f in chief if f["kind"] == "limiter" and f["limiter"]))
    return [limiter for i, limiter in enumerate(limiters) if i == 0 or limiter in SETUP]
