"""One case of the fabric's benchmark, in a user and network namespace of its own: no root. Prints
one JSON object.

Two hosts, `a` (10.7.0.1) and `b` (10.7.0.2), each in a namespace, joined by the case's medium:
    fabric     a switch and two links of the fabric engine; the delay is the first link's
    veth       a bare veth pair
    tun_delay  bench/tun_delay.c, after mahimahi's mm-delay, which Debian 12 does not package
    tbf        a veth pair with the kernel's token bucket at either end
The case is one JSON object on the command line; what each key means is at its use.

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

from hdrh.histogram import HdrHistogram

ADDRESS = {"a": "10.7.0.1", "b": "10.7.0.2"}
# Python's socket module does not name them (linux/net_tstamp.h, asm-generic/socket.h).
SO_TIMESTAMPING = 37
STAMP_SENT, STAMP_RECEIVED, STAMP_SOFTWARE, STAMP_ID, STAMP_ALONE = 1 << 1, 1 << 3, 1 << 4, 1 << 7, 1 << 11
MEMORY_BYTES = 64 << 20
PORT = 5202
SO_TIMESTAMPNS, ETH_P_ALL = 35, 3
ECHO_ID = 77


def run(*words: str) -> None:
    """A command that must succeed."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Host:
    """A namespace with one interface, `eth0`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        here = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self.process.pid}/ns/net").readlink() == here:
            time.sleep(0.001)

    def inside(self, *words: str) -> list[str]:
        """The command that runs `words` there."""
        return ["nsenter", "--target", str(self.process.pid), "--net", *words]

    def set(self, name: str, value: str) -> None:
        """A sysctl of its namespace."""
        run(*self.inside("sh", "-c", f"echo '{value}' > /proc/sys/net/{name.replace('.', '/')}"))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Engine:
    """The fabric engine of this namespace."""

    def __init__(self, binary: str, config: dict[str, Any]) -> None:
        self.process = subprocess.Popen([binary, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        contract = self.hear("hello")["contract"]
        self.samples: list[dict[str, Any]] = []
        self.say(type="configure", contract=contract, config={"engine": "fabric", **config})
        self.hear("ready")
        self.say(type="start", at_ns=time.monotonic_ns())

    def say(self, **command: Any) -> None:
        assert self.process.stdin is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)

    def hear(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["type"] == kind:
                return event
            if event["type"] == "sample":
                self.samples.append(event)
            if event["type"] == "error" and event["fatal"]:
                raise RuntimeError(event["message"])
        raise RuntimeError(f"the engine ended before it said {kind}")

    def end(self) -> dict[str, Any]:
        """Stops the engine; its totals, processor time included."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = os.sysconf("SC_CLK_TCK")
        cpu = {"cpu_user_s": int(fields[11]) / ticks, "cpu_system_s": int(fields[12]) / ticks}
        self.say(type="stop")
        result = self.hear("result")
        self.process.wait(10)
        lateness = next(h["hdr"] for h in result["histograms"] if h["name"] == "lateness_ns")
        late = HdrHistogram.decode(lateness)
        late_us = {f"late_us_p{share:g}": late.get_value_at_percentile(share) / 1e3 for share in (50, 99)}
        values: dict[str, Any] = {**result["values"], **cpu, **late_us}
        # How long the link towards `b` had been busy, and when, both in seconds.
        busy = [(one["at_ns"] / 1e9, one["counters"]["link/b/b-a"]["busy_ns"] / 1e9) for one in self.samples]
        return {**values, "busy": busy}


def fabric_config(case: dict[str, Any]) -> dict[str, Any]:
    """`delay_us` each way on the first link; `rate_bits_per_s` out of the switch towards `b`;
    `loss_percent` there.
    """
    delay = {"delay_us": case.get("delay_us", 0.0)}
    slow = {"queue": {"bytes": case.get("queue_bytes", 64 << 20)}}
    if rate := case.get("rate_bits_per_s"):
        slow["rate_bits_per_s"] = rate
    if loss := case.get("loss_percent"):
        slow["loss"] = {"kind": "random", "percent": loss}
    links = [
        {"name": name, "a": {"kind": "interface", "name": f"p{name}"}, "b": {"kind": "switch", "name": "s"}, **ways}
        for name, ways in (("a", {"a_to_b": delay, "b_to_a": delay}), ("b", {"b_to_a": slow}))
    ]
    fabric = {"switches": [{"name": "s"}], "links": links, "seed": case.get("seed", 0)}
    # As in a lab, unless samples delimit the measurement.
    every_ms = 100 if case["measure"] == "rate" else 1000
    return {"fabric": fabric, "spin_us": case.get("spin_us", 0), "sample_interval_ms": every_ms}


