"""A complete run: pre-flight, lab, link checks, every repetition in its order, and a run directory
that is consistent at all times.

    prepare(…)  → Prepared      `hakaru.run.preparation`; raises before anything is changed
    execute(…)  → Path          the finished run directory

A repetition that is interrupted or fails leaves nothing behind, except for the record of a failed
device or of a load that was not answered. Earlier repetitions are kept, and `--resume` runs the
missing ones and the failed ones. On the first Ctrl-C the current repetition is discarded and the
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
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from hakaru import __version__
from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.engine.process import LateStartError
from hakaru.errors import HakaruError, Interrupted
from hakaru.run import kind
from hakaru.run.course import Course, StudyCourse
from hakaru.run.machine import describe_machine
from hakaru.run.opening import OpenPlace, open_place
from hakaru.run.outcome import Outcome, failed_outcome
from hakaru.run.place import Place
from hakaru.run.preparation import Prepared
from hakaru.run.progress import Watchers
from hakaru.run.queues import QueueMeter
from hakaru.run.repetition import OnSample, run_repetition
from hakaru.run.resumable import MACHINE
from hakaru.store import FORMAT, RunReader, RunWriter, typed, write_note
from hakaru.study import Expanded, Repetition

LATE_STARTS_MAX = 3
# A `kill` of the process group reaches this process directly and again through the sandbox. Signals
# this close together count as one Ctrl-C.
SAME_SIGNAL_S = 0.3


def execute(prepared: Prepared, watch: Watchers) -> Path:
    """Execute the run and return its directory. Raises only after the directory is consistent: the
    error says how the run ended, and `--resume` continues it.
    """
    return drive(Run(prepared, watch, StudyCourse(prepared)))


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


Measure = Callable[[Place, Expanded, Repetition, OnSample, Path], Awaitable[Outcome]]
"""Runs one repetition, as `run_repetition`."""


class Run:
    """A run in progress: it executes a course in a place, and keeps the run directory consistent.

    Implements `hakaru.run.opening.Notes`, for the function that opens the place.
    """

    def __init__(
        self,
        prepared: Prepared,
        watch: Watchers,
        course: Course,
        *,
        open_place: OpenPlace = open_place,
        measure: Measure = run_repetition,
    ) -> None:
        self._prepared = prepared
        self._watch = watch
        self._course = course
        self._open_place, self._measure = open_place, measure
        self._done: set[str] = set()
        self._meta: dict[str, Any] = {}
        self._writer: RunWriter | None = None

    async def go(self) -> Path:
        """Execute the run. The run directory is consistent when this returns or raises."""
        writer = self.open()
        try:
            async with self._open_place(self._prepared, self) as place:
                await self._repetitions(writer, place)
                # By now the lab has been in every state that the points ask for.
                writer.write("lab.json", place.describe())
        except asyncio.CancelledError:
            directory = self._close(writer, "interrupted", None)
            raise _InterruptedRun(
                directory, len(self._done), self._course.most, self._how_to_resume(directory)
            ) from None
        except HakaruError as e:
            # On a full disk this fails too. The directory then stays partial, which --resume
            # accepts as well.
            with contextlib.suppress(HakaruError):
                directory = self._close(writer, "interrupted" if isinstance(e, Interrupted) else "failed", e)
                hint = (
                    f"{e.hint}; {len(self._done)} of {self._course.most} repetitions are kept: " if self._done else ""
                )
                e.hint = f"{hint}{self._how_to_resume(directory)}" if self._done else e.hint
            raise
        return self._close(writer, "done", None)

    def _how_to_resume(self, directory: Path) -> str:
        return f"`{typed.resume(self._meta, directory.name)}` continues it"

    def open(self) -> RunWriter:
        """Create a run directory, or reopen the one to resume. `go` calls it."""
        prepared, study = self._prepared, self._prepared.loaded.study
        if prepared.resumed is not None:
            writer = RunWriter.reopen(prepared.resumed)
            reader = RunReader(writer.directory)
            self._meta = reader.read("run.json") | {"status": "running", "error": None, "hint": None, "ended": None}
            # A repetition that failed is tried again; the new record replaces this one.
            self._done = reader.done()
        else:
            now = dt.datetime.now(dt.UTC)
            writer = RunWriter.create(prepared.folder, study.id, now)
            self._meta = self._describe(writer.name, now)
        self._writer = writer
        writer.write("run.json", self._meta)
        if prepared.resumed is None:
            writer.write("study.json", prepared.expanded.describe(prepared.loaded.tables))
            writer.write_bytes("study.yaml", prepared.loaded.source)
        self._course.begin(writer, self._done, is_resumed=prepared.resumed is not None)
        if prepared.note:
            write_note(writer.directory, prepared.note)
        # A resumed run is on the machine that it started on (`check_resumable`).
        if not (writer.directory / MACHINE).exists():
            writer.write(MACHINE, describe_machine())
        # Views that connect now read these files.
        self._watch.opened(writer.directory)
        self._watch.event(
            "run_started", run=writer.name, study=study.id, repetitions=self._course.most, done=len(self._done)
        )
        return writer

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
            "seed": prepared.expanded.seed,
            "quick": prepared.expanded.quick,
            "options": prepared.options.describe(),
            "site": prepared.site and prepared.site.model_dump(mode="json"),
            "origin": "measured" if prepared.site else study.origin,
            "started": now.isoformat(timespec="seconds"),
            "ended": None,
            "versions": versions,
            "command": prepared.command,
            "caveats": [],
            **self._course.describe(),
        }

    def phase(self, name: str, detail: str) -> None:
        """Show that a phase begins."""
        self._watch.phase(name, detail, self._course.left_s())

    def caveat(self, caveat: Caveat) -> None:
        """Add a caveat to run.json, once even if the run is resumed."""
        if caveat.to_json() not in self._meta["caveats"]:
            self._meta["caveats"].append(caveat.to_json())

    def lab(self, description: dict[str, Any]) -> None:
        """Write lab.json, and run.json with the caveats so far."""
        assert self._writer is not None, "a place is opened after the run directory"
        self._writer.write("lab.json", description)
        self._writer.write("run.json", self._meta)

    async def _repetitions(self, writer: RunWriter, place: Place) -> None:
        course = self._course
        while (turn := course.next()) is not None:
            expanded = course.expanded
            if not place.is_known(expanded, turn):
                self.phase("check", f"measuring the links that {turn.point.id} changes")
            self._watch.turn(turn, len(self._done), course.most, course.left_s())
            began = time.monotonic()
            folder = writer.series_folder(expanded.study.watch is not None)
            try:
                outcome = await self._repetition(place, turn, folder)
            except HakaruError as error:
                caveats = course.survive(error)
                if caveats is None:
                    raise
                outcome = failed_outcome(place, turn, error, caveats)
            seconds = time.monotonic() - began
            course.complete(turn, outcome, seconds)
            writer.write_repetition(outcome.record, outcome.samples, outcome.histograms, outcome.tcp, outcome.captures)
            self._done.add(turn.name)
            course.take(turn, outcome, seconds, self._watch)
            if outcome.record["engines"]:
                self._meta["versions"]["hakaru_engine"] = outcome.record["engines"][0]["version"]
            described = course.describe()
            if described != {name: self._meta[name] for name in described}:
                self._meta |= described
                writer.write("run.json", self._meta)
            self._watch.event(
                "repetition", **{k: outcome.record[k] for k in ("point", "repetition", "factors", "measure", "caveats")}
            )

    async def _repetition(self, place: Place, turn: Repetition, folder: Path) -> Outcome:
        """Run one repetition. Tries again, up to 3 times in total, if this machine was too busy to
        start the engines together.
        """
        began = time.monotonic()
        expanded = self._course.expanded
        hosts = len(place.loads(expanded, turn))
        # Computed once: with many points this takes longer than a sample may.
        left_at_start_s = self._course.left_s()

        def shown() -> OnSample:
            """Show the samples of one attempt, whose engines count from 0."""
            meter, queues = kind.of(expanded.study).meter(expanded, turn, hosts), QueueMeter()

            def on_sample(node: str, sample: contract.Sample, is_load: bool) -> None:
                queues.add(node, sample)
                rates = meter.add(node, sample) if is_load else None
                if rates is not None:
                    left_s = left_at_start_s - (time.monotonic() - began)
                    self._watch.now(turn, rates, queues.lengths(), left_s)

            return on_sample

        for attempt in range(1, LATE_STARTS_MAX + 1):
            try:
                return await self._measure(place, expanded, turn, shown(), folder)
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
        self._watch.event("run_ended", run=directory.name, status=status, done=len(self._done), total=self._course.most)
        return directory
