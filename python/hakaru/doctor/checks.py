"""Checks of this machine, printed by `hakaru doctor`. None changes anything."""

from __future__ import annotations

import locale
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hakaru import system_calls
from hakaru.doctor.finding import Finding
from hakaru.doctor.guests import check_guests
from hakaru.engine.binary import find_engine
from hakaru.engine.contract import CONTRACT_VERSION, Hello, parse_event
from hakaru.errors import EnvironmentError_
from hakaru.extras import import_weasyprint, is_installed
from hakaru.fileserver.samba import PROGRAMS as SAMBA_PROGRAMS
from hakaru.lab import sandbox
from hakaru.lab.plan import kernel_finds_losses_by_rack_only
from hakaru.units import format_size

# Memory for 16 VMs of the published sweep, their LUs in sparse memory, and the report.
_MEMORY_MIN_BYTES = 2 * 1024**3
_DISK_MIN_BYTES = 1024**3
# Files for 10 000 sessions in one process, and 240 others.
_FILES_WANTED = 10_240
_HOLE_BYTES = 64 << 10
_ISCSI_PORT = 3260
# `PRIORITY` in crates/engine/src/packets/stops.rs.
_STOP_WATCH_PRIORITY = 2
# Socket buffer: a node's bucket lets up to 2 MiB pass at once, and the kernel counts about twice
# the bytes of a packet.
_SOCKET_WANTED_BYTES = 4 * 1024**2


def diagnose() -> list[Finding]:
    """Run all checks, the most important first."""
    return [*(check() for check in _CHECKS), *check_guests()]


def check_sandbox() -> Finding:
    """Check the namespaces of which a lab consists."""
    try:
        sandbox.check()
    except EnvironmentError_ as error:
        return Finding("namespaces", "fail", error.message, error.hint)
    if sandbox.kind_here() == "root":
        return Finding("namespaces", "ok", "started with privileges: labs need no user namespace")
    return Finding("namespaces", "ok", "user, mount, network and PID namespaces, without root")


def check_links() -> Finding:
    """Check veth, bridge and token bucket by building a small lab and removing it."""
    hint = "the kernel needs veth, bridge and sch_tbf: `sudo modprobe -a veth bridge sch_tbf` loads them"
    return _try_lab("links", "kernel", hint)


def check_fabric() -> Finding:
    """Check the fabric backend, by letting an engine open the interfaces of a small lab."""
    hint = "the kernel needs veth and packet sockets (CONFIG_PACKET); `backend: kernel` needs no packet sockets"
    trial = _try_lab("fabric", "fabric", hint)
    allowed = int(_read("/proc/sys/net/core/rmem_max") or 0)
    if trial.status == "ok" and sandbox.kind_here() == "user" and allowed < _SOCKET_WANTED_BYTES:
        # Only a user who is root outside the sandbox too may exceed the limit.
        message = (
            f"{trial.message}; its sockets hold {format_size(allowed)}: bursts on links above 1 Gbit/s may be lost"
        )
        hint = f"`sudo sysctl net.core.rmem_max={_SOCKET_WANTED_BYTES}`; lost frames are counted and invalidate a point"
        return Finding("fabric", "warn", message, hint)
    return trial


def check_netem() -> Finding:
    """Check netem, which only delay and loss on the kernel backend need."""
    return _try_lab(
        "netem", "netem", "", absent="missing in this kernel: use `backend: fabric` (the default) for delay and loss"
    )


def check_file_server() -> Finding:
    """Check Samba by starting a file server, if it is installed."""
    missing = [package for program, package in SAMBA_PROGRAMS if shutil.which(program) is None]
    if missing:
        return Finding("file server", "ok", f"Samba is not installed ({', '.join(missing)}); only file servers need it")
    return _try_lab("file server", "samba", "file servers need user, mount and PID namespaces and tmpfs")


def _try_lab(name: str, backend: str, hint: str, *, absent: str | None = None) -> Finding:
    """Build a small lab in a separate process. `absent`: text of an `ok` finding if the kernel
    lacks the feature; None: that is a failure.
    """
    command = [sys.executable, "-m", "hakaru.doctor.trial", backend]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        built = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=False, env=environment, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return Finding(name, "fail", "a small lab was not built within 30 s", "look for hung tasks with `dmesg`")
    if built.returncode == 0:
        return Finding(name, "ok", built.stdout.strip())
    if absent is not None and name in built.stderr:
        return Finding(name, "ok", absent)
    message, *more = [*built.stderr.strip().splitlines(), "a small lab cannot be built"]
    hints = [line.removeprefix("hint: ") for line in more if line.startswith("hint: ")]
    # The lab's own hint would be to run the doctor.
    if "the lab cannot be built" in message or not hints:
        hints = [hint or "run `hakaru doctor` as root"]
    return Finding(name, "fail", message.removeprefix("error: "), hints[0])


