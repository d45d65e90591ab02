"""Driving an engine: its messages arrive, and every failure is an error with its last output and
leaves no process.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hakaru.engine import binary, clock, contract
from hakaru.engine.process import EngineProcess, LateStartError, gang_start
from hakaru.errors import (
    EnvironmentError_,
    HakaruError,
    LostError,
    UnansweredError,
    UsageError,
    VerificationError,
)

WATCH = contract.WatchConfig()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Make a program that misbehaves in a given manner."""

    def make(manner: str) -> Path:
        monkeypatch.setenv("FAKE_ENGINE", manner)
        program = tmp_path / "hakaru-engine"
        source = Path(__file__).with_name("fake_engine.py")
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {source} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    return make


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work, 60)

    asyncio.run(bounded())


def children() -> set[str]:
    """Return the processes that this one has started and that have not been reaped."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_messages_of_an_engine_arrive_in_order(fake: Callable[[str], Path]) -> None:
    async def work() -> None:
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake("well")) as engine:
            assert engine.version == "9.9"
            ready = await engine.ready()
            assert ready.found["argv"] == ["run"]
            await gang_start([engine])
            events = []
            async for event in engine.events():
                events.append(event)
                if len(events) == 2:
                    result = await engine.stop()
            assert events == [
                contract.Phase(phase="measure", at_ns=5),
                contract.Sample(at_ns=10, counters={"vms": {"reads": 1.0, "rate": 2.5}}),
            ]
            assert result.values == {"reads": 1.0}
            assert await engine.result() == result
            assert [complaint.message for complaint in engine.complaints] == ["a session broke the protocol"]
        assert not alive(engine.pid)

    run(work())


def test_outcome_of_a_trial_reaches_its_caller_and_a_refusal_is_an_error(fake: Callable[[str], Path]) -> None:
    async def work() -> None:
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake("well")) as engine:
            await engine.ready()
            await engine.start(0)
            orders = [contract.Trial(id=number, duration_ns=number, rates=[1.0, None]) for number in (2, 3)]
            second, first = await asyncio.gather(*(engine.trial(order) for order in reversed(orders)))
            assert (first.id, first.end_ns, second.end_ns) == (2, 3, 4)
            with pytest.raises(UsageError, match="duration_ns: 0"):
                await engine.trial(contract.Trial(id=4, duration_ns=0, rates=[]))
            await engine.stop()
            with pytest.raises(LostError):
                await engine.trial(orders[0])

    run(work())


def test_reply_reaches_its_caller_and_a_refusal_is_an_error(fake: Callable[[str], Path]) -> None:
    async def work() -> None:
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake("well")) as engine:
            await engine.ready()
            await gang_start([engine])
            first = asyncio.create_task(engine.manage(contract.StatusAction()))
            await asyncio.sleep(0)
            with pytest.raises(UsageError, match="there is no such volume") as refused:
                await engine.manage(contract.DeleteAction(pool="main", volume="x"))
            assert refused.value.hint == "look"
            assert await first == {"pools": []}
            with pytest.raises(LostError, match="was lost: exit status 0"):
                await engine.manage(contract.WithdrawAction(lun=0))

    run(work())


def test_an_engine_that_was_not_started_can_be_stopped(fake: Callable[[str], Path]) -> None:
    async def work() -> None:
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake("well")) as engine:
            await engine.ready()
            assert (await engine.stop()).values == {"stopped_before_start": 1.0}

    run(work())


def test_an_engine_enters_the_namespace_it_is_given(fake: Callable[[str], Path]) -> None:
    async def work() -> None:
        descriptor = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake("well"), namespace=descriptor) as engine:
            assert (await engine.ready()).found["argv"] == ["run", "--netns", f"/proc/self/fd/{descriptor}"]
        os.close(descriptor)

    run(work())


@pytest.mark.parametrize(
    ("manner", "error", "message", "hint"),
    [
        ("other contract", EnvironmentError_, "implements contract 2, but this hakaru needs 1", "pip install"),
        ("not an engine", EnvironmentError_, "is not a hakaru-engine", "HAKARU_ENGINE"),
        ("ends at once", EnvironmentError_, "exit status 127 before it sent `hello`", "shared libraries"),
        ("usage", UsageError, "watch on host-1: a usage matter", "do this"),
        ("environment", EnvironmentError_, "watch on host-1: a environment matter", "do this"),
        ("verification", VerificationError, "a verification matter", "do this"),
        ("peer", LostError, "a peer matter", "do this"),
        ("unanswered", UnansweredError, "a unanswered matter", "do this"),
        ("internal", HakaruError, "a internal matter", "do this"),
    ],
)
def test_refusal_of_an_engine_raises_the_error_of_its_class(
    fake: Callable[[str], Path], manner: str, error: type[HakaruError], message: str, hint: str
) -> None:
    async def work() -> None:
        with pytest.raises(error) as refused:
            async with await EngineProcess.spawn("host-1", WATCH, binary=fake(manner)) as engine:
                await engine.ready()
        assert message in refused.value.message
        assert hint in refused.value.hint
        assert type(refused.value) is error

    run(work())


@pytest.mark.parametrize(
    ("manner", "message", "hint"),
    [
        ("dies", "watch on host-1 was lost: ended by SIGKILL", "line 28 / line 29"),
        ("exits", "watch on host-1 was lost: exit status 101", "thread 'main' panicked"),
        ("garbage", "watch on host-1 violated the contract: Invalid JSON", "of the same version"),
        (
            "unknown field",
            "violated the contract: sample.colour: Extra inputs are not permitted",
            "of the same version",
        ),
    ],
)
def test_lost_engine_fails_all_waiters_with_its_last_output(
    fake: Callable[[str], Path], manner: str, message: str, hint: str
) -> None:
    async def work() -> None:
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake(manner)) as engine:
            await engine.ready()
            await engine.start(0)
            events = []
            with pytest.raises(LostError) as lost:
                async for event in engine.events():
                    events.append(event)
            assert len(events) == 2, "earlier messages are not lost"
            assert message in lost.value.message
            assert hint in lost.value.hint
            assert "line 9 " not in lost.value.hint, "only the last lines are kept"
            for waiter in (engine.result(), engine.stop()):
                with pytest.raises(LostError, match=r"host-1"):
                    await waiter
        assert not alive(engine.pid)

    run(work())


def test_silent_program_times_out_and_is_ended(fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hakaru.engine.process.HELLO_TIMEOUT_S", 0.3)
    monkeypatch.setattr("hakaru.engine.child.ChildEngine.grace_s", 0.2)
    before = children()

    async def work() -> None:
        with pytest.raises(LostError, match=r"watch on host-1 did not send hello within 0.3 s"):
            await EngineProcess.spawn("host-1", WATCH, binary=fake("silent"))

    run(work())
    # The program may have been ended before it could do anything.
    assert children() == before


def test_engine_that_never_becomes_ready_times_out(
    fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hakaru.engine.child.ChildEngine.grace_s", 0.2)

    async def work() -> None:
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake("never ready")) as engine:
            with pytest.raises(LostError, match=r"did not send ready within 0.2 s"):
                await engine.ready(timeout_s=0.2)
        assert not alive(engine.pid)

    run(work())


def test_an_engine_that_ignores_everything_is_killed(
    fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hakaru.engine.child.ChildEngine.grace_s", 0.2)

    async def work() -> None:
        engine = await EngineProcess.spawn("host-1", WATCH, binary=fake("stubborn"))
        await engine.ready()
        started = time.monotonic()
        await engine.close()
        # The program sleeps for 300 s.
        assert time.monotonic() - started < 60
        assert not alive(engine.pid)
        await engine.close()

    run(work())


def test_a_cancelled_run_leaves_no_engine(fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hakaru.engine.child.ChildEngine.grace_s", 0.2)
    pids: list[int] = []

    async def measure() -> None:
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake("stubborn")) as engine:
            pids.append(engine.pid)
            await engine.ready()
            await engine.result()

    async def work() -> None:
        task = asyncio.create_task(measure())
        while not pids:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work())
    assert not any(alive(pid) for pid in pids)


def test_gang_start_lies_in_the_future_for_every_engine(
    fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        program = fake("well")
        engines = [await EngineProcess.spawn(f"host-{number}", WATCH, binary=program) for number in range(4)]
        try:
            await asyncio.gather(*(engine.ready() for engine in engines))
            # An order that takes longer than the lead is an error, which another test has.
            monkeypatch.setattr("hakaru.engine.clock.gang_start_ns", lambda lead_ns: clock.now_ns() + 100 * lead_ns)
            at_ns = await gang_start(engines)
            assert clock.now_ns() < at_ns
        finally:
            await asyncio.gather(*(engine.close() for engine in engines))

    run(work())


def test_gang_start_that_comes_too_late_is_an_error(
    fake: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hakaru.engine.clock.gang_start_ns", lambda _: clock.now_ns() - 1)

    async def work() -> None:
        async with await EngineProcess.spawn("host-1", WATCH, binary=fake("well")) as engine:
            await engine.ready()
            with pytest.raises(LateStartError, match="too late"):
                await gang_start([engine])

    run(work())


def test_engine_is_the_program_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mine"
    monkeypatch.setenv("HAKARU_ENGINE", str(program))
    with pytest.raises(EnvironmentError_, match="which is not a program"):
        binary.find_engine()
    program.write_text("")
    program.chmod(0o755)
    assert binary.find_engine() == program


def test_engine_next_to_python_is_preferred_to_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HAKARU_ENGINE", raising=False)
    for folder in ("venv", "path"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "hakaru-engine").write_text("")
        (tmp_path / folder / "hakaru-engine").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "venv" / "python"))
    assert binary.find_engine() == tmp_path / "venv" / "hakaru-engine"
    (tmp_path / "venv" / "hakaru-engine").unlink()
    assert binary.find_engine() == tmp_path / "path" / "hakaru-engine"


def test_missing_engine_error_explains_how_to_install_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HAKARU_ENGINE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("hakaru.engine.binary.__file__", str(tmp_path / "a" / "b" / "c" / "binary.py"))
    with pytest.raises(EnvironmentError_) as missing:
        binary.find_engine()
    assert "pip install" in missing.value.hint
