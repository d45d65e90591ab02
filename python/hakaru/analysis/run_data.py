"""A run directory as input of analysis: points, and their finished repetitions with counters.

Reads through `hakaru.store.RunReader` and interprets nothing. Samples are loaded one repetition at
a time, so a long run does not have to fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from hakaru.analysis.counters import Counters
from hakaru.analysis.utilisation import Nic, nics_of_lab
from hakaru.caveats import Caveat
from hakaru.errors import UsageError
from hakaru.lab.plan import plan_lab
from hakaru.store import RunReader
from hakaru.study import Loaded, Study, of_described
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
    trials: Mapping[str, Any] = field(default_factory=dict)
    """Description of a dialogue with the loads; empty without one."""
    engines: tuple[dict[str, Any], ...] = ()
    """Reports of each engine at its start (`found`) and at its end (`values`): `{node, engine,
    found, values}`.
    """
    kernel_initiators: tuple[str, ...] = ()
    """Nodes whose load used the initiator of a guest's kernel."""
    accelerators: tuple[str, ...] = ()
    """How the processors of its guests ran, each once: `kvm`, or `tcg` if QEMU emulated them."""
    chains: Mapping[str, Any] = field(default_factory=dict)
    """Node → record of the chain of its file server in a guest; empty without one."""
    events: tuple[dict[str, Any], ...] = ()
    """Events that were carried out in its measuring phase: `{event, object, due_ns, begun_ns,
    done_ns}`, and a record of their own for some.
    """

    @property
    def done(self) -> bool:
        """Whether the repetition gave a result."""
        return self.status == "done" and self.window[0] < self.window[1]


@dataclass(frozen=True)
class Searched:
    """One search: the points that it may measure, the lowest level of `over` first."""

    over: str
    points: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class RunData:
    """One run."""

    directory: Path
    run: dict[str, Any]
    study: Study
    """The study in the form of the run (quick or full); `study_at` returns it with the levels of a
    point.
    """
    tables: Sequence[Sequence[Mapping[str, Any]]]
    """Rows of each published table, in the order of `study.reference`; empty for other
    references.
    """
    lab: dict[str, Any]
    machine: dict[str, Any]
    points: list[dict[str, Any]]
    _repetitions: dict[str, list[dict[str, Any]]]
    searches: tuple[Searched, ...] = ()
    """The searches for the goal of the study, with all points that they may measure."""

    @classmethod
    def read(cls, directory: Path) -> RunData:
        """Load a run directory. Raises `UsageError` if it is not a run or is damaged."""
        reader = RunReader(directory)
        by_point: dict[str, list[dict[str, Any]]] = {}
        for repetition in reader.repetitions():
            by_point.setdefault(str(repetition["point"]), []).append(repetition)
        parts = {name: reader.read(f"{name}.json") for name in ("run", "study", "lab", "machine", "points")}
        study_json = parts.pop("study")
        try:
            study = of_described(study_json)
        except ValidationError as e:
            raise UsageError(f"{directory}/study.json cannot be read: {e}", "the file was changed after the run") from e
        tables = [reference.get("rows") or [] for reference in study_json.get("reference") or []]
        searches = tuple(_searches(study_json))
        return cls(directory=directory, study=study, tables=tables, _repetitions=by_point, searches=searches, **parts)

    def compared_with(self, loaded: Loaded) -> RunData:
        """The same run, compared with the published numbers of a study as it is now, which may have
        got further rows and notes after the run.
        """
        named = {"publications": loaded.study.publications, "reference": loaded.study.reference}
        return replace(self, study=self.study.model_copy(update=named), tables=loaded.reference_rows)

    @property
    def kind(self) -> str:
        """Name of the kind of its study."""
        return str(self.run["kind"])

    @property
    def is_site(self) -> bool:
        """Whether the run used existing equipment (`--site`) instead of a lab."""
        return bool(self.run.get("site"))

    def study_at(self, point: str, factors: Mapping[str, Any]) -> Study:
        """The study with the recorded levels of a point. Raises `UsageError` if the levels do not
        fit the study, for example because the directory was edited or written by another version.
        """
        try:
            return self.study.at(factors)
        except ValueError as e:  # an unknown level or place, or a value that validation refuses
            levels = ", ".join(f"{name}={level_text(level)}" for name, level in factors.items())
            raise UsageError(
                f"{self.directory}: point {point} ({levels}) does not fit the study of the run: {e}",
                "study.json or points.json was edited, or another version of hakaru wrote the run; run it again",
            ) from e

    def nics_at(self, changed: Study) -> list[Nic]:
        """Node ends of the links of the lab, with the rates of a point; `changed` is the study with
        its levels.
        """
        return nics_of_lab(self.lab, () if self.is_site else plan_lab(changed.lab).links)

    def tcp_series(self, point: str, number: int) -> pa.Table | None:
        """Return the TCP series that the run's watch recorded in a repetition, or None if it
        recorded none.
        """
        return RunReader(self.directory).tcp(point, number)

    def records(self, point: str) -> list[dict[str, Any]]:
        """Records of the repetitions of a point, without samples."""
        return sorted(self._repetitions.get(point, []), key=lambda r: int(r["repetition"]))

    def repetitions(self, point: str) -> Iterator[Repetition]:
        """Finished repetitions of a point (failed ones too), loaded one at a time."""
        reader = RunReader(self.directory)
        for raw in self.records(point):
            yield _load(reader, raw)


def _searches(described: Mapping[str, Any]) -> Iterator[Searched]:
    by_id = {point["point"]: point for point in described.get("points") or []}
    for search in described.get("searches") or []:
        yield Searched(str(search["over"]), tuple(by_id[name] for name in search["points"]))


def _load(reader: RunReader, raw: dict[str, Any]) -> Repetition:
    point, number = str(raw["point"]), int(raw["repetition"])
    measure = raw.get("measure") or {}
    window = (int(measure.get("start_ns") or 0), int(measure.get("end_ns") or 0))
    done = raw.get("status") == "done"
    caveats = [Caveat.from_json(c) for c in raw.get("caveats") or []]
    guests = raw.get("guests") or {}
    return Repetition(
        point=point,
        number=number,
        order=int(raw.get("order") or 0),
        status=str(raw.get("status")),
        error=raw.get("error"),
        window=window,
        origin=str(raw.get("origin")),
        caveats=tuple(c for c in caveats if c is not None),
        counters=Counters.of_table(reader.samples(point, number), guests) if done else Counters({}),
        histograms=reader.histograms(point, number) if done else pa.table({}),
        trials=raw.get("trials") or {},
        engines=tuple(e for e in raw.get("engines") or [] if isinstance(e, dict)),
        accelerators=_accelerators(raw),
        kernel_initiators=tuple(node for node, guest in guests.items() if guest.get("initiator") == "open-iscsi"),
        chains=raw.get("chains") or {},
        events=tuple(raw.get("events") or ()),
    )


def _accelerators(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Accelerators of the guest under test and of the guests in the places of nodes."""
    guests = [raw.get("device") or {}, *(raw.get("guests") or {}).values()]
    return tuple(sorted({str(guest["accelerator"]) for guest in guests if guest.get("accelerator")}))
