"""A program that misbehaves as engines may: `fake_engine.py run`, its manner in $FAKE_ENGINE."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

MANNER = os.environ["FAKE_ENGINE"]


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def listen() -> dict[str, Any]:
    line = sys.stdin.readline()
    return json.loads(line) if line else {"type": "stop"}


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def manage(order: dict[str, Any]) -> None:
    """Statuses are answered at once, but after the next order's refusal; a withdrawal is never
    answered.
    """
    kind = order["action"]["kind"]
    if kind == "withdraw":
        sys.exit(0)
    if kind == "status":
        other = listen()
        refusal = {"class": "usage", "message": "there is no such volume", "hint": "look"}
        say(type="reply", id=other["id"], error=refusal)
        say(type="reply", id=order["id"], value={"pools": []})


def main() -> None:
    if MANNER == "silent":
        time.sleep(300)
    if MANNER == "not an engine":
        print("usage: something else")
        return
    if MANNER == "ends at once":
        complain("error while loading shared libraries")
        sys.exit(127)
    say(type="hello", contract=2 if MANNER == "other contract" else 1, version="9.9")
    assert listen()["type"] in ("configure", "stop")
    if MANNER in ("usage", "environment", "verification", "peer", "internal"):
        say(type="error", **{"class": MANNER}, message=f"a {MANNER} matter", hint="do this", fatal=True)
        sys.exit(3)
    if MANNER == "never ready":
        time.sleep(300)
    say(
        type="ready",
        found={"namespace": str(Path("/proc/self/ns/net").readlink()), "pid": os.getpid(), "argv": sys.argv[1:]},
    )
    if MANNER == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(300)
    if listen()["type"] != "start":
        say(type="result", at_ns=1, values={"stopped_before_start": 1}, histograms=[])
        return
    say(type="phase", phase="measure", at_ns=5)
    say(type="sample", at_ns=10, counters={"vms": {"reads": 1, "rate": 2.5}})
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
        say(type="sample", at_ns=10, counters={}, colour="blue")
        time.sleep(300)
    say(type="error", **{"class": "peer"}, message="a session broke the protocol", hint="", fatal=False)
    while (order := listen())["type"] == "manage":
        manage(order)
    assert order["type"] == "stop"
    say(type="result", at_ns=20, values={"reads": 1.0}, histograms=[])


main()
