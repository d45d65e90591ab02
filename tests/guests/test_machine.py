"""Guests: booting, scripts, and the ways in which a guest can end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hakaru.engine import contract
from hakaru.errors import EnvironmentError_, LostError
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import HOST_ADDRESS
from hakaru.guest.engine import EngineHost, engine_options
from hakaru.guest.image import Image
from hakaru.guest.machine import Guest, GuestCommandError, GuestSpec
from hakaru.guest.pinning import Pinning, pin_threads
from hakaru.guest.recipe import PROGRAMS
from hakaru.guest.requirements import Accelerator

from tests.guests.conftest import Run


def test_guest_runs_the_kernel_and_the_programs_of_its_image(guest: Guest, image: Image, run: Run) -> None:
    async def work() -> None:
        assert (await guest.run("uname -r")).strip() == image.kernel_version == guest.kernel_version
        assert (await guest.run("hostname")).strip() == "vm-1"
        assert await guest.run("for p in " + " ".join(PROGRAMS) + "; do which $p >/dev/null || echo $p; done") == ""
        # Every program finds its libraries: a loader that lacks one ends with status 127.
        for program in ("fio", "mkfs.xfs", "mkfs.ext4", "iscsiadm", "ethtool"):
            version = await guest.run(f"{program} --version 2>&1 || {program} -V 2>&1")
            assert version[-20:].strip(), program

    run(work())


def test_guest_has_a_route_to_the_hosts_loopback_only(guest: Guest, run: Run) -> None:
    async def work() -> None:
        routes = await guest.run("ip route")
        assert "default" not in routes and HOST_ADDRESS.rpartition(".")[0] in routes

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


def test_answer_to_a_script_whose_caller_gave_up_is_passed_over(guest: Guest, run: Run) -> None:
    async def work() -> None:
        with pytest.raises(TimeoutError):
            # The script begins, and continues after its caller.
            await asyncio.wait_for(guest.run("usleep 2000000; echo late"), 0.5)
        assert await guest.run("echo own") == "own\n"

    run(work())


def test_monitor_reports_the_machine_and_its_threads(guest: Guest, run: Run) -> None:
    async def work() -> None:
        assert await guest.emulator.status() == "running"
        await check_threads(guest, 1)
        with pytest.raises(Exception, match="QEMU refused `no-such-command`"):
            await guest.emulator.execute("no-such-command")

    run(work())


async def check_threads(guest: Guest, processors: int) -> None:
    """Each virtual processor has a thread of its own."""
    virtual, others = await guest.emulator.vcpu_threads(), await guest.emulator.other_threads()
    assert len(virtual) == processors and guest.emulator.pid in others and not set(virtual) & set(others)


def test_threads_are_pinned_as_requested(guest: Guest, run: Run) -> None:
    async def work() -> None:
        (processor, *_) = sorted(os.sched_getaffinity(0))
        threads = [*await guest.emulator.vcpu_threads(), *await guest.emulator.other_threads()]
        before = os.sched_getaffinity(guest.emulator.pid)
        await pin_threads(guest.emulator, Pinning(vcpus=(processor,), others=(processor,)))
        assert {frozenset(os.sched_getaffinity(thread)) for thread in threads} == {frozenset({processor})}
        with pytest.raises(EnvironmentError_, match="virtual processor 0 cannot be pinned"):
            await pin_threads(guest.emulator, Pinning(vcpus=(4095,)))
        for thread in threads:
            os.sched_setaffinity(thread, before)

    run(work())


def test_guest_that_panics_is_lost_with_the_cause_and_so_are_its_engines(
    image: Image, accelerator: Accelerator
) -> None:
    async def work() -> None:
        spec = GuestSpec("vm-2", image, cpus=1, **engine_options(image, 1))
        async with await Guest.boot(spec, accelerator) as guest:
            host = await EngineHost.open(guest)
            async with await host.spawn("vm-2", contract.WatchConfig()) as engine:
                await engine.ready()
                with pytest.raises(LostError, match=r"panicked \(sysrq triggered crash\) before its answer"):
                    await guest.run("echo c >/proc/sysrq-trigger")
                with pytest.raises(LostError, match=r"panicked \(sysrq triggered crash\) while a program ran"):
                    await engine.result()
            await host.close()
            assert host.clock.end is None

    asyncio.run(work())


def test_guest_with_two_processors_powers_off(image: Image, accelerator: Accelerator) -> None:
    async def work() -> None:
        async with await Guest.boot(GuestSpec("vm-3", image, cpus=2), accelerator) as guest:
            await check_threads(guest, 2)
            assert (await guest.run("nproc")).strip() == "2"
            await guest.power_off()
            with pytest.raises(LostError, match="switched itself off"):
                await guest.run("true")

    asyncio.run(work())


def test_killed_qemu_is_named(image: Image) -> None:
    async def work() -> None:
        # A kernel that has only begun to boot is enough.
        boot = asyncio.create_task(Guest.boot(GuestSpec("vm-7", image, cpus=1), Accelerator("tcg")))
        qemu = await process_named("vm-7")
        os.kill(qemu, signal.SIGKILL)
        with pytest.raises((LostError, EnvironmentError_), match="SIGKILL"):
            await boot

    asyncio.run(work())


async def process_named(name: str) -> int:
    """Return the process id of the QEMU of a guest, once its monitor answers."""
    while True:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            words = entry.read_bytes().split(b"\0") if entry.exists() else []
            if f"{name},debug-threads=on".encode() in words and words[0].endswith(b"qemu-system-x86_64"):
                return int(entry.parent.name)
        await asyncio.sleep(0)


def test_broken_initramfs_is_named_at_once(image: Image, tmp_path: Path) -> None:
    broken = tmp_path / "initramfs"
    broken.write_bytes(b"this is no archive")

    async def work() -> None:
        spec = replace(GuestSpec("vm-8", image, cpus=1), initramfs=broken)
        with pytest.raises(LostError, match=r"panicked \(VFS: Unable to mount root fs .*\) before its boot"):
            await Guest.boot(spec, Accelerator("tcg"))

    asyncio.run(work())


def test_guest_that_never_boots_is_lost_after_its_time_out(image: Image) -> None:
    async def work() -> None:
        with pytest.raises(LostError, match=r"did not boot within 0.1 s"):
            await Guest.boot(GuestSpec("vm-9", image, cpus=1), Accelerator("tcg"), boot_timeout_s=0.1)

    asyncio.run(work())


def test_arguments_that_qemu_refuses_are_an_error_with_its_message(image: Image) -> None:
    async def work() -> None:
        with pytest.raises(EnvironmentError_, match=r"QEMU does not start: .*Invalid"):
            await Guest.boot(GuestSpec("vm-10", image, cpus=1000), Accelerator("tcg"))

    asyncio.run(work())


ROOT = Path(__file__).parents[2]
BOOT_AND_WAIT = """
import asyncio
from hakaru.guest.image import find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.requirements import Accelerator
async def main():
    guest = await Guest.boot(GuestSpec("vm-4", find_image(), cpus=1), Accelerator("tcg"))
    print(guest.emulator.pid, flush=True)
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


def test_requested_accelerator_is_used_or_refused(image: Image, tmp_path: Path) -> None:
    assert asyncio.run(find_accelerator(image, "tcg")).kind == "tcg"
    with pytest.raises(EnvironmentError_, match="this machine has no "):
        asyncio.run(find_accelerator(image, "kvm", device=tmp_path / "kvm"))


def test_error_about_missing_qemu_names_the_package_to_install(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentError_, match="qemu-system-x86_64 is not installed") as error:
        asyncio.run(Guest.boot(GuestSpec("vm-6", image), Accelerator("tcg")))
    assert "apt-get install qemu-system-x86" in error.value.hint
