"""A complete run: pre-flight, lab, link checks, every repetition in its order, and a run directory
that is consistent at all times.

    prepare(…)  → Prepared      the expanded study, and the run to resume if any; raises before
                                anything is changed
    execute(…)  → Path          the finished run directory

A repetition that is interrupted or fails leaves nothing behind, except for the record of a failed
device. Earlier repetitions are kept, and `--resume` runs the missing ones and those of failed
devices. On the first Ctrl-C the current repetition is discarded and the
run directory gets its name with status `interrupted`. The second Ctrl-C exits at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import platform
import signal
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hakaru import __version__
from hakaru import kind as kinds
from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.errors import DeviceError, GuestError, HakaruError, Interrupted, UsageError
from hakaru.lab.build import Lab
from hakaru.lab.check import CheckedLab
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.remote.host import open_hosts
from hakaru.run import kind
from hakaru.run import plan as planned
from hakaru.run.machine import describe_machine
from hakaru.run.options import Options, expand_options
from hakaru.run.outcome import Outcome, failed_outcome
from hakaru.run.place import LabPlace, Place
from hakaru.run.preflight import check_machine
from hakaru.run.progress import Watchers
from hakaru.run.queues import QueueMeter
from hakaru.run.repetition import LateStartError, run_repetition
from hakaru.run.resumable import MACHINE, check_resumable
from hakaru.run.schedule import schedule_of
from hakaru.run.site import SitePlace, check_hosts, check_writes
from hakaru.run.site_file import Site
from hakaru.store import FORMAT, RunReader, RunWriter, check_note, find_run, typed, write_note
from hakaru.study import Expanded, Loaded, Point, Repetition
from hakaru.study.model import JUDGING_PARTS
from hakaru.study.results import PointResults

LATE_STARTS_MAX = 3
# A `kill` of the process group reaches this process directly and again through the sandbox. Signals
# this close together count as one Ctrl-C.
SAME_SIGNAL_S = 0.3


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start."""

    loaded: Loaded
    expanded: Expanded
    options: Options
    lab: LabPlan | None
    site: Site | None
    allow_writes: bool
    resumed: Path | None
    folder: Path
    command: list[str]
    note: str = ""
    """Note of the run; empty: none, or that of the resumed run."""


def prepare(
    loaded: Loaded,
    options: Options,
    *,
    folder: Path,
    site: Site | None,
    resume: str | None,
    command: list[str],
    note: str = "",
) -> Prepared:
    """Expand the study and perform every check that needs no lab. Writes nothing."""
    resumed = find_run(resume, folder) if resume else None
    run = RunReader(resumed).read("run.json") if resumed else None
    if run is not None:
        options = _options_of(run, options)
    expanded = expand_options(loaded, options)
    if site is None:
        _check_lab(expanded)
    prepared = Prepared(
        loaded=loaded,
        expanded=expanded,
        options=options,
        lab=None if site else plan_lab(expanded.study.lab),
        site=site,
        allow_writes=check_writes(site, expanded) if site else True,
        resumed=resumed,
        folder=resumed.parent if resumed else folder,
        command=command,
        note=check_note(note),
    )
    if resumed is not None and run is not None:
        _check_same(resumed, run, prepared)
    check_machine(expanded, prepared.lab, prepared.folder)
    if site is not None:
        check_hosts(site)
    return prepared


def _check_lab(expanded: Expanded) -> None:
    """Refuse points whose device is existing equipment, which no lab has."""
    for point in expanded.points:
        device = expanded.at(point).lab.device
        if device is not None and device.forwards == "equipment":
            raise UsageError(
                f"the device of point {point.id} is existing equipment",
                "name the interfaces in front of it in a site file under `ports`, and give it with --site",
            )


def _options_of(run: dict[str, Any], given: Options) -> Options:
    """Return the resumed run's own options. Those on the command line must not differ from them."""
    options = Options.of_run(run)
    if given not in (Options(), options):
        raise UsageError(
            "--quick, --seed, --repetitions and --only cannot differ from those of the run to resume",
            "leave them out when you use --resume",
        )
    return options


def _check_same(directory: Path, run: dict[str, Any], prepared: Prepared) -> None:
    check_resumable(directory, run)
    recorded = RunReader(directory).read("study.json")
    same = _measured(recorded) == _measured(prepared.expanded.describe(prepared.loaded.tables))
    if not same or run["site"] != (prepared.site and prepared.site.model_dump(mode="json")):
        raise UsageError(
            f"the study or site has changed after {directory.name} was started",
            f"{directory / 'study.yaml'} is the original study; start a new run for the changed one",
        )


