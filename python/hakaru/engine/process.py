"""One process of `hakaru-engine`, controlled from asyncio through the contract.

    async with await EngineProcess.spawn("host-1", config, namespace=descriptor) as engine:
        ready = await engine.ready()
        await engine.start(at_ns)
        async for event in engine.events():       # Sample and Phase, until the result
            …
        result = await engine.result()  # `await engine.stop()` for engines that run until stopped

Failures are raised at the caller that waits, as exceptions of `hakaru.errors`: an `error` event by
its class, and a process that ends, stops responding or violates the contract as LostError with its
exit status and the last lines of its stderr. Leaving the block ends the process: stdin is closed
(which means stop), then SIGTERM is sent, then SIGKILL. An engine has a process group of its own, so
that Ctrl-C reaches only hakaru, which then stops its engines in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections import deque
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from hakaru.engine import clock, contract
from hakaru.engine.binary import find_engine
from hakaru.errors import EnvironmentError_, HakaruError, LostError, UsageError, VerificationError

HELLO_TIMEOUT_S = 10.0
# 10 000 sessions log in within seconds. An engine that needs longer than this is stuck.
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
# A trial also waits for its threads, and for those ordered before it.
TRIAL_GRACE_S = 30.0
# An operator's order waits for one or two commits, on a disk that may be busy.
MANAGE_TIMEOUT_S = 60.0
_GRACE_S = 2.0
# A sample of 256 VMs with histograms has some hundred KiB, the last one of 20 000 VMs some MiB.
_LINE_MAX_BYTES = 64 * 1024**2
_STDERR_LINES = 20
_STDERR_LINE_MAX = 500
# An array that runs for months may report very many faulty peers, so only the newest are kept.
_COMPLAINTS = 1000

T = TypeVar("T")

_EXCEPTIONS: dict[contract.ErrorClass, type[HakaruError]] = {
    "usage": UsageError,
    "environment": EnvironmentError_,
    "verification": VerificationError,
    "peer": LostError,
    "internal": HakaruError,
}


class EngineProcess:
    """A running engine. Created by `spawn`."""

    def __init__(self, node: str, kind: str, binary: Path, process: asyncio.subprocess.Process) -> None:
        self.node = node
        self.kind = kind
        self.version = ""
        self.complaints: deque[contract.Error] = deque(maxlen=_COMPLAINTS)
        """The newest 1000 non-fatal errors in order (of an array: peers that violated the
        protocol).
        """
        self._binary = binary
        self._process = process
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[contract.Hello] = loop.create_future()
        self._ready: asyncio.Future[contract.Ready] = loop.create_future()
        self._result: asyncio.Future[contract.Result] = loop.create_future()
        self._events: asyncio.Queue[contract.Sample | contract.Phase | None] = asyncio.Queue()
        self._replies: dict[int, asyncio.Future[contract.Reply]] = {}
        self._trials: dict[int, asyncio.Future[contract.TrialOutcome]] = {}
        self._orders = itertools.count(1)
        self._stderr_reader = asyncio.create_task(self._read_stderr())
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def spawn(
        cls,
        node: str,
        config: contract.EngineConfig,
        *,
        namespace: int | None = None,
        binary: Path | None = None,
    ) -> Self:
        """Start an engine, check the version of its contract, and configure it.

        `namespace`: descriptor of the network namespace to enter; None: this process's own. Raises
        EnvironmentError_ if there is no engine or it has another contract, LostError if it sends
        nothing.
        """
        program = binary or find_engine()
        arguments = ["run"] if namespace is None else ["run", "--netns", f"/proc/self/fd/{namespace}"]
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LINE_MAX_BYTES,
                pass_fds=() if namespace is None else (namespace,),
                process_group=0,
            )
        except OSError as error:
            raise EnvironmentError_(f"{program} does not start: {error.strerror}", "run `hakaru doctor`") from error
        engine = cls(node, config.engine, program, process)
        try:
            hello = await engine._expect(engine._hello, "hello", HELLO_TIMEOUT_S)
            engine.version = hello.version
            await engine._send(contract.Configure(contract=contract.CONTRACT_VERSION, config=config))
        except BaseException:
            await engine.close()
            raise
        return engine

    @property
    def name(self) -> str:
        """Kind and node: `array on storage`."""
        return f"{self.kind} on {self.node}"

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is still running; may lag behind its end."""
        return self._process.returncode is None

    async def ready(self, timeout_s: float = READY_TIMEOUT_S) -> contract.Ready:
        """Wait until the engine is configured: bound, logged in, opened."""
        return await self._expect(self._ready, "ready", timeout_s)

    async def start(self, at_ns: int) -> None:
        """Order the engine to start at an instant of `CLOCK_MONOTONIC`."""
        await self._send(contract.Start(at_ns=at_ns))

    async def manage(self, action: contract.ManageAction, timeout_s: float = MANAGE_TIMEOUT_S) -> dict[str, Any]:
        """Send an action to a serving array and return the value of its reply. Raises an error
        reply by its class.
        """
        order = next(self._orders)
        future: asyncio.Future[contract.Reply] = asyncio.get_running_loop().create_future()
        if self._result.done():
            raise LostError(f"{self.name} has ended", "start it again")
        self._replies[order] = future
        try:
            await self._send(contract.Manage(id=order, action=action))
            reply = await self._expect(future, f"the result of `{action.kind}`", timeout_s)
        finally:
            del self._replies[order]
        if reply.error is not None:
            raise _EXCEPTIONS[reply.error.class_](reply.error.message, reply.error.hint)
        return reply.value or {}

    async def trial(self, order: contract.Trial, timeout_s: float | None = None) -> contract.TrialOutcome:
        """Carry out a trial of a generator of packets. Raises the error of a refused one by its
        class. `timeout_s` None: the length of the trial and a grace period.
        """
        if self._result.done():
            raise LostError(f"{self.name} has ended", "start it again")
        future: asyncio.Future[contract.TrialOutcome] = asyncio.get_running_loop().create_future()
        self._trials[order.id] = future
        length_s = (order.duration_ns + order.settle_ns) / 1e9
        try:
            await self._send(order)
            return await self._expect(future, f"the outcome of trial {order.id}", timeout_s or length_s + TRIAL_GRACE_S)
        finally:
            del self._trials[order.id]

    async def events(self) -> AsyncIterator[contract.Sample | contract.Phase]:
        """Yield samples and phases, which are queued until then. Ends with the result; raises if
        the engine fails.
        """
        while True:
            event = await self._events.get()
            if event is None:
                self._events.put_nowait(None)
                self._result.result()
                return
            yield event

    async def result(self, timeout_s: float | None = None) -> contract.Result:
        """Wait for the result. None: without a time limit."""
        return await self._expect(self._result, "result", timeout_s)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> contract.Result:
        """Stop the engine cleanly and return its result."""
        await self._send(contract.Stop())
        return await self._expect(self._result, "result", timeout_s)

    async def close(self) -> None:
        """End the process, by force if necessary. Safe to call twice."""
        try:
            if self._process.stdin is not None:
                self._process.stdin.close()
            await self._wait_for_exit()
        finally:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
            await self._process.wait()
            for task in (self._reader, self._stderr_reader):
                task.cancel()
            await asyncio.gather(self._reader, self._stderr_reader, return_exceptions=True)
            for future in (self._hello, self._ready, self._result):
                # Mark the failure as retrieved: no caller waited for it, and it is reported
                # elsewhere.
                if future.done() and not future.cancelled():
                    future.exception()

    async def _wait_for_exit(self) -> None:
        for next_signal in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE_S)
                return
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(next_signal)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, command: contract.Command) -> None:
        assert self._process.stdin is not None
        # The reader reports an engine that has ended, with the end of its stderr.
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(command.line())
            await self._process.stdin.drain()

    async def _expect(self, future: asyncio.Future[T], message: str, timeout_s: float | None) -> T:
        try:
            return await asyncio.wait_for(asyncio.shield(future), timeout_s)
        except TimeoutError:
            raise LostError(
                f"{self.name} did not send {message} within {timeout_s:g} s", self._stderr_hint("it is stuck")
            ) from None

    async def _read(self) -> None:
        """Read events from stdout until it ends. If there is no result by then, all waiting callers
        get the error.
        """
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                self._take(contract.parse_event(line))
            if not self._result.done():
                self._fail(await self._lost())
        except ValueError as error:
            self._fail(self._violation(error))
        except HakaruError as error:
            self._fail(error)

    def _take(self, event: contract.Event) -> None:
        match event:
            case contract.Hello():
                self._check_contract(event)
                _settle(self._hello, event)
            case contract.Ready():
                _settle(self._ready, event)
            case contract.Sample() | contract.Phase():
                self._events.put_nowait(event)
            case contract.Reply():
                if event.id in self._replies:
                    _settle(self._replies[event.id], event)
                elif event.id in self._trials and event.error is not None:
                    error = event.error
                    _refuse(self._trials[event.id], _EXCEPTIONS[error.class_](error.message, error.hint))
            case contract.TrialOutcome():
                if event.id in self._trials:
                    _settle(self._trials[event.id], event)
            case contract.Result():
                _settle(self._result, event)
                self._fail_replies(LostError(f"{self.name} ended before it answered", "start it again"))
                self._events.put_nowait(None)
            case contract.Error() if not event.fatal or self._result.done():
                self.complaints.append(event)
            case contract.Error():
                raise _EXCEPTIONS[event.class_](f"{self.name}: {event.message}", event.hint)

    def _check_contract(self, hello: contract.Hello) -> None:
        if hello.contract != contract.CONTRACT_VERSION:
            raise EnvironmentError_(
                f"{self._binary} (version {hello.version}) implements contract {hello.contract}, "
                f"but this hakaru needs {contract.CONTRACT_VERSION}",
                "install both from the same source: `pip install .`, or `cargo build --release -p hakaru-engine`",
            )

    def _violation(self, error: ValueError) -> HakaruError:
        if not self._hello.done():
            return EnvironmentError_(
                f"{self._binary} is not a hakaru-engine: its first line is not `hello` ({error})",
                "set $HAKARU_ENGINE to the path of the engine, or unset it",
            )
        return LostError(
            f"{self.name} violated the contract: {error}",
            self._stderr_hint("install hakaru and its engine of the same version"),
        )

    async def _lost(self) -> HakaruError:
        status = await self._process.wait()
        await asyncio.wait([self._stderr_reader], timeout=_GRACE_S)
        if not self._hello.done():
            return EnvironmentError_(
                f"{self._binary} ended with exit status {status} before it sent `hello`",
                self._stderr_hint("set $HAKARU_ENGINE to the path of the engine, or unset it"),
            )
        if status < 0:
            with contextlib.suppress(ValueError):
                return LostError(
                    f"{self.name} was lost: ended by {signal.Signals(-status).name}",
                    self._stderr_hint("`dmesg` shows whether the machine ran out of memory"),
                )
        return LostError(f"{self.name} was lost: exit status {status}", self._stderr_hint("its stderr is empty"))

    def _stderr_hint(self, otherwise: str) -> str:
        return "the end of its stderr: " + " / ".join(self._stderr) if self._stderr else otherwise

    def _fail(self, error: HakaruError) -> None:
        for future in (self._hello, self._ready, self._result):
            if not future.done():
                future.set_exception(error)
        self._fail_replies(error)
        self._events.put_nowait(None)

    def _fail_replies(self, error: HakaruError) -> None:
        waiting: list[asyncio.Future[Any]] = [*self._replies.values(), *self._trials.values()]
        for future in waiting:
            _refuse(future, error)

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        pending = b""
        while chunk := await self._process.stderr.read(4096):
            *lines, pending = (pending + chunk).split(b"\n")
            # A line without an end must not grow without bound.
            pending = pending[-_STDERR_LINE_MAX:]
            self._keep_stderr(lines)
        self._keep_stderr([pending])

    def _keep_stderr(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            text = line.decode(errors="replace").strip()
            if text:
                self._stderr.append(text[-_STDERR_LINE_MAX:])


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _refuse(future: asyncio.Future[Any], error: HakaruError) -> None:
    if not future.done():
        future.set_exception(error)


async def gang_start(engines: Iterable[EngineProcess]) -> int:
    """Start all engines at one instant, and return it in nanoseconds of `CLOCK_MONOTONIC`.

    Raises EnvironmentError_ if this machine was too busy to reach all of them in time.
    """
    at_ns = clock.gang_start_ns()
    await asyncio.gather(*(engine.start(at_ns) for engine in engines))
    late_ns = clock.now_ns() - at_ns
    if late_ns > 0:
        raise EnvironmentError_(
            f"engines could not be started together: the last order arrived {late_ns / 1e6:.0f} ms too late",
            "this machine is busy; try again when it is idle",
        )
    return at_ns
