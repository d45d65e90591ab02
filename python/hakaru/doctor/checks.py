"""Checks of this machine: printed by `hakaru doctor`.

    diagnose() -> list[Finding]      every check, none of which changes anything; about a second

Each finding says what was found, and for anything but `ok` what to do. `fail`: a lab or an engine
cannot run here; `warn`: it can, with something missing or a number to doubt.
"""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hakaru import system_calls
from hakaru.engine.binary import find_engine
from hakaru.engine.contract import CONTRACT_VERSION, Hello, parse_event
from hakaru.errors import EnvironmentError_
from hakaru.lab import sandbox
from hakaru.lab.plan import kernel_finds_losses_by_rack_only
from hakaru.units import format_size

Status = Literal["ok", "warn", "fail"]

# 16 VMs of the published sweep, their LUs in sparse memory, and room for the report.
_MEMORY_MIN_BYTES = 2 * 1024**3
_DISK_MIN_BYTES = 1024**3
# 10 000 sessions in one process, and the rest.
_FILES_WANTED = 10_240
_HOLE_BYTES = 64 << 10
_ISCSI_PORT = 3260
# A node's bucket lets up to 2 MiB pass at once, and the kernel counts about twice a packet's bytes.
_SOCKET_WANTED_BYTES = 4 * 1024**2


@dataclass(frozen=True)
class Finding:
    """One check. `hint` is empty if `status` is `ok`."""

    name: str
    status: Status
    what: str
    hint: str = ""


def diagnose() -> list[Finding]:
    """Every check, in the order in which a user should care."""
    return [check() for check in _CHECKS]


def check_sandbox() -> Finding:
    """Namespaces that a lab lives in."""
    try:
        sandbox.check()
    except EnvironmentError_ as error:
        return Finding("namespaces", "fail", error.message, error.hint)
    if sandbox.kind_here() == "root":
        return Finding("namespaces", "ok", "started with privileges: labs need no user namespace")
    return Finding("namespaces", "ok", "user, mount, network and PID namespaces, without root")


def check_links() -> Finding:
    """veth, bridge and token bucket, by building a small lab and throwing it away."""
    hint = "the kernel needs veth, bridge and sch_tbf: `sudo modprobe -a veth bridge sch_tbf` loads them"
    return _try_lab("links", "kernel", hint)


def check_fabric() -> Finding:
    """Labs whose switches are hakaru's: an engine that opens interfaces, by letting one do so."""
    hint = "the kernel needs veth and packet sockets (CONFIG_PACKET); `backend: kernel` does without"
    trial = _try_lab("fabric", "fabric", hint)
    allowed = int(_read("/proc/sys/net/core/rmem_max") or 0)
    if trial.status == "ok" and sandbox.kind_here() == "user" and allowed < _SOCKET_WANTED_BYTES:
        # Only who is root outside too may ask for more.
        what = f"{trial.what}; its sockets hold {format_size(allowed)}: bursts of links beyond 1 Gbit/s may be lost"
        hint = f"`sudo sysctl net.core.rmem_max={_SOCKET_WANTED_BYTES}`; what is lost is counted, and spoils its point"
        return Finding("fabric", "warn", what, hint)
    return trial


def check_netem() -> Finding:
    """Delay and loss of the kernel backend; nothing else needs it."""
    return _try_lab(
        "netem", "netem", "", absent="not in this kernel: delay and loss need `backend: fabric`, the default"
    )


def _try_lab(name: str, backend: str, hint: str, *, absent: str | None = None) -> Finding:
    """Build a small lab in a process of its own. `absent`: what to say, as a fact, if it cannot
    be.
    """
    command = [sys.executable, "-m", "hakaru.doctor.trial", backend]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        built = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=False, env=environment, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return Finding(name, "fail", "a small lab was not built within 30 s", "look for hung tasks in `dmesg`")
    if built.returncode == 0:
        return Finding(name, "ok", built.stdout.strip())
    if absent is not None and name in built.stderr:
        return Finding(name, "ok", absent)
    message, *more = [*built.stderr.strip().splitlines(), "a small lab cannot be built"]
    own = [line.removeprefix("hint: ") for line in more if line.startswith("hint: ")]
    # The hint of a lab that cannot be built is to run the doctor.
    if "the lab cannot be built" in message or not own:
        own = [hint or "run `hakaru doctor` as root"]
    return Finding(name, "fail", message.removeprefix("error: "), own[0])


