"""One guest for all tests of a process, because booting takes most of the time on an emulated
processor.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.engine import engine_options
from hakaru.guest.image import Image, find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.requirements import Accelerator

# Long enough for an emulated processor on a machine that does other work as well.
TIMEOUT_S = 900
LINE = "hakaru_guest"
"""Key under which a worker process reports kernel and accelerator of its guest."""

Run = Callable[[Coroutine[Any, Any, None]], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/guests/" in item.nodeid and "image" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.guest)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def pytest_testnodedown(node: Any) -> None:
    """Print the line of a worker process (`-n`), which has no terminal."""
    if line := getattr(node, "workeroutput", {}).get(LINE):
        _write_line(node.config, line)


def _write_line(config: pytest.Config, line: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(line)


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Image from the cache, built if it is missing. Skips if guests cannot run here."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("qemu-system-x86_64 is not installed (Debian package qemu-system-x86)")
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    # One process builds a missing image, the others wait for it.
    with (shared / "guest-image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return find_image()
        except EnvironmentError_ as error:
            pytest.skip(f"no guest image: {error.message}; {error.hint}")


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """Run a coroutine. All run on one event loop, to which the guest's process belongs."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="session")
def accelerator(image: Image) -> Accelerator:
    """KVM if guests boot on it here, else TCG."""
    return asyncio.run(find_accelerator(image))


@pytest.fixture(scope="session")
def guest(image: Image, accelerator: Accelerator, run: Run, pytestconfig: pytest.Config) -> Iterator[Guest]:
    """A guest that has booted, with ports for two engines. Tests leave it as they found it: logged
    out, nothing mounted, no engine.
    """
    booted: list[Guest] = []

    async def boot() -> None:
        # A second processor that is emulated costs more than it carries.
        spec = GuestSpec("vm-1", image, cpus=1, **engine_options(image, 2))
        booted.append(await Guest.boot(spec, accelerator))

    run(boot())
    (guest,) = booted
    why = f" ({accelerator.reason})" if accelerator.reason else ""
    line = f"guest: Linux {guest.kernel_version}, {accelerator.kind}{why}"
    if hasattr(pytestconfig, "workeroutput"):
        pytestconfig.workeroutput[LINE] = line
    else:
        _write_line(pytestconfig, line)
    yield guest
    run(guest.close())
