"""Copies: metrics, hop table, limiter, and the sentences about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonschema
import pytest
from hakaru import lost_packets
from hakaru.analysis import summarise
from hakaru.kinds.copy.analysis.maps import collapsed
from hakaru.wording import number

from tests.analysis.small_backup import (
    FULL,
    PUBLICATIONS,
    PUBLISHED,
    SLOW,
    VARIABLES,
    Copy,
    Pt,
    published_shape,
    write_run,
)

SCHEMA = Path(__file__).parents[3] / "schema" / "report.schema.json"
PAYLOAD_1G = 1e9 / 8 * 1448 / 1538 / 1e6
"""TCP payload on 1 Gbit/s Ethernet with full frames, in MB/s."""
MIB_PER_MB = 1e6 / 2**20


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Summary of a run of the published shape."""
    return summarise(published_shape(tmp_path_factory.mktemp("runs")))


def single_point(folder: Path, copy: Copy, **factors: Any) -> dict[str, Any]:
    """Return the only point of a run with one repetition."""
    summary = summarise(write_run(folder, [Pt({"case": "unthrottled"} | factors, [copy])]))
    point: dict[str, Any] = summary["points"][0]
    return point | {"findings": summary["findings"]}


def mean(point: dict[str, Any], metric: str) -> float:
    value: float = point["metrics"][metric]["mean"]
    return value


def hop(point: dict[str, Any], link: str, source: str) -> dict[str, Any]:
    return next(h for h in point["hops"] if h["link"] == link and h["from"] == source)


def caveat_names(point: dict[str, Any]) -> set[str]:
    return {c["caveat"] for c in point["caveats"]}


def test_summary_matches_the_schema(shape: dict[str, Any]) -> None:
    jsonschema.validate(shape, json.loads(SCHEMA.read_text()), cls=jsonschema.Draft202012Validator)
    json.dumps(shape, allow_nan=False)
    assert {f["kind"] for f in shape["findings"]} == {"limiter", "ratio", "tcp_age", "collapse", "remedy", "reference"}


def test_rates_follow_from_the_copied_bytes(tmp_path: Path) -> None:
    point = single_point(tmp_path, Copy(rate=20.0, seconds=10))
    assert mean(point, "mib_per_s") == mean(point, "sum_mib_per_s") == pytest.approx(80 * MIB_PER_MB)
    assert mean(point, "mib_per_s/vm2_3") == pytest.approx(20 * MIB_PER_MB)
    assert mean(point, "path_percent") == pytest.approx(100 * 80 / PAYLOAD_1G)
    assert point["path"]["payload_mib_per_s"] == pytest.approx(PAYLOAD_1G * MIB_PER_MB)
    assert mean(point, "last_done_s") == 10


def test_packets_lost_in_the_warm_up_do_not_make_the_network_the_bottleneck(tmp_path: Path) -> None:
    before = single_point(tmp_path / "before", Copy(warmup=4, lost=8, lost_until=4, machine_cpu=0.2))
    during = single_point(tmp_path / "during", Copy(warmup=4, lost=8, machine_cpu=0.2))
    assert (before["limiter"] == "fabric", during["limiter"]) == (False, "fabric")


def test_timeout_wait_is_the_timers_plus_the_recovery_after_them(tmp_path: Path) -> None:
    point = single_point(tmp_path, Copy(seconds=8, timeouts=40, recovering_s=1.6, dropped=100, retransmitted=100))
    assert mean(point, "timeouts") == 40
    assert mean(point, "timeout_wait_s") == pytest.approx(40 * 0.2 + 1.6)
    assert mean(point, "timeout_wait_percent") == pytest.approx(100 * 9.6 / (4 * 8))


def test_kernel_that_does_not_count_timeouts_has_no_timeout_wait(tmp_path: Path) -> None:
    point = single_point(tmp_path, Copy(rate=6, timeouts=40, dropped=100, retransmitted=100, old_kernel=True))
    assert point["metrics"]["timeout_wait_s"]["mean"] is None
    assert point["limiter"] == "switch_buffer"
    assert "is not known" in point["findings"][0]["text"]


