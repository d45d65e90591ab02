"""The contract with one running engine, wherever it runs: orders to it, events from it.

    async with … as engine:                       EngineProcess.spawn, or GuestEngine.spawn
        ready = await engine.ready()
        await engine.start(at_ns)
        async for event in engine.events():       # Sample and Phase, until the result
            …
        result = await engine.result()  # `await engine.stop()` for engines that run until stopped

A subclass moves the lines (`_write`, `_lines`), ends the engine (`close`) and knows how it ended
(`_lost`). Failures are raised at the caller that waits, as exceptions of `hakaru.errors`: an
`error` event by its class, and an engine that ends, stops responding or violates the contract as
LostError.

All instants are those of this machine's `CLOCK_MONOTONIC`. An engine with another clock converts
them (`_engine_ns`, `_host_ns`).
"""

from __future__ import annotations

import abc
import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self, TypeVar

from hakaru.engine import clock, contract
from hakaru.errors import (
    EnvironmentError_,
    HakaruError,
    LostError,
    UnansweredError,
    UsageError,
    VerificationError,
)

# 10 000 sessions log in within seconds. An engine that needs longer than this is stuck.
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
# An operator's order waits for one or two commits, on a disk that may be busy.
MANAGE_TIMEOUT_S = 60.0
# An engine answers between two turns of its loop, unless its machine is busy.
COUNT_TIMEOUT_S = 20.0
# A trial also waits for its threads, and for those ordered before it.
TRIAL_GRACE_S = 30.0
# An array that runs for months may report very many faulty peers, so only the newest are kept.
_COMPLAINTS = 1000

T = TypeVar("T")
Timed = TypeVar("Timed", contract.Sample, contract.Phase, contract.Result)

_EXCEPTIONS: dict[contract.ErrorClass, type[HakaruError]] = {
    "usage": UsageError,
    "environment": EnvironmentError_,
    "verification": VerificationError,
    "peer": LostError,
    "unanswered": UnansweredError,
    "internal": HakaruError,
}


