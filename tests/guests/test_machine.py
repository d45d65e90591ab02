"""Guests: booting, scripts, and the ways in which a guest can end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hakaru.errors import EnvironmentError_, LostError

from tests.guests import machine
from tests.guests.conftest import Run
from tests.guests.image import PROGRAMS, Image
from tests.guests.machine import Guest, GuestCommandError


def test_guest_runs_the_kernel_and_the_programs_of_its_image(guest: Guest, image: Image, run: Run) -> None:
    async def work() -> None:
        assert (await guest.run("uname -r")).strip() == image.kernel_version == guest.kernel_version
        assert (await guest.run("hostname")).strip() == "vm-1"
        assert await guest.run("for p in " + " ".join(PROGRAMS) + "; do which $p >/dev/null || echo $p; done") == ""
        # Every program finds its libraries: a loader that lacks one ends with status 127.
        for program in ("fio", "mkfs.xfs", "mkfs.ext4", "iscsiadm"):
            version = await guest.run(f"{program} --version 2>&1 || {program} -V 2>&1")
            assert version[-20:].strip(), program

    run(work())


def test_guest_has_a_route_to_the_hosts_loopback_only(guest: Guest, run: Run) -> None:
    async def work() -> None:
        routes = await guest.run("ip route")
        assert "default" not in routes and machine.HOST_ADDRESS.rpartition(".")[0] in routes

    run(work())


def test_script_returns_its_output_and_status(guest: Guest, run: Run) -> None:
    async def work() -> None:
        assert await guest.run("echo a; echo b >&2") == "a\nb\n"
        assert await guest.run("true") == ""
        assert len(await guest.run("head -c 3000000 /dev/zero | tr '\\0' x")) == 3_000_000
        with pytest.raises(GuestCommandError, match="status 3") as failure:
            await guest.run("echo said; exit 3")
        assert (failure.value.status, failure.value.output) == (3, "said\n")
        began = time.monotonic()
        with pytest.raises(GuestCommandError, match="killed after 1 s"):
            await guest.run("sleep 1000", timeout_s=1)
        assert time.monotonic() - began < 60
        assert await guest.run("echo still alive") == "still alive\n"

    run(work())


def test_guest_that_panics_is_lost_with_its_last_console_lines(image: Image) -> None:
    async def work() -> None:
        async with await Guest.boot("vm-2", image, cpus=1) as guest:
            with pytest.raises(LostError) as lost:
                await guest.run("echo c >/proc/sysrq-trigger")
            assert "sysrq triggered crash" in lost.value.hint

    asyncio.run(work())


def test_guest_powers_off(image: Image) -> None:
    async def work() -> None:
        async with await Guest.boot("vm-3", image, cpus=1) as guest:
            await guest.power_off()
            with pytest.raises(LostError):
                await guest.run("true")

    asyncio.run(work())


ROOT = Path(__file__).parents[2]
BOOT_AND_WAIT = """
import asyncio
from tests.guests.image import find_image
from tests.guests.machine import Guest
async def main():
    guest = await Guest.boot("vm-4", find_image(), cpus=1, accelerator="tcg")
    print(guest._process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_killing_the_program_leaves_no_qemu(image: Image) -> None:
    with subprocess.Popen([sys.executable, "-c", BOOT_AND_WAIT], stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        qemu = int(parent.stdout.readline())
        pidfd = os.pidfd_open(qemu)
        assert "qemu" in Path(f"/proc/{qemu}/cmdline").read_text()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    try:
        asyncio.run(wait_for_end(pidfd))
    finally:
        os.close(pidfd)


async def wait_for_end(pidfd: int) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(pidfd, ended.set)
    await asyncio.wait_for(ended.wait(), 30)


def test_requested_accelerator_is_used_or_refused(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guest, "_kvm_fails", "it was tried")
    with pytest.raises(EnvironmentError_, match="it was tried"):
        asyncio.run(Guest.boot("vm-5", image, accelerator="kvm"))


def test_error_about_missing_qemu_names_the_package_to_install(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentError_, match="qemu-system-x86_64 is not installed") as error:
        asyncio.run(Guest.boot("vm-6", image, accelerator="tcg"))
    assert "apt-get install qemu-system-x86" in error.value.hint
