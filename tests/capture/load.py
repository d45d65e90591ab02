"""Our own initiator on an array at a fixed pace, so that the traffic does not depend on the speed
of the machine.
"""

from __future__ import annotations

import json
from typing import Any

from tests.peers.array import TARGET_NAME, Engine

SECONDS = 1.0
RATE_PER_S = 100


def vm(portal: str, size_bytes: int, read_percent: int, load: dict[str, Any]) -> dict[str, Any]:
    """Return a VM that reads and writes LU 0 at random."""
    return {
        "name": "a",
        "destination": {
            "kind": "iscsi",
            "portal": portal,
            "target_name": TARGET_NAME,
            "lun": 0,
            "initiator_name": "iqn.2026-01.org.hakaru:a",
        },
        "region": {"offset_bytes": 0, "length_bytes": 0},
        "pattern": {"sizes": [{"bytes": size_bytes}], "read_percent": read_percent, "random_percent": 100},
        "load": load,
        "seed": 1,
    }


def loaded(
    portal: str,
    inside: tuple[str, ...] = (),
    *,
    size_bytes: int = 64 << 10,
    read_percent: int = 50,
    load: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, float]:
    """Run a hundred requests per second for one second, with login and logout. Returns the counters
    of the initiator, including its drain.
    """
    paced = {"kind": "open", "rate_per_s": RATE_PER_S, "arrivals": "uniform", "in_flight_max": 4}
    vms = [vm(portal, size_bytes, read_percent, load or paced)]
    config = {"engine": "initiator", "vms": vms, "warmup_s": 0.0, "measure_s": SECONDS, **more}
    engine = Engine(config, inside)
    try:
        engine.send({"type": "start", "at_ns": 0})
        assert engine.process.stdout is not None
        counters: dict[str, float] = {}
        for line in engine.process.stdout:
            event = json.loads(line)
            assert event["type"] != "error", event
            if event["type"] == "sample":
                counters = event["counters"]["vms"]
        assert engine.process.wait(60) == 0
        return counters
    finally:
        engine.close()