def test_losses_of_connections_that_are_not_counted_are_those_of_the_guest(tmp_path: Path) -> None:
    point = single_point(tmp_path, replace(SLOW, read_by_kernel=0))
    assert point["metrics"]["retransmitted_percent"]["mean"] is None
    assert point["metrics"]["timeouts"]["mean"] is None
    assert point["limiter"] == "switch_buffer"
    assert "is not known" in point["findings"][0]["text"]
    no_loss = replace(SLOW, read_by_kernel=0, retransmitted=0)
    assert single_point(tmp_path / "none", no_loss)["limiter"] != "switch_buffer"


def test_hops_follow_the_data_from_source_to_destination(tmp_path: Path) -> None:
    point = single_point(tmp_path, SLOW)
    data = [(h["leg"], h["from"], h["to"]) for h in point["hops"] if h["carries"] == "data"]
    assert data == [
        ("read", "primary", "core"),
        ("read", "core", "kvm-1"),
        ("write", "kvm-1", "core"),
        ("write", "core", "edge"),
        ("write", "edge", "vtl"),
    ]
    assert [(h["from"], h["to"]) for h in point["hops"] if h["carries"] == "replies"] == [
        ("core", "primary"),
        ("vtl", "edge"),
        ("edge", "core"),
    ]
    port = hop(point, "vtl", "edge")
    assert port["dropped_buffer"]["mean"] == 3412
    assert port["frames_in"]["mean"] == port["frames_out"]["mean"] + port["dropped"]["mean"]
    assert port["queue_bytes"] == 65536
    assert hop(point, "kvm-1", "kvm-1")["queue_bytes"] is None
    assert mean(point, "dropped_frames") == 3412
    assert point["tcp"]["nodes"]["kvm-1"]["timeouts"]["mean"] == 118
    assert point["tcp"]["connections"]["destination"]["retransmits"]["mean"] == 3500


def test_unaccounted_frame_makes_the_point_invalid(tmp_path: Path) -> None:
    assert "frames_not_conserved" not in caveat_names(single_point(tmp_path / "good", SLOW))
    point = single_point(tmp_path / "bad", Copy(unaccounted=1))
    assert "frames_not_conserved" in caveat_names(point)
    assert point["valid"] is False


def test_bytes_of_jobs_and_arrays_must_agree(tmp_path: Path) -> None:
    assert "bytes_not_conserved" not in caveat_names(single_point(tmp_path / "good", FULL))
    assert "bytes_not_conserved" in caveat_names(single_point(tmp_path / "bad", Copy(array_bytes_more=512)))


@pytest.mark.parametrize(
    ("copy", "conserved"),
    [
        (Copy(read_by_kernel=64 << 10), True),
        (Copy(read_by_kernel=2 << 20), False),
        (Copy(read_by_kernel=-512), False),
        (Copy(read_by_kernel=0, array_bytes_more=512), False),
    ],
)
def test_kernel_that_is_the_initiator_reads_a_little_more(tmp_path: Path, copy: Copy, conserved: bool) -> None:
    assert ("bytes_not_conserved" not in caveat_names(single_point(tmp_path, copy))) is conserved


@pytest.mark.parametrize(
    ("copy", "factors", "limiter"),
    [
        (SLOW, {}, "switch_buffer"),
        (FULL, {}, "link"),
        (Copy(rate=28.0, dropped=9000, retransmitted=9000), {}, "link"),
        (Copy(rate=82.0, busy={"primary drive/0.0": 0.99}), {"case": "ten-to-ten"}, "drives"),
        (Copy(rate=82.0, busy={"vtl controller": 0.97}), {"case": "ten-to-ten"}, "controller"),
        (Copy(rate=10.0, marked=9000, dropped=4, retransmitted=4), {}, "congestion_marks"),
        (Copy(rate=10.0, marked=9000), {}, "congestion_marks"),
        (Copy(rate=28.0, marked=9000), {}, "link"),
        (Copy(rate=10.0, marked=900, dropped=500, retransmitted=500), {}, "switch_buffer"),
        (
            Copy(rate=6.0, marked=9000, dropped=400, retransmitted=400, timeouts=118, recovering_s=9),
            {},
            "switch_buffer",
        ),
        (Copy(rate=10.0), {}, "undetermined"),
        (Copy(rate=10.0, backup_cpu=0.95), {}, "generator_cpu"),
        (Copy(rate=10.0, backup_cpu=0.95, dropped=50, retransmitted=50), {}, "generator_cpu"),
        (Copy(rate=10.0, fabric_cpu=0.97, dropped=50, retransmitted=50), {}, "fabric"),
        (Copy(rate=10.0, fabric_cpu=0.97, late_us=900, dropped=50, retransmitted=50), {}, "fabric"),
        (Copy(rate=10.0, fabric_cpu=0.97, late_us=90, dropped=50, retransmitted=50), {}, "switch_buffer"),
        (Copy(rate=10.0, machine_cpu=0.97), {}, "machine_cpu"),
        (Copy(rate=10.0, machine_cpu=0.82, cpu_wait=0.55), {}, "machine_cpu"),
        (Copy(rate=10.0, machine_cpu=0.82, cpu_wait=0.45), {}, "undetermined"),
        (Copy(rate=10.0, machine_cpu=0.60, cpu_wait=0.55, fabric_cpu=0.8), {}, "undetermined"),
        (Copy(rate=10.0, lost=600, dropped=500, retransmitted=500), {}, "fabric"),
        (Copy(rate=10.0, lost=1, dropped=500, retransmitted=500), {}, "switch_buffer"),
        (Copy(rate=28.0, link_busy={"vtl b-a": 0.5}), {"case": "throttled"}, "rate_limit"),
    ],
)
def test_limiter_of_a_copy_is_named(tmp_path: Path, copy: Copy, factors: dict[str, Any], limiter: str) -> None:
    assert single_point(tmp_path, copy, **factors)["limiter"] == limiter


