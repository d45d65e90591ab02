"""The quick form of the study noisy-neighbour in a real lab: for each shared resource the cost of
the aggressors, the bottleneck, and the cap that restores the victim's service; and shares.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hakaru.report import render
from hakaru.store import RunReader

from tests.long_form import IS_LONG
from tests.run.conftest import Hakaru

pytestmark = pytest.mark.alone

LONGEST_S = 180
"""Length of the quick form that the README of the study states."""
BOTTLENECKS = {"link": "link", "controller": "controller", "cache": "cache", "drives": "drives", "pool": "drives"}
"""Shared resource → the bottleneck beside the aggressors."""
if not IS_LONG:
    # All five take three minutes, in which no other test runs.
    BOTTLENECKS = {name: BOTTLENECKS[name] for name in ("controller", "pool")}


def test_quick_form_is_planned_to_take_less_than_three_minutes(hakaru: Hakaru) -> None:
    result = hakaru.ask("plan", "noisy-neighbour", "--quick", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout)["estimate"]["seconds_most"] < LONGEST_S


def test_cap_restores_the_victims_service_for_every_resource_and_holds_its_rate(hakaru: Hakaru) -> None:
    only = f"resource={','.join(BOTTLENECKS)}"
    result = hakaru.run("run", "noisy-neighbour", "--quick", "--only", only, "--report", "none")
    assert result.returncode == 0, result.stdout + result.stderr
    run = hakaru.only_run()
    summary = RunReader(run).read("summary.json")
    points: dict[tuple[str, str], Any] = {
        (p["factors"]["resource"], p["factors"]["neighbour"]): p["metrics"] for p in summary["points"]
    }
    about_all = next(f for f in summary["findings"] if f["kind"] == "neighbour_cases")
    cases = {case["where"]["resource"]: case for case in about_all["evidence"]["cases"]}
    # Cost of the aggressors in rate and 99th percentile, and the resource that causes it.
    assert {name: case["limiter"] for name, case in cases.items()} == BOTTLENECKS
    for name, case in cases.items():
        assert case["p99_ratio"]["mean"] > 2 and case["rate_ratio"]["mean"] < 0.7, name
        # The service with the cap is within a fifth of that alone, and the cap holds its 20
        # accesses per second within 2 %, at the array and at the initiators.
        capped = case["remedies"][0]
        assert (capped["label"], capped["restores"]) == ("iops-cap", True), capped
        assert points[name, "iops-cap"]["cap_iops"]["mean"] == pytest.approx(20, rel=0.02), name
        assert points[name, "iops-cap"]["aggressor_iops"]["mean"] == pytest.approx(20, rel=0.02), name
    assert about_all["evidence"]["everywhere"] == ["iops-cap"]
    # Shares lengthen the victim's response times much less than no limit, and leave the aggressors
    # much more than the cap.
    beside, shared, capped = (points["controller", level] for level in ("beside", "shares", "iops-cap"))
    assert shared["victim_latency_ms_p99"]["mean"] < 0.5 * beside["victim_latency_ms_p99"]["mean"]
    assert shared["aggressor_iops"]["mean"] > 10 * capped["aggressor_iops"]["mean"]
    # The aggressors of the pool write to space that has no page. The victim has its pages by then.
    allocated = {level: points["pool", level]["pool_mb_per_s"]["mean"] for level in ("alone", "beside")}
    assert allocated["alone"] < 1 < allocated["beside"]
    # The time grows in the resource that is shared.
    each = [f for f in summary["findings"] if f["kind"] == "neighbours"]
    added = {f["where"]["resource"]: f["evidence"]["added_ms"] for f in each}
    most = {name: max(parts, key=parts.__getitem__) for name, parts in added.items()}
    assert most == {name: "outside" if name == "link" else resource for name, resource in BOTTLENECKS.items()}
    # The first page of the report has these numbers as tiles, and a figure.
    (page,) = render(run, ["html"], ["en"])
    written = page.read_text().partition("</nav>")[0]
    assert "Restores the service in every case" in written and "as a multiple of the value alone" in written
