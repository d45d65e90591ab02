"""Sends frames through a real `fabric` engine. Runs in its own user and network namespace and
prints one JSON object.

python -m tests.engine.fabric_scenario ENGINE
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any

from pyroute2 import IPRoute

ETH_P_ALL = 3
# Constants that Python lacks (linux/if_packet.h).
SOL_PACKET, PACKET_AUXDATA = 263, 8
DELAY_US = 20_000
FRAMES = 200
# Fits into the sockets' memory on any machine, and is more than one call writes.
AT_ONCE = 150
SOURCE, DESTINATION = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
LOCAL_EXPERIMENTAL = b"\x88\xb5"


def make_wires() -> None:
    """Create two veth pairs: `a0`-`pa` and `b0`-`pb`; the engine joins `pa` and `pb`."""
    with IPRoute() as kernel:
        for near, far in (("a0", "pa"), ("b0", "pb")):
            kernel.link("add", ifname=near, kind="veth", peer={"ifname": far})
            for name in (near, far):
                (index,) = kernel.link_lookup(ifname=name)
                kernel.link("set", index=index, state="up", mtu=9000)


def open_wire(name: str) -> socket.socket:
    """Return a raw socket on an interface."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.bind((name, 0))
    wire.settimeout(10)
    return wire


def receive_numbered(wire: socket.socket, filled: bool = False) -> int:
    """Return the number of the next test frame; frames that the kernel itself sends are skipped.
    `filled`: check that the frame is filled with its number.
    """
    while True:
        frame = wire.recv(4000)
        if frame[12:14] == LOCAL_EXPERIMENTAL and frame[:6] == DESTINATION:
            number = int.from_bytes(frame[14:18])
            length = 60 if number % 10 else 3000
            if filled and frame[18:] != number.to_bytes(1) * length:
                raise AssertionError(f"frame {number} arrived as {frame[:40]!r}, {len(frame)} bytes")
            return number


def send_tagged(a: socket.socket, b: socket.socket) -> dict[str, Any]:
    """Send a frame of VLAN 5 with priority 3; return the tag that the receiver's kernel reports."""
    b.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    tag = b"\x81\x00" + (3 << 13 | 5).to_bytes(2)
    a.send(DESTINATION + SOURCE + tag + LOCAL_EXPERIMENTAL + b"hakaru" + bytes(60))
    while True:
        frame, control, _, _ = b.recvmsg(2000, 200)
        if frame[14:20] == b"hakaru":
            break
    ((_, _, auxdata),) = [c for c in control if c[:2] == (SOL_PACKET, PACKET_AUXDATA)]
    (tci,) = struct.unpack_from("H", auxdata, 16)
    return {"vlan": tci & 0xFFF, "priority": tci >> 13, "payload": frame[14:20].decode()}


def send_burst(engine: subprocess.Popen[str], a: socket.socket, b: socket.socket) -> list[int]:
    """Send numbered frames to the stopped engine, so that all are due when it continues. Returns
    the order in which they arrive.
    """
    engine.send_signal(signal.SIGSTOP)
    for number in range(AT_ONCE):
        # Every tenth is longer than a slot of the engine's receive ring.
        length = 60 if number % 10 else 3000
        a.send(DESTINATION + SOURCE + LOCAL_EXPERIMENTAL + number.to_bytes(4) + number.to_bytes(1) * length)
    due = time.monotonic() + 2 * DELAY_US / 1e6
    while (left := due - time.monotonic()) > 0:
        time.sleep(left)
    engine.send_signal(signal.SIGCONT)
    return [receive_numbered(b, filled=True) for _ in range(AT_ONCE)]


def main() -> None:
    """Send numbered frames from `a0` and receive them at `b0`."""
    make_wires()
    direction = {"rate_bits_per_s": 100_000_000, "delay_us": DELAY_US}
    ends = [{"kind": "interface", "name": name} for name in ("pa", "pb")]
    link = {"name": "wire", "a": ends[0], "b": ends[1], "mtu_bytes": 9000, "a_to_b": direction, "b_to_a": direction}
    # A port in the memory of a guest that never connects.
    guest = {"kind": "vhost_user", "name": "vm", "socket": "@vm"}
    unused = {"name": "unused", "a": guest, "b": {"kind": "switch", "name": "s"}}
    with subprocess.Popen([sys.argv[1], "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdin is not None and engine.stdout is not None

        def send(**command: Any) -> None:
            print(json.dumps(command), file=engine.stdin, flush=True)

        def wait_for(kind: str) -> dict[str, Any]:
            for line in engine.stdout or ():
                event: dict[str, Any] = json.loads(line)
                if event["type"] == kind:
                    return event
            raise AssertionError(f"no {kind}")

        send(
            type="configure",
            contract=1,
            config={"engine": "fabric", "fabric": {"switches": [{"name": "s"}], "links": [link, unused]}},
        )
        ready = wait_for("ready")["found"]
        a, b = open_wire("a0"), open_wire("b0")
        took_ms, order = [], []
        for number in range(FRAMES):
            sent = time.monotonic()
            a.send(DESTINATION + SOURCE + LOCAL_EXPERIMENTAL + number.to_bytes(4) + bytes(1496))
            order.append(receive_numbered(b))
            took_ms.append(1e3 * (time.monotonic() - sent))
        burst = send_burst(engine, a, b)
        tagged = send_tagged(a, b)
        send(type="stop")
        counters = wait_for("sample")["counters"]
        histograms = wait_for("result")["histograms"]
    result = {
        "histograms": histograms,
        "tagged": tagged,
        "found": ready,
        "took_ms": took_ms,
        "order": order,
        "burst": burst,
        "counters": counters,
        "code": engine.returncode,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