def test_rate_explained_by_blocks_in_flight_is_limited_by_depth(tmp_path: Path) -> None:
    # A block of 256 KiB takes 1 ms to read and 40 ms to write; four jobs with two blocks each give
    # 51.2 MB/s.
    backup = {
        "kind": "copy",
        "jobs": 4,
        "streams": 1,
        "depth": 2,
        "block": "256 KiB",
        "from": {"array": "primary", "lus": [0]},
    }
    backup |= {"to": {"array": "vtl", "lus": [0]}}
    copies = [Copy(rate=8 * 0.262144 / 0.041 / 4), Copy(rate=20.0)]
    points = [Pt({"case": "unthrottled", "streams": i}, [copy]) for i, copy in enumerate(copies)]
    summary = summarise(write_run(tmp_path, points, load=backup, variables={"case": VARIABLES["case"]}))
    assert [p["limiter"] for p in summary["points"]] == ["depth", "undetermined"]
    text = next(f["text"] for f in summary["findings"] if f["kind"] == "limiter")
    assert "At most 8 blocks of 256 KiB are in flight at any time. Each takes 1.0 ms to read and 40.0 ms" in text
    assert "The resource closest to its limit is the link" in text


def test_finding_on_a_busy_machine_names_the_share_of_cpu_wait(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path, [Pt({"case": "unthrottled"}, [Copy(machine_cpu=0.82, cpu_wait=0.55)])]))
    text = next(f["text"] for f in summary["findings"] if f["kind"] == "limiter")
    assert "A process waited for a CPU during 55.0 % of the time" in text


def test_busy_fabric_invalidates_a_point_only_if_frames_were_late(tmp_path: Path) -> None:
    on_time = single_point(tmp_path / "kept", Copy(fabric_cpu=0.97, late_us=90))
    late = single_point(tmp_path / "late", Copy(fabric_cpu=0.97, late_us=900))
    slow = single_point(tmp_path / "slow", Copy(fabric_cpu=0.5, late_us=900))
    assert "fabric_saturated" not in caveat_names(on_time) and on_time["valid"]
    assert {"fabric_saturated", "fabric_late"} <= set(caveat_names(late)) and not late["valid"]
    assert "fabric_late" in caveat_names(slow) and slow["valid"]


@pytest.mark.parametrize(
    ("lost", "dropped", "caveat"),
    [
        (0, 4000, []),
        (1, 899, ["fabric_limit"]),
        (1, 900, ["fabric_lost"]),
        (5, 4499, ["fabric_limit"]),
        (3, 0, ["fabric_limit"]),
    ],
)
def test_lost_packets_are_weighed_as_super_frames_against_modelled_drops(
    lost: int, dropped: int, caveat: list[str]
) -> None:
    assert [c.name for c in lost_packets.of_totals(lost, dropped)] == caveat


