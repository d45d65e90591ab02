"""The fabric engine between real interfaces, rootless in its own user and network namespace."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from tests.engine.namespace import report_of
from tests.engine.test_metrics_reference import _documented

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return report_of("fabric_scenario", 60)


def test_frames_arrive_in_order_after_delay_and_serialisation(report: dict[str, Any]) -> None:
    assert report["order"] == list(range(200))
    # 1514 bytes and the FCS take 0.12 ms at 100 Mbit/s. The engine begins to write a frame by the
    # median duration of the last writes before it is due, so some are early, by 0.06 ms at most.
    due_ms = 20.0 + 1518 * 8 / 100_000
    assert min(report["took_ms"]) >= due_ms - 0.06
    assert due_ms <= sorted(report["took_ms"])[100] < due_ms + 5.0
    assert report["code"] == 0


def test_frames_that_are_due_together_arrive_in_order(report: dict[str, Any]) -> None:
    # The writer thread writes this many frames; later ones must stay behind them.
    assert report["burst"] == list(range(len(report["burst"]))) and len(report["burst"]) > 64


def test_every_frame_is_accounted_for(report: dict[str, Any]) -> None:
    assert report["found"]["interfaces"] == ["pa", "pb", "vm"]
    for direction in ("a-b", "b-a"):
        counters = report["counters"][f"link/wire/{direction}"]
        drops = sum(value for name, value in counters.items() if name.startswith("dropped_"))
        assert counters["frames_in"] + counters["duplicated"] == counters["frames_out"] + drops + counters["frames_now"]
    assert report["counters"]["link/wire/a-b"]["frames_out"] >= 200
    for name in ("pa", "pb", "vm"):
        assert set(report["counters"][f"interface/{name}"].values()) == {0.0}


def test_histograms_record_queue_length_and_lateness_of_each_frame(report: dict[str, Any]) -> None:
    histograms = {(h["entity"], h["name"]): HdrHistogram.decode(h["hdr"]) for h in report["histograms"]}
    counters = report["counters"]
    for direction in ("a-b", "b-a"):
        channel = counters[f"link/wire/{direction}"]
        queue = histograms.get((f"link/wire/{direction}", "queue_bytes"))
        assert (queue.total_count if queue else 0) == channel["frames_in"] - channel["dropped_mtu"]
    # The frames were sent one at a time, so each met an empty queue.
    assert histograms["link/wire/a-b", "queue_bytes"].get_value_at_percentile(50) == 1
    frames_out = sum(counters[f"link/wire/{direction}"]["frames_out"] for direction in ("a-b", "b-a"))
    assert histograms["fabric", "lateness_ns"].total_count == frames_out


def test_thread_cpu_times_add_up_to_at_most_that_of_the_process(report: dict[str, Any]) -> None:
    threads = {entity: c["cpu_ns"] for entity, c in report["counters"].items() if entity.startswith("thread/")}
    assert set(threads) == ({"thread/loop", "thread/writer"} if len(os.sched_getaffinity(0)) > 1 else {"thread/loop"})
    assert min(threads.values()) > 0
    process = report["counters"]["process"]
    assert sum(threads.values()) <= process["cpu_user_ns"] + process["cpu_system_ns"]


def test_vlan_tag_is_forwarded(report: dict[str, Any]) -> None:
    # Linux removes the tag of a received frame. The fabric restores it, and the receiver's kernel
    # reports it.
    assert report["tagged"] == {"vlan": 5, "priority": 3, "payload": "hakaru"}


def test_metrics_page_lists_the_metrics_of_a_fabric(report: dict[str, Any]) -> None:
    page = _documented()["fabric"]
    kinds = (("link/wire/a-b", "link/NAME/a-b"), ("interface/pa", "interface/NAME"), ("fabric", "fabric"))
    kinds += (("interface/vm", "interface/GUEST"), ("switch/s", "switch/NAME"), ("thread/loop", "thread/loop"))
    if "thread/writer" in report["counters"]:
        kinds += (("thread/writer", "thread/writer"),)
    named = {(h["entity"], h["name"]) for h in report["histograms"]}
    for kind, pattern in kinds:
        present = set(report["counters"][kind]) | {name for entity, name in named if entity == kind}
        assert present == {name for entity, name in page if entity == pattern}
