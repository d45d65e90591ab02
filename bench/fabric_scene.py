"""Runs one case of the fabric's benchmark in its own user and network namespace, without root.
Prints one JSON object.

Two hosts, `a` (10.7.0.1) and `b` (10.7.0.2), each in a namespace, joined by the case's medium:
    fabric     a switch and two links of the fabric engine; the delay is the first link's
    veth       a bare veth pair
    tun_delay  bench/tun_delay.c, after mahimahi's mm-delay, which Debian 12 does not package
    tbf        a veth pair with the kernel's token bucket at either end
The case is one JSON object on the command line. Its keys are described where they are used.

usage (mostly by bench/fabric.py): unshare --user --map-root-user --net bench/fabric_scene.py CASE
"""

from __future__ import annotations

import bisect
import json
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from engine_process import EngineProcess
from hdrh.histogram import HdrHistogram

ADDRESS = {"a": "10.7.0.1", "b": "10.7.0.2"}
# Constants that Python's socket module lacks (linux/net_tstamp.h, asm-generic/socket.h).
SO_TIMESTAMPING = 37
STAMP_SENT, STAMP_RECEIVED, STAMP_SOFTWARE, STAMP_ID, STAMP_ALONE = 1 << 1, 1 << 3, 1 << 4, 1 << 7, 1 << 11
MEMORY_BYTES = 64 << 20
PORT = 5202
SO_TIMESTAMPNS, ETH_P_ALL = 35, 3
ECHO_ID = 77


