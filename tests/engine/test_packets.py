"""The packets engine between real interfaces, rootless in its own user and network namespace."""

from __future__ import annotations

from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from tests.engine.namespace import report_of
from tests.engine.test_metrics_reference import _documented

pytestmark = pytest.mark.alone

METHODS = ("auto", "sendmmsg")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return report_of("packets_scenario", 120)


def stream(trial: dict[str, Any], name: str = "there") -> dict[str, Any]:
    """Return the counts of a stream, after a check of what holds in every trial."""
    assert trial["type"] == "trial", trial
    (counts,) = [counts for counts in trial["streams"] if counts["name"] == name]
    assert counts["sent"] == counts["received"] + counts["lost"]
    assert counts["intended"] is None or counts["intended"] == counts["sent"] + counts["unsent"]
    found: dict[str, Any] = counts
    return found


@pytest.mark.parametrize("method", METHODS)
def test_every_frame_that_is_due_is_sent_and_received(report: dict[str, Any], method: str) -> None:
    both = report[method]["both"]
    assert both["tester_faults"] == []
    for name, frames in (("there", 2_000), ("back", 667)):
        counts = stream(both, name)
        assert (counts["intended"], counts["sent"], counts["received"]) == (frames, frames, frames)
        assert [counts[bad] for bad in ("unsent", "lost", "duplicated", "reordered", "corrupted")] == [0] * 5
        assert counts["sent_bytes"] == counts["received_bytes"] > 64 * frames
        assert both["start_ns"] <= counts["first_sent_ns"] <= counts["first_received_ns"] + 1_000_000
        assert counts["last_received_ns"] <= both["end_ns"]
    # The mix of 2000 frames: 7 of 64, 4 of 594 and 1 of 1518 bytes in every 12.
    assert stream(both)["sent_bytes"] == pytest.approx(2_000 * (7 * 64 + 4 * 594 + 1518) / 12, rel=0.01)
    assert stream(report[method]["one"])["received"] == 100
    assert stream(report[method]["one"], "back")["sent"] == 0
    assert report[method]["code"] == 0


@pytest.mark.parametrize("method", METHODS)
def test_histograms_have_one_value_per_frame(report: dict[str, Any], method: str) -> None:
    both = report[method]["both"]
    histograms = {(h["entity"], h["name"]): HdrHistogram.decode(h["hdr"]) for h in both["histograms"]}
    for name in ("there", "back"):
        counts = stream(both, name)
        assert histograms[f"stream/{name}", "latency_ns"].total_count == counts["received"]
        lateness = histograms[f"stream/{name}", "lateness_ns"]
        assert lateness.total_count == counts["sent"]
        assert lateness.get_max_value() == pytest.approx(counts["lateness_ns_max"], rel=0.002)


@pytest.mark.parametrize("method", METHODS)
def test_stream_without_a_rate_is_as_fast_as_possible(report: dict[str, Any], method: str) -> None:
    counts = stream(report[method]["fastest"])
    assert counts["intended"] is None
    assert counts["unsent"] == 0
    # Even a slow machine sends more than 1000 frames in 0.1 s.
    assert counts["sent"] > 1_000


def test_chosen_method_is_reported(report: dict[str, Any]) -> None:
    ports = {port["name"]: port for port in report["auto"]["found"]["ports"]}
    assert ports["near"]["receive"] == "tpacket_v3"
    assert ports["near"]["mtu_bytes"] == 1500
    assert len(ports["near"]["mac"]) == 17
    if ports["near"]["transmit"] == "sendmmsg":
        assert ports["near"]["transmit_reason"].startswith("AF_XDP refused: ")
    else:
        assert (ports["near"]["transmit"], ports["near"]["transmit_reason"]) == ("af_xdp", "")
    assert report["sendmmsg"]["found"]["ports"][0]["transmit"] == "sendmmsg"


def test_foreign_frames_do_not_affect_the_receiver(report: dict[str, Any]) -> None:
    flooded = report["flooded"]
    assert report["foreign_sent"] > 100
    assert flooded["tester_faults"] == []
    assert (stream(flooded)["sent"], stream(flooded)["received"]) == (400, 400)
    assert {port["foreign"] for port in flooded["ports"]} == {0}