@contextmanager
def joined(case: dict[str, Any], a: Host, b: Host) -> Iterator[dict[str, Any]]:
    """The hosts with the case's medium between them; yields a dictionary that holds the medium's
    own totals once it has ended.
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
                totals.update(engine.end())


def tcp(case: dict[str, Any], a: Host, b: Host) -> dict[str, Any]:
    """One flow from `a` to `b` for `seconds` after `omit` seconds of warm-up; `window`: socket
    buffers in bytes, at both ends.
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
    """The kernel's stamp, seconds."""
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING):
            seconds, nanoseconds = struct.unpack_from("qq", data)
            return seconds + nanoseconds / 1e9
    return None


def sum16(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def echo(count: int, every_s: float) -> list[float]:
    """Round trips of `count` ICMP echoes from this namespace, µs.

    From the kernel's timestamp when the driver sent the echo to that when the answer came, so no
    process wake-up is included.
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


def passing() -> None:
    """Records, until stdin ends, when the kernel sent and received each frame of an echo at this
    host's `eth0`.

    The socket is polled at intervals, so that no passing frame wakes a process.
    """
    seen: list[tuple[bool, int, int, int]] = []
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
                    kind, _, _, name, number = struct.unpack_from("!BBHHH", data, 20)
                    if name == ECHO_ID:
                        leaves = address[2] == socket.PACKET_OUTGOING
                        seconds, nanoseconds = struct.unpack_from("qq", control[0][2])
                        seen.append((leaves, kind, number, seconds * 10**9 + nanoseconds))
    print(json.dumps(seen))


@contextmanager
def seen_passing(host: Host) -> Iterator[dict[tuple[bool, int, int], int]]:
    """Frames that `passing` recorded at a host, complete when the block ends: (outgoing, ICMP type,
    number) -> ns.
    """
    found: dict[tuple[bool, int, int], int] = {}
    words = host.inside(sys.executable, __file__, "--passing")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        try:
            yield found
        finally:
            process.stdin.close()
            for leaves, kind, number, at in json.loads(process.stdout.readline()):
                found[leaves, kind, number] = at


def rtt(case: dict[str, Any], a: Host, b: Host) -> dict[str, Any]:
    """`count` echoes, one every `every_ms`.

    `beyond_…` and `error_…` describe round trips as host `a` sees them. `way_…` describes each
    frame in either direction, from leaving one host's interface to entering the other's: the other
    host's time to answer is excluded.
    """
    words = [sys.executable, __file__, "--echo", str(case["count"]), str(case["every_ms"])]
    with seen_passing(a) as at_a, seen_passing(b) as at_b:
        done = subprocess.run(a.inside(*words), capture_output=True, text=True, check=True)
    trips: list[float] = sorted(json.loads(done.stdout))
    wanted = 2 * case.get("delay_us", 0.0)
    ways = [
        (into[False, kind, number] - at) / 1e3 - case.get("delay_us", 0.0)
        for out, into in ((at_a, at_b), (at_b, at_a))
        for (leaves, kind, number), at in out.items()
        if leaves and (False, kind, number) in into
    ]
    way_errors = sorted(abs(way - case.get("way_us", 0.0)) for way in ways)

    def taken(of: list[float], share: float) -> float:
        return of[min(len(of) - 1, int(share * len(of)))]

    # Late or early; the caller knows the time that the hosts themselves take.
    errors = sorted(abs(trip - wanted - case.get("hosts_us", 0.0)) for trip in trips)
    return {
        "lost": case["count"] - len(trips),
        "beyond_us_min": trips[0] - wanted,
        "beyond_us_p50": statistics.median(trips) - wanted,
        "beyond_us_p99": taken(trips, 0.99) - wanted,
        "way_us_p50": statistics.median(ways),
        "way_error_us_p50": taken(way_errors, 0.50),
        "way_error_us_p99": taken(way_errors, 0.99),
        "ways": len(ways),
        "error_us_p50": taken(errors, 0.50),
        "error_us_p99": taken(errors, 0.99),
        "error_us_p999": taken(errors, 0.999),
    }


def rate(case: dict[str, Any], a: Host, b: Host) -> dict[str, Any]:
    """Bytes that a TCP receiver got, with their times, in `seconds` after one second of warm-up."""
    seconds = case["seconds"] + 1
    words = [sys.executable, __file__, "--take"]
    with subprocess.Popen(b.inside(*words), stdout=subprocess.PIPE, text=True) as taker:
        assert taker.stdout is not None
        taker.stdout.readline()
        run(*a.inside(sys.executable, __file__, "--give", str(seconds)))
        seen: list[tuple[float, int]] = json.loads(taker.stdout.readline())
    return {"seen": [(at, got) for at, got in seen if at >= seen[0][0] + 1]}


def wire_rate(seen: list[tuple[float, int]], busy: list[tuple[float, float]]) -> dict[str, float]:
    """The wire's rate in full frames: 1448 bytes of payload are 1538 on the wire, preamble and gap
    included.

    `wire_bits_per_s` is by the wall clock: a sender that leaves the link idle lowers it.
    `busy_bits_per_s` is the number of bits received, by the receiver's clock, over the time that
    the link was busy in the same window, which begins and ends with a sample of the engine. `busy`:
    those samples; without any, the figure is missing.
    """
    (begin, before), (end, after) = seen[0], seen[-1]
    found = {"wire_bits_per_s": (after - before) * 8 / (end - begin) * 1538 / 1448}
    window = [sample for sample in busy if begin <= sample[0] <= end]
    if window:
        (begin, idle_before), (end, idle_after) = window[0], window[-1]
        got = bytes_until(seen, end) - bytes_until(seen, begin)
        took = idle_after - idle_before
        found |= {"busy_bits_per_s": got * 8 / took * 1538 / 1448, "busy_share": took / (end - begin)}
    return found


def bytes_until(seen: list[tuple[float, int]], at: float) -> float:
    """Bytes received by an instant, interpolated linearly between reads."""
    place = bisect.bisect_left(seen, at, key=lambda one: one[0])
    if place == 0:
        return seen[0][1]
    (t0, n0), (t1, n1) = seen[place - 1], seen[min(place, len(seen) - 1)]
    return n0 if t1 == t0 else n0 + (n1 - n0) * (at - t0) / (t1 - t0)


def give(seconds: float) -> None:
    """Sends for so long, then closes at once: data still queued do not matter."""
    with socket.create_connection((ADDRESS["b"], PORT)) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.settimeout(0.05)
        until = time.monotonic() + seconds
        data = bytes(256 << 10)
        while time.monotonic() < until:
            try:
                wire.send(data)
            except TimeoutError:
                continue


def take() -> None:
    """Receives one connection; prints the number of bytes received, with times."""
    seen, total = [], 0
    with socket.create_server((ADDRESS["b"], PORT)) as server:
        print("ready", flush=True)
        wire, _ = server.accept()
        room = bytearray(1 << 20)
        try:
            while got := wire.recv_into(room):
                total += got
                seen.append((time.monotonic(), total))
        except ConnectionResetError:
            pass
    print(json.dumps(seen))


def datagrams(case: dict[str, Any], a: Host, b: Host) -> dict[str, Any]:
    """The number of `count` datagrams that arrive. Fails if one is lost for lack of buffer at the
    receiver.
    """
    words = [sys.executable, __file__, "--take-datagrams"]
    with subprocess.Popen(b.inside(*words), stdout=subprocess.PIPE, text=True) as taker:
        assert taker.stdout is not None
        taker.stdout.readline()
        run(*a.inside(sys.executable, __file__, "--give-datagrams", str(case["count"])))
        seen: dict[str, Any] = json.loads(taker.stdout.readline())
    return seen


def give_datagrams(count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.connect((ADDRESS["b"], PORT))
        for number in range(count):
            wire.send(number.to_bytes(4) + bytes(96))
            if number % 100 == 99:
                time.sleep(0.002)  # A pace of at most 50 000 a second, not a wait for a condition.
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
        raise RuntimeError("the receiver had no room for a datagram")
    print(json.dumps({"arrived": len(arrived)}))


def main() -> None:
    """A case, or a part of one in one of its namespaces."""
    parts = {
        "--echo": lambda: print(json.dumps(echo(int(sys.argv[2]), float(sys.argv[3]) / 1e3))),
        "--passing": passing,
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
            ways = {"tcp": tcp, "rtt": rtt, "rate": rate, "datagrams": datagrams}
            measured = ways[case["measure"]](case, a, b)
        busy = totals.pop("busy", [])
        if seen := measured.pop("seen", None):
            measured |= wire_rate(seen, busy)
        print(json.dumps({**measured, "medium": totals}))
    finally:
        a.end()
        b.end()


if __name__ == "__main__":
    main()
