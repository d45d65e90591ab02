"""Programs that a benchmark compares: hakaru's engines, tgt, iscsi-perf and the echo ceiling,
each on its own core.

All programs listen on loopback. This module starts them and ends each by its process id.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET_NAME = "iqn.2026-11.lab.hakaru:bench"
LU_BYTES = 1 << 30
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Portal:
    """A target to load: its address, LUN and the process to account."""

    address: str
    lun: int
    pid: int

    @property
    def url(self) -> str:
        """The LU's URL for libiscsi's programs."""
        return f"iscsi://{self.address}/{TARGET_NAME}/{self.lun}"


@dataclass(frozen=True)
class Memory:
    """Resident memory of a process, in bytes."""

    resident: int
    """All resident pages, including those of the program's file that the kernel has mapped."""
    anonymous: int
    """Pages that the process itself allocated."""


@dataclass(frozen=True)
class Load:
    """The figures of one run of a load."""

    iops: float
    target_cpu_s_per_100k: float
    client_cpu_s_per_100k: float
    errors: int = 0
    latency_us_mean: float = 0.0
    client_memory: Memory = Memory(0, 0)


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of a process, all threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def memory_of(pid: int) -> Memory:
    """Return the resident memory of a process. Blocks of an LU that were only read share the
    kernel's zero page and take no memory.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    resident = {name: int(kib) * 1024 for name, kib in re.findall(r"^(VmRSS|RssAnon):\s+(\d+) kB", status, re.M)}
    return Memory(resident["VmRSS"], resident["RssAnon"])


def drop_from_page_cache(file: Path) -> None:
    """Have the kernel read a file again. Resident memory of a program counts its file in the pieces
    in which the page cache holds it, and their size depends on how the file was read or written.
    """
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def pinned(cpu: int) -> list[str]:
    """Return the prefix that pins a command to one core."""
    return ["taskset", "-c", str(cpu % (os.cpu_count() or 1))]


class Engine:
    """A process of `hakaru-engine`, driven by the contract's JSON lines."""

    def __init__(self, binary: Path, cpu: int) -> None:
        self.process = subprocess.Popen(
            [*pinned(cpu), str(binary), "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.contract: int = self.wait_for("hello")["contract"]

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def wait_for(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["type"] == "error" and event["fatal"]:
                raise RuntimeError(f"engine: {event['message']}; {event['hint']}")
            if event["type"] == kind:
                return event
        raise RuntimeError(f"the engine ended before it sent `{kind}`")

    def configure(self, config: dict[str, Any]) -> dict[str, Any]:
        self.send({"type": "configure", "contract": self.contract, "config": config})
        ready: dict[str, Any] = self.wait_for("ready")["found"]
        return ready

    def kill(self) -> None:
        """Kill the process, as in a crash."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def end(self) -> None:
        """Stop the process cleanly; kill it after 10 s."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


MEMORY: dict[str, Any] = {"size_bytes": LU_BYTES, "store": {"kind": "memory"}}


def begin_array(engine: Engine, lu: dict[str, Any] = MEMORY, **more: Any) -> Portal:
    """Configure an engine as an array with one LU and model `none`; `lu` and `more` as in the
    contract.
    """
    ready = engine.configure(
        {
            "engine": "array",
            "target_name": TARGET_NAME,
            "portals": ["127.0.0.1:0"],
            "lus": [{"lun": 1, **lu}],
            "model": {"kind": "none"},
            "sample_interval_ms": 60000,
            **more,
        }
    )
    engine.send({"type": "start", "at_ns": 0})
    # Nothing reads the samples: the pipe holds one per minute.
    return Portal(ready["portals"][0], 1, engine.process.pid)


@contextmanager
def hakaru_array(binary: Path, cpu: int, lu: dict[str, Any] = MEMORY, **more: Any) -> Iterator[Portal]:
    """Run hakaru's array while the block lasts. The LU is in memory by default."""
    engine = Engine(binary, cpu)
    try:
        yield begin_array(engine, lu, **more)
    finally:
        engine.end()


@contextmanager
def tgt(cpu: int) -> Iterator[Portal]:
    """Run tgt with a file on tmpfs and a control port of its own."""
    # The number of tgtd's control socket is machine-wide, so it is derived from the process id.
    port, control = free_port(), str(os.getpid() % 32768)
    process = subprocess.Popen(
        [*pinned(cpu), "tgtd", "-f", "-C", control, "--iscsi", f"portal=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    folder = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hakaru-bench-")
    backing = Path(folder.name, "lu")
    with backing.open("wb") as file:
        file.truncate(LU_BYTES)

    def admin(*words: str) -> None:
        subprocess.run(["tgtadm", "-C", control, "--lld", "iscsi", *words], check=True, capture_output=True)

    try:
        wait_until(
            lambda: (
                subprocess.run(
                    ["tgtadm", "-C", control, "--lld", "iscsi", "--mode", "system", "--op", "show"], capture_output=True
                ).returncode
                == 0
            )
        )
        admin("--mode", "target", "--op", "new", "--tid", "1", "-T", TARGET_NAME)
        admin("--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "-b", str(backing))
        admin("--mode", "target", "--op", "bind", "--tid", "1", "-I", "ALL")
        yield Portal(f"127.0.0.1:{port}", 1, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        folder.cleanup()


def free_port() -> int:
    """Return a free TCP port of the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(ready: Any, seconds: float = 10.0) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError("a peer did not become ready")
        time.sleep(0.05)


def fill(portal: Portal) -> None:
    """Write the whole LU once, so that both targets read memory that exists."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hakaru-fill-") as folder:
        image = Path(folder, "image")
        block = os.urandom(1 << 20)
        with image.open("wb") as file:
            for _ in range(LU_BYTES >> 20):
                file.write(block)
        subprocess.run(
            ["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", str(image), portal.url],
            check=True,
            capture_output=True,
        )


def iscsi_perf(portal: Portal, size: int, depth: int, seconds: int, cpu: int) -> Load:
    """Run libiscsi's load program: random reads over one session."""
    (
        cpu_before,
        usage_before,
    ) = cpu_seconds(portal.pid), resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(
        [*pinned(cpu), "iscsi-perf", "-r", "-m", str(depth), "-b", str(size // 512), "-t", str(seconds), portal.url],
        capture_output=True,
        text=True,
        check=True,
    )
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    averages = re.findall(r"iops average (\d+) ", (out.stdout + out.stderr).replace("\r", "\n"))
    if not averages:
        raise RuntimeError(f"iscsi-perf reported no IOPS: {out.stderr[-300:]}")
    iops = float(averages[-1])
    per = 1e5 / (iops * seconds)
    client = usage.ru_utime + usage.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    return Load(iops, (cpu_seconds(portal.pid) - cpu_before) * per, client * per, latency_us_mean=depth * 1e6 / iops)


@dataclass(frozen=True)
class Pattern:
    """The requests of hakaru's initiator; by default random reads over a whole LU."""

    size_bytes: int
    depth: int
    read_percent: int = 100
    random_percent: int = 100
    lu_bytes: int = LU_BYTES
    digests: bool = False


def hakaru_initiator(
    binary: Path,
    portal: Portal,
    pattern: Pattern,
    seconds: float,
    cpu: int,
    sessions: int = 1,
    coalesce: tuple[int, float] = (64, 10.0),
    warmup_s: float = 0.5,
) -> Load:
    """Run hakaru's initiator: `sessions` VMs, each with a session and a share of the LU.

    `coalesce`: `coalesce_us` and `coalesce_percent`, as in the contract.
    """
    size, depth = pattern.size_bytes, pattern.depth
    mix = {"read_percent": pattern.read_percent, "random_percent": pattern.random_percent}
    share = pattern.lu_bytes // sessions // size * size
    engine = Engine(binary, cpu)
    try:
        engine.configure(
            {
                "engine": "initiator",
                "warmup_s": warmup_s,
                "measure_s": seconds,
                "sample_interval_ms": 60000,
                "allow_writes": pattern.read_percent < 100,
                "login": {"header_digest": pattern.digests, "data_digest": pattern.digests},
                "coalesce_us": coalesce[0],
                "coalesce_percent": coalesce[1],
                "vms": [
                    {
                        "name": f"vm{i}",
                        "destination": {
                            "kind": "iscsi",
                            "portal": portal.address,
                            "target_name": TARGET_NAME,
                            "lun": portal.lun,
                            "initiator_name": f"iqn.2026-11.lab.hakaru:vm{i}",
                        },
                        "region": {"offset_bytes": i * share, "length_bytes": share},
                        "pattern": {"sizes": [{"bytes": size}], **mix},
                        "load": {"kind": "closed", "queue_depth": depth},
                        "seed": i,
                    }
                    for i in range(sessions)
                ],
            }
        )
        engine.send({"type": "start", "at_ns": 0})
        engine.wait_for("phase")  # warm-up
        engine.wait_for("phase")  # measure
        # The engine exits after its result, and an exited process has no memory to read.
        memory = memory_of(engine.process.pid)
        target, client = cpu_seconds(portal.pid), cpu_seconds(engine.process.pid)
        engine.wait_for("phase")  # drain
        target, client = cpu_seconds(portal.pid) - target, cpu_seconds(engine.process.pid) - client
        values = engine.wait_for("result")["values"]
        done = values["reads"] + values["writes"]
        latency_ns = values["read_latency_ns_sum"] + values["write_latency_ns_sum"]
        per = 1e5 / done
        return Load(
            done / (values["measured_ns"] / 1e9),
            target * per,
            client * per,
            int(values["errors"]),
            latency_ns / done / 1e3,
            memory,
        )
    finally:
        engine.end()


def build_echo(folder: Path) -> Path:
    """Compile the echo ceiling."""
    program = folder / "tcp_echo"
    source = Path(__file__).with_name("tcp_echo.c")
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


def echo(program: Path, depth: int, payload: int, seconds: float, cpus: tuple[int, int], memory_bytes: int = 0) -> Load:
    """Run the ceiling on the server's and the client's core: a request has 48 bytes, an answer 48
    bytes and the payload.

    `memory_bytes`: payloads come from random places in this much memory, like the blocks of an LU;
    0: payloads come from the cache.
    """
    words = [str(program), str(depth), str(payload), str(seconds), *map(str, cpus)]
    if memory_bytes:
        words.append(str(memory_bytes >> 20))
    values = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    rate = values["messages_per_s"]
    return Load(
        rate, values["server_cpu_s_per_100k"], values["client_cpu_s_per_100k"], latency_us_mean=depth * 1e6 / rate
    )


def missing_programs() -> list[str]:
    """Return the peer programs that are not installed."""
    wanted = (
        "tgtd",
        "tgtadm",
        "iscsi-perf",
        "qemu-img",
        "qemu-io",
        "cc",
        "taskset",
        "iperf3",
        "ethtool",
        "ip",
        "unshare",
    )
    return [p for p in wanted if shutil.which(p) is None]
