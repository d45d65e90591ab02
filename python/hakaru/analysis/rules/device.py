"""A device of an array's timing model that is at its limit: drives, controller, port."""

from __future__ import annotations

from collections.abc import Callable

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.limits import fill_of, limit_of
from hakaru.analysis.rules.rule import Rule, Verdict


def _at_limit(device: str) -> Callable[[Evidence], Verdict | None]:
    def evaluate(evidence: Evidence) -> Verdict | None:
        used = {r: p for r, p in evidence.used.items() if r.partition("/")[0] == device}
        fullest = max(used, key=lambda r: used[r], default=None)
        if fullest is None or used[fullest] < limit_of(fullest):
            return None
        return Verdict(device, fullest, used[fullest], fill_of(fullest, used[fullest]))

    return evaluate


DRIVES = Rule(
    "drives",
    "device",
    "The busiest drive of the array's model is busy at least 98 % of the time. A stripe is as slow as its slowest "
    "drive.",
    _at_limit("drives"),
)
CONTROLLER = Rule(
    "controller", "device", "The array's controller is busy at least 95 % of the time.", _at_limit("controller")
)
PORT = Rule("port", "device", "A port of the array's model is busy at least 95 % of the time.", _at_limit("port"))
DEVICES = (DRIVES, CONTROLLER, PORT)
