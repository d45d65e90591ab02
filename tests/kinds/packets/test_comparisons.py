"""Comparisons of points of packet forwarding: NICs, positions, directions, frame sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.kinds.packets.invented import Pt, Rep, summary_of
from tests.kinds.packets.simulated import Bench

SCHEMA = Path(__file__).parents[3] / "schema" / "report.schema.json"


def test_nics_of_guests_are_compared_with_the_slowest(tmp_path: Path) -> None:
    def point(nic: str, *benches: Bench, **search: Any) -> Pt:
        return Pt({"frame": 64, "nic": nic}, [Rep(bench, search=search) for bench in benches])

    summary = summary_of(
        tmp_path,
        point("virtio-net", *map(Bench, (59_500.0, 60_000.0, 60_500.0))),
        point("e1000", *map(Bench, (19_900.0, 20_000.0, 20_100.0))),
        point("vhost-net", Bench(1e7), highest=50_000.0),
        lab={"hosts": ["generator"], "device": {"forwards": "guest"}},
        variables={"frame": {"sets": ["load.frame"]}, "nic": {"sets": ["lab.device.guest.nic.model"]}},
        factors=[{"frame": [64], "nic": ["virtio-net", "e1000", "vhost-net"]}],
    )
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (finding,) = [f for f in summary["findings"] if f["kind"] == "comparison"]
    evidence = finding["evidence"]
    assert (finding["where"], evidence["base"]) == ({"frame": 64}, "e1000")
    assert set(evidence["ratio"]) == {"virtio-net"} and evidence["search"]["vhost-net"] == "at least"
    ratio = evidence["ratio"]["virtio-net"]
    assert ratio["mean"] == pytest.approx(3, rel=0.02) and ratio["low"] < ratio["mean"] < ratio["high"]
    assert "With e1000," in finding["text"] and "With vhost-net, at least" in finding["text"]
    assert "virtio-net" in finding["text_ja"] and "倍" in finding["text_ja"]


def test_lower_bound_above_a_bracketed_rate_is_compared_with_it(tmp_path: Path) -> None:
    def summary(folder: str, capped: float, sizes: tuple[int, ...] = (64,)) -> dict[str, Any]:
        return summary_of(
            tmp_path / folder,
            *(
                Pt({"frame": size, "nic": nic}, [Rep(Bench(rate), search=search) for rate in rates])
                for size in sizes
                for nic, rates, search in (
                    ("e1000", (19_900.0, 20_000.0, 20_100.0), {}),
                    ("virtio-net", (1e7, 1e7, 1e7), {"highest": capped}),
                )
            ),
            lab={"hosts": ["generator"], "device": {"forwards": "guest"}},
            variables={"frame": {"sets": ["load.frame"]}, "nic": {"sets": ["lab.device.guest.nic.model"]}},
            factors=[{"frame": [*sizes], "nic": ["e1000", "virtio-net"]}],
        )

    (finding,) = [f for f in summary("above", 50_000.0)["findings"] if f["kind"] == "comparison"]
    assert finding["evidence"]["ratio"]["virtio-net"]["low"] > 2
    assert "so at least 2.5" in finding["text"] and "倍" in finding["text_ja"]
    # A lower bound below the other rate says nothing.
    assert not [f for f in summary("below", 15_000.0)["findings"] if f["kind"] == "comparison"]
    found = [f for f in summary("sizes", 50_000.0, (64, 512, 1518))["findings"] if f["kind"] == "comparison"]
    over_sizes = found[0]["evidence"]
    assert over_sizes["frames"] == [64, 512, 1518] and over_sizes["search"]["virtio-net"] == "at least"
    assert over_sizes["ratio"]["virtio-net"]["low"] > 2


def test_invalid_points_are_compared_with_nothing(tmp_path: Path) -> None:
    for folder, surplus, count in (("valid", 0, 1), ("invalid", 3, 0)):
        rates = {"virtio-net": (60_000.0, surplus), "e1000": (20_000.0, 0)}
        summary = summary_of(
            tmp_path / folder,
            *(
                Pt({"frame": 64, "nic": nic}, [Rep(Bench(r, surplus=s)) for _ in range(3)])
                for nic, (r, s) in rates.items()
            ),
            lab={"hosts": ["generator"], "device": {"forwards": "guest"}},
            variables={"frame": {"sets": ["load.frame"]}, "nic": {"sets": ["lab.device.guest.nic.model"]}},
            factors=[{"frame": [64], "nic": ["virtio-net", "e1000"]}],
        )
        assert [point["valid"] for point in summary["points"]] == [surplus == 0, True]
        assert len([f for f in summary["findings"] if f["kind"] == "comparison"]) == count


def test_pinned_guests_are_compared_with_the_default(tmp_path: Path) -> None:
    pinning = {"apart": {"lab.device.guest.pinning": {"vcpus": [1], "others": [0]}}}
    summary = summary_of(
        tmp_path,
        Pt({"frame": 64}, [Rep(Bench(rate)) for rate in (29_900.0, 30_000.0, 30_100.0)]),
        Pt({"frame": 64, "pinning": "apart"}, [Rep(Bench(rate)) for rate in (59_500.0, 60_000.0, 60_500.0)]),
        lab={"hosts": ["generator"], "device": {"forwards": "guest"}},
        variables={"frame": {"sets": ["load.frame"]}, "pinning": pinning},
        factors=[{"frame": [64]}, {"frame": [64], "pinning": ["apart"]}],
    )
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (finding,) = [f for f in summary["findings"] if f["kind"] == "comparison"]
    evidence = finding["evidence"]
    assert (evidence["over"], evidence["base"], set(evidence["ratio"])) == ("pinning", "", {"apart"})
    assert evidence["ratio"]["apart"]["mean"] == pytest.approx(2, rel=0.02)
    assert "With the default (pinning), " in finding["text"] and "With pinning apart, " in finding["text"]
    assert "既定値（" in finding["text_ja"] and "apart" in finding["text_ja"]


def test_nics_and_directions_are_compared_by_their_means_over_frame_sizes(tmp_path: Path) -> None:
    rates = {"e1000": 20_000.0, "virtio-net": 26_000.0}
    # Each size differs from the other repetition by as much as the NICs differ from each other.
    noise = {64: (0.9, 1.1), 512: (1.1, 0.9), 1518: (0.9, 1.1)}
    both = {"one": 1.0, "both": 2.0}
    points = [
        Pt(
            {"frame": frame, "nic": nic, "direction": direction},
            [Rep(Bench(rate * part * factor)) for part in noise[frame]],
        )
        for nic, rate in rates.items()
        for direction, factor in both.items()
        for frame in noise
    ]
    # A size that only one of them has is in no mean.
    points.append(Pt({"frame": 128, "nic": "e1000", "direction": "one"}, [Rep(Bench(90_000.0))] * 2))
    summary = summary_of(
        tmp_path,
        *points,
        lab={"hosts": ["generator"], "device": {"forwards": "guest"}},
        variables={
            "frame": {"sets": ["load.frame"]},
            "nic": {"sets": ["lab.device.guest.nic.model"]},
            "direction": {"sets": ["load.direction"]},
        },
        factors=[
            {"frame": [*noise], "nic": [*rates], "direction": [*both]},
            {"frame": [128], "nic": ["e1000"], "direction": ["one"]},
        ],
    )
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    found = [f for f in summary["findings"] if f["kind"] == "comparison" and f["evidence"]["frames"]]
    assert [(f["evidence"]["over"], f["where"]) for f in found] == [
        *(("nic", {"direction": direction}) for direction in both),
        *(("direction", {"nic": nic}) for nic in rates),
    ]
    evidence = found[0]["evidence"]
    assert (evidence["base"], evidence["frames"]) == ("e1000", [*noise])
    assert evidence["frames_per_s"]["e1000"] == pytest.approx(20_000, rel=0.02)
    (ratio,) = evidence["ratio"].values()
    assert ratio["mean"] == pytest.approx(1.3, rel=0.03) and 1 < ratio["low"] < ratio["high"] < 1.7
    assert found[2]["evidence"]["ratio"]["both"]["mean"] == pytest.approx(2, rel=0.03)
    assert "The rates are means over 3 frame sizes." in found[0]["text"] and "3 種類" in found[0]["text_ja"]
    # One size shows no difference between the NICs.
    (single,) = [
        f for f in summary["findings"] if f["kind"] == "comparison" and f["where"] == {"frame": 64, "direction": "one"}
    ]
    assert single["evidence"]["ratio"]["virtio-net"]["low"] < 1
