"""Each check adds a caveat for its problem, and none otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.checks import machine
from hakaru.analysis.counters import Counters
from hakaru.analysis.rules import limits
from hakaru.analysis.utilisation import Use
from hakaru.caveats import CAVEATS, Caveat
from hakaru.kinds.vms.analysis.checks import generator
from hakaru.wording import LANGUAGES, catalogue

from tests.analysis.small_run import Group, Pt, Rep, write_run


def caveats(folder: Path, *reps: Rep) -> dict[str, dict[str, Any]]:
    """Return name → values of the caveats of a run with one point."""
    run = write_run(folder, [Pt({"vms": 2}, reps)])
    return {c["caveat"]: c["values"] for c in summarise(run)["points"][0]["caveats"]}


def test_undisturbed_run_has_no_caveat(tmp_path: Path) -> None:
    assert caveats(tmp_path, Rep(), Rep(), Rep()) == {}


def test_swinging_rate_is_not_steady(tmp_path: Path) -> None:
    swing = Rep(reads=(700, 700, 1000, 700, 700, 400, 700, 700))
    values = caveats(tmp_path, swing, Rep(), Rep())
    # Five parts of 1.6 s: the highest has 0.3 s more work than the mean, the lowest 0.3 s less.
    assert values["not_steady"]["range_percent"] == pytest.approx(37.5)


@pytest.mark.parametrize("reads", [range(700, 860, 20), range(860, 700, -20)])
def test_drifting_rate_is_not_steady_in_either_direction(tmp_path: Path, reads: range) -> None:
    assert "not_steady" in caveats(tmp_path, Rep(reads=tuple(reads)), Rep(), Rep())


def test_short_measurement_has_a_caveat_instead_of_a_judgement(tmp_path: Path) -> None:
    short = Rep(reads=(700,) * 3, writes=(300,) * 3)
    assert caveats(tmp_path, short, short, short) == {"too_short_to_judge": {"samples": 3}}


def test_samples_slightly_outside_the_window_count(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep(reads=(700,) * 5, writes=(300,) * 5)] * 3)])
    for file in (run / "repetitions").iterdir():
        repetition = json.loads(file.read_text())
        repetition["measure"]["start_ns"] += 3_000_000
        repetition["measure"]["end_ns"] -= 3_000_000
        file.write_text(json.dumps(repetition))
    assert summarise(run)["points"][0]["caveats"] == []


@pytest.mark.parametrize("warmup_ns", [0, 9_000_000])
def test_warm_up_shorter_than_a_request_is_a_caveat(tmp_path: Path, warmup_ns: int) -> None:
    values = caveats(tmp_path, Rep(warmup_ns=warmup_ns), Rep(), Rep())
    assert values == {"warmup_short": {"warmup_ms": warmup_ns / 1e6, "latency_ms": pytest.approx(10)}}
    assert caveats(tmp_path / "2", Rep(warmup_ns=10_000_000), Rep(), Rep()) == {}


def test_littles_law_is_checked_against_the_counted_outstanding_requests(tmp_path: Path) -> None:
    # 2 VMs x 1000/s x 10 ms = 20 requests outstanding
    values = caveats(tmp_path, Rep(outstanding=25.0), Rep(), Rep())
    assert values["littles_law"]["percent"] == pytest.approx(20)
    assert "littles_law" not in caveats(tmp_path / "2", Rep(outstanding=20.9), Rep(), Rep())


def test_one_byte_too_many_is_a_caveat(tmp_path: Path) -> None:
    values = caveats(tmp_path, Rep(array_bytes_more=1), Rep(), Rep())
    assert values["bytes_not_conserved"]["kind"] == "read"


@pytest.mark.parametrize(
    ("guests", "more", "conserved"),
    [
        ({}, 8192, False),
        ({"host-1": {"initiator": "hakaru"}}, 8192, False),
        ({"host-1": {"initiator": "open-iscsi"}}, 8192, True),
        ({"host-1": {"initiator": "open-iscsi"}}, -8192, False),
        ({"host-1": {"initiator": "open-iscsi"}}, 2 << 20, False),
    ],
)
def test_kernel_as_initiator_may_read_a_little_on_its_own(
    tmp_path: Path, guests: dict[str, Any], more: int, conserved: bool
) -> None:
    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep(array_bytes_more=more)] * 3)])
    for file in (run / "repetitions").iterdir():
        file.write_text(json.dumps(json.loads(file.read_text()) | {"guests": guests}))
    found = {c["caveat"] for c in summarise(run)["points"][0]["caveats"]}
    assert ("bytes_not_conserved" not in found) == conserved


def test_one_request_too_many_in_the_total_is_a_caveat(tmp_path: Path) -> None:
    values = caveats(tmp_path, Rep(vms_more=1), Rep(), Rep())
    assert values["total_not_sum"]["total"] - values["total_not_sum"]["sum"] == 1


def test_wire_bytes_must_equal_payload_plus_headers(tmp_path: Path) -> None:
    reads, writes = 2 * 700 * 4096, 2 * 300 * 4096
    right = Rep(nic={"tx": reads * 1.06 + 300_000, "rx": writes * 1.06 + 300_000})
    assert caveats(tmp_path / "1", right, right, right) == {}
    assert "wire_bytes" in caveats(tmp_path / "2", Rep(nic={"tx": reads * 0.9, "rx": writes * 1.1}), Rep(), Rep())
    assert "wire_bytes" in caveats(tmp_path / "3", Rep(nic={"tx": reads * 2.0, "rx": writes * 1.1}), Rep(), Rep())


def test_saturated_generator_makes_the_point_invalid(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"vms": 2}, [Rep(initiator_cpu=0.95)] * 3)])
    summary = summarise(run)
    assert summary["points"][0]["valid"] is False
    assert summary["valid"] is False


def test_checks_and_rules_have_the_same_limits_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    none, window = Counters({}), (0, 1)
    use = {"cpu/initiator": Use(85.0), "cpu/machine": Use(85.0)}
    assert not [*generator(use), *machine(none, window, use)]
    monkeypatch.setitem(limits.LIMITS, "cpu/initiator", 80.0)
    monkeypatch.setitem(limits.LIMITS, "cpu/machine", 80.0)
    assert [c.name for c in (*generator(use), *machine(none, window, use))] == [
        "generator_saturated",
        "machine_saturated",
    ]


def test_late_requests_that_cost_little_time_are_not_a_caveat(tmp_path: Path) -> None:
    assert caveats(tmp_path, *[Rep(late=500, late_share=0.02)] * 3) == {}


def test_late_requests_are_judged_by_their_share_of_the_latency(tmp_path: Path) -> None:
    few_late, many_late = Rep(late=20, late_share=0.1), Rep(late=20, late_share=0.4)
    assert caveats(tmp_path / "1", few_late, Rep(), Rep()) == {
        "issued_late": {"percent": pytest.approx(10), "late_ms": pytest.approx(1), "latency_ms": pytest.approx(10)}
    }
    assert summarise(write_run(tmp_path / "2", [Pt({"vms": 2}, [few_late] * 3)]))["valid"] is True
    assert caveats(tmp_path / "3", many_late, Rep(), Rep())["issued_too_late"]["percent"] == pytest.approx(40)
    assert summarise(write_run(tmp_path / "4", [Pt({"vms": 2}, [many_late] * 3)]))["valid"] is False


def test_waiting_for_the_in_flight_limit_is_not_the_load_generators_fault(tmp_path: Path) -> None:
    """The offered rate exceeds the rate of the system, so the wait is part of the latency that its
    users see.
    """
    patterns = {"p": {"sizes": [{"size": "4 KiB", "weight": 1}], "read_percent": 70, "random_percent": 100}}
    patterns["p"]["load"] = {"kind": "open", "rate_per_s": 1e4, "arrivals": "poisson", "in_flight_max": 32}
    study = {"load": {"kind": "vms", "patterns": patterns}}
    full = Rep(late=900, late_share=0.8, in_flight=64)
    summary = summarise(write_run(tmp_path, [Pt({"pattern": "p", "vms": 2}, [full] * 3)], **study))
    (point,) = summary["points"]
    values = {c["caveat"]: c["values"] for c in point["caveats"]}
    assert values["rate_not_kept"] == {"in_flight": 64, "percent": pytest.approx(80)}
    assert "issued_late" not in values and "issued_too_late" not in values
    assert point["valid"]


@pytest.mark.parametrize(
    ("victim", "aggressor", "other", "expected"),
    [
        (Group(0.1, in_flight=8), Group(0.8, 0.8, in_flight=128), Group(0.1), {"rate_not_kept": 128}),
        (Group(0.1, in_flight=8), Group(0.8, 0.8, in_flight=60), Group(0.1), {"issued_too_late": None}),
        # Requests of another group neither hide the lateness of a group nor fill its limit.
        (Group(0.9, in_flight=8), Group(0.05, 0.8, in_flight=128), Group(0.05), {"rate_not_kept": 128}),
        (Group(0.1, in_flight=8), Group(0.1, in_flight=128), Group(0.8, 0.8, in_flight=1), {"issued_too_late": None}),
    ],
)
def test_groups_with_an_open_load_wait_for_their_own_limits(
    tmp_path: Path, victim: Group, aggressor: Group, other: Group, expected: dict[str, int | None]
) -> None:
    """Aggressors that offer more than the array serves use all of their 2 x 64 requests. The
    victims have a closed load, and the other group a limit of 1,024.
    """
    pattern = {"sizes": [{"size": "4 KiB"}], "read_percent": 70, "random_percent": 100}
    offered = {"kind": "open", "rate_per_s": 1e4, "arrivals": "poisson"}
    patterns = {
        "victim": pattern | {"load": {"kind": "closed", "queue_depth": 8}},
        "aggressor": pattern | {"load": offered | {"in_flight_max": 64}},
        "other": pattern | {"load": offered | {"in_flight_max": 1024}},
    }
    groups = {
        name: {"role": "victim" if name == "victim" else "aggressor", "vms": 1 + (name == "aggressor"), "pattern": name}
        for name in patterns
    }
    study = {"load": {"kind": "vms", "patterns": patterns, "groups": groups}, "variables": {"case": {"beside": {}}}}
    rep = Rep(vms=4, groups={"victim": victim, "aggressor": aggressor, "other": other})
    run = write_run(tmp_path, [Pt({"case": "beside"}, [rep] * 3)], factors=[{"case": ["beside"]}], **study)
    (point,) = summarise(run)["points"]
    found = {c["caveat"]: c["values"] for c in point["caveats"] if c["caveat"] in ("rate_not_kept", "issued_too_late")}
    assert {name: values.get("in_flight") for name, values in found.items()} == expected
    assert point["valid"] is ("issued_too_late" not in expected)


def test_requests_that_were_due_and_never_issued_are_a_caveat(tmp_path: Path) -> None:
    some = caveats(tmp_path / "1", Rep(unissued=1e6), Rep(), Rep())["not_issued"]
    assert some["requests"] == 1_000_000
    assert 0 < some["percent"] < 100
    assert "not_issued" not in caveats(tmp_path / "2", *[Rep(unissued=1)] * 3)


def test_errors_and_failed_repetitions_are_counted(tmp_path: Path) -> None:
    values = caveats(tmp_path, Rep(errors=2), Rep(status="failed", error="the array vanished"), Rep())
    assert values["io_errors"] == {"errors": 16}
    assert values["repetition_failed"] == {"failed": 1, "planned": 3}
    assert values["few_repetitions"] == {"n": 2}


def test_differing_repetitions_are_noisy(tmp_path: Path) -> None:
    other = Rep(reads=(900,) * 8)
    assert "noisy" in caveats(tmp_path, Rep(), other, Rep())


def test_caveats_are_a_closed_list_with_a_text_in_every_language() -> None:
    for language in LANGUAGES:
        written = {m.removeprefix("caveat.") for m in catalogue(language) if m.startswith("caveat.")}
        assert {m for m in written if "." not in m} == set(CAVEATS)
    with pytest.raises(ValueError, match="not on the list"):
        Caveat("made_up")


def test_caveats_survive_conversion_to_json_and_back() -> None:
    caveat = Caveat("noisy", {"percent": 7.5})
    assert Caveat.from_json(caveat.to_json()) == caveat
    assert Caveat.from_json("noisy") == Caveat("noisy")
    assert Caveat.from_json({"caveat": "of another version"}) is None
    assert Caveat.from_json(7) is None