def test_jobs_at_their_rate_limit_are_limited_by_it(tmp_path: Path) -> None:
    backup = {"kind": "copy", "jobs": 4, "streams": 1, "rate_limit": "80 Mbit/s"}
    backup |= {"from": {"array": "primary", "lus": [0]}, "to": {"array": "vtl", "lus": [0]}}
    run = write_run(tmp_path, [Pt({"case": "unthrottled"}, [Copy(rate=9.9)])], load=backup)
    assert summarise(run)["points"][0]["limiter"] == "rate_limit"


def test_sentence_about_the_slow_pattern_has_the_counters(shape: dict[str, Any]) -> None:
    slow = next(f for f in shape["findings"] if f["limiter"] == "switch_buffer")
    for words in (
        "10 Gbit/s",
        "64 KiB",
        "3,412 of 136,009 frames",
        "No frames are dropped at other ports",
        "118 retransmission timeouts",
    ):
        assert words in slow["text"]
    for words in ("10 Gbit/s", "64 KiB", "136,009", "3,412", "118 回"):
        assert words in slow["text_ja"]
    assert "75.0" in slow["text"] and "79.6" in slow["text"]
    assert slow["evidence"]["dropped_elsewhere"] == 0


def test_sentence_about_marks_has_the_counters(tmp_path: Path) -> None:
    slow = single_point(tmp_path, Copy(rate=10, marked=9000, dropped=4, retransmitted=4))["findings"][0]
    for words in (
        "1 Gbit/s port to vtl marks 9,000 of 220,",
        "The port drops 4 of the frames. No frames are dropped at other ports",
        "66.0 %",
    ):
        assert words in slow["text"], slow["text"]
    assert "9,000" in slow["text_ja"]


def test_drops_elsewhere_are_reported(tmp_path: Path) -> None:
    text = single_point(tmp_path, Copy(rate=6, dropped=500, dropped_elsewhere=7, retransmitted=500, timeouts=9))[
        "findings"
    ][0]["text"]
    assert "Frames dropped at other ports: 7." in text


def test_timeouts_that_explain_little_are_not_named_as_the_reason(tmp_path: Path) -> None:
    text = single_point(tmp_path, Copy(rate=15, dropped=500, retransmitted=500, timeouts=5))["findings"][0]["text"]
    assert "accounts for" not in text
    assert "smaller windows" in text


def test_ratio_is_compared_with_the_published_one_of_the_same_tcp(shape: dict[str, Any]) -> None:
    ratios = {f["where"]["tcp"]: f for f in shape["findings"] if f["kind"] == "ratio"}
    assert ratios["2009"]["evidence"]["ratio"] == pytest.approx(28 / 6)
    assert ratios["2009"]["evidence"]["published_ratio"] == pytest.approx(95.72 / 21.24)
    assert ratios["today"]["evidence"]["published_ratio"] is None
    # Ten to ten is another path and is not compared.
    assert {ratios["2009"]["evidence"][k] for k in ("fast", "slow")} == {"throttled", "unthrottled"}


def test_published_rows_of_a_case_are_summed(shape: dict[str, Any]) -> None:
    (table,) = shape["references"]
    assert table["where"] == {"tcp": "2009"}
    first = table["rows"][0]
    assert first["level"] == "unthrottled"
    assert first["published"] == pytest.approx(21.24)
    assert len(first["parts"]) == 4
    assert first["mean"] == pytest.approx(24 * MIB_PER_MB)


def test_effect_of_the_tcp_stack_is_reported_for_each_case(shape: dict[str, Any]) -> None:
    ages = {f["where"]["case"]: f for f in shape["findings"] if f["kind"] == "tcp_age"}
    assert ages["unthrottled"]["evidence"]["ratio"] == pytest.approx(22 / 6)
    assert "from 118 to 2" in ages["unthrottled"]["text"]
    assert "do not show an effect of the age of TCP" in ages["throttled"]["text"]


