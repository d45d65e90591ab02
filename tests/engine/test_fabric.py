"""The fabric engine between real interfaces, without root: in a user and network namespace of its
own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine.binary import find_engine
from hdrh.histogram import HdrHistogram

from tests.engine.test_metrics_reference import _documented

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[2]
ALONE = ["unshare", "--user", "--map-root-user", "--net"]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("user namespaces are forbidden here")
    done = subprocess.run(
        [*ALONE, sys.executable, "-m", "tests.engine.fabric_scenario", find_engine()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "python")])},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_frames_come_in_order_and_after_delay_and_serialisation(seen: dict[str, Any]) -> None:
    assert seen["order"] == list(range(200))
    # 1514 bytes and the FCS at 100 Mbit/s take 0.12 ms; nothing can be earlier, and most are not
    # much later.
    least = 20.0 + 1518 * 8 / 100_000
    assert min(seen["took_ms"]) >= least
    assert sorted(seen["took_ms"])[100] < least + 5.0
    assert seen["code"] == 0


def test_frames_that_are_due_together_come_in_order(seen: dict[str, Any]) -> None:
    # So many are written by the thread beside, and what follows behind them.
    assert seen["burst"] == list(range(len(seen["burst"]))) and len(seen["burst"]) > 64


def test_every_frame_is_accounted_for(seen: dict[str, Any]) -> None:
    assert seen["found"]["interfaces"] == ["pa", "pb"]
    for way in ("a-b", "b-a"):
        c = seen["counters"][f"link/wire/{way}"]
        drops = sum(value for name, value in c.items() if name.startswith("dropped_"))
        assert c["frames_in"] + c["duplicated"] == c["frames_out"] + drops + c["frames_now"]
    assert seen["counters"]["link/wire/a-b"]["frames_out"] >= 200
    for name in ("pa", "pb"):
        assert set(seen["counters"][f"interface/{name}"].values()) == {0.0}


def test_each_frame_is_in_a_histogram_of_what_it_met_and_of_how_late_it_went(seen: dict[str, Any]) -> None:
    found = {(h["entity"], h["name"]): HdrHistogram.decode(h["hdr"]) for h in seen["histograms"]}
    counters = seen["counters"]
    for way in ("a-b", "b-a"):
        channel = counters[f"link/wire/{way}"]
        met = found.get((f"link/wire/{way}", "queue_bytes"))
        assert (met.total_count if met else 0) == channel["frames_in"] - channel["dropped_mtu"]
    # One at a time: each met an empty queue.
    assert found["link/wire/a-b", "queue_bytes"].get_value_at_percentile(50) == 1
    frames_out = sum(counters[f"link/wire/{way}"]["frames_out"] for way in ("a-b", "b-a"))
    assert found["fabric", "lateness_ns"].total_count == frames_out


def test_threads_tell_their_own_time_within_that_of_the_process(seen: dict[str, Any]) -> None:
    threads = {entity: c["cpu_ns"] for entity, c in seen["counters"].items() if entity.startswith("thread/")}
    assert set(threads) == ({"thread/loop", "thread/writer"} if len(os.sched_getaffinity(0)) > 1 else {"thread/loop"})
    assert min(threads.values()) > 0
    process = seen["counters"]["process"]
    assert sum(threads.values()) <= process["cpu_user_ns"] + process["cpu_system_ns"]


def test_a_tag_goes_through(seen: dict[str, Any]) -> None:
    # Linux takes the tag out of what it receives; the fabric puts it back, and the receiver's
    # kernel tells of it.
    assert seen["tagged"] == {"vlan": 5, "priority": 3, "payload": "hakaru"}


def test_the_page_lists_what_a_fabric_gives(seen: dict[str, Any]) -> None:
    page = _documented()["fabric"]
    kinds = (("link/wire/a-b", "link/NAME/a-b"), ("interface/pa", "interface/NAME"), ("fabric", "fabric"))
    kinds += (("switch/s", "switch/NAME"), ("thread/loop", "thread/loop"))
    if "thread/writer" in seen["counters"]:
        kinds += (("thread/writer", "thread/writer"),)
    named = {(h["entity"], h["name"]) for h in seen["histograms"]}
    for kind, pattern in kinds:
        given = set(seen["counters"][kind]) | {name for entity, name in named if entity == kind}
        assert given == {name for entity, name in page if entity == pattern}