def check_congestion_control() -> Finding:
    """Names for `lab: tcp: congestion_control`, and whether TCP of 2009 can do without RACK
    here.
    """
    available = (_read("/proc/sys/net/ipv4/tcp_available_congestion_control") or "reno").split()
    what = ", ".join(sorted(available))
    if kernel_finds_losses_by_rack_only(platform.release()):
        what += f"; Linux {platform.release().split('-')[0]} finds losses by RACK alone where there is SACK"
    return Finding("tcp", "ok", what)


def check_engine() -> Finding:
    """The engine's program and its contract."""
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
        return Finding("engine", "fail", f"{program} is no working hakaru-engine", hint)
    if not isinstance(hello, Hello) or hello.contract != CONTRACT_VERSION:
        return Finding("engine", "fail", f"{program} speaks another contract than {CONTRACT_VERSION}", hint)
    if "debug" in program.parts:
        return Finding("engine", "warn", f"{program} is a debug build, several times slower", hint)
    return Finding("engine", "ok", f"{program}, version {hello.version}, contract {hello.contract}")


def check_cores() -> Finding:
    """Cores this process may use."""
    cores = len(os.sched_getaffinity(0))
    if cores < 2:
        return Finding("cores", "warn", "1 core: load and array share it", "points will be marked machine_saturated")
    return Finding("cores", "ok", f"{cores} cores")


def check_memory() -> Finding:
    """Memory that is available, and whether sparse LUs may be larger than it."""
    available = _meminfo()["MemAvailable"]
    if available < _MEMORY_MIN_BYTES:
        what = f"{format_size(available // 1024**2 * 1024**2)} available"
        return Finding("memory", "warn", what, "LUs in memory take what is written to them; free some, or use files")
    return Finding("memory", "ok", f"{available / 1024**3:.1f} GiB available")


def check_overcommit() -> Finding:
    """Sparse LUs are mapped whole and filled as they are written."""
    mode = _read("/proc/sys/vm/overcommit_memory")
    if mode == "2":
        hint = "`sudo sysctl vm.overcommit_memory=0`, or LUs in sparse files"
        return Finding("overcommit", "warn", "the kernel reserves memory in full (vm.overcommit_memory is 2)", hint)
    return Finding("overcommit", "ok", f"sparse memory (vm.overcommit_memory is {mode})")


def check_disk() -> Finding:
    """Room in the working directory, where runs are written."""
    free = shutil.disk_usage(".").free
    what = f"{free / 1024**3:.1f} GiB free in {Path.cwd()}"
    if not os.access(".", os.W_OK):
        return Finding(
            "disk", "warn", f"{Path.cwd()} cannot be written to", "run elsewhere, or name a directory for runs"
        )
    if free < _DISK_MIN_BYTES:
        return Finding("disk", "warn", what, "a long run takes some hundred MiB")
    return Finding("disk", "ok", what)


def check_array_files() -> Finding:
    """File system features that an array on its own can use here: holes, to give space back, and
    O_DIRECT.
    """
    name = "array files"
    if not os.access(".", os.W_OK):
        return Finding(name, "ok", f"{Path.cwd()} cannot be written to: not tried")
    lacks = []
    with tempfile.TemporaryFile(dir=".") as file:
        file.write(bytes(2 * _HOLE_BYTES))
        file.flush()
        try:
            system_calls.punch_hole(file.fileno(), 0, _HOLE_BYTES)
        except OSError:
            lacks.append("holes (UNMAP would give no space back)")
        try:
            os.close(os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDWR | os.O_DIRECT))
        except OSError:
            lacks.append("O_DIRECT (LUs with `direct: true` would not open)")
    if lacks:
        hint = "keep pools and LU files on ext4, xfs or btrfs"
        return Finding(name, "warn", f"the file system of {Path.cwd()} lacks {' and '.join(lacks)}", hint)
    return Finding(name, "ok", f"holes and O_DIRECT work in {Path.cwd()}")