@pytest.mark.parametrize(
    ("old", "new", "alike", "interval"),
    [
        ((10.0, 10.4, 9.6), (11.5, 11.8, 11.2), False, "95 % confidence interval 1.06 to 1.25, n = 3"),
        ((6.0, 10.0, 14.0), (12.0, 8.0, 16.0), True, "n = 3"),
        ((10.0,), (11.5,), False, "no confidence interval, n = 1"),
        ((10.0,), (10.5,), True, "no confidence interval, n = 1"),
    ],
)
def test_ratio_of_copies_has_an_interval_that_decides_whether_they_differ(
    tmp_path: Path, old: tuple[float, ...], new: tuple[float, ...], alike: bool, interval: str
) -> None:
    for factor, levels, kind in (
        ("case", ("throttled", "unthrottled"), "ratio"),
        ("tcp", ("2009", "today"), "tcp_age"),
    ):
        points = [
            Pt({"case": "unthrottled", factor: level}, [Copy(rate=rate) for rate in rates])
            for level, rates in zip(levels, (old, new), strict=True)
        ]
        run = write_run(tmp_path / kind, points)
        (finding,) = [f for f in summarise(run)["findings"] if f["kind"] == kind]
        evidence = finding["evidence"]
        assert evidence["ratio"] == pytest.approx(sum(new) / sum(old))
        assert (evidence["ratio_low"] is None, evidence["n"]) == (len(old) == 1, len(old))
        assert ("do not show" in finding["text"], "認められない" in finding["text_ja"]) == (alike, alike)
        assert interval in finding["text"], finding["text"]


def test_points_that_copy_images_of_different_sizes_are_compared(tmp_path: Path) -> None:
    """A slow copy needs a larger image until its rate lasts."""
    ages = VARIABLES["tcp"]
    sizes = {"load.image": "80 MB", "load.warmup": "0 s", "load.time_limit": "60 s"}
    variables = VARIABLES | {"tcp": ages | {"today": ages["today"] | sizes}}
    points = [Pt({"tcp": tcp}, [Copy(rate=rate)] * 3) for tcp, rate in (("2009", 10.0), ("today", 20.0))]
    findings = summarise(write_run(tmp_path, points, variables=variables))["findings"]
    (age,) = [f for f in findings if f["kind"] == "tcp_age"]
    assert age["evidence"]["ratio"] == pytest.approx(2)


def test_effect_of_the_tcp_stack_is_not_reported_for_points_limited_by_the_test_setup(tmp_path: Path) -> None:
    copies = {"2009": Copy(rate=10, backup_cpu=0.95), "today": Copy(rate=14)}
    points = [Pt({"case": "unthrottled", "tcp": tcp}, [copy]) for tcp, copy in copies.items()]
    assert "tcp_age" not in {f["kind"] for f in summarise(write_run(tmp_path, points))["findings"]}


def test_cell_below_half_of_the_path_is_a_collapse(shape: dict[str, Any]) -> None:
    first, second = shape["maps"]
    assert (first["where"]["tcp"], second["where"]["tcp"]) == ("2009", "today")
    assert len(first["cells"]) == 20
    for cell in first["cells"]:
        assert cell["collapsed"] == (cell["path_percent"] < 50)
    # 4 jobs of 4 + 5 k + 3 j MB/s reach half of 117.7 MB/s at 14.7 MB/s each: k = 3, 2, 1, 1.
    assert first["least_buffer_bytes"] == {"1": 256 << 10, "2": 128 << 10, "4": 64 << 10, "8": 64 << 10}


def test_least_buffer_lies_above_every_collapse(tmp_path: Path) -> None:
    rates = {("32 KiB", 1): 20, ("64 KiB", 1): 5, ("128 KiB", 1): 20, ("32 KiB", 2): 20, ("128 KiB", 2): 5}
    levels = [({"buffer": b, "streams": s}, Copy(rate=r, dropped=9)) for (b, s), r in rates.items()]
    summary = summarise(write_run(tmp_path, [Pt(f, [c]) for f, c in levels]))
    assert summary["maps"][0]["least_buffer_bytes"] == {"1": 128 << 10, "2": None}


def test_slow_array_is_not_a_collapse(tmp_path: Path) -> None:
    levels = [{"buffer": b, "streams": s} for b in ("32 KiB", "64 KiB") for s in (1, 2)]
    summary = summarise(write_run(tmp_path, [Pt(f, [Copy(rate=5, busy={"vtl drive/0.0": 0.99})]) for f in levels]))
    assert not any(c["collapsed"] for c in summary["maps"][0]["cells"])
    assert {f["kind"] for f in summary["findings"]} == {"limiter", "collapse"}
    assert summary["points"][0]["limiter"] == "drives"


