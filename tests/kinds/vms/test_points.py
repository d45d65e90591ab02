"""Points over a distance: metrics, limiters, and the sentences about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hakaru.analysis import summarise
from hakaru.kinds.vms.analysis.flows import PHASES, SHARES

from tests.analysis.small_distance import START, Load, Pt, factors, published_shape, spec_of, write_run

SCHEMA = Path(__file__).parents[3] / "schema" / "report.schema.json"


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Summary of a run of the published shape."""
    return summarise(published_shape(tmp_path_factory.mktemp("runs")))


def single_point(folder: Path, load: Load, **more: Any) -> dict[str, Any]:
    """Return the only point of a run with one repetition, with its limiter's finding."""
    summary = summarise(write_run(folder, [Pt(factors() | more, [load])]))
    point: dict[str, Any] = summary["points"][0]
    return point | {"finding": next(f for f in summary["findings"] if f["kind"] == "limiter")}


def mean(point: dict[str, Any], metric: str) -> float:
    value: float = point["metrics"][metric]["mean"]
    return value


def caveat_names(point: dict[str, Any]) -> set[str]:
    return {c["caveat"] for c in point["caveats"]}


DEEP = spec_of("optimised", 20, lanes=32, depth=4)


def stalled(**more: Any) -> Load:
    """Return a deep load that reaches a third of its rate for a reason other than its commands."""
    return Load(DEEP, **({"slower": 3.0} | more))


def test_summary_matches_the_schema(shape: dict[str, Any]) -> None:
    jsonschema.validate(shape, json.loads(SCHEMA.read_text()), cls=jsonschema.Draft202012Validator)
    json.dumps(shape, allow_nan=False)
    assert {f["kind"] for f in shape["findings"]} == {"gain", "reach", "limiter"}
    assert all(p["valid"] for p in shape["points"])


