"""Loads of VMs in a lab that is described link by link have the same analyses and verdicts as on a
star.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise

from tests.analysis.small_distance import Load, Pt, factors, spec_of, write_run

DEEP_READ = spec_of("optimised", 20, lanes=32, depth=4, op="read")
DEEP_WRITE = spec_of("optimised", 20, lanes=32, depth=4)


def swept(folder: Path, **more: Any) -> dict[str, Any]:
    """Summary of a sweep over 1, 2 and 4 VMs; the load is fastest with 2."""
    slower = {1: 2.0, 2: 1.0, 4: 1.3}
    points = [Pt(factors(0, vms=n), [Load(replace(spec_of("default", 0)), slower=s)] * 2) for n, s in slower.items()]
    return summarise(write_run(folder, points, **more))


def test_a_link_full_in_the_read_direction_is_named_for_several_vms(tmp_path: Path) -> None:
    levels = factors(settings="optimised", pattern="read-4m", queue_depth=1, vms=4)
    summary = summarise(write_run(tmp_path, [Pt(levels, [Load(DEEP_READ)])]))
    (point,) = summary["points"]
    assert point["limiter"] == "link"
    assert point["resource"] == "link/array/array>wan"
    assert point["metrics"]["link_busy_percent"]["mean"] > 90


@pytest.mark.parametrize("pattern", ["write-4m", "mixed"])
def test_spurious_retransmissions_are_not_loss(tmp_path: Path, pattern: str) -> None:
    load = Load(DEEP_WRITE, slower=3.0, retransmitted=0.01, spurious=True, window_bytes=6e5)
    summary = summarise(write_run(tmp_path, [Pt(factors(settings="optimised", pattern=pattern), [load])]))
    (point,) = summary["points"]
    assert point["metrics"]["dropped_frames"]["mean"] == 0
    assert point["limiter"] not in ("congestion_window", "switch_buffer")


def test_a_sweep_over_vms_is_a_sweep_in_any_lab(tmp_path: Path) -> None:
    summary = swept(tmp_path)
    (sweep,) = summary["sweeps"]
    assert sweep["over"] == "vms"
    by_id = {p["point"]: p["factors"]["vms"] for p in summary["points"]}
    assert by_id[sweep["peak"]] == 2
    assert {"peak", "decline", "limiter"} <= {f["kind"] for f in summary["findings"]}
    assert all(p["bounds"] and p["hops"] for p in summary["points"])
    assert all(p["metrics"]["iops"]["mean"] for p in summary["points"])


def test_peaks_and_references_are_judged_in_any_lab(tmp_path: Path) -> None:
    first = swept(tmp_path / "first")["points"][1]["metrics"]["iops"]["mean"]
    publications = {"paper": {"title": {"en": "A paper", "ja": "論文"}, "source": "a paper"}}
    reference = {
        "kind": "table",
        "publication": "paper",
        "table": "paper",
        "where": {},
        "over": "vms",
        "metrics": {"iops": "iops"},
        "rows": [{"vms": 2.0, "iops": first}],
    }
    expect = [
        {"kind": "peak", "metric": "iops", "over": "vms", "low": 2, "high": 2},
        {"kind": "below_peak", "metric": "iops", "over": "vms", "at": 4, "low_percent": 5, "high_percent": 40},
        {"kind": "reference", "metric": "iops", "table": "paper", "percent": 5},
    ]
    summary = swept(tmp_path, expect=expect, publications=publications, reference=[reference])
    assert [e["held"] for e in summary["expectations"]] == [True, True, True]
    assert summary["references"][0]["rows"][0]["error_percent"] == pytest.approx(0, abs=0.1)
