"""Comparisons that many pages ask for: how many processes compare runs, and that none outlives its
page.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.web.comparison import NAME, WAITING_MAX, Comparisons

ROOT = Path(__file__).parents[2]
WAIT_S = 120.0

# Alone, because runs are compared only while a processor would be idle.
pytestmark = pytest.mark.alone


def comparing(parent: int) -> list[int]:
    """Processes of a server that compare runs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_child = f"PPid:\t{parent}\n" in (process / "status").read_text()
            if is_child and b"hakaru.web.comparison" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def has_ended(process: int) -> bool:
    """Whether a process has ended. Its parent, or that of orphans, may not have noticed yet."""
    try:
        return "State:\tZ" in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds; fail after two minutes."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def runs_of(folder: Path) -> tuple[Path, Path]:
    before, after = sorted(folder.iterdir())
    return before, after


def test_one_process_compares_and_the_other_pages_wait_or_are_refused(folder: Path) -> None:
    async def body() -> None:
        comparisons = Comparisons()

        def start() -> asyncio.Task[object]:
            return asyncio.create_task(comparisons.compare(*runs_of(folder), "en", all_rows=False))

        tasks = [start() for _ in range(1 + WAITING_MAX)]
        await until(lambda: bool(comparing(os.getpid())))
        (first,) = comparing(os.getpid())
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(EnvironmentError_, match="8 comparisons are waiting"):
            await start()
        # A page that leaves while it waits makes room, and takes no turn.
        tasks.pop().cancel()
        last = start()
        await asyncio.sleep(0)
        assert comparing(os.getpid()) == [first]
        tasks[0].cancel()
        # The next one takes its turn when the process of the first is gone.
        await until(lambda: bool(comparing(os.getpid())) and first not in comparing(os.getpid()))
        assert len(comparing(os.getpid())) == 1
        for task in (*tasks, last):
            task.cancel()
        await asyncio.gather(*tasks, last, return_exceptions=True)
        assert comparing(os.getpid()) == []
        # The turn of a comparison that was cancelled is free again.
        assert await start()

    asyncio.run(body())


def entered(url: str) -> tuple[http.client.HTTPConnection, dict[str, str]]:
    """A connection to the server, and the header with the cookie."""
    base, _, token = url.partition("/?")
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=WAIT_S)
    connection.request("GET", f"/?{token}")
    answer = connection.getresponse()
    answer.read()
    return connection, {"Cookie": (answer.getheader("Set-Cookie") or "").partition(";")[0]}


@pytest.mark.parametrize("end", ["the browser leaves", "the server is killed"])
def test_a_comparison_ends_with_its_reader(folder: Path, end: str) -> None:
    command = [sys.executable, "-m", "hakaru.cli", "web", "--port", "0", "--out", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            connection, cookie = entered(server.stdout.readline().strip())
            before, after = runs_of(folder)
            connection.request("GET", f"/compare?before={before.name}&after={after.name}", headers=cookie)
            asyncio.run(until(lambda: bool(comparing(server.pid))))
            (process,) = comparing(server.pid)
            # It asks for the signal at the death of its parent before it takes its name.
            asyncio.run(until(lambda: Path(f"/proc/{process}/comm").read_text().strip() == NAME))
            # It cannot end by itself any more.
            os.kill(process, signal.SIGSTOP)
            if end == "the browser leaves":
                connection.close()
            else:
                server.kill()
            asyncio.run(until(lambda: has_ended(process)))
            assert end == "the server is killed" or server.poll() is None
        finally:
            server.terminate()
