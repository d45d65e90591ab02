"""One guest for all tests of a run, because booting takes most of the time on an emulated
processor.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_

from tests.guests.image import Image, find_image
from tests.guests.machine import Guest

# Long enough for an emulated processor on a machine that does other work as well.
TIMEOUT_S = 900

Run = Callable[[Coroutine[Any, Any, None]], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/guests/" in item.nodeid:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def image() -> Image:
    """Image from the cache, built if it is missing. Skips if guests cannot run here."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("qemu-system-x86_64 is not installed (Debian package qemu-system-x86)")
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
def guest(image: Image, run: Run, pytestconfig: pytest.Config) -> Iterator[Guest]:
    """A guest that has booted. Tests leave it as they found it: logged out, nothing mounted."""
    booted: list[Guest] = []

    async def boot() -> None:
        booted.append(await Guest.boot("vm-1", image))

    run(boot())
    (guest,) = booted
    reporter = pytestconfig.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        why = f" ({guest.accelerator_why})" if guest.accelerator_why else ""
        reporter.write_line(f"guest: Linux {guest.kernel_version}, {guest.accelerator}{why}")
    yield guest
    run(guest.close())