def check_iscsi_port() -> Finding:
    """Port 3260 of the loopback, where `hakaru array serve` listens unless its file says
    otherwise.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", _ISCSI_PORT))
        except OSError as error:
            what = f"127.0.0.1:{_ISCSI_PORT} is not available: {error.strerror}"
            return Finding("iscsi port", "warn", what, "let `portals` of an array file name another port")
    return Finding("iscsi port", "ok", f"127.0.0.1:{_ISCSI_PORT} is free")


def check_files() -> Finding:
    """Open files: one per session on either side."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit != resource.RLIM_INFINITY and limit < _FILES_WANTED:
        hint = f"raise it for 10 000 sessions: `ulimit -Hn {_FILES_WANTED}` as root, or /etc/security/limits.conf"
        return Finding("open files", "warn", f"at most {limit}", hint)
    return Finding("open files", "ok", f"at most {'any number' if limit == resource.RLIM_INFINITY else limit}")


def check_clock() -> Finding:
    """The clock source: any but the processor's own makes reading the time slow."""
    source = _read("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"
    started = time.perf_counter_ns()
    for _ in range(1000):
        time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    cost_ns = (time.perf_counter_ns() - started) / 1000
    what = f"{source}, {cost_ns:.0f} ns to read from Python"
    if source in ("hpet", "acpi_pm", "jiffies", "refined-jiffies"):
        return Finding("clock", "warn", what, "the kernel distrusts the TSC (`dmesg | grep -i tsc`); timing costs CPU")
    return Finding("clock", "ok", what)


def check_io_uring() -> Finding:
    """io_uring, for loads on files and block devices."""
    try:
        os.close(system_calls.io_uring_setup(1))
    except OSError as error:
        disabled = _read("/proc/sys/kernel/io_uring_disabled")
        cause = f" (kernel.io_uring_disabled is {disabled})" if disabled not in (None, "0") else ""
        hint = "loads on files and devices fall back to threads; iSCSI is not affected"
        return Finding("io_uring", "warn", f"forbidden: {error.strerror}{cause}", hint)
    return Finding("io_uring", "ok", "allowed")


def check_kvm() -> Finding:
    """KVM is not used by studies of emulated VMs; that /dev/kvm exists does not prove that it
    works.
    """
    if not Path("/dev/kvm").exists():
        return Finding("kvm", "ok", "absent; no study here needs it")
    usable = os.access("/dev/kvm", os.R_OK | os.W_OK)
    return Finding("kvm", "ok", f"present{'' if usable else ', not for this user'}; no study here needs it")


def check_crc32c() -> Finding:
    """CRC32C in hardware, for digests."""
    flags = set(re.findall(r"^(?:flags|Features)\s*:\s*(.*)$", _read("/proc/cpuinfo") or "", re.M)[0:1])
    words = {word for line in flags for word in line.split()}
    if words & {"sse4_2", "crc32"}:
        return Finding("crc32c", "ok", "in hardware")
    return Finding("crc32c", "warn", "in software", "header and data digests will cost noticeable CPU")


def check_pdf() -> Finding:
    """Pango, which WeasyPrint needs to lay out the PDF."""
    try:
        import weasyprint  # noqa: F401
    except (ImportError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        return Finding(
            "pdf", "warn", f"no PDF reports: {reason}", "`sudo apt install libpango-1.0-0 libpangoft2-1.0-0`"
        )
    return Finding("pdf", "ok", "Pango is there")


def check_locale() -> Finding:
    """UTF-8, for units and Japanese."""
    encoding = locale.getencoding()
    if encoding.upper().replace("-", "") != "UTF8":
        return Finding("locale", "warn", f"text is {encoding} here", "`export LANG=C.UTF-8`")
    return Finding("locale", "ok", f"{os.environ.get('LC_ALL') or os.environ.get('LANG') or 'default'} ({encoding})")


_CHECKS: tuple[Callable[[], Finding], ...] = (
    check_sandbox,
    check_links,
    check_engine,
    check_fabric,
    check_netem,
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
    check_kvm,
    check_crc32c,
    check_pdf,
    check_locale,
)


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _meminfo() -> dict[str, int]:
    """/proc/meminfo in bytes."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3}