def test_trial_that_the_tester_cannot_send_is_charged_to_the_tester(report: dict[str, Any]) -> None:
    trial = report["too_fast"]
    counts = stream(trial)
    assert counts["intended"] == 90_000_000
    assert counts["unsent"] > 0
    assert ("unsent", "stream/there") in {(fault["kind"], fault["entity"]) for fault in trial["tester_faults"]}


def test_invalid_orders_are_refused_with_the_field(report: dict[str, Any]) -> None:
    fields = ("rates", "duration_ns", "rates[0]")
    for reply, field in zip(report["refused"], fields, strict=True):
        assert reply["type"] == "reply"
        assert reply["error"]["class"] == "usage"
        assert reply["error"]["message"].startswith(f"{field}: ")
        assert reply["error"]["hint"]


def test_losses_duplicates_and_damage_of_a_path_are_counted_exactly(report: dict[str, Any]) -> None:
    trial, path = report["fabric"]["trial"], report["fabric"]["path"]["link/wire/a-b"]
    counts = stream(trial)
    assert trial["tester_faults"] == []
    # Everything else that the kernels at either end send is not in the counts of the stream.
    other = path["frames_in"] - counts["sent"]
    assert 0 <= other < 50
    assert counts["lost"] - counts["corrupted"] == pytest.approx(path["dropped_loss"], abs=other + path["duplicated"])
    assert 150 < counts["lost"] - counts["corrupted"] < 350
    assert 90 < counts["duplicated"] <= path["duplicated"]
    assert 40 < counts["corrupted"] <= path["corrupted"]
    assert 0 < counts["reordered"] <= counts["received"]
    back = stream(trial, "back")
    assert (back["sent"], back["lost"], back["reordered"], back["corrupted"]) == (500, 0, 0, 0)


@pytest.mark.parametrize(
    ("case", "code", "words"),
    [
        ("interface", 3, "no-such0"),
        ("down", 3, "d0 is down"),
        ("mtu", 2, "need an MTU of 8982, but a0 has 6000"),
        ("capability", 3, "cannot open the interface a0: Operation not permitted"),
        ("af_xdp", 3, "frames of 4996 bytes do not fit into a page"),
        ("program", 3, "cannot receive through AF_XDP on a0: Operation not permitted"),
    ],
)
def test_what_cannot_be_opened_is_named(report: dict[str, Any], case: str, code: int, words: str) -> None:
    failed = report["errors"][case]
    assert failed["code"] == code
    assert words in failed["error"]["message"]
    assert failed["error"]["fatal"] and failed["error"]["hint"]


def test_jumbo_frames_are_sent_without_af_xdp(report: dict[str, Any]) -> None:
    jumbo = report["jumbo"]
    ports = {port["name"]: port for port in jumbo["found"]["ports"]}
    assert ports["near"]["transmit"] == "sendmmsg"
    counts = stream(jumbo["trial"])
    assert counts["sent"] == counts["received"] == 200
    assert counts["sent_bytes"] == counts["received_bytes"] == 200 * 9000
    assert stream(jumbo["trial"], "back")["received"] == 200


@pytest.mark.parametrize("method", METHODS)
def test_metrics_page_lists_the_metrics_of_a_generator(report: dict[str, Any], method: str) -> None:
    page, counters = _documented()["packets"], report[method]["sample"]["counters"]
    kinds = {"port/near": "port/NAME", "trials": "trials"}
    kinds |= {f"thread/{thread}/near": f"thread/{thread}/NAME" for thread in ("transmit", "receive")}
    for entity, pattern in kinds.items():
        assert set(counters[entity]) == {name for kind, name in page if kind == pattern}
    assert {pattern for pattern, _ in page} - set(kinds.values()) == {"stream/NAME"}
    assert {name for kind, name in page if kind == "stream/NAME"} == {"latency_ns", "lateness_ns"}
    totals = report[method]["result"]["values"]
    assert totals["started"] == totals["finished"] == (5 if method == "auto" else 3)
    # Drops of an interface may be of other frames.
    dropped = sum(totals[name] for name in ("tx_dropped", "rx_dropped", "rx_ring_dropped"))
    assert 0 <= totals["tx_frames"] - totals["rx_frames"] <= dropped
