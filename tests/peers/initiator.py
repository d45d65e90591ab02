"""Run the initiator engine for one load, from `configure` to the exit code."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hakaru.engine.binary import find_engine
from hakaru.errors import EnvironmentError_
from hdrh.histogram import HdrHistogram

Event = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Events of an engine and its exit code."""

    events: list[Event]
    exit_code: int

    def events_of(self, kind: str) -> list[Event]:
        """Return all events of a kind."""
        return [e for e in self.events if e["type"] == kind]

    def only(self, kind: str) -> Event:
        """Return the only event of a kind."""
        (event,) = self.events_of(kind)
        return event

    @property
    def values(self) -> dict[str, float]:
        """Return the values of the result."""
        values: dict[str, float] = self.only("result")["values"]
        return values

    def phase(self, name: str) -> int:
        """Return when a phase began, in nanoseconds."""
        (at_ns,) = [e["at_ns"] for e in self.events_of("phase") if e["phase"] == name]
        return int(at_ns)


def iscsi(portal: str, target_name: str, lun: int, name: str) -> dict[str, Any]:
    """Return an LU as a destination."""
    initiator_name = f"iqn.2026-01.org.hakaru:{name}"
    return {
        "kind": "iscsi",
        "portal": portal,
        "target_name": target_name,
        "lun": lun,
        "initiator_name": initiator_name,
    }


def vm(name: str, destination: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a VM; by default it reads 4 KiB at random with a queue depth of 2."""
    pattern = {"sizes": [{"bytes": 4096}], "read_percent": 100, "random_percent": 100} | more.pop("pattern", {})
    return {
        "name": name,
        "destination": destination,
        "region": {"offset_bytes": 0, "length_bytes": 0},
        "pattern": pattern,
        "load": {"kind": "closed", "queue_depth": 2},
        "seed": 1,
    } | more


def load(
    *vms: dict[str, Any],
    warmup_s: float = 0.1,
    measure_s: float = 0.5,
    on_event: Callable[[Event, Callable[[Event], None]], None] = lambda event, send: None,
    **more: Any,
) -> Outcome:
    """Run a load to its end. `on_event(event, send)` is called for every event and may send
    commands.
    """
    try:
        program = find_engine()
    except EnvironmentError_ as error:
        pytest.skip(f"no engine: {error.hint}")
    config = {
        "engine": "initiator",
        "vms": list(vms),
        "warmup_s": warmup_s,
        "measure_s": measure_s,
        "sample_interval_ms": 100,
    } | more
    with subprocess.Popen([program, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin = process.stdin

        def send(command: Event) -> None:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()

        events = []
        send({"type": "configure", "contract": 1, "config": config})
        for line in process.stdout:
            event = json.loads(line)
            events.append(event)
            if event["type"] == "ready":
                send({"type": "start", "at_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 20_000_000})
            on_event(event, send)
        return Outcome(events, process.wait(60))


def load_until(enough: Callable[[dict[str, float]], bool], *vms: dict[str, Any], **more: Any) -> Outcome:
    """Run a load until the counters of all VMs are enough, however long a slow machine takes."""
    stopped = False

    def stop(event: Event, send: Callable[[Event], None]) -> None:
        nonlocal stopped
        # Samples still follow a stop. A second one could reach an engine that has ended.
        if not stopped and event["type"] == "sample" and enough(event["counters"]["vms"]):
            send({"type": "stop"})
            stopped = True

    return load(*vms, warmup_s=0.0, measure_s=0.0, on_event=stop, **more)


def histogram(encoded: dict[str, str]) -> HdrHistogram:
    """Return a histogram of an event."""
    return HdrHistogram.decode(encoded["hdr"])