class EngineSession(abc.ABC):
    """A running engine."""

    start_lead_ns = clock.GANG_LEAD_NS
    """Time that the order to start needs to reach the engine, in nanoseconds."""

    def __init__(self, node: str, kind: str, program: str) -> None:
        self.node = node
        self.kind = kind
        self.version = ""
        self.complaints: deque[contract.Error] = deque(maxlen=_COMPLAINTS)
        """The newest 1000 non-fatal errors in order (of an array: peers that violated the
        protocol).
        """
        self._program = program
        """The engine's program, for messages."""
        loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[contract.Hello] = loop.create_future()
        self._ready: asyncio.Future[contract.Ready] = loop.create_future()
        self._result: asyncio.Future[contract.Result] = loop.create_future()
        self._events: asyncio.Queue[contract.Sample | contract.Phase | None] = asyncio.Queue()
        self._replies: dict[int, asyncio.Future[contract.Reply]] = {}
        self._trials: dict[int, asyncio.Future[contract.TrialOutcome]] = {}
        self._orders = itertools.count(1)

    @property
    @abc.abstractmethod
    def running(self) -> bool:
        """Whether the engine is still running; may lag behind its end."""

    @abc.abstractmethod
    async def close(self) -> None:
        """End the engine, by force if necessary. Safe to call twice."""

    @abc.abstractmethod
    async def _write(self, line: bytes) -> None:
        """Write an order. An engine that has ended is reported by `_lines`, not here."""

    @abc.abstractmethod
    def _lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of the engine's stdout until it ends."""

    @abc.abstractmethod
    async def _lost(self) -> HakaruError:
        """Return the error of an engine that has ended without a result."""

    @abc.abstractmethod
    def _stderr_hint(self, otherwise: str) -> str:
        """Return a hint with the end of the engine's stderr, or `otherwise` if it is empty."""

    def _engine_ns(self, host_ns: int) -> int:
        """Convert an instant of this machine's clock to that of the engine's clock."""
        return host_ns

    def _host_ns(self, engine_ns: int) -> int:
        """Convert an instant of the engine's clock to that of this machine's clock."""
        return engine_ns

    async def _introduce(self, config: contract.EngineConfig, hello_timeout_s: float) -> None:
        """Check the version of the engine's contract, and configure it."""
        hello = await self._expect(self._hello, "hello", hello_timeout_s)
        self.version = hello.version
        await self._send(contract.Configure(contract=contract.CONTRACT_VERSION, config=config))

    @property
    def name(self) -> str:
        """Kind and node: `array on storage`."""
        return f"{self.kind} on {self.node}"

    async def ready(self, timeout_s: float = READY_TIMEOUT_S) -> contract.Ready:
        """Wait until the engine is configured: bound, logged in, opened."""
        return await self._expect(self._ready, "ready", timeout_s)

    async def start(self, at_ns: int) -> None:
        """Order the engine to start at an instant of `CLOCK_MONOTONIC`."""
        await self._send(contract.Start(at_ns=self._engine_ns(at_ns)))

    async def measure(self, at_ns: int) -> None:
        """Order a load to end its warm-up at an instant of `CLOCK_MONOTONIC`, unless it ends
        earlier.
        """
        await self._send(contract.Measure(at_ns=self._engine_ns(at_ns)))

    async def manage(self, action: contract.ManageAction, timeout_s: float = MANAGE_TIMEOUT_S) -> dict[str, Any]:
        """Send an action to a serving array and return the value of its reply. Raises an error
        reply by its class.
        """
        order = contract.Manage(id=next(self._orders), action=action)
        return await self._request(order, f"the result of `{action.kind}`", timeout_s)

    async def count(self, timeout_s: float = COUNT_TIMEOUT_S) -> dict[str, dict[str, float]]:
        """Return the counters of a fabric, by entity: those of an instant during the call, unlike
        the newest sample. Raises UsageError for other engines.
        """
        return await self._request(contract.Count(id=next(self._orders)), "its counters", timeout_s)

    async def set_link(self, link: str, *, up: bool, timeout_s: float = COUNT_TIMEOUT_S) -> None:
        """Take a link of a fabric down or up. Raises UsageError for an unknown link and for other
        engines.
        """
        order = contract.SetLink(id=next(self._orders), link=link, up=up)
        await self._request(order, "the result of `set_link`", timeout_s)

    def _check_running(self) -> None:
        if self._result.done():
            # Raises the error of an engine that failed.
            self._result.result()
            raise LostError(f"{self.name} has ended", "start it again")

    async def _request(
        self, order: contract.Manage | contract.Count | contract.SetLink, answer: str, timeout_s: float
    ) -> dict[str, Any]:
        self._check_running()
        future: asyncio.Future[contract.Reply] = asyncio.get_running_loop().create_future()
        self._replies[order.id] = future
        try:
            await self._send(order)
            reply = await self._expect(future, answer, timeout_s)
        finally:
            del self._replies[order.id]
        if reply.error is not None:
            raise _EXCEPTIONS[reply.error.class_](reply.error.message, reply.error.hint)
        return reply.value or {}

    async def trial(self, order: contract.Trial, timeout_s: float | None = None) -> contract.TrialOutcome:
        """Carry out a trial of a generator of packets. Raises the error of a refused one by its
        class. `timeout_s` None: the length of the trial and a grace period.
        """
        self._check_running()
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, command: contract.Command) -> None:
        await self._write(command.line())

    async def _expect(self, future: asyncio.Future[T], message: str, timeout_s: float | None) -> T:
        try:
            return await asyncio.wait_for(asyncio.shield(future), timeout_s)
        except TimeoutError:
            raise LostError(
                f"{self.name} did not send {message} within {timeout_s:g} s", self._stderr_hint("it is stuck")
            ) from None

    async def _read(self) -> None:
        """Read events until the engine ends. If there is no result by then, all waiting callers get
        the error.
        """
        try:
            async for line in self._lines():
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
            case contract.Sample():
                self._events.put_nowait(self._on_host_clock(event))
            case contract.Phase():
                self._events.put_nowait(self._on_host_clock(event))
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
                _settle(self._result, self._on_host_clock(event))
                self._fail_replies(LostError(f"{self.name} ended before it answered", "start it again"))
                self._events.put_nowait(None)
            case contract.Error() if not event.fatal or self._result.done():
                self.complaints.append(event)
            case contract.Error():
                raise _EXCEPTIONS[event.class_](f"{self.name}: {event.message}", event.hint)

    def _on_host_clock(self, event: Timed) -> Timed:
        at_ns = self._host_ns(event.at_ns)
        return event if at_ns == event.at_ns else event.model_copy(update={"at_ns": at_ns})

    def _check_contract(self, hello: contract.Hello) -> None:
        if hello.contract != contract.CONTRACT_VERSION:
            raise EnvironmentError_(
                f"{self._program} (version {hello.version}) implements contract {hello.contract}, "
                f"but this hakaru needs {contract.CONTRACT_VERSION}",
                "install both from the same source: `pip install .`, or `cargo build --release -p hakaru-engine`",
            )

    def _violation(self, error: ValueError) -> HakaruError:
        if not self._hello.done():
            return EnvironmentError_(
                f"{self._program} is not a hakaru-engine: its first line is not `hello` ({error})",
                "set $HAKARU_ENGINE to the path of the engine, or unset it",
            )
        return LostError(
            f"{self.name} violated the contract: {error}",
            self._stderr_hint("install hakaru and its engine of the same version"),
        )

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

    def _retrieve_failures(self) -> None:
        """Mark failures as retrieved at the end: no caller waited for them, and they are reported
        elsewhere.
        """
        for future in (self._hello, self._ready, self._result):
            if future.done() and not future.cancelled():
                future.exception()


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def _refuse(future: asyncio.Future[Any], error: HakaruError) -> None:
    if not future.done():
        future.set_exception(error)
