"""Conditions of two runs: machine, versions, options, form, and every part of the study that
affects measured values. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hakaru.analysis.run_data import RunData
from hakaru.study.model import MEASURED_PARTS

Part = Literal["run", "options", "versions", "machine", "study"]

OF_THE_MOMENT = ("memory_available_bytes", "load_average")
"""Entries of machine.json that differ between any two runs."""


@dataclass(frozen=True)
class Condition:
    """A condition that differs. None: the run does not have it."""

    part: Part
    name: str
    """Dotted path of the value in its part."""
    before: Any
    after: Any

    def to_json(self) -> dict[str, Any]:
        """`{part, name, before, after}`."""
        return {"part": self.part, "name": self.name, "before": self.before, "after": self.after}


def differing(before: RunData, after: RunData) -> list[Condition]:
    """Conditions that differ, the most general part first."""
    sides = [_parts(before), _parts(after)]
    return [
        Condition(part, name, *values)
        for part in sides[0]
        for name, values in _differing(sides[0][part], sides[1][part])
    ]


def _parts(data: RunData) -> dict[Part, dict[str, Any]]:
    run, study = data.run, data.study.written
    options = run.get("options") or {}
    measured = {part: study.get(part) for part in sorted(MEASURED_PARTS)}
    return {
        "run": {
            "study": run.get("study"),
            "origin": run.get("origin"),
            "form": "quick" if run.get("quick") else "full",
            "status": run.get("status"),
            "site": run.get("site"),
        },
        "options": {"seed": run.get("seed")} | {name: options.get(name) for name in ("repetitions", "only")},
        "versions": dict(run.get("versions") or {}),
        "machine": {name: value for name, value in data.machine.items() if name not in OF_THE_MOMENT},
        "study": measured,
    }


def _differing(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Dotted paths at which two trees of plain data differ, with both values. A branch that only
    one side has is one difference.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys([*before, *after]):
            yield from _differing(before.get(name), after.get(name), (*path, str(name)))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differing(one, other, (*path, str(i)))
    elif before != after:
        yield ".".join(path), (before, after)
