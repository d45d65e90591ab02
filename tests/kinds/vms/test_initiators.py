"""The finding that compares initiators: rates, intervals, and the mark of emulated processors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hakaru.analysis import summarise

from tests.analysis.small_run import Pt, Rep, write_run

GUEST = {"lab.load_guest": {"cpus": 2}}
VARIABLES = {
    # The base is the level without a guest, not the first one.
    "initiator": {"open-iscsi": GUEST | {"load.initiator": "kernel"}, "in-guest": GUEST, "hakaru": {}}
}
RATES = {"open-iscsi": 450, "in-guest": 500, "hakaru": 500}


def finding_of(folder: Path, more: tuple[int, ...], **fields: Any) -> dict[str, Any]:
    points = [
        Pt({"initiator": name, "vms": 2}, [Rep(reads=(rate + each,) * 8, writes=(0,) * 8) for each in more])
        for name, rate in RATES.items()
    ]
    factors = [{"initiator": list(RATES), "vms": [2]}]
    summary = summarise(write_run(folder, points, variables=VARIABLES, factors=factors, **fields))
    (finding,) = [f for f in summary["findings"] if f["kind"] == "initiators"]
    assert isinstance(finding, dict)
    return finding


def test_initiators_are_compared_with_the_one_of_this_machine(tmp_path: Path) -> None:
    finding = finding_of(tmp_path, (-5, 0, 5))
    evidence = finding["evidence"]
    assert (evidence["over"], evidence["base"], finding["where"]) == ("initiator", "hakaru", {"vms": 2})
    assert evidence["iops"] == {"hakaru": 1000.0, "open-iscsi": 900.0, "in-guest": 1000.0}
    ratio = evidence["ratio"]["open-iscsi"]
    assert ratio["mean"] == 0.9 and 0.87 < ratio["low"] < 0.9 < ratio["high"] < 0.93
    assert "open-iscsi: 900 IOPS, 0.900 times as many (95 % confidence interval" in finding["text"]
    assert "hakaru では 1,000 IOPS、平均応答時間は 10" in finding["text_ja"]
    assert "emulated" not in finding["text"]


def test_a_single_repetition_has_no_interval(tmp_path: Path) -> None:
    finding = finding_of(tmp_path, (0,))
    assert "open-iscsi: 900 IOPS, 0.900 times as many, mean response time 10" in finding["text"]


def test_variable_that_changes_more_than_the_initiator_is_no_comparison(tmp_path: Path) -> None:
    variables = {"initiator": {"hakaru": {}, "open-iscsi": GUEST | {"load.initiator": "kernel", "lab.mtu": 9000}}}
    points = [Pt({"initiator": name, "vms": 2}, [Rep()] * 2) for name in ("hakaru", "open-iscsi")]
    factors = [{"initiator": ["hakaru", "open-iscsi"], "vms": [2]}]
    summary = summarise(write_run(tmp_path, points, variables=variables, factors=factors))
    assert [f for f in summary["findings"] if f["kind"] == "initiators"] == []
