"""The events of a run as plain lines, for pipes and files. Samples are left out, because a line per
second would bury everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.run.progress import duration


def line_of(event: Mapping[str, Any]) -> str | None:
    """The line of an event; None for events that have none."""
    match event["event"]:
        case "run_started":
            return f"run {event['run']}: {event['done']} of {event['repetitions']} repetitions done"
        case "phase":
            return f"{event['phase']}: {event['detail']} ({duration(event['left_s'])} left)"
        case "repetition_started":
            place = f"{event['done'] + 1}/{event['total']}"
            return (
                f"load {place}: {event['label']}, repetition {event['repetition']} ({duration(event['left_s'])} left)"
            )
        case "result":
            return f"  result: {event['text']}"
        case "run_ended":
            return f"{event['status']}: {event['done']} of {event['total']} repetitions"
        case "done":
            return "\n".join(f"report: {path}" for path in event["reports"]) or "done"
        case "dropped":
            return f"disconnected: {event['reason']}"
        case "closed":
            return "the process of the run was killed" if event["status"] == "running" else None
    return None