def run(*words: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Host:
    """A namespace with one interface, `eth0`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        own_namespace = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self.process.pid}/ns/net").readlink() == own_namespace:
            time.sleep(0.001)

    def inside(self, *words: str) -> list[str]:
        """Return the command that runs `words` in the namespace."""
        return ["nsenter", "--target", str(self.process.pid), "--net", *words]

    def set(self, name: str, value: str) -> None:
        """Set a sysctl of the namespace."""
        run(*self.inside("sh", "-c", f"echo '{value}' > /proc/sys/net/{name.replace('.', '/')}"))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Engine(EngineProcess):
    """The fabric engine of this namespace, started."""

    def __init__(self, binary: str, config: dict[str, Any]) -> None:
        super().__init__([binary], {"engine": "fabric", **config})
        self.start(time.monotonic_ns())

    def totals(self) -> dict[str, Any]:
        """Stop the engine; return its totals, including processor time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = os.sysconf("SC_CLK_TCK")
        cpu = {"cpu_user_s": int(fields[11]) / ticks, "cpu_system_s": int(fields[12]) / ticks}
        self.send(type="stop")
        result = self.wait_for("result")
        self.process.wait(10)
        lateness = next(h["hdr"] for h in result["histograms"] if h["name"] == "lateness_ns")
        late = HdrHistogram.decode(lateness)
        late_us = {f"late_us_p{share:g}": late.get_value_at_percentile(share) / 1e3 for share in (50, 99)}
        values: dict[str, Any] = {**result["values"], **cpu, **late_us}
        # Instant and busy time of the link towards `b` in every sample, both in seconds.
        busy = [(s["at_ns"] / 1e9, s["counters"]["link/b/b-a"]["busy_ns"] / 1e9) for s in self.samples]
        return {**values, "busy": busy}


def fabric_config(case: dict[str, Any]) -> dict[str, Any]:
    """Return the engine's configuration. `delay_us` applies to each direction of the first link,
    `rate_bits_per_s`, `loss_percent` and `queue_bytes` to the switch's port towards `b`.
    """
    delay = {"delay_us": case.get("delay_us", 0.0)}
    slow = {"queue": {"bytes": case.get("queue_bytes", 64 << 20)}}
    if rate := case.get("rate_bits_per_s"):
        slow["rate_bits_per_s"] = rate
    if loss := case.get("loss_percent"):
        slow["loss"] = {"kind": "random", "percent": loss}
    links = [
        {
            "name": name,
            "a": {"kind": "interface", "name": f"p{name}"},
            "b": {"kind": "switch", "name": "s"},
            **directions,
        }
        for name, directions in (("a", {"a_to_b": delay, "b_to_a": delay}), ("b", {"b_to_a": slow}))
    ]
    fabric = {"switches": [{"name": "s"}], "links": links, "seed": case.get("seed", 0)}
    # The interval of a lab, unless samples delimit the measurement.
    every_ms = 100 if case["measure"] == "rate" else 1000
    return {"fabric": fabric, "spin_us": case.get("spin_us", 0), "sample_interval_ms": every_ms}


@contextmanager
def joined(case: dict[str, Any], a: Host, b: Host) -> Iterator[dict[str, Any]]:
    """Join the hosts by the case's medium. Yields a dictionary that receives the medium's own
    totals when the block ends.
    """
    totals: dict[str, Any] = {}
    medium, engine = case["medium"], None
    with ExitStack() as stack:
        if medium in ("veth", "tbf"):
            peer = ["peer", "name", "eth0", "netns", str(b.process.pid)]
            run(*a.inside("ip", "link", "add", "eth0", "type", "veth", *peer))
        elif medium == "fabric":
            for host in (a, b):
                peer = ["peer", "name", "eth0", "netns", str(host.process.pid)]
                run("ip", "link", "add", f"p{host.name}", "type", "veth", *peer)
                run("ip", "link", "set", f"p{host.name}", "up")
        else:
            pids = [str(host.process.pid) for host in (a, b)]
            process = subprocess.Popen([case["tun_delay"], *pids, str(int(case["delay_us"]))], stdout=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        for host in (a, b):
            if not case.get("offloads", True) and medium != "tun_delay":
                off = ["tso", "off", "gso", "off", "gro", "off"]
                run(*host.inside("ethtool", "-K", "eth0", *off))
            run(*host.inside("ip", "address", "add", f"{ADDRESS[host.name]}/24", "dev", "eth0"))
            run(*host.inside("ip", "link", "set", "eth0", "up"))
            run(*host.inside("ip", "link", "set", "lo", "up"))
            for name in ("tcp_rmem", "tcp_wmem"):
                host.set(f"ipv4.{name}", f"4096 1048576 {MEMORY_BYTES}")
            host.set("ipv4.tcp_no_metrics_save", "1")
        if medium == "tbf":
            bucket = ["rate", f"{case['rate_bits_per_s']}bit", "burst", "64kb", "limit", str(16 << 20)]
            run(*a.inside("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *bucket))
        if medium == "fabric":
            engine = Engine(case["engine"], fabric_config(case))
        try:
            yield totals
        finally:
            if engine is not None:
                totals.update(engine.totals())


def tcp(case: dict[str, Any], a: Host, b: Host) -> dict[str, Any]:
    """Measure one flow from `a` to `b` for `seconds` after `omit` seconds of warm-up; `window`:
    socket buffers in bytes, at both ends.
    """
    server = subprocess.Popen(b.inside("iperf3", "-s", "-1", "-B", ADDRESS["b"]), stdout=subprocess.DEVNULL)
    words = ["-c", ADDRESS["b"], "-J", "-t", str(case["seconds"]), "-O", str(case.get("omit", 2))]
    words += ["-C", case.get("congestion_control", "cubic")]
    if window := case.get("window"):
        words += ["-w", str(window)]
    for _ in range(100):
        done = subprocess.run(a.inside("iperf3", *words), capture_output=True, text=True, check=False)
        if "unable to connect" not in done.stdout:
            break
        time.sleep(0.02)  # Until the server listens.
    server.wait(10)
    end = json.loads(done.stdout)["end"]
    if "sum_received" not in end:
        raise RuntimeError(done.stdout)
    stream = end["streams"][0]["sender"]
    return {
        "bits_per_s": end["sum_received"]["bits_per_second"],
        "retransmits": stream["retransmits"],
        "cpu_percent": end["cpu_utilization_percent"]["host_total"],
    }


def stamp_of(control: list[tuple[int, int, bytes]]) -> float | None:
    """Return the kernel's timestamp in seconds."""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING):
            seconds, nanoseconds = struct.unpack_from("qq", data)
            return seconds + nanoseconds / 1e9
    return None


def sum16(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo(count: int, every_s: float) -> list[float]:
    """Return the round trips of `count` ICMP echoes from this namespace, in µs.

    A round trip lasts from the kernel's timestamp when the driver sent the echo to the timestamp
    when the answer arrived, so it includes no process wake-up.
    """
    trips = []
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as wire:
        flags = STAMP_SENT | STAMP_RECEIVED | STAMP_SOFTWARE | STAMP_ID | STAMP_ALONE
        wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
        wire.settimeout(2)
        for number in range(count):
            body = struct.pack("!BBHHH", 8, 0, 0, ECHO_ID, number & 0xFFFF) + bytes(56)
            body = body[:2] + struct.pack("!H", sum16(body)) + body[4:]
            wire.sendto(body, (ADDRESS["b"], 0))
            while True:
                try:
                    data, control, _, _ = wire.recvmsg(2048, 512)
                except TimeoutError:
                    break
                if data[20] == 0 and struct.unpack_from("!HH", data, 24) == (ECHO_ID, number & 0xFFFF):
                    _, sent, _, _ = wire.recvmsg(2048, 512, socket.MSG_ERRQUEUE)
                    begin, end = stamp_of(sent), stamp_of(control)
                    if begin is not None and end is not None:
                        trips.append((end - begin) * 1e6)
                    break
            time.sleep(every_s)
    return trips


def record_frames() -> None:
    """Record, until stdin ends, when the kernel sent and received each frame of an echo at this
    host's `eth0`.

    The socket is polled at intervals, so that no passing frame wakes a process.
    """
    frames: list[tuple[bool, int, int, int]] = []
    # Cooked: without an Ethernet header, because a tun lacks one.
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as wire:
        wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        wire.bind(("eth0", ETH_P_ALL))
        wire.setblocking(False)
        print("ready", flush=True)
        ended = False
        while not ended:
            ended = bool(select.select([sys.stdin], [], [], 0.5)[0])
            while True:
                try:
                    data, control, _, address = wire.recvmsg(256, 256)
                except BlockingIOError:
                    break
                if len(data) >= 28 and data[0] == 0x45 and data[9] == socket.IPPROTO_ICMP:
                    kind, _, _, echo_id, number = struct.unpack_from("!BBHHH", data, 20)
                    if echo_id == ECHO_ID:
                        leaves = address[2] == socket.PACKET_OUTGOING
                        seconds, nanoseconds = struct.unpack_from("qq", control[0][2])
                        frames.append((leaves, kind, number, seconds * 10**9 + nanoseconds))
    print(json.dumps(frames))


@contextmanager
def recorded_frames(host: Host) -> Iterator[dict[tuple[bool, int, int], int]]:
    """Record the frames at a host with `record_frames`. The dictionary that it yields is complete
    when the block ends: (outgoing, ICMP type, number) -> ns.
    """
    frames: dict[tuple[bool, int, int], int] = {}
    words = host.inside(sys.executable, __file__, "--passing")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        try:
            yield frames
        finally:
            process.stdin.close()
            for leaves, kind, number, at in json.loads(process.stdout.readline()):
                frames[leaves, kind, number] = at


def rtt(case: dict[str, Any], a: Host, b: Host) -> dict[str, Any]:
    """Measure `count` echoes, one every `every_ms`.

    `beyond_…` and `error_…` describe round trips as host `a` sees them. `way_…` describes each
    frame in either direction, from leaving one host's interface to entering the other's: the other
    host's time to answer is excluded. A case passes the medians of a bare pair as `hosts_us` and
    `way_us`.
    """
    words = [sys.executable, __file__, "--echo", str(case["count"]), str(case["every_ms"])]
    with recorded_frames(a) as at_a, recorded_frames(b) as at_b:
        done = subprocess.run(a.inside(*words), capture_output=True, text=True, check=True)
    trips: list[float] = sorted(json.loads(done.stdout))
    wanted = 2 * case.get("delay_us", 0.0)
    delays = [
        (arrivals[False, kind, number] - at) / 1e3 - case.get("delay_us", 0.0)
        for departures, arrivals in ((at_a, at_b), (at_b, at_a))
        for (leaves, kind, number), at in departures.items()
        if leaves and (False, kind, number) in arrivals
    ]
    way_errors = sorted(abs(delay - case.get("way_us", 0.0)) for delay in delays)

    def percentile(values: list[float], share: float) -> float:
        return values[min(len(values) - 1, int(share * len(values)))]

    # Late and early count alike. `hosts_us` is the time that the hosts themselves take.
    errors = sorted(abs(trip - wanted - case.get("hosts_us", 0.0)) for trip in trips)
    return {
        "lost": case["count"] - len(trips),
        "beyond_us_min": trips[0] - wanted,
        "beyond_us_p50": statistics.median(trips) - wanted,
        "beyond_us_p99": percentile(trips, 0.99) - wanted,
        "way_us_p50": statistics.median(delays),
        "way_error_us_p50": percentile(way_errors, 0.50),
        "way_error_us_p99": percentile(way_errors, 0.99),
        "ways": len(delays),
        "error_us_p50": percentile(errors, 0.50),
        "error_us_p99": percentile(errors, 0.99),
        "error_us_p999": percentile(errors, 0.999),
    }


def rate(case: dict[str, Any], a: Host, b: Host) -> dict[str, Any]:
    """Return the bytes that a TCP receiver got, with their times, in `seconds` after one second of
    warm-up.
    """
    seconds = case["seconds"] + 1
    words = [sys.executable, __file__, "--take"]
    with subprocess.Popen(b.inside(*words), stdout=subprocess.PIPE, text=True) as taker:
        assert taker.stdout is not None
        taker.stdout.readline()
        run(*a.inside(sys.executable, __file__, "--give", str(seconds)))
        reads: list[tuple[float, int]] = json.loads(taker.stdout.readline())
    return {"seen": [(at, received) for at, received in reads if at >= reads[0][0] + 1]}


def wire_rate(reads: list[tuple[float, int]], busy: list[tuple[float, float]]) -> dict[str, float]:
    """Return the wire's rate in full frames: 1448 bytes of payload are 1538 on the wire, including
    preamble and gap.

    `wire_bits_per_s` is by the wall clock: a sender that leaves the link idle lowers it.
    `busy_bits_per_s` is the number of bits received, by the receiver's clock, over the time that
    the link was busy in the same window. The window begins and ends with a sample of the engine in
    `busy`; without samples the figure is left out.
    """
    (begin, before), (end, after) = reads[0], reads[-1]
    rates = {"wire_bits_per_s": (after - before) * 8 / (end - begin) * 1538 / 1448}
    window = [sample for sample in busy if begin <= sample[0] <= end]
    if window:
        (begin, busy_before), (end, busy_after) = window[0], window[-1]
        received = bytes_until(reads, end) - bytes_until(reads, begin)
        busy_s = busy_after - busy_before
        rates |= {"busy_bits_per_s": received * 8 / busy_s * 1538 / 1448, "busy_share": busy_s / (end - begin)}
    return rates


def bytes_until(reads: list[tuple[float, int]], at: float) -> float:
    """Return the bytes received by an instant, interpolated linearly between reads."""
    index = bisect.bisect_left(reads, at, key=lambda read: read[0])
    if index == 0:
        return reads[0][1]
    (t0, n0), (t1, n1) = reads[index - 1], reads[min(index, len(reads) - 1)]
    return n0 if t1 == t0 else n0 + (n1 - n0) * (at - t0) / (t1 - t0)


def give(seconds: float) -> None:
    """Send for `seconds`, then close at once and discard queued data."""
    with socket.create_connection((ADDRESS["b"], PORT)) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.settimeout(0.05)
        deadline = time.monotonic() + seconds
        data = bytes(256 << 10)
        while time.monotonic() < deadline:
            try:
                wire.send(data)
            except TimeoutError:
                continue


def take() -> None:
    """Receive from one connection; print the number of bytes received, with times."""
    reads, total = [], 0
    with socket.create_server((ADDRESS["b"], PORT)) as server:
        print("ready", flush=True)
        wire, _ = server.accept()
        buffer = bytearray(1 << 20)
        try:
            while received := wire.recv_into(buffer):
                total += received
                reads.append((time.monotonic(), total))
        except ConnectionResetError:
            pass
    print(json.dumps(reads))


def datagrams(case: dict[str, Any], a: Host, b: Host) -> dict[str, Any]:
    """Return how many of `count` datagrams arrive. Fails if the receiver's buffer overflows."""
    words = [sys.executable, __file__, "--take-datagrams"]
    with subprocess.Popen(b.inside(*words), stdout=subprocess.PIPE, text=True) as taker:
        assert taker.stdout is not None
        taker.stdout.readline()
        run(*a.inside(sys.executable, __file__, "--give-datagrams", str(case["count"])))
        result: dict[str, Any] = json.loads(taker.stdout.readline())
    return result


def give_datagrams(count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.connect((ADDRESS["b"], PORT))
        for number in range(count):
            wire.send(number.to_bytes(4) + bytes(96))
            if number % 100 == 99:
                time.sleep(0.002)  # Limits the pace to 50 000 a second.
        for _ in range(20):
            wire.send(b"end")


def take_datagrams() -> None:
    arrived = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        wire.bind((ADDRESS["b"], PORT))
        print("ready", flush=True)
        while (data := wire.recv(200)) != b"end":
            arrived.add(data[:4])
        text = Path("/proc/net/snmp").read_text()
    names, values = [line.split() for line in text.splitlines() if line.startswith("Udp:")]
    if int(values[names.index("RcvbufErrors")]) > 0:
        raise RuntimeError("the receiver's socket buffer overflowed")
    print(json.dumps({"arrived": len(arrived)}))


def main() -> None:
    """Run a case, or one part of a case in one of its namespaces."""
    parts = {
        "--echo": lambda: print(json.dumps(echo(int(sys.argv[2]), float(sys.argv[3]) / 1e3))),
        "--passing": record_frames,
        "--give": lambda: give(float(sys.argv[2])),
        "--take": take,
        "--give-datagrams": lambda: give_datagrams(int(sys.argv[2])),
        "--take-datagrams": take_datagrams,
    }
    if part := parts.get(sys.argv[1]):
        part()
        return
    case = json.loads(sys.argv[1])
    a, b = Host("a"), Host("b")
    try:
        with joined(case, a, b) as totals:
            measures = {"tcp": tcp, "rtt": rtt, "rate": rate, "datagrams": datagrams}
            measured = measures[case["measure"]](case, a, b)
        busy = totals.pop("busy", [])
        if reads := measured.pop("seen", None):
            measured |= wire_rate(reads, busy)
        print(json.dumps({**measured, "medium": totals}))
    finally:
        a.end()
        b.end()


if __name__ == "__main__":
    main()
