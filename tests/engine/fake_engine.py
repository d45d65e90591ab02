"""A faulty engine for tests: `fake_engine.py run`. $FAKE_ENGINE selects the fault."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

MANNER = os.environ["FAKE_ENGINE"]


def send(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    return json.loads(line) if line else {"type": "stop"}


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def manage(order: dict[str, Any]) -> None:
    """Handle an action. A status is answered after the refusal of the next action; a withdrawal is
    never answered.
    """
    kind = order["action"]["kind"]
    if kind == "withdraw":
        sys.exit(0)
    if kind == "status":
        other = receive()
        refusal = {"class": "usage", "message": "there is no such volume", "hint": "look"}
        send(type="reply", id=other["id"], error=refusal)
        send(type="reply", id=order["id"], value={"pools": []})


def answer_trial(order: dict[str, Any]) -> None:
    """Answer a trial; refuse one without a duration."""
    if order["duration_ns"] == 0:
        refusal = {"class": "usage", "message": "duration_ns: 0", "hint": "use more"}
        send(type="reply", id=order["id"], error=refusal)
        return
    lists: dict[str, Any] = {name: [] for name in ("tester_faults", "streams", "ports", "histograms")}
    send(type="trial", id=order["id"], start_ns=1, end_ns=1 + order["duration_ns"], **lists)


def main() -> None:
    if MANNER == "silent":
        time.sleep(300)
    if MANNER == "not an engine":
        print("usage: something else")
        return
    if MANNER == "ends at once":
        complain("error while loading shared libraries")
        sys.exit(127)
    send(type="hello", contract=2 if MANNER == "other contract" else 1, version="9.9")
    assert receive()["type"] in ("configure", "stop")
    if MANNER in ("usage", "environment", "verification", "peer", "unanswered", "internal"):
        send(type="error", **{"class": MANNER}, message=f"a {MANNER} matter", hint="do this", fatal=True)
        sys.exit(3)
    if MANNER == "never ready":
        time.sleep(300)
    send(
        type="ready",
        found={"namespace": str(Path("/proc/self/ns/net").readlink()), "pid": os.getpid(), "argv": sys.argv[1:]},
    )
    if MANNER == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(300)
    if receive()["type"] != "start":
        send(type="result", at_ns=1, values={"stopped_before_start": 1}, histograms=[])
        return
    send(type="phase", phase="measure", at_ns=5)
    send(type="sample", at_ns=10, counters={"vms": {"reads": 1, "rate": 2.5}})
    if MANNER == "dies":
        for number in range(30):
            complain(f"line {number}")
        os.kill(os.getpid(), signal.SIGKILL)
    if MANNER == "exits":
        complain("thread 'main' panicked")
        sys.exit(101)
    if MANNER == "garbage":
        print("thread 'main' panicked at src/main.rs", flush=True)
        time.sleep(300)
    if MANNER == "unknown field":
        send(type="sample", at_ns=10, counters={}, colour="blue")
        time.sleep(300)
    send(type="error", **{"class": "peer"}, message="a session broke the protocol", hint="", fatal=False)
    while (order := receive())["type"] in ("manage", "trial"):
        (manage if order["type"] == "manage" else answer_trial)(order)
    assert order["type"] == "stop"
    send(type="result", at_ns=20, values={"reads": 1.0}, histograms=[])


main()
