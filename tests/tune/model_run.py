"""A tuning run whose results come from the model of a path instead of engines. Everything else is
real.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru.errors import LostError
from hakaru.run.opening import Notes
from hakaru.run.outcome import Outcome
from hakaru.run.place import Place
from hakaru.run.preparation import Prepared
from hakaru.run.progress import Watchers
from hakaru.run.repetition import OnSample
from hakaru.run.runner import Run, drive
from hakaru.store import Histograms, Samples
from hakaru.study import Expanded, Repetition
from hakaru.tune import run as tuning
from hakaru.tune.knobs import Knob, Machine, Settings, Value, defaults_of, settle, space_of
from hakaru.tune.setup import Setup
from hakaru.tune.start import TODAY
from hakaru.tune.study import level
from hakaru.tune.tuning import Limits
from hakaru.units import parse_size
from hdrh.histogram import HdrHistogram

from tests.tune.path_model import PathModel, conditions

SECOND = 10**9
MACHINE = Machine(("cubic", "reno"))
Before = Callable[[Settings, int], bool]


def small_setup(trials: int = 5, repetitions: int = 2, seed: int = 1, loss: float = 0.0, lab: bool = True) -> Setup:
    """Return a setup that writes 4 MiB over 20 ms at 1 Gbit/s with any depth."""
    path = conditions(20, loss)
    return Setup(
        conditions=path,
        defaults=TODAY,
        machine=MACHINE,
        space=space_of(path, TODAY, MACHINE, lab=lab),
        goal="throughput",
        seed=seed,
        limits=Limits(trials=trials, repetitions=repetitions),
        trial_ns=3 * SECOND,
        start="defaults",
        lab=lab,
    )


def settings_of(setup: Setup, factors: dict[str, Any]) -> dict[str, Value]:
    """Return the settings that `factors_of` turned into factors."""
    settings = defaults_of(setup.space)
    for knob in setup.space:
        if knob.name in factors:
            written = factors[knob.name]
            known = next((v for v in knob.levels if level(knob, v) == written), None)
            settings[knob.name] = known if known is not None else _value(knob, written)
    return settle(setup.space, settings)


def _value(knob: Knob, written: Any) -> Value:
    """Return a value of the peer that is not a level of the knob."""
    return parse_size(str(written)) if knob.kind == "size" else written


@dataclass
class EmptyPlace:
    """A place that starts no engine."""

    origin: str = "emulated"
    lab: dict[str, Any] = field(default_factory=lambda: {"nodes": [], "links": [], "checks": []})

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        return True

    def loads(self, expanded: Expanded, turn: Repetition) -> dict[str, Any]:
        return {}

    def describe(self) -> dict[str, Any]:
        return self.lab


@contextlib.asynccontextmanager
async def empty_place(prepared: Prepared, notes: Notes) -> AsyncIterator[Any]:
    """Yield a place without engines."""
    notes.lab(EmptyPlace().describe())
    yield EmptyPlace()


class Model:
    """Measures a repetition by the model of a path.

    `before(settings, order)` may raise, end the process, or return whether the repetition never
    ends. The path reaches `share` of the rate of the model; below 0.97 the search uses all its
    trials. In the repetitions `saturated`, counted from 1, the emulated network uses a CPU up.
    """

    def __init__(self, setup: Setup, before: Before | None, share: float, saturated: Collection[int] = ()) -> None:
        self._setup = setup
        self._model = PathModel(setup.conditions, setup.machine, noise=0.0)
        self._before, self._share, self._saturated = before, share, saturated

    async def measure(
        self, place: Place, expanded: Expanded, turn: Repetition, on_sample: OnSample, folder: Path
    ) -> Outcome:
        """Return three seconds at the rate of the model."""
        settings = settings_of(self._setup, turn.point.factors)
        if self._before is not None and self._before(settings, turn.order):
            await asyncio.get_running_loop().create_future()  # until a signal arrives
        # Alternately slightly faster and slower, so that repetitions differ.
        rate = self._share * self._model.exact(settings) * (1 + 0.004 * (-1) ** turn.repetition)
        is_saturated = turn.order in self._saturated
        return outcome(turn, rate * 1e6, self._setup.conditions.block_bytes, is_saturated=is_saturated)


def model_run(
    prepared: Prepared, setup: Setup, before: Before | None, share: float, saturated: Collection[int] = ()
) -> Run:
    """A tuning run with a model."""
    course, measure = tuning.TuningCourse(prepared, setup), Model(setup, before, share, saturated).measure
    return Run(prepared, Watchers([]), course, open_place=empty_place, measure=measure)


def outcome(
    turn: Repetition, bytes_per_s: float, block: int, *, is_saturated: bool = False, rtt_us: float | None = None
) -> Outcome:
    """Return three seconds at a constant rate with one request outstanding. `is_saturated`: the
    emulated network uses a CPU up. `rtt_us`: round trip that TCP estimates; None: not counted.
    """
    samples, histograms = Samples(), Histograms()
    latency_ns = SECOND * block / bytes_per_s
    start = turn.order * 100 * SECOND
    for step in range(16):
        at, done = start + step * SECOND // 5, bytes_per_s * step / 5
        counters = {
            "reads": 0.0,
            "writes": done / block,
            "read_bytes": 0.0,
            "write_bytes": done,
            "read_latency_ns_sum": 0.0,
            "write_latency_ns_sum": done / block * latency_ns,
            "errors": 0.0,
            "outstanding_ns": step / 5 * SECOND,
            "in_flight_now": 1.0,
            "late": 0.0,
        }
        tcp = {} if rtt_us is None else {"tcp/1": {"rtt_us_now": rtt_us}}
        samples.add("host", "initiator", at, {"vms": counters, "vm/vm01": dict(counters)} | tcp)
        if is_saturated:
            process = {"cpu_user_ns": 0.97 * step / 5 * SECOND, "cpu_system_ns": 0.0}
            samples.add("fabric", "fabric", at, {"process": process})
        samples.add("array", "array", at, {"lu/0": {"read_bytes": 0.0, "write_bytes": done}})
    hdr = HdrHistogram(1, 3_600_000_000_000, 3)
    hdr.record_value(int(latency_ns), max(1, round(3 * bytes_per_s / block)))
    encoded = {"entity": "vms", "name": "write_latency_ns", "hdr": hdr.encode().decode()}
    histograms.add("host", "initiator", None, [encoded])
    record = {
        "point": turn.point.id,
        "repetition": turn.repetition,
        "order": turn.order,
        "factors": turn.point.factors,
        "status": "done",
        "error": None,
        "measure": {"start_ns": start, "end_ns": start + 3 * SECOND},
        "origin": "emulated",
        "caveats": [],
        "engines": [{"node": "host", "engine": "initiator", "version": "0", "found": {}, "values": {}}],
    }
    return Outcome(record, samples, histograms, {})


def run_model(
    folder: Path,
    setup: Setup,
    before: Before | None = None,
    share: float = 1.0,
    saturated: Collection[int] = (),
) -> Path:
    """Run a new tuning in `folder` to its end."""
    prepared = tuning.prepare_new(setup, folder=folder, site=None, command=["hakaru", "tune"])
    return drive(model_run(prepared, setup, before, share, saturated))


def resume_model(name: str, folder: Path, before: Before | None = None, share: float = 1.0) -> Path:
    """Resume a tuning."""
    prepared, setup = tuning.prepare_resumed(name, folder=folder, command=["hakaru", "tune", "--resume", name])
    return drive(model_run(prepared, setup, before, share))


def interrupt_at(order: int) -> Before:
    """Return a `before` that interrupts the process during this repetition."""

    def before(settings: Settings, now: int) -> bool:
        if now == order:
            os.kill(os.getpid(), signal.SIGINT)
        return now == order

    return before


def refuse_settings(chosen: Callable[[Settings, int], bool]) -> Before:
    """Return a `before` in which the target closes the connection for the chosen settings."""

    def before(settings: Settings, now: int) -> bool:
        if chosen(settings, now):
            raise LostError("initiator on host: the target closed the connection", "")
        return False

    return before
