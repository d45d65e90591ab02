"""Runs the `packets` engine in its own user and network namespace, without root, and prints one
JSON object. Two paths: a bare cable (`a0`-`b0`), and a `fabric` engine that loses, duplicates,
reorders and damages frames (`c0` to `d0`).

python -m tests.engine.packets_scenario ENGINE
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from typing import Any, Self

from pyroute2 import IPRoute

CABLES = (("a0", "b0"), ("c0", "pc"), ("d0", "pd"))
SOURCE, DESTINATION = "198.18.0.2", "198.19.0.2"
MS = 1_000_000
# A test machine may stall for longer than the defaults.
LATE_LIMIT_NS, SETTLE_NS = 1000 * MS, 300 * MS
IMIX = [{"bytes": 64, "weight": 7}, {"bytes": 594, "weight": 4}, {"bytes": 1518, "weight": 1}]


class Engine:
    """An engine of this namespace."""

    def __init__(self, kind: str, config: dict[str, Any], through: tuple[str, ...] = ()) -> None:
        """`through`: a command whose arguments are the engine's command line."""
        command = [*through, sys.argv[1], "run"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.events: list[dict[str, Any]] = []
        self.send(type="configure", contract=1, config={"engine": kind, **config})
        event = self.wait_for("ready", "error")
        self.found: dict[str, Any] = event.get("found", {})
        self.error = event if event["type"] == "error" else None

    def send(self, **command: Any) -> None:
        assert self.process.stdin is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)

    def wait_for(self, *kinds: str) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            self.events.append(event)
            if event["type"] in kinds:
                return event
        raise AssertionError(f"the engine ended without {kinds}")

    def trial(self, duration_ms: int, *rates: float | None, **more: Any) -> dict[str, Any]:
        """Run a trial; return its outcome or the reply that refuses it."""
        order = {
            "duration_ns": duration_ms * MS,
            "rates": rates,
            "settle_ns": SETTLE_NS,
            "late_limit_ns": LATE_LIMIT_NS,
            **more,
        }
        self.send(type="trial", id=len(self.events), **order)
        return self.wait_for("trial", "reply")

    def stop(self) -> dict[str, Any]:
        self.send(type="stop")
        return self.wait_for("result")

    def __enter__(self) -> Self:
        self.send(type="start", at_ns=0)
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


def generator(near: str, far: str, **more: Any) -> Engine:
    """Start a generator with streams in both directions; `more` changes the first stream."""
    config = {key: more.pop(key) for key in ("transmit", "receive") if key in more}
    through = more.pop("through", ())
    stream = {"source_address": SOURCE, "destination_address": DESTINATION, "sizes": IMIX, "flows": 5}
    there = {"name": "there", "from": "near", "to": "far", **stream, **more}
    back = {"name": "back", "from": "far", "to": "near", **stream}
    ports = [{"name": "near", "interface": near}, {"name": "far", "interface": far}]
    config |= {"ports": ports, "streams": [there, back], "sample_interval_ms": 100}
    return Engine("packets", config, through)


def make_cables() -> None:
    """Create the veth pairs."""
    with IPRoute() as kernel:
        for near, far in CABLES:
            kernel.link("add", ifname=near, kind="veth", peer={"ifname": far})
            for name in (near, far):
                (index,) = kernel.link_lookup(ifname=name)
                kernel.link("set", index=index, state="up")


class Flood:
    """Sends foreign frames to the far end of a cable until the block ends: UDP frames without the
    tag, some of which end where the tag would begin.
    """

    def __init__(self, interface: str) -> None:
        self.wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.wire.bind((interface, 0))
        self.sent = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        header = bytes(12) + bytes.fromhex("0800 4500 002e 0000 4000 4011 0000 c6120002 c6130002 c000 0009 001a 0000")
        frames = (header + b"hk" + bytes(16), header, header + bytes(1000))
        while not self.ended.is_set():
            for frame in frames:
                self.wire.send(frame)
                self.sent += 1

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()
        self.wire.close()


