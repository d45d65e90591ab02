"""Run directories written with the real store, for tests: what every run has, around counters that
a test makes up.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hakaru.store import FORMAT, Histograms, RunWriter, Samples
from hdrh.histogram import HdrHistogram

SECOND = 1_000_000_000
Done = TypeVar("Done", covariant=True)


class Described(Protocol[Done]):
    """One point."""

    @property
    def factors(self) -> dict[str, Any]:
        """Its levels."""

    @property
    def reps(self) -> Sequence[Done]:
        """What was done, one after the other."""


Counted = tuple[dict[str, Any], Samples, Histograms]
"""A repetition: what `repetition` gave, its samples, its histograms."""


def write(
    folder: Path,
    parts: dict[str, Any],
    points: Sequence[Described[Done]],
    count: Callable[[dict[str, Any], Done], Counted],
) -> Path:
    """A finished run.

    `parts`: `study` (with `id`; what any study has is added), and `run`, `lab`, `machine` where a
    test needs them. `count` gives a repetition from a point's levels and what was done.
    """
    study: dict[str, Any] = {"origin": "emulated", "reference": [], "expect": []} | parts["study"]
    writer = RunWriter.create(folder, str(study["id"]), dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    run = {
        "format": FORMAT,
        "run": writer.name,
        "study": study["id"],
        "kind": study["load"]["kind"],
        "status": "done",
        "seed": 1,
        "quick": False,
        "origin": "emulated",
        "started": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T00:03:00+00:00",
        "versions": {"hakaru": "0"},
        "command": ["hakaru", "run", study["id"]],
    } | parts.get("run", {})
    described = []
    for place, point in enumerate(points, start=1):
        name = f"p{place:02}"
        described.append({"point": name, "factors": point.factors, "repetitions": len(point.reps)})
        for number, rep in enumerate(point.reps, start=1):
            record, samples, histograms = count(point.factors, rep)
            of = {"point": name, "repetition": number, "order": number, "factors": point.factors}
            writer.write_repetition(of | record, samples, histograms)
    lab = {"nodes": [], "links": [], "checks": []} | parts.get("lab", {})
    machine = {"cpus": 2} | parts.get("machine", {})
    for file, value in {"run": run, "study": study, "lab": lab, "machine": machine, "points": described}.items():
        writer.write(f"{file}.json", value)
    return writer.finish()


def repetition(start: int, seconds: int, engine: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What a repetition's file says, but for its place in the run; `more` replaces parts."""
    return {
        "status": "done",
        "error": None,
        "measure": {"start_ns": start, "end_ns": start + seconds * SECOND},
        "origin": "emulated",
        "caveats": [],
        "engines": [{"found": {}, "values": {}} | engine],
    } | more


def alike(value_ns: float, count: int) -> str:
    """A histogram of so many equal values."""
    hdr = HdrHistogram(1, 3_600_000_000_000, 3)
    if count:
        hdr.record_value(round(value_ns), count)
    return str(hdr.encode().decode())


def lateness(late_us: float | None) -> Histograms:
    """Of a fabric that moved every frame so late; None: that does not tell."""
    histograms = Histograms()
    if late_us is not None:
        told = {"entity": "fabric", "name": "lateness_ns", "hdr": alike(late_us * 1e3, 1000)}
        histograms.add("fabric", "fabric", None, [told])
    return histograms