def check_congestion_control() -> Finding:
    """List the values of `lab: tcp: congestion_control`, and report if TCP of 2009 cannot switch
    off RACK here.
    """
    available = (_read("/proc/sys/net/ipv4/tcp_available_congestion_control") or "reno").split()
    message = ", ".join(sorted(available))
    if kernel_finds_losses_by_rack_only(platform.release()):
        message += f"; Linux {platform.release().split('-')[0]} detects losses only by RACK on connections with SACK"
    return Finding("tcp", "ok", message)


def check_engine() -> Finding:
    """Check the engine's program and its contract."""
    try:
        program = find_engine()
    except EnvironmentError_ as error:
        return Finding("engine", "fail", error.message, error.hint)
    hint = "build it from the same source as hakaru: `pip install .`, or `cargo build --release -p hakaru-engine`"
    try:
        completed = subprocess.run(
            [program, "run"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
        hello = parse_event(completed.stdout.split(b"\n", 1)[0])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return Finding("engine", "fail", f"{program} is not a working hakaru-engine", hint)
    if not isinstance(hello, Hello) or hello.contract != CONTRACT_VERSION:
        return Finding("engine", "fail", f"{program} does not implement contract {CONTRACT_VERSION}", hint)
    if "debug" in program.parts:
        return Finding("engine", "warn", f"{program} is a debug build, several times slower", hint)
    return Finding("engine", "ok", f"{program}, version {hello.version}, contract {hello.contract}")


def check_cores() -> Finding:
    """Check the number of cores that this process may use."""
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        hint = "use a machine with at least 2 cores; points may get the caveat machine_saturated"
        return Finding("cores", "warn", "1 core, which load and array share", hint)
    return Finding("cores", "ok", f"{cores} cores")


def check_memory() -> Finding:
    """Check the available memory."""
    available = _meminfo()["MemAvailable"]
    if available < _MEMORY_MIN_BYTES:
        message = f"{format_size(available // 1024**2 * 1024**2)} available"
        return Finding(
            "memory", "warn", message, "free memory, or use LUs in files: LUs in memory grow with each write"
        )
    return Finding("memory", "ok", f"{available / 1024**3:.1f} GiB available")


def check_overcommit() -> Finding:
    """Check that memory can be overcommitted: an LU is mapped in full, but uses memory only for
    written blocks.
    """
    mode = _read("/proc/sys/vm/overcommit_memory")
    if mode == "2":
        hint = "`sudo sysctl vm.overcommit_memory=0`, or use LUs in sparse files"
        return Finding("overcommit", "warn", "the kernel reserves memory in full (vm.overcommit_memory is 2)", hint)
    return Finding("overcommit", "ok", f"memory may be sparse (vm.overcommit_memory is {mode})")


def check_disk() -> Finding:
    """Check the free space in the working directory, where runs are written."""
    free = shutil.disk_usage(".").free
    message = f"{free / 1024**3:.1f} GiB free in {Path.cwd()}"
    if not os.access(".", os.W_OK):
        return Finding(
            "disk",
            "warn",
            f"{Path.cwd()} cannot be written to",
            "run in another directory, or name a folder for runs with --out or HAKARU_RUNS",
        )
    if free < _DISK_MIN_BYTES:
        return Finding("disk", "warn", message, "free some space: a long run takes some hundred MiB")
    return Finding("disk", "ok", message)


def check_array_files() -> Finding:
    """Check the file system features that a standalone array uses: holes, which free space, and
    O_DIRECT.
    """
    name = "array files"
    if not os.access(".", os.W_OK):
        return Finding(name, "ok", f"not checked, because {Path.cwd()} cannot be written to")
    try:
        missing = _lacking()
    except OSError as e:
        return Finding(name, "warn", f"no file can be written in {Path.cwd()}: {e.strerror}", "free some space in it")
    if missing:
        hint = "keep pools and LU files on ext4, xfs or btrfs"
        return Finding(name, "warn", f"the file system of {Path.cwd()} lacks {' and '.join(missing)}", hint)
    return Finding(name, "ok", f"holes and O_DIRECT work in {Path.cwd()}")


def _lacking() -> list[str]:
    """Return the features that the file system of the current directory lacks. Raises OSError if no
    file can be written.
    """
    missing = []
    with tempfile.TemporaryFile(dir=".") as file:
        file.write(bytes(2 * _HOLE_BYTES))
        file.flush()
        try:
            system_calls.punch_hole(file.fileno(), 0, _HOLE_BYTES)
        except OSError:
            missing.append("holes (UNMAP would not free space)")
        try:
            os.close(os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDWR | os.O_DIRECT))
        except OSError:
            missing.append("O_DIRECT (LUs with `direct: true` would not open)")
    return missing


def check_iscsi_port() -> Finding:
    """Check that port 3260 of the loopback is free, the default portal of `hakaru array serve`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _ISCSI_PORT))
        except OSError as error:
            message = f"127.0.0.1:{_ISCSI_PORT} is not available: {error.strerror}"
            return Finding("iscsi port", "warn", message, "use another port in `portals` of the array file")
    return Finding("iscsi port", "ok", f"127.0.0.1:{_ISCSI_PORT} is free")


def check_files() -> Finding:
    """Check the limit of open files: each session needs one on either side."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit != resource.RLIM_INFINITY and limit < _FILES_WANTED:
        hint = f"raise it for 10 000 sessions: `ulimit -Hn {_FILES_WANTED}` as root, or /etc/security/limits.conf"
        return Finding("open files", "warn", f"at most {limit}", hint)
    return Finding("open files", "ok", f"at most {'any number' if limit == resource.RLIM_INFINITY else limit}")


def check_clock() -> Finding:
    """Check the clock source. Reading the time is slow unless it is the processor's own."""
    source = _read("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"
    started = time.perf_counter_ns()
    for _ in range(1000):
        time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    cost_ns = (time.perf_counter_ns() - started) / 1000
    message = f"{source}, {cost_ns:.0f} ns to read from Python"
    if source in ("hpet", "acpi_pm", "jiffies", "refined-jiffies"):
        hint = "the kernel does not trust the TSC (see `dmesg | grep -i tsc`); reading the time costs CPU"
        return Finding("clock", "warn", message, hint)
    return Finding("clock", "ok", message)


def check_io_uring() -> Finding:
    """Check io_uring, which loads on files and block devices use."""
    try:
        os.close(system_calls.io_uring_setup(1))
    except OSError as error:
        disabled = _read("/proc/sys/kernel/io_uring_disabled")
        cause = f" (kernel.io_uring_disabled is {disabled})" if disabled not in (None, "0") else ""
        hint = "allow io_uring, or accept that loads on files and devices use threads; iSCSI is not affected"
        return Finding("io_uring", "warn", f"forbidden: {error.strerror}{cause}", hint)
    return Finding("io_uring", "ok", "allowed")


def check_stops() -> Finding:
    """Check whether trials of packets can find stops of processors, which needs real-time threads.
    Stops are those of a hypervisor, so a machine without one needs none.
    """
    with ThreadPoolExecutor(1) as thread:
        is_permitted = thread.submit(_has_real_time).result()
    if is_permitted:
        return Finding("processor stops", "ok", "found, with real-time threads")
    if "hypervisor" not in _processor_flags():
        message = "not found, because real-time threads are not permitted; no hypervisor stops this machine"
        return Finding("processor stops", "ok", message)
    message = "not found, because real-time threads are not permitted; frames lost then count as lost by the device"
    hint = "run trials of packets as root, or set the limit `rtprio` to 2 in /etc/security/limits.conf"
    return Finding("processor stops", "warn", message, hint)


def check_crc32c() -> Finding:
    """Check for CRC32C in hardware, which digests use."""
    if _processor_flags() & {"sse4_2", "crc32"}:
        return Finding("crc32c", "ok", "in hardware")
    return Finding("crc32c", "warn", "in software", "avoid header and data digests, which cost noticeable CPU")


def check_pdf() -> Finding:
    """Check for Pango, which WeasyPrint needs to lay out PDF reports."""
    if not is_installed("weasyprint"):
        return Finding("pdf", "warn", "no reports without the extra `report`", "see docs/guide/installation.md")
    try:
        import_weasyprint()
    except EnvironmentError_ as error:
        return Finding("pdf", "warn", error.message, error.hint)
    return Finding("pdf", "ok", "Pango is installed")


def check_locale() -> Finding:
    """Check for UTF-8, which units and Japanese text need."""
    encoding = locale.getencoding()
    if encoding.upper().replace("-", "") != "UTF8":
        return Finding("locale", "warn", f"the text encoding is {encoding}, not UTF-8", "`export LANG=C.UTF-8`")
    return Finding("locale", "ok", f"{os.environ.get('LC_ALL') or os.environ.get('LANG') or 'default'} ({encoding})")


_CHECKS: tuple[Callable[[], Finding], ...] = (
    check_sandbox,
    check_links,
    check_engine,
    check_fabric,
    check_netem,
    check_file_server,
    check_congestion_control,
    check_cores,
    check_memory,
    check_overcommit,
    check_disk,
    check_array_files,
    check_iscsi_port,
    check_files,
    check_clock,
    check_io_uring,
    check_stops,
    check_crc32c,
    check_pdf,
    check_locale,
)


def _has_real_time() -> bool:
    """Return whether the calling thread may have the priority of the engine's watch for stops. The
    thread keeps it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(_STOP_WATCH_PRIORITY))
    except PermissionError:
        return False
    return True


def _processor_flags() -> set[str]:
    """Return the features of the first processor."""
    lines = re.findall(r"^(?:flags|Features)\s*:\s*(.*)$", _read("/proc/cpuinfo") or "", re.M)
    return {word for line in lines[:1] for word in line.split()}


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _meminfo() -> dict[str, int]:
    """The values of /proc/meminfo, in bytes."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}
