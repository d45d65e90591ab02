"""Benchmark of the TCP watch: its cost to the watched connection, one bulk flow over loopback.

The two slices of a pair, with and without the watch, follow each other on the same connection, so
that other work on the machine affects both. The ratio of a round is the median over its pairs. One
flow is paced as on 10 GbE and leaves CPU time to others. The other uses all CPUs, so that the watch
and the tracepoints slow it down.
"""

from __future__ import annotations

import json
import socket
import statistics
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figure import Figure

PIECE_BYTES = 1 << 20
SLICE_S = 0.5
PAIRS_PER_SECOND = 1
GOAL = 0.99
SO_MAX_PACING_RATE = 47
PACED_BITS_PER_S = 10_000_000_000


class Flow:
    """One TCP connection over loopback, with a thread of this process at either end; counts the
    received bytes.
    """

    def __init__(self, bits_per_s: int | None = None) -> None:
        """Start a flow as fast as possible, or paced by TCP at `bits_per_s`."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        self._sender = socket.create_connection(("127.0.0.1", self.port))
        self._receiver, _ = listener.accept()
        listener.close()
        if bits_per_s is not None:
            self._sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("Q", bits_per_s // 8))
        self.bytes = 0
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        piece = bytes(PIECE_BYTES)
        try:
            while True:
                self._sender.sendall(piece)
        except OSError:
            return

    def _receive(self) -> None:
        piece = bytearray(PIECE_BYTES)
        while count := self._receiver.recv_into(piece):
            self.bytes += count

    def bits_per_s(self, seconds: float) -> float:
        """Return the rate over the next `seconds`."""
        began, before = time.monotonic(), self.bytes
        time.sleep(seconds)
        return 8 * (self.bytes - before) / (time.monotonic() - began)

    def end(self) -> None:
        """Close the connection."""
        self._sender.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._sender.close()
        self._receiver.close()


@contextmanager
def watch(binary: Path, **tcp: Any) -> Iterator[dict[str, float]]:
    """Run a watch engine. Yields a dictionary that receives the values of its result at the end."""
    process = subprocess.Popen([binary, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    values: dict[str, float] = {}

    def send(**command: Any) -> None:
        print(json.dumps(command), file=process.stdin, flush=True)

    def wait_for(kind: str) -> dict[str, Any]:
        for line in process.stdout or ():
            event: dict[str, Any] = json.loads(line)
            if event["type"] == kind:
                return event
            if event["type"] == "error":
                raise RuntimeError(event["message"])
        raise RuntimeError(f"the engine ended before it sent `{kind}`")

    try:
        send(type="configure", contract=wait_for("hello")["contract"], config={"engine": "watch", "tcp": tcp})
        wait_for("ready")
        send(type="start", at_ns=0)
        wait_for("sample")
        yield values
        send(type="stop")
        values |= wait_for("result")["values"]
    finally:
        process.stdin.close()
        process.wait(10)


@dataclass(frozen=True)
class WatchBench:
    """Benchmark of the TCP watch. `binary`: the engine. `folder`: for series."""

    binary: Path
    rounds: int
    seconds: int
    folder: Path

    def watch_tcp_overhead(self) -> list[Figure]:
        """Measure the rate of a flow with and without the watch engine."""
        settings = [
            ("10ms", {"interval_us": 10_000, "trace": "off"}),
            ("1ms", {"interval_us": 1000, "trace": "off"}),
            ("10ms_traced", {"interval_us": 10_000, "trace": "on"}),
        ]
        # A flow as on 10 GbE, and one that uses all CPU time, so that any work beside it slows it
        # down.
        flows = [("10g", PACED_BITS_PER_S), ("unbounded", None)]
        figures = []
        for name, tcp, bits_per_s in [(f"{n}_{f}", tcp, rate) for f, rate in flows for n, tcp in settings]:
            rate = Figure(f"watch_tcp_{name}_flow", "bit/s", goal={"unwatched": GOAL})
            records = Figure(f"watch_tcp_{name}_records", "1/s")
            cpu = Figure(f"watch_tcp_{name}_cpu", "%", lower_is_better=True)
            lost = Figure(f"watch_tcp_{name}_lost", "count", lower_is_better=True, limit=0)
            for _ in range(self.rounds):
                self._round(rate, records, cpu, lost, tcp, bits_per_s)
            figures += [rate, records, cpu, lost]
        return figures

    def _round(
        self, rate: Figure, records: Figure, cpu: Figure, lost: Figure, tcp: dict[str, Any], bits_per_s: int | None
    ) -> None:
        flow = Flow(bits_per_s)
        series = str(self.folder / "bench.series")
        watched, ratios, totals = [], [], {"records": 0.0, "cpu_ns": 0.0, "events_lost": 0.0}
        try:
            flow.bits_per_s(SLICE_S)
            pairs = max(3, self.seconds * PAIRS_PER_SECOND)
            for pair in range(pairs):
                # Each slice comes first in half of the pairs, so that drift favours neither.
                slices: dict[bool, float] = {}
                for is_watched in (pair % 2 == 0, pair % 2 != 0):
                    if is_watched:
                        with watch(self.binary, ports=[flow.port], file=series, **tcp) as values:
                            slices[True] = flow.bits_per_s(SLICE_S)
                        for key in totals:
                            totals[key] += values[f"tcp_{key}"]
                    else:
                        slices[False] = flow.bits_per_s(SLICE_S)
                watched.append(slices[True])
                ratios.append(slices[True] / slices[False])
        finally:
            flow.end()
        ours = statistics.median(watched)
        rate.add(ours, unwatched=ours / statistics.median(ratios))
        records.add(totals["records"] / (pairs * SLICE_S))
        cpu.add(100 * totals["cpu_ns"] / 1e9 / (pairs * SLICE_S))
        lost.add(totals["events_lost"])