def over_cable() -> dict[str, Any]:
    """Run trials over the bare cable."""
    report: dict[str, Any] = {}
    for method in ("auto", "sendmmsg"):
        with generator("a0", "b0", transmit=method) as tester:
            report[method] = {
                "found": tester.found,
                "both": tester.trial(200, 10_000, 3_333.333),
                "one": tester.trial(100, 1_000, 0),
                "fastest": tester.trial(100, None, 0),
            }
            if method == "auto":
                with Flood("a0") as flood:
                    report["flooded"] = tester.trial(200, 2_000, 0)
                report["foreign_sent"] = flood.sent
                report["refused"] = [tester.trial(100, 1_000), tester.trial(0, 1, 1), tester.trial(100, -1, 1)]
                # An impossible rate: the tester itself is the limit.
                report["too_fast"] = tester.trial(100, 900_000_000, 0, late_limit_ns=MS)
            report[method]["result"] = tester.stop()
            report[method]["sample"] = next(e for e in reversed(tester.events) if e["type"] == "sample")
        report[method]["code"] = tester.process.returncode
    return report


def over_fabric() -> dict[str, Any]:
    """Run a trial over a path that treats frames badly; return it and the path's own counts."""
    bad = {
        "loss": {"kind": "random", "percent": 5.0},
        "duplicate_percent": 3.0,
        "corrupt_percent": 2.0,
        "reorder_percent": 4.0,
        "reorder_us": 3000.0,
        "delay_us": 1000.0,
    }
    ends = [{"kind": "interface", "name": name} for name in ("pc", "pd")]
    link = {"name": "wire", "a": ends[0], "b": ends[1], "a_to_b": bad, "b_to_a": {"delay_us": 1000.0}}
    with Engine("fabric", {"fabric": {"links": [link], "seed": 7}}) as path, generator("c0", "d0") as tester:
        trial = tester.trial(1000, 5_000, 500)
        path.stop()
        sample = next(e for e in reversed(path.events) if e["type"] == "sample")
        return {"trial": trial, "path": sample["counters"]}


def errors() -> dict[str, Any]:
    """Return the errors of engines that cannot be configured."""
    cases: dict[str, dict[str, Any]] = {
        "interface": {"near": "no-such0", "far": "b0"},
        "mtu": {"near": "a0", "far": "b0", "sizes": [{"bytes": 9000}]},
        "af_xdp": {"near": "a0", "far": "b0", "transmit": "af_xdp", "sizes": [{"bytes": 5000}]},
        "program": {"near": "a0", "far": "b0", "receive": "af_xdp"},
        "down": {"near": "c0", "far": "d0"},
        "capability": {"near": "a0", "far": "b0", "through": ("setpriv", "--bounding-set", "-net_raw")},
    }
    with IPRoute() as kernel:
        for name, change in (("a0", {"mtu": 6000}), ("b0", {"mtu": 6000}), ("d0", {"state": "down"})):
            (index,) = kernel.link_lookup(ifname=name)
            kernel.link("set", index=index, **change)
    reports = {}
    for case, config in cases.items():
        tester = generator(config.pop("near"), config.pop("far"), **config)
        assert tester.process.stdin is not None
        tester.process.stdin.close()
        tester.process.wait(20)
        reports[case] = {"error": tester.error, "code": tester.process.returncode}
    return reports


def jumbo() -> dict[str, Any]:
    """Run a trial with frames of 9000 bytes, which no page holds; return it and the method used."""
    with IPRoute() as kernel:
        for name in ("a0", "b0"):
            (index,) = kernel.link_lookup(ifname=name)
            kernel.link("set", index=index, mtu=9000)
    with generator("a0", "b0", sizes=[{"bytes": 9000}]) as tester:
        return {"trial": tester.trial(200, 1_000, 1_000), "found": tester.found}


def main() -> None:
    """Run everything."""
    make_cables()
    print(json.dumps({**over_cable(), "fabric": over_fabric(), "errors": errors(), "jumbo": jumbo()}))


if __name__ == "__main__":
    main()
