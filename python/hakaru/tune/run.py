"""Runs a tuning in a lab or against a real target, with one repetition per trial. The run directory
is consistent at all times.

    prepare_new(setup, …), prepare_resumed(…) → Prepared     all checks, before anything is changed
    execute(prepared, setup, watch) → Path                   the finished run directory

A trial is stored together with its repetition, and the next step follows from the stored trials. An
interruption, even a crash, loses only the trial in progress.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hakaru.analysis.run_data import RunData
from hakaru.caveats import Caveat
from hakaru.errors import HakaruError, LostError, UsageError
from hakaru.lab.plan import plan_lab
from hakaru.run.devices import refusals
from hakaru.run.options import Options
from hakaru.run.outcome import Outcome
from hakaru.run.plan import LAB_S, REPETITION_S, REPORT_S
from hakaru.run.preflight import check_machine
from hakaru.run.preparation import Prepared
from hakaru.run.progress import Watchers
from hakaru.run.resumable import check_resumable
from hakaru.run.runner import Run, drive
from hakaru.run.site import check_hosts, check_writes
from hakaru.run.site_file import Site
from hakaru.store import RunReader, RunWriter, find_run
from hakaru.study import Expanded, Loaded, Point, Repetition
from hakaru.tune.knobs import changed, defaults_of
from hakaru.tune.measure import RECORD, trial_of, trials_of, with_measured
from hakaru.tune.setup import Setup
from hakaru.tune.study import load_base, point_of
from hakaru.tune.tuning import Step, Trial
from hakaru.wording import number

TUNING = "tuning"
"""Key of the setup in run.json. A run with this key is a tuning."""
LABELS = {"search": "search", "contribution": "reverting", "peer": "the peer", "advice": "confirming the advice"}


def prepare_new(setup: Setup, *, folder: Path, site: Site | None, command: list[str]) -> Prepared:
    """Check and prepare a new tuning."""
    return _prepared(setup, load_base(setup), folder=folder, site=site, resumed=None, command=command)


def prepare_resumed(name: str, *, folder: Path, command: list[str]) -> tuple[Prepared, Setup]:
    """Check and prepare the continuation of an interrupted tuning, with its original setup."""
    directory = find_run(name, folder)
    run = RunReader(directory).read("run.json")
    if TUNING not in run:
        raise UsageError(f"{directory.name} is not a tuning", "`hakaru run STUDY --resume RUN` resumes a study")
    check_resumable(directory, run)
    setup = Setup.of_json(run[TUNING])
    site = Site.model_validate(run["site"]) if run["site"] else None
    loaded = load_base(setup)
    prepared = _prepared(setup, loaded, folder=directory.parent, site=site, resumed=directory, command=command)
    return prepared, setup


def _prepared(
    setup: Setup, loaded: Loaded, *, folder: Path, site: Site | None, resumed: Path | None, command: list[str]
) -> Prepared:
    study = loaded.study
    first = point_of(study, setup, defaults_of(setup.space), "t01")
    turn = Repetition(first, 1, 1)
    expanded = Expanded(study, False, setup.seed, study.measure, (first,), (turn,))
    prepared = Prepared(
        loaded=loaded,
        expanded=expanded,
        options=Options(seed=setup.seed),
        lab=None if site else plan_lab(study.lab),
        site=site,
        allow_writes=check_writes(site, expanded) if site else True,
        resumed=resumed,
        folder=folder,
        command=command,
        impossible=frozenset(refusals(expanded, site=site)),
    )
    check_machine(expanded, prepared.lab, folder, prepared.impossible)
    if site is not None:
        check_hosts(site)
    return prepared


def execute(prepared: Prepared, setup: Setup, watch: Watchers) -> Path:
    """Run the tuning. Raises as `hakaru.run.runner.execute`, with the run directory complete."""
    return drive(Run(prepared, watch, TuningCourse(prepared, setup)))


class TuningCourse:
    """The course of a run (`hakaru.run.course`) whose next repetition is a trial that follows from
    those before it.
    """

    def __init__(self, prepared: Prepared, setup: Setup) -> None:
        self.expanded = prepared.expanded
        self._setup = setup
        self._trials: list[Trial] = []
        self._points: dict[str, Point] = {}
        self._step: Step | None = None
        self._writer: RunWriter | None = None

    def describe(self) -> dict[str, Any]:
        """The setup, which makes run.json that of a tuning."""
        return {"kind": TUNING, TUNING: self._setup.describe()}

    def begin(self, writer: RunWriter, done: Collection[str], *, is_resumed: bool) -> None:
        """Read the trials of a resumed run. A new one begins with the point of the defaults."""
        self._writer = writer
        self._trials = trials_of(writer.directory, self._setup)
        # Failures may have ended the run, and their cause may have been corrected.
        while self._trials and self._trials[-1].error is not None:
            failed = self._trials.pop()
            writer.forget(f"{failed.point}-{failed.repetition}")
        for trial in self._trials:
            self._point(Step(trial.phase, dict(trial.settings), trial.knob), trial.point)
        if not is_resumed:
            self._write_points(self.expanded.repetitions)

    def next(self) -> Repetition | None:
        """The next trial, as the search decides."""
        self._step = self._setup.tuning.next(self._trials)
        if self._step is None:
            return None
        turn = self._turn(self._step)
        self._plan(turn)
        return turn

    def survive(self, error: HakaruError) -> list[Caveat] | None:
        """Settings that make the target or an engine fail give a failed trial."""
        return [] if isinstance(error, LostError) else None

    def complete(self, turn: Repetition, outcome: Outcome, seconds: float) -> None:
        """Add the step to the record."""
        assert self._step is not None, "`next` returned this repetition"
        outcome.record[RECORD] = {
            "phase": self._step.phase,
            "knob": self._step.knob,
            "settings": self._step.settings,
            "seconds": round(seconds, 3),
        }

    def take(self, turn: Repetition, outcome: Outcome, seconds: float, watch: Watchers) -> None:
        """Judge the trial, and publish it."""
        assert self._writer is not None, "`begin` comes first"
        run = RunData.read(self._writer.directory)
        self._know(with_measured(self._setup, run, outcome.record))
        trial = trial_of(run, outcome.record, self._setup)
        self._trials.append(trial)
        watch.event(
            "trial",
            trial=len(self._trials),
            phase=trial.phase,
            knob=trial.knob,
            settings=dict(trial.settings),
            mb_per_s=trial.mb_per_s,
            memory_bytes=self._setup.tuning.search.memory(trial.settings),
            error=trial.error,
        )

    def _know(self, setup: Setup) -> None:
        """Take a setup with the measured round trip. Later trials have the warm-up that follows
        from it, as after `--resume`, which builds the study from this setup too.
        """
        if setup != self._setup:
            study = load_base(setup).study
            self.expanded = replace(self.expanded, study=study, measure=study.measure)
            self._setup = setup

    def _turn(self, step: Step) -> Repetition:
        point = self._point(step)
        times = 1 + sum(t.point == point.id for t in self._trials)
        return Repetition(point, times, len(self._trials) + 1)

    def _point(self, step: Step, name: str | None = None) -> Point:
        """Return the point of a setting. Repeated measurements of a setting share one point."""
        key = repr(sorted(step.settings.items()))
        known = self._points.get(key)
        new = name or (known.id if known else f"t{len(self._points) + 1:02}")
        self._points[key] = point_of(self.expanded.study, self._setup, step.settings, new, self._label(step))
        return self._points[key]

    def _label(self, step: Step) -> str:
        label = LABELS[step.phase]
        if step.phase == "search":
            label += f" {1 + sum(t.phase == 'search' for t in self._trials)} of at most {self._setup.limits.trials}"
        elif step.knob:
            label += f" {step.knob}"
        best = max((t.mb_per_s or 0.0 for t in self._trials), default=0.0)
        return f"{label}, best {number(best)} MB/s" if best else label

    def _plan(self, turn: Repetition) -> None:
        """Write study.json and points.json with every point so far, including that of `turn`, which
        is about to be measured.
        """
        assert self._writer is not None, "`begin` comes first"
        points = tuple(self._points.values())
        by_id = {point.id: point for point in points}
        done = [Repetition(by_id[t.point], t.repetition, i) for i, t in enumerate(self._trials, start=1)]
        turns, old = (*done, turn), self.expanded
        self.expanded = Expanded(old.study, old.quick, old.seed, old.measure, points, turns)
        self._writer.write("study.json", self.expanded.describe({}))
        self._write_points(turns)

    def _write_points(self, turns: Sequence[Repetition]) -> None:
        assert self._writer is not None, "`begin` comes first"
        counts = Counter(turn.point.id for turn in turns)
        described = [{"point": p.id, "factors": p.factors, "repetitions": counts[p.id]} for p in self.expanded.points]
        self._writer.write("points.json", described)

    @property
    def most(self) -> int:
        """Expected number of repetitions."""
        tuning, limits = self._setup.tuning, self._setup.limits
        searched = sum(t.phase == "search" for t in self._trials)
        best = tuning.best(self._trials)
        changed_count = len(changed(self._setup.space, best)) if best else len(self._setup.space)
        search = searched if self._trials and tuning.search_ended(self._trials) else limits.trials
        return search + limits.repetitions * (2 + changed_count + (self._setup.peer is not None))

    def left_s(self) -> float:
        """Return the maximum seconds until the report. The budget bounds the remaining trials."""
        made_s = sum(t.seconds for t in self._trials)
        each = made_s / len(self._trials) if self._trials else LAB_S + REPETITION_S + self._planned_s
        left_trials = (self.most - len(self._trials)) * each
        return max(0.0, min(self._setup.limits.budget_s - made_s, left_trials)) + REPORT_S

    @property
    def _planned_s(self) -> float:
        measure = self.expanded.measure
        return (measure.warmup_ns + measure.time_ns) / 1e9
