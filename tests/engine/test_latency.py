"""Latencies of the initiator against those of an independent observer, a capture at its host's
interface: a short form of `make calibrate`, with limits that a busy machine keeps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine.binary import find_engine

from tests.peers.array import need

BENCH = Path(__file__).resolve().parents[2] / "bench"
CELLS = [
    {"array": array, "op": op, "bytes": 4096, "depth": depth, "seconds": 0.5}
    for array in ("memory", "1 ms")
    for op in ("read", "write")
    for depth in (1, 8)
]
EARLY_US, LATE_US, LATE_SHARE = 10.0, 25.0, 0.1
"""Bounds of the error of a median. A clock of the process instead of the kernel's stamps would add
a wake-up, and with it everything that runs before it on a busy processor.
"""
GOAL_US, GOAL_SHARE = 2.0, 0.01
"""Goal of `make calibrate` for a median. It exceeds `EARLY_US` from 0.8 ms on."""

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Measure all cells."""
    need("unshare", "util-linux")
    folder = tmp_path_factory.mktemp("captures")
    asked = json.dumps({"engine": str(find_engine()), "folder": str(folder), "cells": CELLS})
    scene = [sys.executable, str(BENCH / "latency_scene.py"), asked]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", *scene],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_observer_sees_every_request_of_the_initiator(measured: list[dict[str, Any]]) -> None:
    assert len(measured) == len(CELLS)
    for cell in measured:
        assert cell["dropped"] == cell["errors"] == 0, cell
        assert cell["initiator"]["n"] == cell["observer"]["n"] + cell["not_whole"] > 10, cell


def test_latencies_are_those_of_the_observer(measured: list[dict[str, Any]]) -> None:
    for cell in measured:
        ours, seen = cell["initiator"], cell["observer"]
        error_us = ours["p50_us"] - seen["p50_us"]
        # Histograms have three digits.
        rounding_us = 0.002 * seen["p50_us"]
        early_us = max(EARLY_US, GOAL_US + GOAL_SHARE * seen["p50_us"]) + rounding_us
        assert -early_us <= error_us <= LATE_US + LATE_SHARE * seen["p50_us"], cell
