"""One repetition: new engines, one common start, their messages until the load has ended, a clean
stop.

    the place is adjusted to the point; fabric → ready; file servers; arrays (not those of a site)
    and watches → ready; the chain of a file server in a guest; initiators or backups → logged in,
    ready; all start at one instant of CLOCK_MONOTONIC; loads that had to build something wait for
    a second start, before which caches are emptied if the load is to be cold; warm-up, measuring,
    drain;
    the chain is examined; arrays and watches stop, then the fabric, which by then has delivered
    every frame, then the file servers

Messages of engines are stored as they are (`hakaru.run.gang`). Only the live rates are computed
from them. The record that the run keeps is made in `hakaru.run.outcome`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from hakaru.engine import contract
from hakaru.engine.process import gang_start
from hakaru.engine.session import EngineSession
from hakaru.errors import DeviceError, HakaruError, LostError, UnansweredError, VerificationError
from hakaru.run import file_servers, kind, pool_folder
from hakaru.run.configure import watch_config
from hakaru.run.dialogue import converse
from hakaru.run.events import Events
from hakaru.run.gang import Gang, Messages
from hakaru.run.outcome import Outcome, outcome_of
from hakaru.run.place import Chains, Place
from hakaru.run.plan import cost_of
from hakaru.run.second_start import SecondStart
from hakaru.run.warm_up import SteadyWarmUp, end_when_steady
from hakaru.study import Expanded, Repetition

# Time after the measuring time in which requests in flight end (an engine abandons a command after
# 30 s) and results are written.
DRAIN_S = 45.0
# Time to wait for the cause when one engine may have failed because of another (a killed array
# makes every initiator fail).
CAUSE_S = 0.5
# A file server ends after its connections: its supervisor waits for all processes in its namespace.
SERVER_CAUSE_S = 5.0


OnSample = Callable[[str, contract.Sample, bool], None]
Take = Callable[[EngineSession, contract.Sample], Awaitable[None]]
Begin = Callable[[int], None]


@dataclass
class _Load:
    """Receivers of the phases of loads."""

    second: SecondStart
    warm_up: SteadyWarmUp | None
    begin: Begin
    """Learns when a load begins to measure."""


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
    messages = Messages()
    link_caveats = await place.adjust(expanded, turn)
    chains = place.chains(expanded, turn)
    async with _gang(place, chains, expanded, turn, messages, folder) as gang:
        start_ns = await gang_start(gang.all())
        study = expanded.at(turn.point)

        async def prepare() -> None:
            if kind.of(study).empties_caches(study):
                if chains is not None:
                    await chains.empty_caches()
                await file_servers.empty_caches(gang.file_servers.values())

        second = SecondStart(gang.loads, prepare)
        warm_up = _warm_up(expanded, gang)

        async def take(engine: EngineSession, sample: contract.Sample) -> None:
            is_load = engine in gang.loads
            on_sample(engine.node, sample, is_load)
            if is_load and warm_up is not None and (work := kind.of(study).work(sample)) is not None:
                await end_when_steady(warm_up, engine, work, sample.at_ns, gang.loads)

        planned = place.events(expanded, turn)
        events = Events(planned, place.links, gang.servers, gang.fabrics, len(gang.loads), chains)

        def begin(at_ns: int) -> None:
            messages.measure_ns.append(at_ns)
            events.handle_measure(at_ns)
            if warm_up is not None:
                warm_up.end(at_ns)

        listeners = [
            asyncio.create_task(_listen(e, messages, take, _Load(second, warm_up, begin) if e in gang.loads else None))
            for e in gang.all()
        ]
        dialogue = place.dialogue(expanded, turn)
        guards = [asyncio.create_task(file_servers.watch(samba)) for samba in gang.file_servers.values()]
        if chains is not None:
            guards.append(asyncio.create_task(chains.watch()))
        talk = [asyncio.create_task(events.play())]
        if dialogue is not None:
            talk.append(asyncio.create_task(converse(dialogue, gang.loads, place.count_losses)))
        try:
            seconds_max = cost_of(expanded, turn.point, None).seconds_max
            await _until_loaded(gang, listeners, seconds_max, talk, guards)
            await events.end()
            for engine in gang.loads:
                messages.results[engine.name] = await engine.result()
            if chains is not None:
                values = {engine.node: messages.results[engine.name].values for engine in gang.loads}
                written = {node: int(each.get("written_bytes", 0)) for node, each in values.items()}
                messages.chains |= await chains.examine(written)
            for engine in (*gang.servers, *gang.watches, *gang.fabrics):
                messages.results[engine.name] = await engine.stop()
            await asyncio.gather(*listeners)
            await place.finish_loads()
        finally:
            for task in (*listeners, *talk, *guards):
                task.cancel()
            await asyncio.gather(*listeners, *talk, *guards, return_exceptions=True)
            await events.restore()
        return outcome_of(place, expanded, turn, gang, messages, start_ns, link_caveats, dialogue, warm_up, events)


@contextlib.asynccontextmanager
async def _gang(
    place: Place, chains: Chains | None, expanded: Expanded, turn: Repetition, messages: Messages, folder: Path
) -> AsyncIterator[Gang]:
    """Yield engines that are ready to start, and close them at the end in any case."""
    gang = Gang()
    stack = contextlib.AsyncExitStack()
    try:
        for node, fabric in place.fabrics(expanded, turn).items():
            gang.fabrics.append(await place.start(node, fabric))
        await _ready(gang.fabrics, messages)
        servers, loads = place.servers(expanded, turn), place.loads(expanded, turn)
        serving = file_servers.running(place.file_servers(expanded, turn))
        gang.file_servers = await stack.enter_async_context(serving)
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
                at_array=node in servers or node in gang.file_servers,
                tcp_file=gang.tcp.get(node),
                capture_file=gang.captures.get(node),
                ports=ports,
            )
            gang.watches.append(await place.start_watch(node, config))
        await _ready([*gang.servers, *gang.watches], messages)
        if chains is not None:
            await chains.build({server.node: server for server in gang.servers})
        for host, load in loads.items():
            gang.loads.append(await place.start_load(expanded.at(turn.point), host, load))
        await _ready(gang.loads, messages)
        yield gang
    except HakaruError as error:
        # Asked while the array still serves. Wrong data end the run, whatever else is wrong.
        named = isinstance(error, (DeviceError, VerificationError))
        if not named and chains is not None and (cause := await chains.find_cause()) is not None:
            raise cause from error
        raise
    finally:
        try:
            await asyncio.gather(*(engine.close() for engine in gang.all()))
        finally:
            await stack.aclose()


async def _ready(engines: list[EngineSession], messages: Messages) -> None:
    for engine, ready in zip(engines, await asyncio.gather(*(e.ready() for e in engines)), strict=True):
        messages.ready[engine.name] = ready.found


def _warm_up(expanded: Expanded, gang: Gang) -> SteadyWarmUp | None:
    measure = expanded.measure
    if measure.steady is None:
        return None
    return SteadyWarmUp(measure, measure.steady, [engine.node for engine in gang.loads])


async def _listen(engine: EngineSession, messages: Messages, take: Take, load: _Load | None) -> None:
    """Store the messages of one engine until its result. Raises if the engine is lost. `load`: None
    for an engine that is no load.
    """
    async for event in engine.events():
        match event:
            case contract.Phase(phase="built") if load is not None:
                await load.second.add(engine)
            case contract.Phase(phase="warmup") if load is not None and load.warm_up is not None:
                load.warm_up.start(engine.node, event.at_ns)
            case contract.Phase(phase="measure") if load is not None:
                load.begin(event.at_ns)
            case contract.Phase(phase="drain") if load is not None:
                messages.drain_ns.append(event.at_ns)
            case contract.Sample():
                messages.samples.add(engine.node, engine.kind, event.at_ns, event.counters)
                messages.histograms.add(
                    engine.node, engine.kind, event.at_ns, [h.model_dump() for h in event.histograms]
                )
                await take(engine, event)


async def _until_loaded(
    gang: Gang,
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
    before those of loads; a load that was not answered only if nothing else failed.
    """
    if guards:
        await asyncio.wait(guards, timeout=SERVER_CAUSE_S, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait(listeners, timeout=CAUSE_S)
    tasks = [*guards, *listeners]
    errors = [e for task in tasks if task.done() and (e := task.exception()) is not None]
    known = [e for e in errors if isinstance(e, HakaruError)]
    # A load that is not answered may be the effect of a failure that ends the run, not its cause.
    return next((e for e in known if not isinstance(e, UnansweredError)), (known or errors)[0])