def _measured(described: dict[str, Any]) -> dict[str, Any]:
    """The contents of study.json without the parts that affect no measured value. These may change
    before a run is resumed; the run keeps those that it started with.
    """
    return {name: part for name, part in described.items() if name not in JUDGING_PARTS}


def execute(prepared: Prepared, watch: Watchers) -> Path:
    """Execute the run and return its directory. Raises only after the directory is consistent: the
    error says how the run ended, and `--resume` continues it.
    """
    return drive(Run(prepared, watch))


def drive(run: Run) -> Path:
    """Execute a run until its end, or until the first SIGINT or SIGTERM."""
    return asyncio.run(_interruptible(run.go()))


async def _interruptible(work: Coroutine[Any, Any, Path]) -> Path:
    """Await `work`. The first SIGINT or SIGTERM cancels it; the second exits at once."""
    task = asyncio.ensure_future(work)
    first: list[tuple[signal.Signals, float]] = []

    def stop(number: signal.Signals) -> None:
        if not first:
            first.append((number, time.monotonic()))
            task.cancel()
        elif time.monotonic() - first[0][1] > SAME_SIGNAL_S:
            # Engines end when their stdin is closed, and the lab disappears with its namespaces.
            # Nothing is left to clean up.
            os._exit(128 + number)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not first:
            raise
        raise Interrupted("interrupted", signal=first[0][0]) from None
    except _InterruptedRun as e:
        number = first[0][0] if first else signal.SIGINT
        raise Interrupted(
            f"interrupted; {e.done} of {e.total} repetitions are kept in {e.directory}", e.hint, signal=number
        ) from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _InterruptedRun(Exception):
    """A run was cancelled, and its directory is consistent."""

    def __init__(self, directory: Path, done: int, total: int, hint: str) -> None:
        super().__init__(str(directory))
        self.directory, self.done, self.total, self.hint = directory, done, total, hint


