"""Findings about packet forwarding.

limiter    the rate of each point, its bottleneck, and whether one processor was full next to the
           rate while others were idle
comparison rates with other NICs, queues, positions, … and their ratios (`comparisons`)
"""

from __future__ import annotations

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.analysis.rules.judge import words
from hakaru.kinds.packets import names
from hakaru.kinds.packets.analysis import comparisons, processors
from hakaru.kinds.packets.analysis.points import PacketsPoint
from hakaru.wording import LANGUAGES, say


def of_run(points: list[PacketsPoint]) -> list[Finding]:
    """All findings of a run, in the order of its points."""
    return [*(_limiter(point, len(points) > 1) for point in points), *comparisons.of_run(points)]


def _limiter(point: PacketsPoint, several: bool) -> Finding:
    levels = dict(point.factors) if several else {}
    used = processors.of_trials(point.close)
    text = {}
    for language in LANGUAGES:
        rate = point.mean(names.RATE)
        parts = (
            [] if rate is None else [say(language, "packets.rate", {"rate": rate, "mbit": point.mean("mbit_per_s")})]
        )
        parts += words(language, point.verdict, point.evidence)
        parts += used.sentences(language) if used else []
        text[language] = sentences.in_series(language, levels, sentences.sentences(language, *parts), bool(levels))
    evidence = point.evidence.to_json() | {"resource": point.verdict.resource}
    evidence["processors"] = used.to_json() if used else None
    return Finding("limiter", levels, text, point.verdict.limiter, evidence)
