"""`hakaru array serve`: runs one engine, answers operators and Prometheus, and stops cleanly.

    lock the state directory → configure the engine → listen (control socket, /metrics) → READY
    … until SIGTERM, Ctrl-C or a hang-up → stop the engine → release the lock

The engine is a child whose stdin this process holds, so that it ends with this process in any case.
If the engine is lost, this process ends with the engine's error (exit code 7). The service manager
may restart it; the new process finds every acknowledged change.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import stat
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from hakaru.array import metrics, render
from hakaru.array.configure import array_config
from hakaru.array.control import listening
from hakaru.array.load import Loaded
from hakaru.array.model import ChapUser
from hakaru.array.notify import notify
from hakaru.array.service import Service
from hakaru.array.state import State
from hakaru.engine import clock
from hakaru.engine.process import EngineProcess
from hakaru.errors import EnvironmentError_, HakaruError
from hakaru.study.document import dotted

# Opening a pool reads its map. That takes seconds for the largest pool, and longer on a busy disk.
READY_TIMEOUT_S = 300.0
T = TypeVar("T")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(loaded: Loaded, *, json_lines: bool) -> int:
    """Serve the array until a signal ends it. Returns the exit code."""
    return asyncio.run(_serve(loaded, json_lines))


async def _serve(loaded: Loaded, json_lines: bool) -> int:
    check_secrets(loaded)
    try:
        state = State.acquire(loaded.state)
    except EnvironmentError_ as e:
        raise loaded.located(e) from e
    try:
        config = array_config(loaded, state.online)
        with _stopping() as stop:
            async with await EngineProcess.spawn("this machine", config) as engine:
                try:
                    ready = await _unless(stop, engine.ready(READY_TIMEOUT_S))
                except HakaruError as e:
                    raise loaded.located(e) from e
                if ready is None:
                    return 0
                service = Service(loaded, state, engine, ready)
                async with contextlib.AsyncExitStack() as open_:
                    if loaded.file.metrics is not None:
                        exporter = metrics.Exporter(loaded.file.target_name, engine.version, service.newest)
                        service.metrics_url = open_.enter_context(metrics.exporting(loaded.file.metrics, exporter))
                    await open_.enter_async_context(listening(state.directory, service.answer))
                    await engine.start(clock.now_ns())
                    announce(service, json_lines)
                    await _unless(stop, service.watch())
                notify("STOPPING=1")
                await engine.stop()
        return 0
    finally:
        state.release()


def check_secrets(loaded: Loaded) -> None:
    """Check that only their owner may read secrets. Raises `UsageError` with a place."""
    access = loaded.file.access
    named: list[tuple[tuple[str | int, ...], ChapUser]] = [
        (("access", "users", i, "secret_file"), user) for i, user in enumerate(access.users)
    ]
    if access.target is not None:
        named.append((("access", "target", "secret_file"), access.target))
    for place, user in named:
        path = loaded.resolve(user.secret_file)
        line_and_column = loaded.document.place_of(place)
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError as e:
            message = f"{dotted(place)}: {path}: {e.strerror}"
            hint = "write the secret to this file as its only line, with mode 0600"
            raise loaded.document.error(line_and_column, message, hint) from e
        if mode & 0o077:
            message = f"{dotted(place)}: others may read {path} (mode {mode:04o})"
            raise loaded.document.error(line_and_column, message, f"run `chmod 600 {path}`")


def announce(service: Service, json_lines: bool) -> None:
    """Describe the served array on stderr, and print on stdout, for programs, that it is ready."""
    print("\n".join(render.serving(service.about())), file=sys.stderr, flush=True)
    portals = " ".join(service.ready_values["portals"])
    if json_lines:
        render.print_json_line({"event": "ready", **service.about()})
    else:
        print(f"READY {service.loaded.file.target_name} {portals}", flush=True)
    notify("READY=1", f"STATUS=serving {portals}")


@contextlib.contextmanager
def _stopping() -> Iterator[asyncio.Event]:
    """Yield an event that a signal sets. A second signal of its kind has the default effect."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield stop
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`; if `stop` is set first, cancel `work` and return None."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
