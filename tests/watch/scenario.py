"""Watch TCP over a wire that loses frames, inside a new network namespace, and print a JSON object.

python -m tests.watch.scenario ENGINE SERIES timeout|loss on|auto
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from tests.watch.wire import ADDRESS, Host, Wire, tcp_payload

PORT = 3260
DELAY_S = 0.01
# One of 400 segments is lost, about 15 in this time with a window of 24 segments. A busy machine
# sends longer, until these numbers of segments and of outputs of `ss` are reached.
SECONDS, SECONDS_MAX = 5.0, 90.0
SEGMENTS_MIN, OUTPUTS_MIN = 4800, 40
# The kernel's own minimum is 200 ms. A busy machine may delay an answer for longer, which would be
# another timeout than the planted one.
RTO_MIN_MS = 1000


class Watch:
    """The watch engine on a host."""

    def __init__(self, binary: str, host: Host, series: str, trace: str) -> None:
        words = [binary, "run", "--netns", str(host.namespace)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        tcp = {"interval_us": 1000, "ports": [PORT], "file": series, "trace": trace}
        self._send(type="configure", contract=1, config={"engine": "watch", "tcp": tcp})
        self.found = self._wait_for("ready")["found"]["tcp"]

    def start(self) -> None:
        """Start watching and wait for the first sample."""
        self._send(type="start", at_ns=0)
        self._wait_for("sample")

    def stop(self) -> dict[str, Any]:
        """Stop watching and return the values of the result."""
        self._send(type="stop")
        values: dict[str, Any] = self._wait_for("result")["values"]
        self._process.wait(10)
        return values

    def _send(self, **command: Any) -> None:
        assert self._process.stdin is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)

    def _wait_for(self, kind: str) -> dict[str, Any]:
        for line in self._process.stdout or ():
            event: dict[str, Any] = json.loads(line)
            if event["type"] == kind:
                return event
            assert event["type"] != "error", event
        raise AssertionError(f"the engine ended before it sent `{kind}`")


@contextlib.contextmanager
def no_idle_cpu() -> Iterator[None]:
    """Run a process of the lowest priority on every CPU.

    Some kernels do not deliver trace events of an idle CPU. The watch engine counts such CPUs, and
    this test is about the events of the others.
    """
    words = ["chrt", "--idle", "0", "sh", "-c", "echo; while :; do :; done"]
    spinning = [
        subprocess.Popen(["taskset", "--cpu-list", str(cpu), *words], stdout=subprocess.PIPE)
        for cpu in os.sched_getaffinity(0)
    ]
    try:
        for process in spinning:
            assert process.stdout is not None
            assert process.stdout.readline(), "the process runs"
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def connect(a: Host, b: Host) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection from `a` to `b`."""
    with b.socket() as listener:
        listener.bind((ADDRESS["b"], PORT))
        listener.listen()
        client = a.socket()
        client.connect((ADDRESS["b"], PORT))
        server, _ = listener.accept()
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server.settimeout(20)
    return client, server


def exchange(client: socket.socket, server: socket.socket, times: int) -> None:
    """Exchange this many questions of 100 bytes and answers, one after the other."""
    for _ in range(times):
        client.sendall(bytes(100))
        assert len(server.recv(100, socket.MSG_WAITALL)) == 100
        server.sendall(b".")
        assert client.recv(1) == b"."


def plant_timeout(client: socket.socket, server: socket.socket, lose: list[int]) -> dict[str, Any]:
    """Lose one segment while no other is in flight that could reveal the loss."""
    exchange(client, server, 20)
    lose[0] = 1
    began = time.monotonic_ns()
    exchange(client, server, 1)
    ended = time.monotonic_ns()
    exchange(client, server, 20)
    return {"began_ns": began, "ended_ns": ended, "left_to_lose": lose[0]}


def send_all_along(a: Host, client: socket.socket, server: socket.socket, segments: list[int]) -> dict[str, Any]:
    """Send as fast as the wire permits, and record the output of `ss` meanwhile. `segments`: their
    number so far.
    """
    ended = threading.Event()

    def drain() -> None:
        while server.recv(1 << 16):
            pass

    def send() -> None:
        while not ended.is_set():
            client.sendall(bytes(1 << 14))
        client.shutdown(socket.SHUT_WR)

    threads = [threading.Thread(target=work) for work in (drain, send)]
    for thread in threads:
        thread.start()
    windows, began = [], time.monotonic()

    def is_enough() -> bool:
        return segments[0] >= SEGMENTS_MIN and len(windows) >= OUTPUTS_MIN

    while (seconds := time.monotonic() - began) < SECONDS or (not is_enough() and seconds < SECONDS_MAX):
        before = time.monotonic_ns()
        words = a.inside("ss", "-tinH", "dport", "=", f":{PORT}")
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        window = re.search(r"\bcwnd:(\d+)", text)
        if window:
            windows.append([before, time.monotonic_ns(), int(window.group(1))])
    ended.set()
    for thread in threads:
        thread.join()
    return {"ss": windows}


def main() -> None:
    """Run the scenario of the command line."""
    binary, series, scenario, trace = sys.argv[1:]
    with contextlib.ExitStack() as hosts:
        a, b = (hosts.enter_context(Host(name)) for name in "ab")
        _run(binary, series, scenario, trace, a, b)


def _run(binary: str, series: str, scenario: str, trace: str, a: Host, b: Host) -> None:
    # A segment that nothing follows must be recovered by the timeout only.
    a.set("tcp_early_retrans", "0")
    a.set("tcp_congestion_control", "reno")
    # Otherwise a thread that waits too long would lower the congestion window without any loss.
    a.set("tcp_slow_start_after_idle", "0")
    if scenario == "timeout":
        a.set_rto_min(RTO_MIN_MS)
    lose, segments = [0], [0]

    def loses(frame: bytes) -> bool:
        if tcp_payload(frame) <= 0:
            return False
        segments[0] += 1
        if lose[0] > 0 or (scenario == "loss" and segments[0] % 400 == 0):
            lose[0] -= 1
            return True
        return False

    wire = Wire(DELAY_S, loses)
    try:
        client, server = connect(a, b)
        watch = Watch(binary, a, series, trace)
        with no_idle_cpu() if watch.found["trace"] else contextlib.nullcontext():
            watch.start()
            if scenario == "timeout":
                report = plant_timeout(client, server, lose)
            else:
                report = send_all_along(a, client, server, segments)
        local = "{}:{}".format(*client.getsockname())
        client.close()
        server.close()
        print(json.dumps({**report, "found": watch.found, "values": watch.stop(), "local": local}))
    finally:
        wire.end()


if __name__ == "__main__":
    main()
