"""One repetition: fresh engines, one common start, all that they say until the load has ended, a
clean stop.

    the place is as the point wants it; fabric → ready; arrays (ours only) and watches → ready;
    initiators or backups → logged in, ready; all start at one instant of CLOCK_MONOTONIC;
    warm-up, measuring, drain;
    arrays and watches stop, then the fabric, which by then has delivered all that was sent

Nothing is computed from what engines say, apart from what the display shows while it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru import lost_packets
from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.engine.process import EngineProcess, gang_start
from hakaru.errors import EnvironmentError_, HakaruError, LostError
from hakaru.run import kind
from hakaru.run.configure import watch_config
from hakaru.run.kind import Finished, Phases
from hakaru.run.meter import Rates
from hakaru.run.place import Place
from hakaru.run.plan import cost_of
from hakaru.store import Histograms, Samples
from hakaru.study import Expanded, Repetition
from hakaru.study.model import Study

# After the measuring time: requests in flight end (an engine gives a command up after 30 s),
# results are written.
DRAIN_S = 45.0
# When one engine fails because of another (a killed array fails every initiator), how long the
# cause may take to show.
CAUSE_S = 0.5


class LateStartError(EnvironmentError_):
    """The engines could not be told to start in time; nothing was measured and the repetition may
    be tried again.
    """


@dataclass
class Outcome:
    """Files of a finished repetition: its JSON, samples and histograms."""

    record: dict[str, Any]
    samples: Samples
    histograms: Histograms
    tcp: dict[str, Path]
    """Node → the file of its TCP series, where the study wants one."""
    captures: dict[str, Path] = field(default_factory=dict)
    """Node → the file that its capture was to be written to, in parts, where the study wants
    one.
    """
    rates: Rates | None = None
    """Result of the repetition for the display; None if it failed."""


@dataclass
class _Gang:
    """The engines of one repetition, by kind."""

    fabrics: list[EngineProcess] = field(default_factory=list)
    servers: list[EngineProcess] = field(default_factory=list)
    watches: list[EngineProcess] = field(default_factory=list)
    loads: list[EngineProcess] = field(default_factory=list)
    tcp: dict[str, Path] = field(default_factory=dict)
    captures: dict[str, Path] = field(default_factory=dict)

    def all(self) -> list[EngineProcess]:
        """Causes before what they make fail."""
        return [*self.fabrics, *self.servers, *self.loads, *self.watches]


@dataclass
class _Heard:
    """Messages of the engines."""

    samples: Samples = field(default_factory=Samples)
    histograms: Histograms = field(default_factory=Histograms)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, contract.Result] = field(default_factory=dict)
    measure_ns: list[int] = field(default_factory=list)
    drain_ns: list[int] = field(default_factory=list)


OnSample = Callable[[str, contract.Sample], None]


async def run_repetition(
    place: Place, expanded: Expanded, turn: Repetition, on_sample: OnSample, folder: Path
) -> Outcome:
    """Run it. `on_sample(node, sample)` hears every sample of the initiators or backups.

    `folder` is for what watches write. Raises what the engine that caused the failure raised;
    engines are gone when this returns or raises.
    """
    heard = _Heard()
    off = await place.take_on(expanded, turn)
    async with _gang(place, expanded, turn, heard, folder) as gang:
        try:
            start_ns = await gang_start(gang.all())
        except EnvironmentError_ as e:
            raise LateStartError(e.message, e.hint) from e
        listeners = [asyncio.create_task(_listen(e, heard, on_sample, loads=e in gang.loads)) for e in gang.all()]
        try:
            await _until_loaded(gang, listeners, cost_of(expanded, turn.point, None).seconds_max)
            for engine in gang.loads:
                heard.results[engine.name] = await engine.result()
            for engine in (*gang.servers, *gang.watches, *gang.fabrics):
                heard.results[engine.name] = await engine.stop()
            await asyncio.gather(*listeners)
        finally:
            for listener in listeners:
                listener.cancel()
            await asyncio.gather(*listeners, return_exceptions=True)
        return _outcome(place, expanded, turn, gang, heard, start_ns, off)


@contextlib.asynccontextmanager
async def _gang(
    place: Place, expanded: Expanded, turn: Repetition, heard: _Heard, folder: Path
) -> AsyncIterator[_Gang]:
    """Engines that are ready to start; closed at the end, whatever happens."""
    gang = _Gang()
    try:
        for node, fabric in place.fabrics(expanded, turn).items():
            gang.fabrics.append(await place.start(node, fabric))
        await _ready(gang.fabrics, heard)
        servers, loads = place.servers(expanded, turn), place.loads(expanded, turn)
        for node, server in servers.items():
            gang.servers.append(await place.start(node, server))
        ports = sorted(set().union(*(kind.of(expanded.study).ports(load) for load in loads.values())))
        watch = expanded.study.watch
        if watch is not None and watch.tcp_interval is not None:
            # Switches have no connections of their own.
            gang.tcp = {node: folder / f"{turn.name}-{node}.series" for node in (*servers, *loads)}
        if watch is not None and watch.capture is not None:
            of = {"hosts": (*loads,), "arrays": (*servers,), "both": (*servers, *loads)}[watch.capture.at]
            gang.captures = {node: folder / f"{turn.name}-{node}.pcapng" for node in of}
        for node in place.nodes:
            config = watch_config(
                expanded,
                machine=node == place.nodes[-1],
                tcp_file=gang.tcp.get(node),
                capture_file=gang.captures.get(node),
                ports=ports,
            )
            gang.watches.append(await place.start(node, config))
        await _ready([*gang.servers, *gang.watches], heard)
        for host, load in loads.items():
            gang.loads.append(await place.start(host, load))
        await _ready(gang.loads, heard)
        yield gang
    finally:
        await asyncio.gather(*(engine.close() for engine in gang.all()))


async def _ready(engines: list[EngineProcess], heard: _Heard) -> None:
    for engine, ready in zip(engines, await asyncio.gather(*(e.ready() for e in engines)), strict=True):
        heard.found[engine.name] = ready.found


async def _listen(engine: EngineProcess, heard: _Heard, on_sample: OnSample, *, loads: bool) -> None:
    """Keep what one engine says until its result; raises if it is lost."""
    async for event in engine.events():
        match event:
            case contract.Phase(phase="measure") if loads:
                heard.measure_ns.append(event.at_ns)
            case contract.Phase(phase="drain") if loads:
                heard.drain_ns.append(event.at_ns)
            case contract.Sample():
                heard.samples.add(engine.node, engine.kind, event.at_ns, event.counters)
                heard.histograms.add(engine.node, engine.kind, event.at_ns, [h.model_dump() for h in event.histograms])
                if loads:
                    on_sample(engine.node, event)


async def _until_loaded(gang: _Gang, listeners: list[asyncio.Task[None]], limit_s: float) -> None:
    """Wait for the results of all loads; raises as soon as any engine fails, with the error of the
    cause.
    """
    patience = limit_s + DRAIN_S
    before = len(gang.fabrics) + len(gang.servers)
    loads = listeners[before : before + len(gang.loads)]
    waiting = set(listeners)
    deadline = asyncio.get_running_loop().time() + patience
    while not all(load.done() for load in loads):
        left = deadline - asyncio.get_running_loop().time()
        done, waiting = await asyncio.wait(waiting, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in done if task.exception() is not None]
        if failed:
            raise await _cause(listeners)
        if not done:
            late = next(e for e, load in zip(gang.loads, loads, strict=True) if not load.done())
            raise LostError(
                f"{late.name} did not end its load within {patience:.0f} s", "is the array still answering?"
            )


async def _cause(listeners: list[asyncio.Task[None]]) -> BaseException:
    """Of several failures the one that comes first in the gang's order: an array's before its
    initiators'.
    """
    await asyncio.wait(listeners, timeout=CAUSE_S)
    errors = [e for task in listeners if task.done() and (e := task.exception()) is not None]
    return next((e for e in errors if isinstance(e, HakaruError)), errors[0])


def _outcome(
    place: Place,
    expanded: Expanded,
    turn: Repetition,
    gang: _Gang,
    heard: _Heard,
    start_ns: int,
    off: list[Caveat],
) -> Outcome:
    for engine in gang.all():
        result = heard.results[engine.name]
        heard.histograms.add(engine.node, engine.kind, None, [h.model_dump() for h in result.histograms])
    study = expanded.at(turn.point)
    phases = Phases(start_ns, heard.measure_ns, heard.drain_ns)
    measure_start, measure_end = kind.of(study).window(expanded, turn, phases)
    caveats = [caveat.to_json() for caveat in (*off, *_caveats(study, gang, heard))]
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
    results = [heard.results[engine.name].values for engine in gang.loads]
    finished = Finished((measure_start, measure_end), heard.samples, heard.histograms, results)
    rates = kind.of(study).result(study, finished)
    return Outcome(record, heard.samples, heard.histograms, gang.tcp, gang.captures, rates)


def _caveats(study: Study, gang: _Gang, heard: _Heard) -> list[Caveat]:
    """Reasons why the repetition is invalid, from the final messages of the engines."""

    def total(engines: list[EngineProcess], *names: str) -> int:
        return int(sum(heard.results[e.name].values.get(name, 0) for e in engines for name in names))

    found = []
    if errors := total(gang.loads, "errors"):
        found.append(Caveat("io_errors", {"errors": errors}))
    found += kind.of(study).caveats(study, [heard.results[e.name].values for e in gang.loads])
    found += lost_packets.of_totals(total(gang.fabrics, *lost_packets.LOST), total(gang.fabrics, *lost_packets.DROPPED))
    events, records = total(gang.watches, "tcp_events_lost"), total(gang.watches, "tcp_records_dropped")
    if events or records:
        found.append(Caveat("tcp_series_incomplete", {"events": events, "records": records}))
    packets, ended = total(gang.watches, "capture_dropped"), total(gang.watches, "capture_cut_short")
    if packets or ended:
        found.append(Caveat("capture_incomplete", {"packets": packets, "nodes": ended}))
    # CPUs are the machine's, and each watch tries them all.
    cpus = max((int(heard.results[e.name].values.get("tcp_unheard_cpus", 0)) for e in gang.watches), default=0)
    if cpus:
        found.append(Caveat("tcp_trace_deaf", {"cpus": cpus}))
    return found
