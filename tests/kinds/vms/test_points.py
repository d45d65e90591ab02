"""Points over a distance: metrics, what limits them, and the sentences about it."""

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

from tests.analysis.small_distance import START, Load, Pt, asked_of, factors, published_shape, write_run

SCHEMA = Path(__file__).parents[3] / "schema" / "report.schema.json"


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Summary of a run of the published shape."""
    return summarise(published_shape(tmp_path_factory.mktemp("runs")))


def one(folder: Path, load: Load, **more: Any) -> dict[str, Any]:
    """The only point of a run with one repetition, and its limiter's finding."""
    summary = summarise(write_run(folder, [Pt(factors() | more, [load])]))
    point: dict[str, Any] = summary["points"][0]
    return point | {"finding": next(f for f in summary["findings"] if f["kind"] == "limiter")}


def mean(point: dict[str, Any], metric: str) -> float:
    value: float = point["metrics"][metric]["mean"]
    return value


def names(point: dict[str, Any]) -> set[str]:
    return {c["caveat"] for c in point["caveats"]}


DEEP = asked_of("optimised", 20, lanes=32, depth=4)


def stalled(**more: Any) -> Load:
    """A deep load that something else than its commands holds to a third."""
    return Load(DEEP, **({"slower": 3.0} | more))


def test_summary_is_what_the_schema_says(shape: dict[str, Any]) -> None:
    jsonschema.validate(shape, json.loads(SCHEMA.read_text()), cls=jsonschema.Draft202012Validator)
    json.dumps(shape, allow_nan=False)
    assert {f["kind"] for f in shape["findings"]} == {"gain", "reach", "limiter"}
    assert all(p["valid"] for p in shape["points"])


