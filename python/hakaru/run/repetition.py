"""One repetition: fresh engines, one common start, all that they say until the load has ended, a clean stop.

    array (where it is ours) and watches → ready; initiators → logged in, ready;
    all start at one instant of CLOCK_MONOTONIC; warm-up, measuring, drain; array and watches stop

Nothing is computed from what engines say, apart from what the display shows while it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from hakaru.analysis.caveats import Caveat
from hakaru.engine import contract
from hakaru.engine.process import EngineProcess, gang_start
from hakaru.errors import EnvironmentError_, HakaruError, LostError
from hakaru.run.configure import initiator_configs, watch_config
from hakaru.run.place import Place
from hakaru.store import Histograms, Samples
from hakaru.study import Expanded, Repetition

# After the measuring time: requests in flight end (an engine gives a command up after 30 s), results are written.
DRAIN_S = 45.0
# When one engine fails because of another (a killed array fails every initiator), how long the cause may take to show.
CAUSE_S = 0.5


class LateStartError(EnvironmentError_):
    """The engines could not be told to start in time; nothing was measured and the repetition may be tried again."""


@dataclass
class Outcome:
    """What a finished repetition leaves: its JSON, samples and histograms."""

    record: dict[str, Any]
    samples: Samples
    histograms: Histograms


@dataclass
class _Gang:
    """The engines of one repetition, by kind."""

    arrays: list[EngineProcess] = field(default_factory=list)
    watches: list[EngineProcess] = field(default_factory=list)
    initiators: list[EngineProcess] = field(default_factory=list)

    def all(self) -> list[EngineProcess]:
        return [*self.arrays, *self.initiators, *self.watches]


@dataclass
class _Heard:
    """What engines said."""

    samples: Samples = field(default_factory=Samples)
    histograms: Histograms = field(default_factory=Histograms)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, contract.Result] = field(default_factory=dict)
    measure_ns: list[int] = field(default_factory=list)
    drain_ns: list[int] = field(default_factory=list)


OnSample = Callable[[str, contract.Sample], None]


async def run_repetition(place: Place, expanded: Expanded, turn: Repetition, on_sample: OnSample) -> Outcome:
    """Run it. `on_sample(node, sample)` hears every sample of the initiators.

    Raises what the engine that caused the failure raised; engines are gone when this returns or raises.
    """
    heard = _Heard()
    async with _gang(place, expanded, turn, heard) as gang:
        try:
            start_ns = await gang_start(gang.all())
        except EnvironmentError_ as e:
            raise LateStartError(e.message, e.hint) from e
        listeners = [asyncio.create_task(_listen(e, heard, on_sample)) for e in gang.all()]
        try:
            await _until_loaded(gang, listeners, expanded)
            for engine in gang.initiators:
                heard.results[engine.name] = await engine.result()
            for engine in (*gang.arrays, *gang.watches):
                heard.results[engine.name] = await engine.stop()
            await asyncio.gather(*listeners)
        finally:
            for listener in listeners:
                listener.cancel()
            await asyncio.gather(*listeners, return_exceptions=True)
        return _outcome(place, expanded, turn, gang, heard, start_ns)


@contextlib.asynccontextmanager
async def _gang(place: Place, expanded: Expanded, turn: Repetition, heard: _Heard) -> AsyncIterator[_Gang]:
    """Engines that are ready to start; closed at the end, whatever happens."""
    gang = _Gang()
    try:
        if place.array is not None:
            gang.arrays.append(await place.start(place.array, place.array_config(expanded, turn)))
        for node in place.nodes:
            config = watch_config(expanded, machine=node == place.nodes[-1])
            gang.watches.append(await place.start(node, config))
        await _ready([*gang.arrays, *gang.watches], heard)
        configs = initiator_configs(
            expanded,
            turn,
            place.hosts,
            place.units(expanded),
            allow_writes=place.allow_writes,
            chap=place.chap,
        )
        for host, initiator in configs.items():
            gang.initiators.append(await place.start(host, initiator))
        await _ready(gang.initiators, heard)
        yield gang
    finally:
        await asyncio.gather(*(engine.close() for engine in gang.all()))


async def _ready(engines: list[EngineProcess], heard: _Heard) -> None:
    for engine, ready in zip(engines, await asyncio.gather(*(e.ready() for e in engines)), strict=True):
        heard.found[engine.name] = ready.found


async def _listen(engine: EngineProcess, heard: _Heard, on_sample: OnSample) -> None:
    """Keep what one engine says until its result; raises if it is lost."""
    async for event in engine.events():
        match event:
            case contract.Phase(phase="measure"):
                heard.measure_ns.append(event.at_ns)
            case contract.Phase(phase="drain"):
                heard.drain_ns.append(event.at_ns)
            case contract.Sample():
                heard.samples.add(engine.node, engine.kind, event.at_ns, event.counters)
                heard.histograms.add(engine.node, engine.kind, event.at_ns, [h.model_dump() for h in event.histograms])
                if engine.kind == "initiator":
                    on_sample(engine.node, event)


async def _until_loaded(gang: _Gang, listeners: list[asyncio.Task[None]], expanded: Expanded) -> None:
    """Wait for the results of all initiators; raises as soon as any engine fails, with the error of the cause."""
    measure = expanded.measure
    patience = (measure.warmup_ns + measure.time_ns) / 1e9 + DRAIN_S
    loads = listeners[len(gang.arrays) : len(gang.arrays) + len(gang.initiators)]
    waiting = set(listeners)
    deadline = asyncio.get_running_loop().time() + patience
    while not all(load.done() for load in loads):
        left = deadline - asyncio.get_running_loop().time()
        done, waiting = await asyncio.wait(waiting, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in done if task.exception() is not None]
        if failed:
            raise await _cause(listeners)
        if not done:
            late = next(e for e, load in zip(gang.initiators, loads, strict=True) if not load.done())
            raise LostError(
                f"{late.name} did not end its load within {patience:.0f} s", "is the array still answering?"
            )


async def _cause(listeners: list[asyncio.Task[None]]) -> BaseException:
    """Of several failures the one that comes first in the gang's order: the array's before the initiators'."""
    await asyncio.wait(listeners, timeout=CAUSE_S)
    errors = [e for task in listeners if task.done() and (e := task.exception()) is not None]
    return next((e for e in errors if isinstance(e, HakaruError)), errors[0])