def test_copies_at_a_site_are_not_judged_by_the_network_of_the_lab(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"case": "unthrottled"}, [FULL] * 3)])
    in_lab = summarise(run)["points"][0]
    described = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(described | {"site": {"name": "ours"}}))
    summary = summarise(run)
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (at_site,) = summary["points"]
    assert mean(in_lab, "path_percent") > 80 and at_site["metrics"]["path_percent"]["mean"] is None
    assert mean(at_site, "mib_per_s") == mean(in_lab, "mib_per_s")
    assert at_site["path"]["payload_mib_per_s"] is None and at_site["hops"] == []


@pytest.mark.parametrize(
    ("path_percent", "dropped", "expected"),
    [(20.0, 9.0, True), (20.0, 0.0, False), (20.0, None, False), (80.0, 9.0, False), (None, 9.0, False)],
)
def test_collapse_needs_drops_that_were_counted(
    path_percent: float | None, dropped: float | None, expected: bool
) -> None:
    point = SimpleNamespace(mean={"path_percent": path_percent, "dropped_frames": dropped}.get)
    assert collapsed(cast(Any, point)) is expected


def test_remedies_are_single_changes_with_the_cheapest_first(shape: dict[str, Any]) -> None:
    (remedy,) = [f for f in shape["findings"] if f["kind"] == "remedy"]
    assert remedy["where"] == {"case": "unthrottled", "tcp": "2009"}
    assert [c["kind"] for c in remedy["evidence"]["changes"]] == ["send_rate", "pause"]
    assert "port limited to 1 Gbit/s" in remedy["text"]


def test_change_that_reverts_another_is_not_a_single_change(tmp_path: Path) -> None:
    cases = {"unthrottled": Copy(rate=6, dropped=9), "ecn": Copy(rate=6, marked=900, dropped=9), "deep": Copy(rate=28)}
    summary = summarise(write_run(tmp_path, [Pt({"case": case}, [copy]) for case, copy in cases.items()]))
    (remedy,) = [f for f in summary["findings"] if f["kind"] == "remedy"]
    assert remedy["where"] == {"case": "unthrottled"}
    assert [change["kind"] for change in remedy["evidence"]["changes"]] == ["queue"]


def test_initiators_are_compared_and_are_no_remedy(tmp_path: Path) -> None:
    points = [({}, SLOW), ({"initiator": "open-iscsi"}, replace(SLOW, rate=6.3, read_by_kernel=4096))]
    rates = (6.0, 6.1, 5.9)
    runs = [
        Pt({"case": "unthrottled"} | more, [replace(copy, rate=copy.rate * rate / 6) for rate in rates])
        for more, copy in points
    ]
    findings = summarise(write_run(tmp_path, runs))["findings"]
    (compared,) = [f for f in findings if f["kind"] == "initiators"]
    assert compared["evidence"]["ratio"] == pytest.approx(1.05)
    assert compared["evidence"]["n"] == 3
    assert "With the initiator of Linux" in compared["text"] and "1.05 times" in compared["text"]
    # Both collapse.
    assert "remedy" not in {f["kind"] for f in findings}


def test_remedy_uses_the_least_buffer_and_the_fewest_streams(tmp_path: Path) -> None:
    points = [
        ({}, 6),
        ({"buffer": "256 KiB"}, 27),
        ({"buffer": "512 KiB"}, 28),
        ({"streams": 8}, 28),
        ({"streams": 4}, 27),
    ]
    runs = [Pt({"case": "unthrottled"} | more, [Copy(rate=r, dropped=10, retransmitted=10)]) for more, r in points]
    summary = summarise(write_run(tmp_path, runs))
    (remedy,) = [f for f in summary["findings"] if f["kind"] == "remedy"]
    assert [(c["kind"], c["after"]) for c in remedy["evidence"]["changes"]] == [("streams", 4), ("queue", "256 KiB")]


def test_point_with_failed_repetitions_has_no_results(tmp_path: Path) -> None:
    summary = summarise(
        write_run(
            tmp_path,
            [Pt({"case": "unthrottled"}, [Copy(status="failed")])],
            publications=PUBLICATIONS,
            reference=[PUBLISHED],
        )
    )
    point = summary["points"][0]
    assert point["valid"] is False
    assert point["limiter"] == "undetermined"
    assert point["hops"] == []
    assert "No repetition has a result" in summary["findings"][0]["text"]


