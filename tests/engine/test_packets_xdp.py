"""Reception through AF_XDP between real interfaces, as root in a network namespace of its own."""

from __future__ import annotations

from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from tests.engine.namespace import report_of
from tests.engine.test_packets import stream

pytestmark = pytest.mark.alone

METHODS = ("auto", "sendmmsg")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return report_of("packets_xdp_scenario", 120, as_root=True)


@pytest.mark.parametrize("method", METHODS)
def test_every_frame_is_received_once_also_by_a_port_that_sends(report: dict[str, Any], method: str) -> None:
    for trial in (report[method]["both"], report[method]["again"]):
        assert trial["tester_faults"] == []
        for name, frames in (("there", 2_000), ("back", 667)):
            counts = stream(trial, name)
            assert (counts["intended"], counts["sent"], counts["received"]) == (frames, frames, frames)
            assert [counts[bad] for bad in ("unsent", "lost", "duplicated", "reordered", "corrupted")] == [0] * 5
            assert counts["sent_bytes"] == counts["received_bytes"]
    for port in report[method]["found"]["ports"]:
        assert (port["transmit"], port["receive"]) == ("sendmmsg" if method == "sendmmsg" else "af_xdp", "af_xdp")


@pytest.mark.parametrize("method", METHODS)
def test_frames_beyond_the_room_are_counted_and_charged_to_the_tester(report: dict[str, Any], method: str) -> None:
    trial = report[method]["fastest"]
    dropped = sum(port["ring_dropped"] for port in trial["ports"])
    lost = [stream(trial, name)["lost"] for name in ("there", "back")]
    # Ends of a veth pair drop further frames when their queues are full.
    assert sum(lost) == dropped + sum(port["tx_dropped"] for port in trial["ports"])
    assert all(stream(trial, name)["received"] > 1_000 for name in ("there", "back"))


@pytest.mark.parametrize("method", METHODS)
def test_foreign_frames_pass_to_the_kernel(report: dict[str, Any], method: str) -> None:
    flooded = report[method]["flooded"]
    assert report[method]["foreign_sent"] > 100
    assert flooded["tester_faults"] == []
    assert (stream(flooded)["sent"], stream(flooded)["received"]) == (400, 400)
    assert {port["foreign"] for port in flooded["ports"]} == {0}


def test_losses_duplicates_damage_and_delay_are_those_of_the_path_and_of_the_ring(report: dict[str, Any]) -> None:
    medians = {}
    for method, found in report["fabric"].items():
        counts, path = stream(found["trial"]), found["path"]
        assert found["trial"]["tester_faults"] == []
        other = path["frames_in"] - counts["sent"]
        assert 0 <= other < 50
        lost = counts["lost"] - counts["corrupted"]
        assert lost == pytest.approx(path["dropped_loss"], abs=other + path["duplicated"])
        assert 150 < lost < 350
        assert 90 < counts["duplicated"] <= path["duplicated"]
        assert 40 < counts["corrupted"] <= path["corrupted"]
        (latency,) = [h["hdr"] for h in found["trial"]["histograms"] if h["name"] == "latency_ns"]
        decoded = HdrHistogram.decode(latency)
        assert decoded.total_count == counts["received"]
        medians[method] = decoded.get_value_at_percentile(50)
    # The path delays each frame by 3 ms.
    assert all(2_990_000 < median < 3_500_000 for median in medians.values()), medians


def test_all_queues_are_read_and_frames_of_others_end_the_engine(report: dict[str, Any]) -> None:
    if report["queues"] is None:
        pytest.skip("the kernel has no XPS, which chooses queues")
    for trial in ("all", "sharing"):
        for name in ("there", "back"):
            counts = stream(report["queues"][trial], name)
            assert (counts["intended"], counts["received"], counts["reordered"]) == (2_500, 2_500, 0)
    error = report["queues"]["beyond"]
    assert error["class"] == "environment"
    assert error["message"].endswith("frames arrived at receive queues beyond the first 1"), error
    assert error["hint"] == "use `receive: auto`"


def test_program_ends_with_the_engine_and_only_one_is_possible(report: dict[str, Any]) -> None:
    found = report["programs"]
    assert (found["during"], found["after"]) == (True, False)
    assert found["second"]["message"].startswith("cannot receive through AF_XDP on a0: ")
    assert "xdp off" in found["second"]["hint"]


def test_frames_are_received_up_to_the_length_that_fits_into_a_page(report: dict[str, Any]) -> None:
    found = report["long"]
    for size, trial in found["trials"].items():
        counts = stream(trial)
        assert (counts["sent"], counts["received"], counts["received_bytes"]) == (200, 200, 200 * int(size))
    assert found["code"] == 3
    assert found["error"]["message"] == (
        "cannot receive through AF_XDP on b0: frames of 3841 bytes do not fit into a page"
    )
    assert "at most 3844 bytes" in found["error"]["hint"]
