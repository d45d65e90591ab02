"""`hakaru array serve`: keeps one engine, answers operators and Prometheus, and ends cleanly.

    lock the state directory → configure the engine → listen (control socket, /metrics) → READY
    … until SIGTERM, Ctrl-C or a hang-up → stop the engine → release the lock

The engine is a child whose stdin we hold: however this process ends, the engine ends too. An engine that is lost ends
us with its error (7); starting again is the service manager's business, and finds everything that was acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from hakaru.array import metrics, protocol, render
from hakaru.array.configure import array_config
from hakaru.array.control import listening
from hakaru.array.load import Loaded
from hakaru.array.notify import notify
from hakaru.array.rates import rates
from hakaru.array.state import State
from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess

# Opening a pool reads its map; the target is seconds for the largest, a busy disk may take longer.
READY_TIMEOUT_S = 300.0
# Between two samples; a storm of broken peers must not fill the journal.
WARNINGS_MAX = 10

T = TypeVar("T")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Service:
    """An array that is being served, and what it answers."""

    def __init__(self, loaded: Loaded, state: State, engine: EngineProcess, ready: contract.Ready) -> None:
        self.loaded, self.state, self.engine, self.found = loaded, state, engine, ready.found
        self.metrics_url: str | None = None
        self._since = time.monotonic()
        self._newest: contract.Sample | None = None
        self._before: contract.Sample | None = None

    def newest(self) -> contract.Sample | None:
        """The last sample; safe to call from another thread."""
        return self._newest

    async def watch(self) -> None:
        """Take samples as they come, and tell of what peers did wrong; until the engine ends, which raises."""
        async for event in self.engine.events():
            if isinstance(event, contract.Sample):
                self._before, self._newest = self._newest, event
                self._warn()

    def _warn(self) -> None:
        """Tell of what the engine survived since the last sample, such as a peer that broke the protocol."""
        complaints = self.engine.complaints
        for complaint in list(complaints)[:WARNINGS_MAX]:
            hint = f" ({complaint.hint})" if complaint.hint else ""
            print(f"warning: {render.printable(complaint.message + hint)}", file=sys.stderr, flush=True)
        if len(complaints) > WARNINGS_MAX:
            print(f"warning: … and {len(complaints) - WARNINGS_MAX} more", file=sys.stderr, flush=True)
        complaints.clear()

    async def answer(self, request: protocol.Request) -> Any:
        """Do what a request asks."""
        match request:
            case protocol.Status():
                return self.status()

    def status(self) -> dict[str, Any]:
        """Everything that is known now, for programs; `render.lines` makes it readable."""
        now = self._newest
        return {
            "target_name": self.loaded.file.target_name,
            "portals": self.found["portals"],
            "pid": os.getpid(),
            "engine": {"pid": self.engine.pid, "version": self.engine.version, "io_backend": self.found["io_backend"]},
            "uptime_s": time.monotonic() - self._since,
            "file": str(self.loaded.path.resolve()),
            "state": str(self.state.directory),
            "metrics": self.metrics_url,
            "lus": self._lus(),
            "counters": {} if now is None else now.counters,
            "rates": {} if now is None else rates(self._before, now),
        }

    def _lus(self) -> list[dict[str, Any]]:
        return [
            {
                "lun": lu.lun,
                "size_bytes": lu.size,
                "block_bytes": lu.block,
                "store": lu.store.kind,
                "read_only": lu.read_only,
            }
            for lu in self.loaded.file.lus
        ]


def serve(loaded: Loaded, metrics_address: str | None, *, json_lines: bool) -> int:
    """Serve the array until told to end; the exit code."""
    return asyncio.run(_serve(loaded, metrics_address or loaded.file.metrics, json_lines))


async def _serve(loaded: Loaded, metrics_address: str | None, json_lines: bool) -> int:
    state = State.acquire(loaded.state)
    try:
        config = array_config(loaded, state.online)
        with _stopping() as stop:
            async with await EngineProcess.spawn("this machine", config) as engine:
                ready = await _unless(stop, engine.ready(READY_TIMEOUT_S))
                if ready is None:
                    return 0
                service = Service(loaded, state, engine, ready)
                async with contextlib.AsyncExitStack() as open_:
                    if metrics_address is not None:
                        exporter = metrics.Exporter(loaded.file.target_name, engine.version, service.newest)
                        service.metrics_url = open_.enter_context(metrics.exporting(metrics_address, exporter))
                    await open_.enter_async_context(listening(state.directory, service.answer))
                    await engine.start(clock.now_ns())
                    announce(service, json_lines)
                    await _unless(stop, service.watch())
                notify("STOPPING=1")
                await engine.stop()
        return 0
    finally:
        state.release()


def announce(service: Service, json_lines: bool) -> None:
    """Say on stderr what is served, and on stdout, for who waits for it, that it is."""
    print("\n".join(render.serving(service.status())), file=sys.stderr, flush=True)
    portals = " ".join(service.found["portals"])
    if json_lines:
        render.print_json_line({"event": "ready", **service.status()})
    else:
        print(f"READY {service.loaded.file.target_name} {portals}", flush=True)
    notify("READY=1", f"STATUS=serving {portals}")


@contextlib.contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """An event that a signal sets; a second signal of the same kind ends us as it would any process."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def told(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, told, number)
    try:
        yield stop
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The outcome of `work`; None, and `work` given up, if `stop` comes first."""
    doing, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        stopping.cancel()
        await asyncio.gather(doing, stopping, return_exceptions=True)