def _outcome(place: Place, expanded: Expanded, turn: Repetition, gang: _Gang, heard: _Heard, start_ns: int) -> Outcome:
    for engine in gang.all():
        result = heard.results[engine.name]
        heard.histograms.add(engine.node, engine.kind, None, [h.model_dump() for h in result.histograms])
    measure_start = max(heard.measure_ns, default=start_ns + expanded.measure.warmup_ns)
    measure_end = min(heard.drain_ns, default=measure_start + expanded.measure.time_ns)
    errors = sum(heard.results[e.name].values.get("errors", 0) for e in gang.initiators)
    caveats = [Caveat("io_errors", {"errors": int(errors)}).to_json()] if errors else []
    engines = [
        {
            "node": engine.node,
            "engine": engine.kind,
            "version": engine.version,
            "found": heard.found[engine.name],
            "values": heard.results[engine.name].values,
            "complaints": [f"{c.message} ({c.hint})" for c in engine.complaints],
        }
        for engine in gang.all()
    ]
    record = {
        "point": turn.point.id,
        "repetition": turn.repetition,
        "order": turn.order,
        "factors": turn.point.factors,
        "status": "done",
        "error": None,
        "measure": {"start_ns": measure_start, "end_ns": measure_end},
        "origin": place.origin,
        "caveats": caveats,
        "engines": engines,
    }
    return Outcome(record, heard.samples, heard.histograms)
