"""`/metrics` of a run in progress, and the dashboard for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import hakaru.web
import pytest
from hakaru.live.state import State
from hakaru.web.metrics import RATES, exposition
from prometheus_client.parser import text_string_to_metric_families

DASHBOARD = Path(hakaru.web.__file__).parent / "grafana.json"
QUEUES = {"in_flight": 7.0, "drives": 3.5, "link_bytes": 9000.0}
FACTORS = {"vms": 7}


def state(**rates: float | None) -> State:
    """A run under load with these rates."""
    points = [{"point": "p01", "factors": FACTORS, "repetitions": 2}]
    state = State.of_files("r-1", {"study": "s", "kind": "k"}, points, [])
    begin = {"point": "p01", "repetition": 1, "factors": FACTORS, "done": 1, "total": 4, "left_s": 60}
    state.apply({"event": "repetition_started", "at": 10.0, **begin})
    state.apply({"event": "sample", "at": 11.0, "left_s": 59, "queues": QUEUES, **rates})
    return state


def samples(state: State | None) -> dict[tuple[str, str], float]:
    """Scrape; return (name, queue or nothing) → value."""
    body, content_type = exposition(lambda: state)
    assert content_type.startswith("text/plain")
    families = text_string_to_metric_families(body.decode())
    return {(s.name, s.labels.get("queue", "")): s.value for family in families for s in family.samples}


def test_rates_have_base_units() -> None:
    scraped = samples(state(iops=3280.0, mb_per_s=107.5, latency_ms_p99=120.0))
    assert scraped["hakaru_run_requests_per_second", ""] == 3280
    assert scraped["hakaru_run_bytes_per_second", ""] == pytest.approx(107.5e6)
    assert scraped["hakaru_run_latency_p99_seconds", ""] == pytest.approx(0.12)
    assert scraped["hakaru_run_queue_length", "drives"] == 3.5
    assert scraped["hakaru_run_link_queue_bytes", ""] == 9000
    assert ("hakaru_run_queue_length", "link_bytes") not in scraped
    assert scraped["hakaru_run_repetitions_done", ""] == 1
    assert scraped["hakaru_run_active", ""] == 1


def test_values_that_do_not_exist_and_ended_runs_have_no_rates() -> None:
    assert ("hakaru_run_latency_p99_seconds", "") not in samples(state(iops=1.0, latency_ms_p99=None))
    ended = state(iops=1.0)
    ended.apply({"event": "run_ended", "at": 12.0, "status": "done", "done": 4, "total": 4})
    scraped = samples(ended)
    assert ("hakaru_run_requests_per_second", "") not in scraped
    assert scraped["hakaru_run_active", ""] == 0
    assert samples(None) == {("hakaru_run_active", ""): 0}


def test_rates_of_other_packages_keep_their_name() -> None:
    assert samples(state(**{"tapes.per_h": 3.0}))["hakaru_run_tapes_per_h", ""] == 3


def queries(value: Any) -> list[str]:
    """Every query of a dashboard: `expr` of targets, and queries of variables."""
    if isinstance(value, dict):
        own = [v for k, v in value.items() if k in ("expr", "query") and isinstance(v, str)]
        return own + [query for each in value.values() for query in queries(each)]
    return [query for each in value for query in queries(each)] if isinstance(value, list) else []


def test_the_dashboard_queries_existing_series() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    existing = {name for name, _ in samples(state(**dict.fromkeys(RATES, 1.0)))}
    used = {name for query in queries(dashboard) for name in re.findall(r"hakaru_[a-z0-9_]+", query)}
    assert len(used) >= 10
    assert used <= existing, used - existing
    # Every panel has a place and a query, and none overlaps another.
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert all(panel["targets"] for panel in dashboard["panels"])
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