def test_rate_comes_from_latency_if_a_count_would_be_off_by_a_request(tmp_path: Path) -> None:
    """The rate is right although only two of three requests of 1.5 s are counted in 3 s."""
    spec = spec_of("default", 20, request=12 << 20, command=512 << 10)
    pattern = {"sizes": [{"size": "12 MiB"}], "read_percent": 0, "load": {"kind": "closed", "queue_depth": 1}}
    folder = write_run(tmp_path, [Pt(factors(), [Load(spec, seconds=3)])], patterns={"write-4m": pattern})
    samples = next(folder.glob("samples/*.parquet"))
    table = pq.read_table(samples)
    # The engine counts a request when it has ended, so it counts whole requests.
    counted, values = table.column("name").to_pylist(), table.column("value").to_pylist()
    unit = {"writes": 1, "write_bytes": spec.request}
    whole = [v // unit[n] * unit[n] if n in unit else v for n, v in zip(counted, values, strict=True)]
    assert whole != values
    column = table.schema.get_field_index("value")
    pq.write_table(table.set_column(column, "value", pa.array(whole)), samples)
    point = summarise(folder)["points"][0]
    latency_s = mean(point, "latency_ms_mean") / 1e3
    assert mean(point, "mb_per_s") == pytest.approx(spec.request / 1e6 / latency_s)


def test_shares_of_phases_and_of_tcp_add_up(shape: dict[str, Any]) -> None:
    for point in shape["points"]:
        phases = [point["metrics"][f"{p}_percent"]["mean"] for p in PHASES]
        assert sum(p for p in phases if p is not None) == pytest.approx(100)
        assert sum(mean(point, f"tcp_{s}_percent") for s in SHARES) == pytest.approx(100)


def test_defaults_of_2009_are_limited_by_r2t_turns_with_the_arithmetic(tmp_path: Path) -> None:
    point = single_point(tmp_path, Load(spec_of("default", 20)))
    assert point["limiter"] == "r2t_turns"
    assert mean(point, "bound_share_percent") == pytest.approx(100, abs=0.5)
    text = point["finding"]["text"]
    assert "One command of 512 KiB is outstanding at a time. It takes 3 round trips of 20 ms" in text
    assert "and 4.48 ms of transfer, so the rate is at most 8.13 MB/s" in text
    assert "62.0 % of their time waiting for R2Ts" in text


def test_load_without_r2ts_is_limited_by_depth(tmp_path: Path) -> None:
    point = single_point(tmp_path, Load(spec_of("optimised", 20)), settings="optimised")
    assert point["limiter"] == "depth"
    assert "4 MiB is sent as 8 commands at once. It takes 1 round trip of 20 ms" in point["finding"]["text"]


def test_full_link_takes_precedence_over_other_limits(tmp_path: Path) -> None:
    point = single_point(tmp_path, Load(DEEP, send_buffer=0.4), settings="optimised", queue_depth=4)
    assert point["limiter"] == "link"
    assert point["resource"] == "link/host/host>wan"


@pytest.mark.parametrize(("clock", "name"), [("receive_window", "receive window"), ("send_buffer", "send buffer")])
def test_stall_that_explains_the_unused_time_is_the_limiter(tmp_path: Path, clock: str, name: str) -> None:
    point = single_point(tmp_path, stalled(**{clock: 0.6}), settings="optimised", queue_depth=4)
    assert point["limiter"] == clock
    # Half of the window of 2 MB was in flight.
    assert f"The {name} is the bottleneck: TCP waits for it 60.0 %" in point["finding"]["text"]
    assert (
        "At most 1 MB were in flight per round trip of 20 ms, which corresponds to 50 MB/s" in point["finding"]["text"]
    )


def test_stall_that_explains_little_is_not_the_limiter(tmp_path: Path) -> None:
    assert (
        single_point(tmp_path, stalled(send_buffer=0.2), settings="optimised", queue_depth=4)["limiter"]
        == "undetermined"
    )


def test_losses_with_a_small_window_are_limited_by_the_congestion_window(tmp_path: Path) -> None:
    load = stalled(retransmitted=0.01, timeouts=3, window_bytes=6e5)
    point = single_point(tmp_path, load, settings="optimised", queue_depth=4)
    assert point["limiter"] == "congestion_window"
    text = point["finding"]["text"]
    assert "0.990 % of the bytes are retransmissions" in text
    assert "3 retransmission timeouts cost at least 0.600 s" in text
    assert "The window averages 0.600 MB per round trip of 20 ms, which corresponds to 30 MB/s" in text


def test_window_that_allows_far_more_than_the_rate_is_not_the_limiter(tmp_path: Path) -> None:
    load = stalled(retransmitted=0.01, window_bytes=4e6)
    assert single_point(tmp_path, load, settings="optimised", queue_depth=4)["limiter"] != "congestion_window"
    load = stalled(retransmitted=0.01, timeouts=3, window_bytes=4e6)
    assert single_point(tmp_path, load, settings="optimised", queue_depth=4)["limiter"] == "congestion_window"


def test_growing_window_is_limited_by_slow_start(tmp_path: Path) -> None:
    growing = {"window_growth": 3.0, "window_bytes": 4e5}
    point = single_point(tmp_path / "path", stalled(**growing), settings="optimised", queue_depth=4)
    assert point["limiter"] == "slow_start"
    # TCP that has nothing to send for half of the time is not held back by its window.
    idle = single_point(tmp_path / "idle", stalled(**growing, busy=0.5), settings="optimised", queue_depth=4)
    assert idle["limiter"] == "undetermined"


def test_saturated_array_is_the_limiter(tmp_path: Path) -> None:
    assert (
        single_point(tmp_path, stalled(array_busy=0.99), settings="optimised", queue_depth=4)["limiter"] == "controller"
    )


def test_saturated_or_late_fabric_is_the_limiter(tmp_path: Path) -> None:
    assert single_point(tmp_path, stalled(fabric_cpu=0.95), settings="optimised", queue_depth=4)["limiter"] == "fabric"
    late = single_point(tmp_path / "late", stalled(fabric_cpu=0.95, late_us=900), settings="optimised", queue_depth=4)
    assert late["limiter"] == "fabric"
    lost = single_point(tmp_path, stalled(lost=12), settings="optimised", queue_depth=4)
    assert lost["limiter"] == "fabric"
    assert "12 packets outside its model" in lost["finding"]["text"]


def test_busy_fabric_that_is_on_time_is_not_the_limiter(tmp_path: Path) -> None:
    point = single_point(
        tmp_path, stalled(fabric_cpu=0.95, late_us=90, receive_window=0.6), settings="optimised", queue_depth=4
    )
    assert point["limiter"] == "receive_window"
    assert point["valid"]


def test_load_at_its_bound_stays_valid_despite_a_late_fabric(tmp_path: Path) -> None:
    late_fabric = {"fabric_cpu": 0.97, "late_us": 900}
    near = single_point(tmp_path / "near", Load(spec_of("default", 20), **late_fabric))
    far = single_point(tmp_path / "far", Load(spec_of("default", 20), slower=1.5, **late_fabric))
    assert near["metrics"]["bound_share_percent"]["mean"] >= 95 > far["metrics"]["bound_share_percent"]["mean"]
    assert near["valid"] and not far["valid"]


def test_one_lost_packet_among_thousands_of_modelled_drops_is_not_the_limiter(tmp_path: Path) -> None:
    load = stalled(retransmitted=0.01, window_bytes=6e5, lost=1)
    assert single_point(tmp_path, load, settings="optimised", queue_depth=4)["limiter"] == "congestion_window"


def test_limiter_without_sufficient_evidence_is_undetermined(tmp_path: Path) -> None:
    point = single_point(tmp_path, stalled(tcp=False), settings="optimised", queue_depth=4)
    assert point["limiter"] == "undetermined"
    assert "does not report how TCP spent its time" in point["finding"]["text"]
    slow = single_point(tmp_path / "b", Load(spec_of("default", 20), slower=1.5))
    assert slow["limiter"] == "undetermined"


def test_r2t_limit_needs_as_many_counted_r2ts_as_assumed(tmp_path: Path) -> None:
    """The rate equals that of the defaults of 2009, but the commands took no R2T, so the closed
    form does not explain it.
    """
    point = single_point(tmp_path, Load(spec_of("parameters", 20), slower=64.48 / 24.46))
    assert mean(point, "bound_share_percent") == pytest.approx(100, abs=1)
    assert point["limiter"] == "undetermined"


def test_reads_are_judged_by_the_tcp_of_the_array(tmp_path: Path) -> None:
    spec = spec_of("default", 20, op="read", segment=128 << 10)
    point = single_point(tmp_path, Load(spec), pattern="read-4m")
    assert mean(point, "tcp_path_percent") == pytest.approx(100)
    assert point["limiter"] == "depth"
    assert point["request"]["op"] == "read"


def test_gain_is_relative_to_the_first_setting_at_each_distance(shape: dict[str, Any]) -> None:
    gains = {f["where"]["rtt"]: f for f in shape["findings"] if f["kind"] == "gain"}
    assert list(gains) == ["0 ms", "10 ms", "20 ms", "40 ms"]
    ratio = gains["20 ms"]["evidence"]["ratio"]
    assert ratio["parameters"] == pytest.approx(64.48 / 24.46, rel=2e-3)
    assert "parameters 21.4 MB/s (2.64 times)" in gains["20 ms"]["text"]


def test_invalid_points_are_in_no_gain_and_no_reach(tmp_path: Path) -> None:
    late = {(where, rtt): {"slower": 2.0, "fabric_cpu": 0.95} for where, rtt in (("default", 40), ("parameters", 0))}
    points = [
        Pt(factors(rtt, setting), [Load(spec_of(setting, rtt), **late.get((setting, rtt), {}))])
        for setting in ("default", "parameters")
        for rtt in (0, 20, 40)
    ]
    summary = summarise(write_run(tmp_path, points))
    assert [p["valid"] for p in summary["points"]] == [True, True, False, False, True, True]
    gains = [f["where"]["rtt"] for f in summary["findings"] if f["kind"] == "gain"]
    reach = {f["where"]["settings"]: f["evidence"]["rtt_ms"] for f in summary["findings"] if f["kind"] == "reach"}
    assert gains == ["20 ms"]
    assert reach == {"default": [0, 20], "parameters": [20, 40]}


def test_curves_have_a_bound_that_no_point_exceeds(shape: dict[str, Any]) -> None:
    by_id = {p["point"]: p for p in shape["points"]}
    assert [c["name"] for c in shape["curves"]] == [{"settings": s} for s in ("default", "parameters", "optimised")]
    for curve in shape["curves"]:
        assert curve["rtt_ms"] == [0, 10, 20, 40]
        for point in curve["points"]:
            assert mean(by_id[point], "mb_per_s") <= mean(by_id[point], "bound_mb_per_s") * 1.002
        heights = [mb for _, mb in curve["bound"]]
        assert heights == sorted(heights, reverse=True)


def test_expectations_can_check_metrics_and_limiters(tmp_path: Path) -> None:
    expect = [
        {"kind": "bound", "metric": "bound_share_percent", "at_least": 90, "where": {"rtt": "20 ms"}},
        {
            "kind": "ratio",
            "metric": "mb_per_s",
            "of": {"settings": "parameters"},
            "to": {"settings": "default"},
            "at_least": 2.5,
        },
        {
            "kind": "ratio",
            "metric": "mb_per_s",
            "of": {"settings": "parameters"},
            "to": {"settings": "default"},
            "at_least": 2.9,
        },
        {"kind": "limiter", "resources": ["r2t_turns"], "where": {"settings": "default"}},
    ]
    points = [Pt(factors(20, s), [Load(spec_of(s, 20))] * 2) for s in ("default", "parameters")]
    expectations = summarise(write_run(tmp_path, points, expect=expect))["expectations"]
    assert [e["held"] for e in expectations] == [True, True, False, True]
    assert "waiting for R2Ts" in expectations[3]["text"]


def test_recorded_window_replaces_the_sampled_one_over_time(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt(factors(), [Load(spec_of("default", 20))])])
    over = summarise(run)["points"][0]["over_time"]
    assert len(over["window_t_s"]) == len(over["window_congestion_mb"]) == 31
    rows = [
        {"at_ns": START + i * 10_000_000, "node": node, "source": source, "local": "a", "peer": "b",
         "congestion_window_bytes": 1e6 + i, "unacked_bytes": 5e5, "not_sent_bytes": None}
        for i in range(50)
        for node, source in (("host", "sock_diag"), ("host", "tcp_probe"), ("array", "sock_diag"))
    ]  # fmt: skip
    (run / "tcp").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), run / "tcp" / "p01-1.parquet")
    over = summarise(run)["points"][0]["over_time"]
    assert over["window_t_s"] == pytest.approx([i / 100 for i in range(50)])
    assert over["window_congestion_mb"][-1] == pytest.approx(1.000049)
    assert over["window_not_sent_mb"] == [None] * 50
