"""Scorecards of the newest runs: the published numbers of studies as they are now, compared with
what their newest runs measured.

A published number, a mark or a note may be added to a study after a run. The measured values do not
depend on them, so they are compared anew. Changes of the study that affect measured values are
reported (`Card.changed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from hakaru.analysis import reference, scorecard
from hakaru.analysis.run_data import RunData
from hakaru.analysis.summary import analyse
from hakaru.errors import UsageError
from hakaru.lab.plan import plan_lab
from hakaru.run.plan import estimate
from hakaru.store import newest_runs
from hakaru.study import Loaded, Study, expand, load, study_paths
from hakaru.study.model import MEASURED_PARTS
from hakaru.study.where import same_level

Json = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """The run that a card was measured by."""

    name: str
    quick: bool
    status: str
    started: str
    version: str
    points: int
    """Points of the study's full form that it measured."""
    repetitions: int
    """Repetitions done of each of these points; the fewest if they differ."""
    changed: bool
    """Whether a part of the study that affects measured values has changed after the run."""
    warnings: dict[str, int]
    """Caveat of severity `warning` → number of points that have it."""


@dataclass(frozen=True)
class Card:
    """The scorecard of a study."""

    study: Study
    run: Run | None
    """None if the study has no run."""
    scorecard: Json
    """As `scorecard` in docs/reference/report-json.md."""
    points: int
    """Points of the study's full form."""
    full_seconds: float
    """Expected duration of the full form, as `hakaru plan` estimates it."""

    def to_json(self) -> Json:
        """One element of `hakaru scorecard --format json`."""
        run = None if self.run is None else vars(self.run)
        head = {"study": self.study.id, "run": run, "points": self.points, "full_seconds": round(self.full_seconds)}
        return head | {"scorecard": self.scorecard}


def cards(names: Sequence[str], folder: Path) -> list[Card]:
    """The scorecards of the named studies, by default of all that have published numbers.

    Raises UsageError if a named study has no published numbers or no run in `folder`, or if no
    study has a run.
    """
    newest = newest_runs(folder)
    studies = [load(name) for name in names or sorted(study_paths())]
    for study in [loaded.study for loaded in studies] if names else []:
        if not study.reference:
            hint = "list them under `reference:` (docs/reference/studies.md)"
            raise UsageError(f"{study.id} has no published numbers", hint)
        if study.id not in newest:
            raise UsageError(f"no run of {study.id} in {folder}", f"run it first: `hakaru run {study.id}`")
    studies = [loaded for loaded in studies if loaded.study.reference]
    if not any(loaded.study.id in newest for loaded in studies):
        known = ", ".join(loaded.study.id for loaded in studies) or "no study"
        raise UsageError(f"no run in {folder} to compare with a publication", f"run one of: {known}")
    return [card(loaded, newest.get(loaded.study.id)) for loaded in studies]


def card(loaded: Loaded, directory: Path | None) -> Card:
    """The scorecard of a study, measured by the run in `directory`; with None, all rows are
    unmeasured.
    """
    study = loaded.study
    full = [point for block in study.factors for point in block.points()]
    seconds = estimate(expand(study), plan_lab(study.lab)).seconds
    if directory is None:
        compared = reference.compare_points(study, loaded.reference_rows, [])
        return Card(study, None, scorecard.to_json(compared), len(full), seconds)
    data = RunData.read(directory).compared_with(loaded)
    done = [sum(r["status"] == "done" for r in data.records(p["point"])) for p in data.points]
    measured = [p["factors"] for p, repetitions in zip(data.points, done, strict=True) if repetitions]
    quick = bool(data.run.get("quick"))
    summary = analyse(data)
    caveats = [{c["caveat"] for c in p["caveats"] if c["severity"] == "warning"} for p in summary["points"]]
    run = Run(
        name=str(data.run["run"]),
        quick=quick,
        status=str(data.run.get("status")),
        started=str(data.run.get("started")),
        version=str((data.run.get("versions") or {}).get("hakaru")),
        points=sum(any(_same_point(point, other) for other in measured) for point in full),
        repetitions=min(filter(None, done), default=0),
        changed=is_changed(data, study),
        warnings=dict(Counter(sorted(chain.from_iterable(caveats)))),
    )
    return Card(study, run, summary["scorecard"], len(full), seconds)


def is_changed(data: RunData, study: Study) -> bool:
    """Whether the study differs from that of the run in a part that affects measured values."""
    repetitions = (data.run.get("options") or {}).get("repetitions")
    now = expand(study, quick=bool(data.run.get("quick")), repetitions=repetitions)
    written = dict(now.study.written) | {"measure": now.measure.model_dump(mode="json", by_alias=True)}
    return any(data.study.written[part] != written[part] for part in MEASURED_PARTS)


def _same_point(a: Json, b: Json) -> bool:
    return a.keys() == b.keys() and all(same_level(a[name], b[name]) for name in a)
