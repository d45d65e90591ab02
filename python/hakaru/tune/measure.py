"""Reads the trials of a tuning from the finished repetitions in its run directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hakaru.analysis.run_data import RunData
from hakaru.caveats import Caveat
from hakaru.store import RunReader
from hakaru.tune import kind
from hakaru.tune.knobs import settle, space_of
from hakaru.tune.setup import Setup
from hakaru.tune.tuning import Trial

RECORD = "tuning"
"""Key of the trial's purpose in a repetition's record: `{phase, knob, settings, seconds}`."""


def trials_of(directory: Path, setup: Setup) -> list[Trial]:
    """Return every finished trial, in order."""
    records = RunReader(directory).repetitions()
    if not records:
        return []
    run = RunData.read(directory)
    return [trial_of(run, record, setup) for record in records]


def trial_of(run: RunData, record: dict[str, Any], setup: Setup) -> Trial:
    """Return one trial. Its throughput is computed from its samples as for any point."""
    purpose = record[RECORD]
    repetition = next(r for r in run.repetitions(record["point"]) if r.number == record["repetition"])
    rate, caveats = None, list[Caveat]()
    if repetition.done:
        rate, caveats = kind.of_run(run).rate(run, repetition, record["factors"])
        caveats = [*repetition.caveats, *caveats]
    return Trial(
        phase=purpose["phase"],
        settings=settle(setup.space, purpose["settings"]),
        knob=purpose["knob"],
        mb_per_s=rate,
        seconds=purpose["seconds"],
        point=record["point"],
        repetition=record["repetition"],
        error=record["error"],
        caveats=tuple(caveat.to_json() for caveat in caveats),
    )


def with_measured(setup: Setup, run: RunData, record: dict[str, Any]) -> Setup:
    """Return the setup with the round trip that a trial measured, if it is not known yet (a real
    path). A trial that failed has measured none.

    The round trip is the minimum of TCP's estimates during the trial. Anything above it is
    queueing.
    """
    if setup.conditions.rtt_ns is not None:
        return setup
    repetition = next(r for r in run.repetitions(record["point"]) if r.number == record["repetition"])
    if not repetition.done:
        return setup
    series = [s for _, s in repetition.counters.select(engine="initiator", entity="tcp/", name="rtt_us_now")]
    least = min((float(s.value[s.value > 0].min()) for s in series if (s.value > 0).any()), default=None)
    if least is None:
        return setup
    conditions = replace(setup.conditions, rtt_ns=round(least * 1000))
    space = space_of(conditions, setup.defaults, setup.machine, lab=setup.lab)
    return replace(setup, conditions=conditions, space=space)