class Run:
    """A run in progress. `hakaru.tune.run`, which chooses its repetitions during the run, derives
    from it.
    """

    def __init__(self, prepared: Prepared, watch: Watchers) -> None:
        self._prepared = prepared
        self._expanded = prepared.expanded
        self._watch = watch
        self._schedule = schedule_of(prepared.expanded)
        self._done: set[str] = set()
        self._clock: Clock = _Remaining(prepared)
        self._meta: dict[str, Any] = {}

    async def go(self) -> Path:
        """Execute the run. The run directory is consistent when this returns or raises."""
        writer = self._open()
        try:
            async with self._place(writer) as place:
                await self._repetitions(writer, place)
                # By now the lab has been in every state that the points ask for.
                writer.write("lab.json", place.describe())
        except asyncio.CancelledError:
            directory = self._close(writer, "interrupted", None)
            raise _InterruptedRun(directory, len(self._done), self._total, self._how_to_resume(directory)) from None
        except HakaruError as e:
            # On a full disk this fails too. The directory then stays partial, which --resume
            # accepts as well.
            with contextlib.suppress(HakaruError):
                directory = self._close(writer, "interrupted" if isinstance(e, Interrupted) else "failed", e)
                hint = f"{e.hint}; {len(self._done)} of {self._total} repetitions are kept: " if self._done else ""
                e.hint = f"{hint}{self._how_to_resume(directory)}" if self._done else e.hint
            raise
        return self._close(writer, "done", None)

    @property
    def _total(self) -> int:
        return self._schedule.most

    def _how_to_resume(self, directory: Path) -> str:
        return f"`{typed.resume(self._meta, directory.name)}` continues it"

    def _open(self) -> RunWriter:
        """Create a run directory, or reopen the one to resume."""
        prepared, study = self._prepared, self._prepared.loaded.study
        if prepared.resumed is not None:
            writer = RunWriter.reopen(prepared.resumed)
            reader = RunReader(writer.directory)
            self._meta = reader.read("run.json") | {"status": "running", "error": None, "hint": None, "ended": None}
            for record in reader.repetitions():
                # A device that could not be built is tried again; the new record replaces this one.
                if record["status"] == "done":
                    self._done.add(f"{record['point']}-{record['repetition']}")
        else:
            now = dt.datetime.now(dt.UTC)
            writer = RunWriter.create(prepared.folder, study.id, now)
            self._meta = self._describe(writer.name, now)
        writer.write("run.json", self._meta)
        if prepared.resumed is None:
            writer.write("study.json", self._expanded.describe(prepared.loaded.tables))
            writer.write_bytes("study.yaml", prepared.loaded.source)
        if prepared.resumed is None or not self._schedule.is_fixed:
            self._write_points(writer)
        if prepared.note:
            write_note(writer.directory, prepared.note)
        # A resumed run is on the machine that it started on (`check_resumable`).
        if not (writer.directory / MACHINE).exists():
            writer.write(MACHINE, describe_machine())
        # Views that connect now read these files.
        self._watch.opened(writer.directory)
        self._watch.event("run_started", run=writer.name, study=study.id, repetitions=self._total, done=len(self._done))
        return writer

    def _write_points(self, writer: RunWriter) -> None:
        """Write points.json: the points with their planned repetitions, or those that a search has
        measured so far.
        """
        described = []
        for point in self._expanded.points:
            times = self._schedule.planned(point, self._done)
            if times:
                described.append({"point": point.id, "factors": point.factors, "repetitions": times})
        writer.write("points.json", described)

    def _describe(self, name: str, now: dt.datetime) -> dict[str, Any]:
        prepared, study = self._prepared, self._prepared.loaded.study
        versions = {
            "hakaru": __version__,
            "contract": contract.CONTRACT_VERSION,
            "python": platform.python_version(),
        }
        return {
            "format": FORMAT,
            "run": name,
            "study": study.id,
            "kind": study.kind,
            "title": study.title.model_dump(),
            "status": "running",
            "error": None,
            "hint": None,
            "seed": self._expanded.seed,
            "quick": self._expanded.quick,
            "options": prepared.options.describe(),
            "site": prepared.site and prepared.site.model_dump(mode="json"),
            "origin": "measured" if prepared.site else study.origin,
            "started": now.isoformat(timespec="seconds"),
            "ended": None,
            "versions": versions,
            "command": prepared.command,
            "caveats": [],
        }

    @contextlib.asynccontextmanager
    async def _place(self, writer: RunWriter) -> AsyncIterator[Place]:
        """The lab, built and checked, or the site."""
        prepared = self._prepared
        if prepared.site is not None or prepared.lab is None:
            assert prepared.site is not None
            self._caveat(Caveat("link_unchecked"))
            if not prepared.allow_writes:
                self._caveat(Caveat("not_expendable"))
            async with open_hosts(prepared.site.hosts) as hosts:
                place = SitePlace(prepared.site, hosts, allow_writes=prepared.allow_writes)
                writer.write("lab.json", place.describe())
                yield place
            return
        self._watch.phase("lab", planned.lab_parts(prepared.lab), self._clock.left_s(self._left))
        async with Lab(prepared.lab) as lab:
            self._watch.phase("check", "measuring every link", self._clock.left_s(self._left))
            checked = CheckedLab(lab, self._earlier_variants())
            for caveat in await checked.check_links():
                self._caveat(caveat)
            if kind.of(self._expanded.study).baseline(prepared.lab):
                self._watch.phase("baseline", "plain TCP between hosts and arrays", self._clock.left_s(self._left))
                await checked.measure_baselines(seed=self._expanded.seed)
            engines = planned.estimate(self._expanded, prepared.lab).engines
            cpus = len(os.sched_getaffinity(0))
            if engines > cpus and kind.of(self._expanded.study).notes_shared_cpus:
                self._caveat(Caveat("cpu_shared", {"engines": engines, "cpus": cpus}))
            writer.write("lab.json", checked.describe())
            writer.write("run.json", self._meta)
            try:
                yield LabPlace(checked, self._expanded.study.origin)
            finally:
                # By now every TCP configuration that the points ask for has been in use.
                writer.write("lab.json", checked.describe())

    def _earlier_variants(self) -> list[dict[str, Any]]:
        """Link variants of the resumed run, with their checks."""
        resumed = self._prepared.resumed
        if resumed is None or not (resumed / "lab.json").is_file():
            return []
        variants: list[dict[str, Any]] = RunReader(resumed).read("lab.json").get("variants") or []
        return variants

    def _caveat(self, caveat: Caveat) -> None:
        """Add a caveat to run.json, once even if the run is resumed."""
        if caveat.to_json() not in self._meta["caveats"]:
            self._meta["caveats"].append(caveat.to_json())

    @property
    def _left(self) -> list[Repetition]:
        return self._schedule.left(self._done)

    async def _repetitions(self, writer: RunWriter, place: Place) -> None:
        results = _Results(self._expanded, writer.directory)
        while (turn := self._schedule.next(self._done, results)) is not None:
            if not place.is_known(self._expanded, turn):
                label = f"measuring the links that {turn.point.id} changes"
                self._watch.phase("check", label, self._clock.left_s(self._left))
            self._watch.turn(turn, len(self._done), self._total, self._clock.left_s(self._left))
            began = time.monotonic()
            folder = writer.series_folder(self._expanded.study.watch is not None)
            try:
                outcome = await self._repetition(place, turn, folder)
            except DeviceError as error:
                name = "guest_failed" if isinstance(error, GuestError) else "device_failed"
                outcome = failed_outcome(place, turn, error, [Caveat(name, {"error": error.message})])
            writer.write_repetition(outcome.record, outcome.samples, outcome.histograms, outcome.tcp, outcome.captures)
            self._done.add(turn.name)
            if not self._schedule.is_fixed:
                self._write_points(writer)
            if outcome.rates is not None:
                self._watch.result(turn, outcome.rates)
            self._clock.took(turn, time.monotonic() - began)
            if outcome.record["engines"]:
                self._meta["versions"]["hakaru_engine"] = outcome.record["engines"][0]["version"]
            self._watch.event(
                "repetition", **{k: outcome.record[k] for k in ("point", "repetition", "factors", "measure", "caveats")}
            )

    async def _repetition(self, place: Place, turn: Repetition, folder: Path) -> Outcome:
        """Run one repetition. Tries again, up to 3 times in total, if this machine was too busy to
        start the engines together.
        """
        began = time.monotonic()
        hosts = len(place.loads(self._expanded, turn))
        meter, queues = kind.of(self._expanded.study).meter(self._expanded, turn, hosts), QueueMeter()

        # Computed once: with many points this takes longer than a sample may.
        left_at_start_s = self._clock.left_s(self._left)

        def on_sample(node: str, sample: contract.Sample, is_load: bool) -> None:
            queues.add(node, sample)
            rates = meter.add(node, sample) if is_load else None
            if rates is not None:
                left_s = left_at_start_s - (time.monotonic() - began)
                self._watch.now(turn, rates, queues.lengths(), left_s)

        for attempt in range(1, LATE_STARTS_MAX + 1):
            try:
                return await run_repetition(place, self._expanded, turn, on_sample, folder)
            except LateStartError:
                if attempt == LATE_STARTS_MAX:
                    raise
        raise AssertionError("unreachable")

    def _close(self, writer: RunWriter, status: str, error: HakaruError | None) -> Path:
        """Complete the run directory and give it its final name."""
        self._meta |= {
            "status": status,
            "error": error and error.message,
            "hint": error and error.hint,
            "ended": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }
        if not (writer.directory / "lab.json").is_file():
            # The lab was not built. Analysis still finds its plan.
            writer.write("lab.json", self._prepared.lab.describe() if self._prepared.lab else {})
        writer.write("run.json", self._meta)
        directory = writer.finish()
        self._watch.event("run_ended", run=directory.name, status=status, done=len(self._done), total=self._total)
        return directory


