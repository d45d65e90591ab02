"""Run directories for tests, written with the real store: the files of every run around counters
that a test invents.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hakaru.store import FORMAT, Histograms, RunWriter, Samples
from hdrh.histogram import HdrHistogram

SECOND = 1_000_000_000
RepetitionT = TypeVar("RepetitionT", covariant=True)


class PointLike(Protocol[RepetitionT]):
    """A point with its repetitions, as a test describes them."""

    @property
    def factors(self) -> dict[str, Any]:
        """Levels of the point."""

    @property
    def reps(self) -> Sequence[RepetitionT]:
        """Repetitions in order."""


RepetitionData = tuple[dict[str, Any], Samples, Histograms]
"""A repetition: the result of `repetition`, samples, histograms."""


ARRAY: dict[str, Any] = {
    "target_name": "iqn.2013-01.example.hakaru:array",
    "model": {"kind": "none"},
    "lus": [{"lun": 0, "size": "1 GiB", "block": 512}],
}
STAR: dict[str, Any] = {"hosts": 4, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1 Gbit/s"}}
PATTERN: dict[str, Any] = {
    "sizes": [{"size": "4 KiB"}, {"size": "8 KiB"}],
    "read_percent": 70,
    "random_percent": 100,
    "load": {"kind": "closed", "queue_depth": 8},
}
LOADS: dict[str, dict[str, Any]] = {
    "vms": {"columns": [[0]], "image": "64 MiB", "patterns": {"any": PATTERN}},
    "copy": {
        "jobs": 1,
        "image": "64 MiB",
        "time_limit": "600 s",
        "from": {"array": "primary", "lus": [0]},
        "to": {"array": "vtl", "lus": [0]},
    },
}


def complete(study: dict[str, Any]) -> dict[str, Any]:
    """Return a study completed with the parts that the test leaves out."""
    lab = study.get("lab", STAR)
    arrays = lab["arrays"] if isinstance(lab.get("arrays"), list) else ["array"]
    storage = {"array": ARRAY} if len(arrays) == 1 else {"arrays": dict.fromkeys(arrays, ARRAY)}
    if "device" in lab:
        storage = {}
    text = {"title": study["id"], "question": "Which?", "expectation": "This."}
    common = {"format": 1, "origin": "emulated", "reference": [], "expect": [], "lab": lab, "factors": [{"vms": [1]}]}
    load = LOADS.get(study["load"]["kind"], {}) | study["load"]
    return common | {"measure": {"repetitions": 1}} | storage | text | study | {"load": load}


def write(
    folder: Path,
    parts: dict[str, Any],
    points: Sequence[PointLike[RepetitionT]],
    build: Callable[[dict[str, Any], RepetitionT], RepetitionData],
) -> Path:
    """Write a finished run; return its directory.

    `parts`: `study` (with `id`; `complete` adds the rest), and `run`, `lab`, `machine` where a test
    needs them. `build` makes a repetition's data from a point's levels and its description.
    """
    study = complete(parts["study"])
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
            record, samples, histograms = build(point.factors, rep)
            identity = {"point": name, "repetition": number, "order": number, "factors": point.factors}
            writer.write_repetition(identity | record, samples, histograms)
    lab = {"nodes": [], "links": [], "checks": []} | parts.get("lab", {})
    machine = {"cpus": 2} | parts.get("machine", {})
    for file, value in {"run": run, "study": study, "lab": lab, "machine": machine, "points": described}.items():
        writer.write(f"{file}.json", value)
    return writer.finish()


def repetition(start: int, seconds: int, engine: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the content of a repetition's file without its place in the run; `more` replaces
    parts.
    """
    return {
        "status": "done",
        "error": None,
        "measure": {"start_ns": start, "end_ns": start + seconds * SECOND},
        "origin": "emulated",
        "caveats": [],
        "engines": [{"found": {}, "values": {}} | engine],
    } | more


def alike(value_ns: float, count: int) -> str:
    """Return an encoded histogram of `count` equal values."""
    hdr = HdrHistogram(1, 3_600_000_000_000, 3)
    if count:
        hdr.record_value(round(value_ns), count)
    return str(hdr.encode().decode())


def lateness(late_us: float | None) -> Histograms:
    """Return histograms of a fabric that moved every frame `late_us` late (None: no value)."""
    histograms = Histograms()
    if late_us is not None:
        histogram = {"entity": "fabric", "name": "lateness_ns", "hdr": alike(late_us * 1e3, 1000)}
        histograms.add("fabric", "fabric", None, [histogram])
    return histograms
