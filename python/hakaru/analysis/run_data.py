"""A run directory as analysis sees it: points, and the finished repetitions of each with their
counters.

Reads through `hakaru.store.RunReader`; interprets nothing. One repetition's samples are loaded at a
time and dropped once its numbers are out, so a long run does not have to fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from hakaru.analysis.counters import Counters
from hakaru.caveats import Caveat
from hakaru.errors import UsageError
from hakaru.store import RunReader
from hakaru.study import Study, of_described
from hakaru.study.part import level_text


@dataclass(frozen=True)
class Repetition:
    """One finished repetition."""

    point: str
    number: int
    order: int
    status: str
    error: str | None
    window: tuple[int, int]
    """Measuring phase, nanoseconds of `CLOCK_MONOTONIC`: start, end."""
    origin: str
    caveats: tuple[Caveat, ...]
    counters: Counters
    histograms: pa.Table
    engines: tuple[dict[str, Any], ...] = ()
    """What each engine found and what came of it: `{node, engine, found, values}`."""

    @property
    def done(self) -> bool:
        """Whether it gave a result."""
        return self.status == "done" and self.window[0] < self.window[1]


@dataclass(frozen=True)
class RunData:
    """One run."""

    directory: Path
    run: dict[str, Any]
    study: Study
    """In the form of the run; `study_at` returns it with the levels of a point."""
    tables: list[list[dict[str, Any]]]
    """Rows of each published table, in the order of `study.reference`."""
    lab: dict[str, Any]
    machine: dict[str, Any]
    points: list[dict[str, Any]]
    _repetitions: dict[str, list[dict[str, Any]]]

    @classmethod
    def read(cls, directory: Path) -> RunData:
        """Raises `UsageError` where the directory is not a run or is damaged."""
        reader = RunReader(directory)
        by_point: dict[str, list[dict[str, Any]]] = {}
        for repetition in reader.repetitions():
            by_point.setdefault(str(repetition["point"]), []).append(repetition)
        parts = {name: reader.read(f"{name}.json") for name in ("run", "study", "lab", "machine", "points")}
        described = parts.pop("study")
        try:
            study = of_described(described)
        except ValidationError as e:
            raise UsageError(f"{directory}/study.json cannot be read: {e}", "the file was changed after the run") from e
        tables = [reference.get("rows") or [] for reference in described.get("reference") or []]
        return cls(directory=directory, study=study, tables=tables, _repetitions=by_point, **parts)

    @property
    def kind(self) -> str:
        """Name of the kind of its study."""
        return str(self.run["kind"])

    @property
    def is_site(self) -> bool:
        """Whether the run used equipment that is there (`--site`) instead of a lab."""
        return bool(self.run.get("site"))

    def study_at(self, point: str, factors: Mapping[str, Any]) -> Study:
        """The study with the recorded levels of a point. Raises `UsageError` where they do not fit
        it, as in a directory that another version wrote or that was edited.
        """
        try:
            return self.study.at(factors)
        except ValueError as e:  # of a level, a place, or a value that validation refuses
            levels = ", ".join(f"{name}={level_text(level)}" for name, level in factors.items())
            raise UsageError(
                f"{self.directory}: point {point} ({levels}) does not fit the study of the run: {e}",
                "study.json or points.json was edited, or another version of hakaru wrote the run; run it again",
            ) from e

    def tcp_series(self, point: str, number: int) -> pa.Table | None:
        """Return the TCP sockets that the run's watch recorded in a repetition, or None if it
        watched none.
        """
        return RunReader(self.directory).tcp(point, number)

    def records(self, point: str) -> list[dict[str, Any]]:
        """Records of the repetitions of a point, without what was measured in them."""
        return sorted(self._repetitions.get(point, []), key=lambda r: int(r["repetition"]))

    def repetitions(self, point: str) -> Iterator[Repetition]:
        """Finished repetitions of a point (failed ones too), loaded one after the other."""
        reader = RunReader(self.directory)
        for raw in self.records(point):
            yield _load(reader, raw)


def _load(reader: RunReader, raw: dict[str, Any]) -> Repetition:
    point, number = str(raw["point"]), int(raw["repetition"])
    measure = raw.get("measure") or {}
    window = (int(measure.get("start_ns") or 0), int(measure.get("end_ns") or 0))
    done = raw.get("status") == "done"
    read = [Caveat.from_json(c) for c in raw.get("caveats") or []]
    return Repetition(
        point=point,
        number=number,
        order=int(raw.get("order") or 0),
        status=str(raw.get("status")),
        error=raw.get("error"),
        window=window,
        origin=str(raw.get("origin")),
        caveats=tuple(c for c in read if c is not None),
        counters=Counters.of_table(reader.samples(point, number)) if done else Counters({}),
        histograms=reader.histograms(point, number) if done else pa.table({}),
        engines=tuple(e for e in raw.get("engines") or [] if isinstance(e, dict)),
    )