class _Results:
    """Results of the points of a run in progress, as in its report. Each is computed once per
    repetition.
    """

    def __init__(self, expanded: Expanded, directory: Path) -> None:
        self._analysis = kinds.of(expanded.study).analysis
        self._directory = directory
        self._known: dict[tuple[str, int], PointResults | None] = {}

    def __call__(self, point: Point, times: int) -> PointResults | None:
        key = point.id, times
        if key not in self._known:
            raw = {"point": point.id, "factors": point.factors, "repetitions": times}
            self._known[key] = self._analysis.results(self._directory, raw)
        return self._known[key]


class Clock(Protocol):
    """Estimates the remaining time of a run."""

    def took(self, turn: Repetition, seconds: float) -> None:
        """Record the duration of a repetition."""
        ...

    def left_s(self, left: list[Repetition]) -> float:
        """Expected seconds until the report is written, with these repetitions left."""
        ...


class _Remaining:
    """Remaining time of a run: planned at first, then scaled by the repetitions that have ended."""

    def __init__(self, prepared: Prepared) -> None:
        expanded, self._planned_s = prepared.expanded, dict[str, float]()
        for point in expanded.points:
            cost = planned.cost_of(expanded, point, prepared.lab)
            self._planned_s[point.id] = cost.seconds + planned.REPETITION_S
        self._took_s = self._planned_for_s = 0.0

    def took(self, turn: Repetition, seconds: float) -> None:
        """Record the duration of a repetition."""
        self._took_s += seconds
        self._planned_for_s += self._planned_s[turn.point.id]

    def left_s(self, left: list[Repetition]) -> float:
        """Expected seconds until the report is written, with these repetitions left."""
        slower = self._took_s / self._planned_for_s if self._planned_for_s else 1.0
        return slower * sum(self._planned_s[turn.point.id] for turn in left) + planned.REPORT_S
