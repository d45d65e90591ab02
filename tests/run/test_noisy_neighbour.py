"""The quick form of the study noisy-neighbour in a real lab: the cost of the aggressors, and the
cap that restores the victim's service.
"""

from __future__ import annotations

import json

import pytest
from hakaru.store import RunReader

from tests.run.conftest import Hakaru

pytestmark = pytest.mark.alone

LONGEST_S = 120
"""Length of the quick form that the README of the study states."""


def test_quick_form_is_planned_to_take_less_than_two_minutes(hakaru: Hakaru) -> None:
    result = hakaru.run("plan", "noisy-neighbour", "--quick", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout)["estimate"]["seconds_most"] < LONGEST_S


def test_cap_restores_the_victims_service_and_holds_its_rate(hakaru: Hakaru) -> None:
    result = hakaru.run("run", "noisy-neighbour", "--quick", "--report", "html")
    assert result.returncode == 0, result.stdout + result.stderr
    reader = RunReader(hakaru.only_run())
    summary = reader.read("summary.json")
    finding = next(f for f in summary["findings"] if f["kind"] == "neighbours")
    evidence = finding["evidence"]
    _, beside, capped = (evidence["points"][point["point"]] for point in summary["points"])
    assert [evidence["alone"], evidence["beside"], evidence["best"]] == [p["point"] for p in summary["points"]]
    # Cost of the aggressors, in rate and 99th percentile.
    assert beside["p99_ratio"]["mean"] > 2 and beside["rate_ratio"]["mean"] < 0.6
    # The service with the cap is within a fifth of that alone, and the finding names the cap.
    assert capped["p99_ratio"]["mean"] <= 1.2 and capped["taken_back_percent"] > 80
    assert capped["caps"] == ["lu"] and "lu-cap restores the service" in finding["text"]
    # The cap holds its 20 accesses per second within 2 %, at the array and at the initiators.
    metrics = summary["points"][2]["metrics"]
    assert metrics["cap_iops"]["mean"] == pytest.approx(20, rel=0.02)
    assert metrics["aggressor_iops"]["mean"] == pytest.approx(20, rel=0.02)
    # The first page of the report has these numbers as tiles, and a figure.
    written = (hakaru.only_run() / "report" / "report.en.html").read_text().partition("</nav>")[0]
    assert "With the best remedy, lu-cap" in written and "99th percentile of the victims" in written
    assert evidence["limiter"] == "drives" and evidence["added_ms"]["drives"] > evidence["added_ms"]["controller"]