def test_sum_above_the_path_is_explained_by_jobs_that_end_early(tmp_path: Path) -> None:
    point = single_point(tmp_path, Copy(rate=28.0, seconds=8, slowest_seconds=16))
    assert mean(point, "mib_per_s") == pytest.approx(4 * 28 / 2 * MIB_PER_MB)
    assert mean(point, "sum_mib_per_s") == pytest.approx((3 * 28 + 14) * MIB_PER_MB)
    assert mean(point, "fastest_to_slowest") == pytest.approx(2)
    assert mean(point, "jain_index") == pytest.approx((3.5 * 28) ** 2 / 4 / (3.25 * 28**2))
    assert [mean(point, f"ranked_seconds/{rank}") for rank in (1, 2, 3, 4)] == [8, 8, 8, 16]
    copied = [mean(point, f"ranked_mib/{rank}") for rank in (1, 2, 3, 4)]
    assert copied == pytest.approx([28 * 8 * MIB_PER_MB] * 3 + [14 * 16 * MIB_PER_MB])
    assert "exceeds" not in point["findings"][0]["text"]
    fast = single_point(tmp_path / "fast", Copy(rate=40.0, seconds=8, slowest_seconds=16))
    assert "exceeds the 112 MiB/s" in fast["findings"][0]["text"]
    assert "112 MiB/s を超える" in fast["findings"][0]["text_ja"]


def test_baseline_between_the_hosts_belongs_to_the_lab_of_the_study(tmp_path: Path) -> None:
    nodes = [{"name": name, "kind": "host"} for name in ("a", "b")]
    baselines = [{"from": "a", "to": "b", "forward_payload_bits_per_s": 9.1e9}]
    points = [Pt({"case": case}, [Copy()]) for case in ("unthrottled", "throttled")]
    run = write_run(tmp_path, points)
    (run / "lab.json").write_text(json.dumps({"nodes": nodes, "baselines": baselines}))
    base, other = summarise(run)["points"]
    assert base["metrics"]["baseline_gbit_per_s"]["mean"] == pytest.approx(9.1)
    assert other["metrics"]["baseline_gbit_per_s"]["mean"] is None


def test_expectation_about_a_table_names_the_worst_level_of_a_text_factor(tmp_path: Path) -> None:
    expect = [{"kind": "reference", "table": "jdsf-2013-backup", "metric": "mib_per_s", "percent": 25}]
    points = [Pt({"case": "unthrottled", "tcp": "2009"}, [SLOW])]
    run = write_run(tmp_path, points, publications=PUBLICATIONS, reference=[PUBLISHED], expect=expect)
    (outcome,) = summarise(run)["expectations"]
    assert outcome["held"] is True
    assert "unthrottled" in outcome["found"] and "unthrottled" in outcome["found_ja"]


def test_outcome_of_an_expectation_states_the_interval_of_the_value(tmp_path: Path) -> None:
    expect = [{"kind": "reference", "table": "jdsf-2013-backup", "metric": "mib_per_s", "percent": 25}]
    copies = [replace(SLOW, rate=SLOW.rate * share) for share in (0.99, 1.0, 1.01)]
    points = [Pt({"case": "unthrottled", "tcp": "2009"}, copies)]
    run = write_run(tmp_path, points, publications=PUBLICATIONS, reference=[PUBLISHED], expect=expect)
    summary = summarise(run)
    estimate = summary["points"][0]["metrics"]["mib_per_s"]
    interval = f"{number(estimate['low'])}–{number(estimate['high'])}"
    (outcome,) = summary["expectations"]
    assert f"95 % confidence interval of the value {interval}" in outcome["found"]
    assert f"値の 95 % 信頼区間 {interval}" in outcome["found_ja"]


def test_expectations_about_the_best_number_of_streams_are_judged(tmp_path: Path) -> None:
    rates = {1: 10.0, 2: 25.0, 4: 20.0}
    points = [Pt({"case": "unthrottled", "streams": n}, [Copy(rate=rate)] * 3) for n, rate in rates.items()]
    over: dict[str, Any] = {"metric": "mib_per_s", "over": "streams"}
    below = {"kind": "below_peak", "at": 4, "low_percent": 15, "high_percent": 25} | over
    expect = [{"kind": "peak", "low": n, "high": n} | over for n in (2, 4)]
    outcomes = summarise(write_run(tmp_path, points, expect=[*expect, below]))["expectations"]
    assert [outcome["held"] for outcome in outcomes] == [True, False, True]
