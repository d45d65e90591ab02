"""Findings about events of paths: the gap in service after each failure, and what explains it."""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.events import RETURNS
from hakaru.wording import LANGUAGES, say, tenths

Json = dict[str, Any]


def of_run(points: list[VmsPoint]) -> list[Finding]:
    """One finding per point whose events include a failure of a path that a VM used, in order."""
    judged = ((point, [event for event in point.events if _is_judged(event)]) for point in points)
    return [_finding(point, failures, len(points) > 1) for point, failures in judged if failures]


def _is_judged(event: Json) -> bool:
    return event["event"] in RETURNS and event["explained"] is not None


def _finding(point: VmsPoint, failures: list[Json], several: bool) -> Finding:
    failed = sum(event["errors"] or 0 for event in point.events)

    def write(language: str) -> str:
        parts = [_sentence(event, language) for event in failures]
        message = "failover.failed" if failed else "failover.failed.none"
        return sentences.sentences(language, *parts, say(language, message, {"requests": failed}))

    where = dict(point.factors) if several else {}
    text = {language: sentences.in_series(language, where, write(language), bool(where)) for language in LANGUAGES}
    return Finding("failover", where, text, None, {"events": failures, "errors": failed})


def _sentence(event: Json, language: str) -> str:
    values = {name: tenths(event[name], language) for name in ("gap_ms", "failover_ms", "timers_ms")}
    values["event"] = say(language, f"event.{event['event']}", {"object": event["object"]})
    if not event["timers_ms"]:
        return say(language, "failover.gap.prompt", values)
    if event["failover_ms"] is None:
        message = "failover.gap.stayed" if event["explained"] else "failover.gap.stayed.unexplained"
    else:
        message = "failover.gap" if event["explained"] else "failover.gap.unexplained"
    return say(language, message, values)
