"""One repetition: new engines, one common start, their messages until the load has ended, a clean
stop.

    the place is adjusted to the point; fabric → ready; file servers; arrays (not those of a site)
    and watches → ready; the chain of a file server in a guest; initiators or backups → logged in,
    ready; all start at one instant of CLOCK_MONOTONIC; loads that had to build something wait for
    a second start, before which caches are emptied if the load is to be cold; warm-up, measuring,
    drain;
    the chain is examined; arrays and watches stop, then the fabric, which by then has delivered
    every frame, then the file servers

Messages of engines are stored as they are. Only the live rates are computed from them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru import lost_packets
from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.engine.offset import ClockRecord
from hakaru.engine.process import gang_start
from hakaru.engine.session import EngineSession
from hakaru.errors import DeviceError, EnvironmentError_, HakaruError, LostError, VerificationError
from hakaru.fileserver.samba import Samba
from hakaru.run import file_servers, kind, pool_folder
from hakaru.run.configure import watch_config
from hakaru.run.dialogue import Dialogue, converse
from hakaru.run.events import Events
from hakaru.run.kind import Finished, Phases
from hakaru.run.meter import Rates
from hakaru.run.place import Place
from hakaru.run.plan import cost_of
from hakaru.run.second_start import SecondStart
from hakaru.run.warm_up import SteadyWarmUp, end_when_steady, uneven_begin
from hakaru.store import Histograms, Samples
from hakaru.study import Expanded, Repetition
from hakaru.study.model import Study

# Time after the measuring time in which requests in flight end (an engine abandons a command after
# 30 s) and results are written.
DRAIN_S = 45.0
# Time to wait for the cause when one engine may have failed because of another (a killed array
# makes every initiator fail).
CAUSE_S = 0.5
# A file server ends after its connections: its supervisor waits for all processes in its namespace.
SERVER_CAUSE_S = 5.0


TRIALS = "trials"
"""Name in the place of an engine for histograms of trials."""


class LateStartError(EnvironmentError_):
    """The order to start reached an engine too late. Nothing was measured, and the repetition may
    be tried again.
    """


@dataclass
class Outcome:
    """Contents of a finished repetition: its JSON, samples and histograms, and files of watches."""

    record: dict[str, Any]
    samples: Samples
    histograms: Histograms
    tcp: dict[str, Path]
    """Node → the file of its TCP series; empty if the study records none."""
    captures: dict[str, Path] = field(default_factory=dict)
    """Node → the configured file of its capture, which is written in parts; empty if the study
    records none.
    """
    rates: Rates | None = None
    """Result of the repetition for the display, or that it failed."""


@dataclass
class _Gang:
    """The engines of one repetition, by kind."""

    fabrics: list[EngineSession] = field(default_factory=list)
    servers: list[EngineSession] = field(default_factory=list)
    watches: list[EngineSession] = field(default_factory=list)
    loads: list[EngineSession] = field(default_factory=list)
    file_servers: dict[str, Samba] = field(default_factory=dict)
    tcp: dict[str, Path] = field(default_factory=dict)
    captures: dict[str, Path] = field(default_factory=dict)

    def all(self) -> list[EngineSession]:
        """All engines; those whose failure makes others fail come first."""
        return [*self.fabrics, *self.servers, *self.loads, *self.watches]


@dataclass
class _Messages:
    """Messages of the engines."""

    samples: Samples = field(default_factory=Samples)
    histograms: Histograms = field(default_factory=Histograms)
    ready: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, contract.Result] = field(default_factory=dict)
    chains: dict[str, Any] = field(default_factory=dict)
    measure_ns: list[int] = field(default_factory=list)
    drain_ns: list[int] = field(default_factory=list)


OnSample = Callable[[str, contract.Sample, bool], None]
Take = Callable[[EngineSession, contract.Sample], Awaitable[None]]
Begin = Callable[[int], None]


async def run_repetition(
    place: Place, expanded: Expanded, turn: Repetition, on_sample: OnSample, folder: Path
) -> Outcome:
    """Run a repetition. `on_sample(node, sample, is_load)` is called for every sample of every
    engine.

    Watches write their files to `folder`. Raises the error of the engine that caused a failure. No
    engine is left when this returns or raises.
    """
    try:
        return await _run(place, expanded, turn, on_sample, folder)
    except HakaruError as error:
        if isinstance(error, DeviceError):
            raise
        # A guest that ends is the cause of errors of the engine in it, and of its peers.
        try:
            place.check_guests()
        except DeviceError as cause:
            raise cause from error
        raise
    finally:
        await place.release()


async def _run(place: Place, expanded: Expanded, turn: Repetition, on_sample: OnSample, folder: Path) -> Outcome:
    messages = _Messages()
    link_caveats = await place.adjust(expanded, turn)
    async with _gang(place, expanded, turn, messages, folder) as gang:
        try:
            start_ns = await gang_start(gang.all())
        except EnvironmentError_ as e:
            raise LateStartError(e.message, e.hint) from e
        study = expanded.at(turn.point)

        async def prepare() -> None:
            if kind.of(study).empties_caches(study):
                await place.empty_caches()
                await file_servers.empty_caches(gang.file_servers.values())

        second = SecondStart(gang.loads, prepare)
        warm_up = _warm_up(expanded, gang, start_ns)

        async def take(engine: EngineSession, sample: contract.Sample) -> None:
            is_load = engine in gang.loads
            on_sample(engine.node, sample, is_load)
            if is_load and warm_up is not None and (work := kind.of(study).work(sample)) is not None:
                await end_when_steady(warm_up, engine, work, sample.at_ns, gang.loads)

        events = Events(
            place.events(expanded, turn),
            place.set_link,
            place.restore_link,
            gang.servers,
            gang.fabrics,
            len(gang.loads),
        )

        def begin(at_ns: int) -> None:
            messages.measure_ns.append(at_ns)
            events.handle_measure(at_ns)
            if warm_up is not None:
                warm_up.end(at_ns)

        listeners = [
            asyncio.create_task(_listen(e, messages, take, begin, second if e in gang.loads else None))
            for e in gang.all()
        ]
        dialogue = place.dialogue(expanded, turn)
        guards = [asyncio.create_task(file_servers.watch(samba)) for samba in gang.file_servers.values()]
        if place.chain(expanded, turn) is not None:
            guards.append(asyncio.create_task(place.watch_chains()))
        talk = [asyncio.create_task(events.play())]
        if dialogue is not None:
            talk.append(asyncio.create_task(converse(dialogue, gang.loads, place.count_losses)))
        try:
            seconds_max = cost_of(expanded, turn.point, None).seconds_max
            await _until_loaded(gang, listeners, seconds_max, talk, guards)
            for engine in gang.loads:
                messages.results[engine.name] = await engine.result()
            written = sum(messages.results[engine.name].values.get("written_bytes", 0) for engine in gang.loads)
            messages.chains |= await place.examine_chains(int(written))
            for engine in (*gang.servers, *gang.watches, *gang.fabrics):
                messages.results[engine.name] = await engine.stop()
            await asyncio.gather(*listeners)
            await place.finish_loads()
        finally:
            for task in (*listeners, *talk, *guards):
                task.cancel()
            await asyncio.gather(*listeners, *talk, *guards, return_exceptions=True)
            await events.restore()
        return _outcome(place, expanded, turn, gang, messages, start_ns, link_caveats, dialogue, warm_up, events)


@contextlib.asynccontextmanager
async def _gang(
    place: Place, expanded: Expanded, turn: Repetition, messages: _Messages, folder: Path
) -> AsyncIterator[_Gang]:
    """Yield engines that are ready to start, and close them at the end in any case."""
    gang = _Gang()
    stack = contextlib.AsyncExitStack()
    try:
        for node, fabric in place.fabrics(expanded, turn).items():
            gang.fabrics.append(await place.start(node, fabric))
        await _ready(gang.fabrics, messages)
        servers, loads = place.servers(expanded, turn), place.loads(expanded, turn)
        serving = file_servers.running(place, place.file_servers(expanded, turn))
        gang.file_servers = await stack.enter_async_context(serving)
        chain = place.chain(expanded, turn)
        if any(isinstance(server, contract.ArrayConfig) and server.pools for server in servers.values()):
            stack.enter_context(pool_folder.mounted(pool_folder.FOLDER))
        for node, server in servers.items():
            gang.servers.append(await place.start(node, server))
        ports = sorted(set().union(*(kind.of(expanded.study).ports(load) for load in loads.values())))
        watch = expanded.study.watch
        if watch is not None and watch.tcp_interval is not None:
            # Switches have no connections of their own.
            # The connections of a guest are in its own kernel.
            here = [node for node in (*servers, *loads) if node not in place.guests]
            gang.tcp = {node: folder / f"{turn.name}-{node}.series" for node in here}
        if watch is not None and watch.capture is not None:
            nodes = {"hosts": (*loads,), "arrays": (*servers,), "both": (*servers, *loads)}[watch.capture.at]
            gang.captures = {node: folder / f"{turn.name}-{node}.pcapng" for node in nodes}
        for node in place.nodes:
            config = watch_config(
                expanded,
                machine=node in place.machines,
                tcp_file=gang.tcp.get(node),
                capture_file=gang.captures.get(node),
                ports=ports,
            )
            gang.watches.append(await place.start_watch(node, config))
        await _ready([*gang.servers, *gang.watches], messages)
        if chain is not None:
            array = next(server for server in gang.servers if server.node == chain.array)
            await place.build_chain(chain, array)
        for host, load in loads.items():
            gang.loads.append(await place.start_load(expanded.at(turn.point), host, load))
        await _ready(gang.loads, messages)
        yield gang
    except HakaruError as error:
        # Asked while the array still serves. Wrong data end the run, whatever else is wrong.
        named = isinstance(error, (DeviceError, VerificationError))
        if not named and (cause := await place.find_cause()) is not None:
            raise cause from error
        raise
    finally:
        try:
            await asyncio.gather(*(engine.close() for engine in gang.all()))
        finally:
            await stack.aclose()


async def _ready(engines: list[EngineSession], messages: _Messages) -> None:
    for engine, ready in zip(engines, await asyncio.gather(*(e.ready() for e in engines)), strict=True):
        messages.ready[engine.name] = ready.found


def _warm_up(expanded: Expanded, gang: _Gang, start_ns: int) -> SteadyWarmUp | None:
    measure = expanded.measure
    if measure.steady is None:
        return None
    return SteadyWarmUp(measure, measure.steady, start_ns, [engine.node for engine in gang.loads])


async def _listen(
    engine: EngineSession, messages: _Messages, take: Take, begin: Begin, second: SecondStart | None
) -> None:
    """Store the messages of one engine until its result. `begin` learns when a load begins to
    measure. Raises if the engine is lost. `second`: that of the loads; None for other engines.
    """
    loads = second is not None
    async for event in engine.events():
        match event:
            case contract.Phase(phase="built") if second is not None:
                try:
                    await second.add(engine)
                except EnvironmentError_ as e:
                    raise LateStartError(e.message, e.hint) from e
            case contract.Phase(phase="measure") if loads:
                begin(event.at_ns)
            case contract.Phase(phase="drain") if loads:
                messages.drain_ns.append(event.at_ns)
            case contract.Sample():
                messages.samples.add(engine.node, engine.kind, event.at_ns, event.counters)
                messages.histograms.add(
                    engine.node, engine.kind, event.at_ns, [h.model_dump() for h in event.histograms]
                )
                await take(engine, event)


async def _until_loaded(
    gang: _Gang,
    listeners: list[asyncio.Task[None]],
    limit_s: float,
    talk: list[asyncio.Task[None]],
    guards: list[asyncio.Task[None]],
) -> None:
    """Wait for the results of all loads. If any engine, the dialogue, a file server or the pool of
    a chain (`guards`) fails, raise the error of the cause.
    """
    patience = limit_s + DRAIN_S
    before = len(gang.fabrics) + len(gang.servers)
    loads = listeners[before : before + len(gang.loads)]
    waiting = {*guards, *listeners, *talk}
    deadline = asyncio.get_running_loop().time() + patience
    while not all(load.done() for load in loads):
        left = deadline - asyncio.get_running_loop().time()
        done, waiting = await asyncio.wait(waiting, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
        failed = [task for task in done if task.exception() is not None]
        if failed:
            raise await _cause(guards, [*listeners, *talk])
        if not done:
            late = next(e for e, load in zip(gang.loads, loads, strict=True) if not load.done())
            raise LostError(
                f"{late.name} did not end its load within {patience:.0f} s", "check whether the array still responds"
            )


async def _cause(guards: list[asyncio.Task[None]], listeners: list[asyncio.Task[None]]) -> BaseException:
    """Return the failure that is first in the gang's order: that of a file server, pool or array
    before those of loads.
    """
    if guards:
        await asyncio.wait(guards, timeout=SERVER_CAUSE_S, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait(listeners, timeout=CAUSE_S)
    tasks = [*guards, *listeners]
    errors = [e for task in tasks if task.done() and (e := task.exception()) is not None]
    return next((e for e in errors if isinstance(e, HakaruError)), errors[0])


def failed_outcome(place: Place, turn: Repetition, error: HakaruError, caveats: Sequence[Caveat] = ()) -> Outcome:
    """The outcome of a repetition that gave no result, for a run that continues."""
    record = {
        "point": turn.point.id,
        "repetition": turn.repetition,
        "order": turn.order,
        "factors": turn.point.factors,
        "status": "failed",
        "error": error.message,
        "hint": error.hint,
        "measure": {"start_ns": 0, "end_ns": 0},
        "origin": place.origin,
        "caveats": [caveat.to_json() for caveat in caveats],
        "engines": [],
    }
    shown = Rates(f"failed: {error.message} ({error.hint})", {"error": error.message})
    return Outcome(record, Samples(), Histograms(), {}, rates=shown)


def _outcome(
    place: Place,
    expanded: Expanded,
    turn: Repetition,
    gang: _Gang,
    messages: _Messages,
    start_ns: int,
    link_caveats: list[Caveat],
    dialogue: Dialogue | None,
    warm_up: SteadyWarmUp | None,
    events: Events,
) -> Outcome:
    for engine in gang.all():
        result = messages.results[engine.name]
        messages.histograms.add(engine.node, engine.kind, None, [h.model_dump() for h in result.histograms])
    trials = dialogue.describe() if dialogue is not None else None
    for node, histograms in (dialogue.histograms() if dialogue is not None else {}).items():
        messages.histograms.add(node, TRIALS, None, [h.model_dump() for h in histograms])
    study = expanded.at(turn.point)
    phases = Phases(start_ns, messages.measure_ns, messages.drain_ns)
    window = dialogue.window() if dialogue is not None else None
    measure_start, measure_end = window or kind.of(study).window(expanded, turn, phases)
    guests, clocks = place.guests, {node: clock.describe() for node, clock in place.clocks.items()}
    caveats = [
        caveat.to_json()
        for caveat in (
            *link_caveats,
            *_guest_caveats(guests),
            *_clock_caveats(place.clocks, expanded.measure.sample_interval),
            *_caveats(study, gang, messages),
            *_warm_up_caveats(warm_up, messages, expanded.measure.time_ns),
            *_start_caveats(clocks, warm_up, messages, measure_end - measure_start),
            *events.caveats(expanded.measure.sample_interval),
        )
    ]
    engines = [
        {
            "node": engine.node,
            "engine": engine.kind,
            "version": engine.version,
            "found": messages.ready[engine.name],
            "values": messages.results[engine.name].values,
            "complaints": [f"{c.message} ({c.hint})" for c in engine.complaints],
        }
        for engine in gang.all()
    ]
    described = {node: samba.describe() for node, samba in gang.file_servers.items()}
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
        **({"events": events.describe()} if events.describe() else {}),
        **({"file_servers": described} if described else {}),
        **({} if warm_up is None else {"warm_up": warm_up.describe(start_ns, measure_start)}),
        **({} if trials is None else {"trials": trials}),
        **({} if place.device is None else {"device": place.device}),
        **({"guests": guests} if guests else {}),
        **({"clocks": clocks} if clocks else {}),
        **({"chains": messages.chains} if messages.chains else {}),
    }
    results = [messages.results[engine.name].values for engine in gang.loads]
    finished = Finished((measure_start, measure_end), messages.samples, messages.histograms, results, trials)
    rates = kind.of(study).result(study, finished)
    return Outcome(record, messages.samples, messages.histograms, gang.tcp, gang.captures, rates)


def _warm_up_caveats(warm_up: SteadyWarmUp | None, messages: _Messages, time_ns: int) -> Iterator[Caveat]:
    if warm_up is None:
        return
    found = (warm_up.caveat(), uneven_begin(messages.measure_ns, time_ns))
    yield from (caveat for caveat in found if caveat is not None)


def _start_caveats(
    clocks: Mapping[str, Any], warm_up: SteadyWarmUp | None, messages: _Messages, time_ns: int
) -> Iterator[Caveat]:
    """The caveat of loads on several machines that did not begin together, because the order to
    start reached one late.
    """
    if clocks and warm_up is None and (caveat := uneven_begin(messages.measure_ns, time_ns)) is not None:
        yield caveat


def _guest_caveats(guests: Mapping[str, Any]) -> Iterator[Caveat]:
    """Caveats about initiator and clock of the guests that the load ran in, and about the
    processors of all guests. A guest that only serves files has no engine and no clock.
    """
    loaded = [guest for guest in guests.values() if guest["clock"]]
    if loaded:
        clocks = [guest["clock"] for guest in loaded]
        bounds_ns = [each["bound_ns"] for clock in clocks for each in (clock["start"], clock["end"]) if each]
        named = {name: loaded[0][name] for name in ("initiator", "kernel")} | {"nic": loaded[0]["nic"]["model"]}
        yield Caveat("load_in_guest", named | {"bound_us": round(max(bounds_ns, default=0) / 1000)})
    emulated = [guest["accelerator_reason"] for guest in guests.values() if guest["accelerator"] == "tcg"]
    if emulated:
        yield Caveat("cpu_emulated", {"reason": emulated[0]})


def _clock_caveats(clocks: Mapping[str, ClockRecord], interval_ns: int) -> Iterator[Caveat]:
    """The caveat of the clock that is known worst, if its instants may be off by more than a sample
    interval. None without clocks of other machines.
    """
    errors_ns = {node: clock.error_max_ns for node, clock in clocks.items()}
    worst = max(errors_ns, key=lambda node: errors_ns[node], default="")
    if worst and errors_ns[worst] > interval_ns:
        values = {"host": worst, "error_ms": errors_ns[worst] / 1e6, "interval_ms": interval_ns / 1e6}
        yield Caveat("clock_uncertain", values)


def _caveats(study: Study, gang: _Gang, messages: _Messages) -> list[Caveat]:
    """Reasons why the repetition is invalid, from the final messages of the engines."""

    def total(engines: list[EngineSession], *names: str) -> int:
        return int(sum(messages.results[e.name].values.get(name, 0) for e in engines for name in names))

    caveats = []
    if errors := total(gang.loads, "errors"):
        caveats.append(Caveat("io_errors", {"errors": errors}))
    caveats += kind.of(study).caveats(study, [messages.results[e.name].values for e in gang.loads])
    if study.lab.device is None:
        # A switch under test may lose frames; a network between hosts and arrays may not.
        caveats += lost_packets.of_totals(
            total(gang.fabrics, *lost_packets.LOST), total(gang.fabrics, *lost_packets.DROPPED)
        )
    events, records = total(gang.watches, "tcp_events_lost"), total(gang.watches, "tcp_records_dropped")
    if events or records:
        caveats.append(Caveat("tcp_series_incomplete", {"events": events, "records": records}))
    packets, ended = total(gang.watches, "capture_dropped"), total(gang.watches, "capture_cut_short")
    if packets or ended:
        caveats.append(Caveat("capture_incomplete", {"packets": packets, "nodes": ended}))
    # Every watch tries all CPUs of the machine, so the counts are not added up.
    cpus = max((int(messages.results[e.name].values.get("tcp_unheard_cpus", 0)) for e in gang.watches), default=0)
    if cpus:
        caveats.append(Caveat("tcp_trace_deaf", {"cpus": cpus}))
    return caveats