def test_rate_comes_from_latency_where_a_count_would_be_off_by_a_request(tmp_path: Path) -> None:
    """Two of the three requests of 1.5 s are counted in the 3 s: the rate is right nevertheless."""
    asked = asked_of("default", 20, request=12 << 20, command=512 << 10)
    pattern = {"sizes": [{"size": "12 MiB"}], "read_percent": 0, "load": {"kind": "closed", "queue_depth": 1}}
    folder = write_run(tmp_path, [Pt(factors(), [Load(asked, seconds=3)])], patterns={"write-4m": pattern})
    samples = next(folder.glob("samples/*.parquet"))
    table = pq.read_table(samples)
    # The engine counts a request when it has ended: in whole ones.
    counted, values = table.column("name").to_pylist(), table.column("value").to_pylist()
    unit = {"writes": 1, "write_bytes": asked.request}
    whole = [v // unit[n] * unit[n] if n in unit else v for n, v in zip(counted, values, strict=True)]
    assert whole != values
    column = table.schema.get_field_index("value")
    pq.write_table(table.set_column(column, "value", pa.array(whole)), samples)
    point = summarise(folder)["points"][0]
    latency_s = mean(point, "latency_ms_mean") / 1e3
    assert mean(point, "mb_per_s") == pytest.approx(asked.request / 1e6 / latency_s)


def test_shares_of_phases_and_of_tcp_add_up(shape: dict[str, Any]) -> None:
    for point in shape["points"]:
        phases = [point["metrics"][f"{p}_percent"]["mean"] for p in PHASES]
        assert sum(p for p in phases if p is not None) == pytest.approx(100)
        assert sum(mean(point, f"tcp_{s}_percent") for s in SHARES) == pytest.approx(100)


def test_era_waits_for_r2ts_and_the_arithmetic_says_so(tmp_path: Path) -> None:
    point = one(tmp_path, Load(asked_of("default", 20)))
    assert point["limiter"] == "r2t_turns"
    assert mean(point, "bound_share_percent") == pytest.approx(100, abs=0.5)
    text = point["finding"]["text"]
    assert "One command of 512 KiB at a time; 3 round trips of 20 ms and 4.48 ms of transfer: at most 8.13 MB/s" in text
    assert "62.0 % of their time waiting for R2Ts" in text


def test_without_r2ts_it_is_depth(tmp_path: Path) -> None:
    point = one(tmp_path, Load(asked_of("optimised", 20)), settings="optimised")
    assert point["limiter"] == "depth"
    assert "4 MiB is sent as 8 commands at once; 1 round trip of 20 ms" in point["finding"]["text"]


def test_full_link_is_named_before_all_else(tmp_path: Path) -> None:
    point = one(tmp_path, Load(DEEP, send_buffer=0.4), settings="optimised", queue_depth=4)
    assert point["limiter"] == "link"
    assert point["resource"] == "link/host/host>wan"


@pytest.mark.parametrize(("clock", "name"), [("receive_window", "receive window"), ("send_buffer", "send buffer")])
def test_stall_that_explains_the_unused_time_is_named(tmp_path: Path, clock: str, name: str) -> None:
    point = one(tmp_path, stalled(**{clock: 0.6}), settings="optimised", queue_depth=4)
    assert point["limiter"] == clock
    # Half of the window of 2 MB was in flight.
    assert f"The {name} is the bottleneck: TCP waits for it 60.0 %" in point["finding"]["text"]
    assert "At most 1 MB were in flight per round trip of 20 ms: 50 MB/s" in point["finding"]["text"]


def test_stall_that_explains_little_is_not(tmp_path: Path) -> None:
    assert one(tmp_path, stalled(send_buffer=0.2), settings="optimised", queue_depth=4)["limiter"] == "undetermined"


def test_losses_and_a_path_that_holds_it_back_are_the_window(tmp_path: Path) -> None:
    load = stalled(retransmitted=0.01, timeouts=3, window_bytes=6e5)
    point = one(tmp_path, load, settings="optimised", queue_depth=4)
    assert point["limiter"] == "congestion_window"
    text = point["finding"]["text"]
    assert "0.990 % of the bytes are retransmissions" in text
    assert "3 retransmission timeouts cost at least 0.600 s" in text
    assert "The window averages 0.600 MB per round trip of 20 ms: 30 MB/s" in text


def test_window_that_would_carry_far_more_is_not_what_limits(tmp_path: Path) -> None:
    load = stalled(retransmitted=0.01, window_bytes=4e6)
    assert one(tmp_path, load, settings="optimised", queue_depth=4)["limiter"] != "congestion_window"
    load = stalled(retransmitted=0.01, timeouts=3, window_bytes=4e6)
    assert one(tmp_path, load, settings="optimised", queue_depth=4)["limiter"] == "congestion_window"


def test_window_that_still_grows_is_slow_start(tmp_path: Path) -> None:
    point = one(tmp_path, stalled(window_growth=3.0, busy=0.5), settings="optimised", queue_depth=4)
    assert point["limiter"] == "slow_start"


def test_array_at_its_limit_is_named(tmp_path: Path) -> None:
    assert one(tmp_path, stalled(array_busy=0.99), settings="optimised", queue_depth=4)["limiter"] == "controller"


def test_emulated_network_at_its_limit_speaks_of_the_tester(tmp_path: Path) -> None:
    assert one(tmp_path, stalled(fabric_cpu=0.95), settings="optimised", queue_depth=4)["limiter"] == "fabric"
    late = one(tmp_path / "late", stalled(fabric_cpu=0.95, late_us=900), settings="optimised", queue_depth=4)
    assert late["limiter"] == "fabric"
    lost = one(tmp_path, stalled(lost=12), settings="optimised", queue_depth=4)
    assert lost["limiter"] == "fabric"
    assert "12 packets outside its model" in lost["finding"]["text"]


def test_emulated_network_that_is_busy_and_keeps_its_instants_limits_nothing(tmp_path: Path) -> None:
    point = one(tmp_path, stalled(fabric_cpu=0.95, late_us=90, receive_window=0.6), settings="optimised", queue_depth=4)
    assert point["limiter"] == "receive_window"
    assert point["valid"]


def test_load_at_its_bound_is_not_spoilt_by_a_network_that_fell_behind(tmp_path: Path) -> None:
    behind = {"fabric_cpu": 0.97, "late_us": 900}
    near = one(tmp_path / "near", Load(asked_of("default", 20), **behind))
    far = one(tmp_path / "far", Load(asked_of("default", 20), slower=1.5, **behind))
    assert near["metrics"]["bound_share_percent"]["mean"] >= 95 > far["metrics"]["bound_share_percent"]["mean"]
    assert near["valid"] and not far["valid"]


def test_a_packet_lost_beside_thousands_dropped_as_asked_limits_nothing(tmp_path: Path) -> None:
    load = stalled(retransmitted=0.01, window_bytes=6e5, lost=1)
    assert one(tmp_path, load, settings="optimised", queue_depth=4)["limiter"] == "congestion_window"


def test_numbers_that_do_not_say_leave_it_undetermined(tmp_path: Path) -> None:
    point = one(tmp_path, stalled(tcp=False), settings="optimised", queue_depth=4)
    assert point["limiter"] == "undetermined"
    assert "does not report how TCP spent its time" in point["finding"]["text"]
    slow = one(tmp_path / "b", Load(asked_of("default", 20), slower=1.5))
    assert slow["limiter"] == "undetermined"


def test_as_many_r2ts_as_assumed_must_have_been_counted(tmp_path: Path) -> None:
    """The rate of the era's parameters, but of commands that took no R2T: the closed form does not
    explain it.
    """
    point = one(tmp_path, Load(asked_of("parameters", 20), slower=64.48 / 24.46))
    assert mean(point, "bound_share_percent") == pytest.approx(100, abs=1)
    assert point["limiter"] == "undetermined"


def test_reads_are_judged_by_the_array_that_sends(tmp_path: Path) -> None:
    asked = asked_of("default", 20, op="read", segment=128 << 10)
    point = one(tmp_path, Load(asked), pattern="read-4m")
    assert mean(point, "tcp_path_percent") == pytest.approx(100)
    assert point["limiter"] == "depth"
    assert point["request"]["op"] == "read"


def test_gain_is_against_the_first_setting_at_each_distance(shape: dict[str, Any]) -> None:
    gains = {f["where"]["rtt"]: f for f in shape["findings"] if f["kind"] == "gain"}
    assert list(gains) == ["0 ms", "10 ms", "20 ms", "40 ms"]
    ratio = gains["20 ms"]["evidence"]["ratio"]
    assert ratio["parameters"] == pytest.approx(64.48 / 24.46, rel=2e-3)
    assert "parameters 21.4 MB/s, 2.64 times as much" in gains["20 ms"]["text"]


def test_curves_carry_a_bound_that_no_point_passes(shape: dict[str, Any]) -> None:
    by_id = {p["point"]: p for p in shape["points"]}
    assert [c["name"] for c in shape["curves"]] == [{"settings": s} for s in ("default", "parameters", "optimised")]
    for curve in shape["curves"]:
        assert curve["rtt_ms"] == [0, 10, 20, 40]
        for point in curve["points"]:
            assert mean(by_id[point], "mb_per_s") <= mean(by_id[point], "bound_mb_per_s") * 1.002
        heights = [mb for _, mb in curve["bound"]]
        assert heights == sorted(heights, reverse=True)


def test_expectations_hold_metrics_and_limiters(tmp_path: Path) -> None:
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
    points = [Pt(factors(20, s), [Load(asked_of(s, 20))] * 2) for s in ("default", "parameters")]
    found = summarise(write_run(tmp_path, points, expect=expect))["expectations"]
    assert [e["held"] for e in found] == [True, True, False, True]
    assert "waiting for R2Ts" in found[3]["text"]


def test_watched_window_is_shown_where_there_is_one(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt(factors(), [Load(asked_of("default", 20))])])
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
