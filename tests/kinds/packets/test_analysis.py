"""Analysis of searches: rates, places of losses, CPU next to the result, bottleneck, report."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.analysis.estimate import variation
from hakaru.analysis.rules import judge
from hakaru.analysis.rules.evidence import Evidence, Forwarding
from hakaru.engine import contract
from hakaru.kinds.packets import figures, names
from hakaru.kinds.packets.report import REPORT
from hakaru.kinds.packets.rules import STAGES
from hakaru.report import charts
from hakaru.study import Study, load
from hakaru.study.references import RatioReference, ValueReference
from hakaru.wording import number, say

from tests.kinds.packets.invented import LATENCY_NS, Pt, Rep, summary_of
from tests.kinds.packets.simulated import Bench
from tests.kinds.packets.study import fields

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "schema" / "report.schema.json"


def test_rate_losses_delay_and_cpu_of_a_point(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(c)) for c in (99_000.0, 100_000.0, 101_000.0)]))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (point,) = summary["points"]
    metrics = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    assert metrics["frames_per_s"] == pytest.approx(100_000, rel=0.006)
    rates = point["repetitions"]["frames_per_s"]
    assert len(rates) == 3 and metrics["variation_percent"] == pytest.approx(100 * stdev(rates) / mean(rates))
    assert "variation_percent" not in point["repetitions"]
    assert metrics["mbit_per_s"] == pytest.approx(metrics["frames_per_s"] * 64 * 8 / 1e6)
    assert metrics["share_of_tester_percent"] == pytest.approx(20, rel=0.01)
    assert metrics["lost_percent/input"] == pytest.approx(100)
    assert metrics["lost_percent/unlocated"] == metrics["lost_percent/receiver"] == 0
    assert metrics["latency_us_p50/50"] == pytest.approx(40, rel=0.001)
    assert metrics["busiest_cpu_percent"] == pytest.approx(99, rel=0.001)
    assert metrics["machine_percent"] == pytest.approx(69.5, rel=0.001)
    assert point["valid"] and point["limiter"] == "one_cpu"
    finding = summary["findings"][0]
    assert "CPU 1 is 99.0 % busy" in finding["text"] and "CPU 1" in finding["text_ja"]


def test_percentiles_of_delays_exist_only_if_fewer_frames_were_lost_than_lie_above_them(tmp_path: Path) -> None:
    first = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(9e4))]))["points"][0]["metrics"]
    shares = [name for name in first if name.startswith("latency_us_p99/")]
    assert shares and all(first[name]["mean"] is not None for name in shares)
    (described,) = tmp_path.rglob("run.json")
    for path in described.parent.glob("repetitions/*.json"):
        record = json.loads(path.read_text())
        for entry in record["trials"]["log"]:
            for stream in entry["streams"] if entry["purpose"] == "latency" else ():
                stream["lost"] = stream["sent"] // 10
                stream["received"] = stream["sent"] - stream["lost"]
        path.write_text(json.dumps(record))
    lossy = summarise(described.parent)["points"][0]["metrics"]
    assert all(lossy[name]["mean"] is None for name in shares)
    assert all(lossy[name.replace("p99", "p50")]["mean"] is not None for name in shares)


def test_single_repetition_has_no_variation(tmp_path: Path) -> None:
    (point,) = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(100_000.0))]))["points"]
    assert point["metrics"]["frames_per_s"]["mean"] is not None
    assert point["metrics"]["variation_percent"]["mean"] is None


def test_searches_that_the_published_procedure_repeats_have_a_variation(tmp_path: Path) -> None:
    published = {"procedure": "published", "repeats": 3, "budget": "10 min"}
    reps = [Rep(Bench(100_000.0), search=published), Rep(Bench(90_000.0), search=published)]
    (point,) = summary_of(tmp_path / "published", Pt({"frame": 64}, reps))["points"]
    (mlr,) = summary_of(tmp_path / "mlr", Pt({"frame": 64}, [Rep(Bench(100_000.0))]))["points"]
    # The simulated device is the same in all searches of a repetition, but not in both repetitions.
    assert point["metrics"]["repeats_variation_percent"]["mean"] == pytest.approx(0, abs=1e-6)
    assert point["metrics"]["repeats_variation_percent"]["n"] == 2
    assert point["metrics"]["variation_percent"]["mean"] > 5
    assert mlr["metrics"]["repeats_variation_percent"]["mean"] is None


def test_published_variation_is_that_of_the_published_trials() -> None:
    with (ROOT / "reference" / "iw-2011-forwarding-trials.csv").open() as file:
        trials = [float(row["mean_fps_over_sizes"]) for row in csv.DictReader(file)]
    found = variation(trials)
    (row,) = (r for r in load("forwarding").study.reference if isinstance(r, ValueReference))
    assert (row.metric, row.published) == ("variation_percent", round(found.mean or 0.0, 1))
    assert (found.n, found.low, found.high) == (3, None, None)


QUEUES = {
    "queues-1-8-e1000": ("e1000", 1, 8),
    "queues-1-8-virtio-net": ("virtio-net", 1, 8),
    "queues-1-8-vhost-net": ("vhost-net", 1, 8),
    "queues-1-4-vhost-net": ("vhost-net", 1, 4),
    "queues-4-8-vhost-net": ("vhost-net", 4, 8),
}
"""Row of the study → driver and the two numbers of queues, on cores 4 and 6 in one direction."""


def test_published_ratios_of_queues_are_those_of_the_published_table() -> None:
    with (ROOT / "reference" / "iw-2011-forwarding-direction.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["vcpu_pin"], row["direction"]) == ("4+6", "uni")]
    rates = {(row["guest_driver"], int(row["rss_queues"])): float(row["mean_fps"]) for row in rows}
    published = {
        row.id: row.published
        for row in load("forwarding").study.reference
        if isinstance(row, RatioReference) and row.id.startswith("queues-")
    }
    assert published == {
        name: pytest.approx(rates[driver, of] / rates[driver, to], abs=0.0005)
        for name, (driver, of, to) in QUEUES.items()
    }


POSITIONS = {
    "core-1": ("1", "2"),
    "core": ("0", "2"),
    "processors": ("2", "4+6"),
    "pinning": ("4+6", "5+7"),
    "both-to-one-5-7": ("5+7", "5+7"),
    "both-to-one": ("4+6", "4+6"),
}
"""Beginning of the name of a row of the study → the two positions of virtual processors."""
QUEUES_OF = {"sr-iov": "8"}
"""Driver → number of receive queues (RSS) of its published rows, if not one."""


def test_published_ratios_of_positions_and_directions_are_those_of_the_published_table() -> None:
    with (ROOT / "reference" / "iw-2011-forwarding-direction.csv").open() as file:
        rates = {
            (row["guest_driver"], row["rss_queues"], row["vcpu_pin"], row["direction"]): float(row["mean_fps"])
            for row in csv.DictReader(file)
        }
    checked = 0
    for row in load("forwarding").study.reference:
        word = next((word for word in POSITIONS if str(row.id).startswith(f"{word}-")), None)
        if isinstance(row, RatioReference) and word is not None:
            nic = row.id.removeprefix(f"{word}-")
            driver, queues = nic.replace("sr-iov", "sriov"), QUEUES_OF.get(nic, "1")
            (of, to), direction = POSITIONS[word], "bi" if word.startswith("both-to-one") else "uni"
            ratio = rates[driver, queues, of, direction] / rates[driver, queues, to, "uni"]
            assert row.published == pytest.approx(ratio, abs=0.0005), row.id
            checked += 1
    assert checked == 24


@pytest.mark.parametrize(
    ("rep", "limiter", "caveat"),
    [
        (Rep(Bench(1e7)), "tester", "tester_limited"),
        (Rep(Bench(100_000.0), {"0": 30.0, "1": 50.0}), "input_queue", None),
        (Rep(Bench(500.0)), "undetermined", "search_below_range"),
    ],
)
def test_bottleneck_follows_from_the_evidence(tmp_path: Path, rep: Rep, limiter: str, caveat: str | None) -> None:
    (point,) = summary_of(tmp_path, Pt({"frame": 64}, [rep]))["points"]
    assert point["limiter"] == limiter
    names = {c["caveat"] for c in point["caveats"]} - {"few_repetitions", "no_data"}
    assert names == ({caveat} if caveat else set())


@pytest.mark.parametrize(
    ("busy", "generator", "full", "words"),
    [
        ({"0": 31.0, "1": 99.0}, 0.0, "one", ["CPU 1 with 99.0 %", "together are 65.0 %", "One CPU", "35 % of"]),
        ({"0": 31.0, "1": 99.0}, 80.0, "one", ["One CPU", "generator uses 80.0 % of a CPU"]),
        ({"0": 98.0, "1": 99.0}, 80.0, "all", ["CPU 1 with 99.0 %", "All CPUs are full next to"]),
        ({"0": 30.0, "1": 50.0}, 0.0, "none", ["CPU 1 with 50.0 %", "No CPU is full next to this rate, and 60 % of"]),
    ],
)
def test_finding_answers_whether_one_processor_is_full(
    tmp_path: Path, busy: dict[str, float], generator: float, full: str, words: list[str]
) -> None:
    bench = Bench(100_000.0, generator_percent=generator)
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(bench, busy)]))
    (point,), finding = summary["points"], summary["findings"][0]
    found = finding["evidence"]["processors"]
    assert (found["full"], found["busiest_cpu"]) == (full, "1")
    assert found["generator_percent"] == pytest.approx(generator)
    assert all(each in finding["text"] for each in words), finding["text"]
    assert ("generator uses" in finding["text"]) is (full == "one" and generator > 50)
    valid = [t["frames_per_s"] for t in point["trials"] if t["purpose"] == "search" and t["valid"]]
    rate = point["metrics"]["frames_per_s"]["mean"]
    assert found["frames_per_s"] == max(each for each in valid if abs(each - rate) <= 0.02 * rate)


def shares_of(folder: Path, rep: Rep) -> dict[str, float]:
    """Place → share of the lost frames in the only point, in percent, if there are any."""
    (point,) = summary_of(folder, Pt({"frame": 64}, [rep]))["points"]
    found = {name.partition("lost_percent/")[2]: estimate["mean"] for name, estimate in point["metrics"].items()}
    return {place: share for place, share in found.items() if place and share}


@pytest.mark.parametrize(
    ("bench", "place"),
    [
        (Bench(100_000.0, losses={"host/tap-left/tx": 50}), "host"),
        (Bench(100_000.0, losses={"device/right/tx": 50}), "device"),
        (Bench(100_000.0, losses={"output/right": 50}), "output"),
        (Bench(100_000.0, losses={"host/left/a-b/dropped_buffer": 50}), "host"),
        (Bench(100_000.0, ring_drops=50), "receiver"),
        (Bench(100_000.0, late=50), "late"),
    ],
)
def test_each_place_of_losses_has_a_counter_of_its_own(tmp_path: Path, bench: Bench, place: str) -> None:
    shares = shares_of(tmp_path, Rep(bench))
    # The input queue of the simulated device has all losses, so the others are counted too often.
    assert set(shares) == {"input", place, "unlocated"}
    assert shares[place] == pytest.approx(-shares["unlocated"]) and shares[place] > 0


def test_frames_for_which_a_guest_has_no_buffer_are_lost_before_the_device(tmp_path: Path) -> None:
    bench = Bench(100_000.0, unseen=1.0, losses={"input/guest-left": 50})
    shares = shares_of(tmp_path, Rep(bench))
    assert set(shares) == {"input", "unlocated"} and shares["input"] > 0


def test_losses_of_the_own_switch_are_those_of_its_counters(tmp_path: Path) -> None:
    shares = shares_of(tmp_path, Rep(Bench(100_000.0), dropped={"dropped_buffer": 30, "lost_after": 500}))
    assert set(shares) == {"input", "device", "unlocated"} and shares["device"] > 0


def test_losses_that_no_counter_has_are_the_rest_and_are_charged_to_the_device(tmp_path: Path) -> None:
    (point,) = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(100_000.0, unseen=0.75), {"0": 30.0})]))["points"]
    assert point["metrics"]["lost_percent/unlocated"]["mean"] == pytest.approx(75, abs=0.1)
    assert point["limiter"] == "in_device"
    assert "losses_unlocated" in {c["caveat"] for c in point["caveats"]}
    assert any(trial["lost_unlocated"] for trial in point["trials"])


def test_cpu_of_a_trial_needs_samples_within_it(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(100_000.0), sample_ns=400_000_000)]))
    (point,) = summary["points"]
    searched = [trial for trial in point["trials"] if trial["purpose"] == "search"]
    assert {trial["machine_percent"] for trial in searched} == {None}
    assert all("4 are needed" in trial["cpu_missing"] for trial in searched)
    assert point["metrics"]["busiest_cpu_percent"]["mean"] is None
    assert summary["findings"][0]["evidence"]["processors"] is None
    assert "cpu_not_sampled" in {c["caveat"] for c in point["caveats"]}


@pytest.mark.parametrize(
    ("bench", "search", "reason", "limiter", "words"),
    [
        (Bench(1e7), {}, "tester", "tester", "frame generator"),
        (Bench(1e7), {"highest": 50_000.0}, "study", "search_range", "(`load.search.highest`)"),
        (Bench(400_000.0, flood_capacity=50_000.0), {}, "flood_losses", "search_range", "when it was flooded"),
    ],
)
def test_reason_of_the_highest_rate_decides_who_is_blamed(
    tmp_path: Path, bench: Bench, search: dict[str, Any], reason: str, limiter: str, words: str
) -> None:
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(bench, {"0": 10.0}, search)]))
    (point,) = summary["points"]
    assert (point["cap"]["reason"], point["limiter"], point["search"]) == (reason, limiter, "at least")
    assert words in summary["findings"][0]["text"]
    caveats = {c["caveat"] for c in point["caveats"]}
    assert ("tester_limited" in caveats, "search_capped" in caveats) == (limiter == "tester", limiter != "tester")


@pytest.mark.parametrize(
    ("rep", "limiter", "held"),
    [
        (Rep(Bench(1e7)), "tester", None),
        (Rep(Bench(1e7), search={"highest": 50_000.0}), "search_range", None),
        (Rep(Bench(100_000.0), {"0": 30.0, "1": 50.0}), "input_queue", False),
    ],
)
def test_lower_bound_of_the_rate_neither_breaches_an_expectation_nor_counts(
    tmp_path: Path, rep: Rep, limiter: str, held: bool | None
) -> None:
    publications = {"paper": {"title": {"en": "A paper", "ja": "論文"}, "source": "a paper"}}
    row = {"kind": "value", "publication": "paper", "id": "rate", "name": {"en": "Rate", "ja": "速度"}}
    reference = [row | {"metric": "frames_per_s", "where": {"frame": 64}, "published": 1e6}]
    expect = [{"kind": "limiter", "resources": ["one_cpu"]}]
    more: dict[str, Any] = {"publications": publications, "reference": reference, "expect": expect}
    summary = summary_of(tmp_path, Pt({"frame": 64}, [rep]), **more)
    assert summary["points"][0]["limiter"] == limiter
    (outcome,), (compared,) = summary["expectations"], summary["scorecard"]["rows"]
    assert outcome["held"] is held
    assert (compared["mean"] is not None, compared["counted"]) == (True, held is not None)


def test_bound_above_a_lower_bound_of_the_rate_is_left_open(tmp_path: Path) -> None:
    expect = [{"kind": "bound", "metric": "frames_per_s", "at_least": 1e6}]
    (outcome,) = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(1e7)) for _ in range(3)]), expect=expect)[
        "expectations"
    ]
    assert outcome["held"] is None and outcome["evidence"]["open"] == "setup"


def test_processors_are_those_next_to_the_rate_of_each_search(tmp_path: Path) -> None:
    """No trial is next to the mean of both rates."""
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(94_000.0)), Rep(Bench(106_000.0))]))
    (point,) = summary["points"]
    assert point["limiter"] == "one_cpu"
    assert "CPU 1 is 99.0 % busy" in summary["findings"][0]["text"]


def test_rate_of_an_unfinished_search_is_compared_with_no_published_number(tmp_path: Path) -> None:
    publications = {"paper": {"title": {"en": "A paper", "ja": "論文"}, "source": "a paper"}}
    row = {"kind": "value", "publication": "paper", "id": "rate", "name": {"en": "Rate", "ja": "速度"}}
    reference = [row | {"metric": "frames_per_s", "where": {"frame": 64}, "published": 1e6}]
    rep = Rep(Bench(100_000.0), search={"procedure": "bisection", "budget": "5 s"})
    summary = summary_of(tmp_path, Pt({"frame": 64}, [rep]), publications=publications, reference=reference)
    assert summary["points"][0]["search"] == "unfinished"
    (compared,) = summary["scorecard"]["rows"]
    assert compared["mean"] is not None and not compared["counted"]


def test_delays_at_loads_that_only_some_points_have_are_shown(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, *(Pt({"frame": frame}, [Rep(Bench(100_000.0))]) for frame in (64, 128)))
    metrics = summary["points"][0]["metrics"]
    for name in [name for name in metrics if name.startswith("latency_us_p50/")]:
        del metrics[name]
    tables = REPORT.tables(summary, defaultdict(str), "en")
    (table,) = (t for t in tables if t.caption.startswith(say("en", "table.packets.delays")))
    first, second = table.rows
    assert "–" in first.cells and "–" not in second.cells


def test_point_without_a_search_is_limited_by_the_tester(tmp_path: Path) -> None:
    (point,) = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(100_000.0, tester=0.0))]))["points"]
    assert point["search"] == "tester limit"
    assert "tester_limited" in {c["caveat"] for c in point["caveats"]}


@pytest.mark.parametrize(
    ("verdict", "words"), [("tester limit", "while the device works"), ("at least", "highest rate that they reach")]
)
def test_sentence_says_whether_the_device_slows_the_tester_down(verdict: str, words: str) -> None:
    forwarding = Forwarding(verdict, 5.1, None, None, None, None, cap="tester", cap_frames_per_s=40_000.0)
    evidence = Evidence(1.0, {}, forwarding=forwarding)
    judged = judge(STAGES, evidence)
    assert judged.limiter == "tester" and judged.rule is not None
    (sentence,) = judged.rule.sentences("en", judged, evidence)
    assert words in sentence and "(5.10 % of" in sentence


def test_point_with_more_frames_received_than_sent_is_invalid(tmp_path: Path) -> None:
    (point,) = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(100_000.0, surplus=3))]))["points"]
    (caveat,) = [c for c in point["caveats"] if c["caveat"] == "frames_surplus"]
    assert not point["valid"] and caveat["values"]["frames"] == 3 * caveat["values"]["trials"]


def test_time_that_is_not_judged_is_stated_and_its_losses_have_no_place(tmp_path: Path) -> None:
    bench = Bench(100_000_000.0, stopped_ms=20)
    (point,) = summary_of(tmp_path, Pt({"frame": 64}, [Rep(bench)]))["points"]
    (values,) = [c["values"] for c in point["caveats"] if c["caveat"] == "processors_stopped"]
    assert values["ms"] == 20.0 and 1.0 < values["percent"] < 5.0
    # All losses are due to the stops.
    assert point["metrics"]["lost_percent/input"]["mean"] is None
    assert "trials_invalid" not in {c["caveat"] for c in point["caveats"]}


def test_loads_without_a_latency_are_counted(tmp_path: Path) -> None:
    def is_late(trial: contract.Trial) -> bool:
        return trial.duration_ns == LATENCY_NS

    (late,) = summary_of(tmp_path / "late", Pt({"frame": 64}, [Rep(Bench(100_000.0, is_late=is_late))]))["points"]
    (good,) = summary_of(tmp_path / "good", Pt({"frame": 64}, [Rep(Bench(100_000.0))]))["points"]
    found = [c["values"] for c in late["caveats"] if c["caveat"] == "latency_missing"]
    assert found == [{"missing": 3, "loads": 3}]
    assert "latency_missing" not in {c["caveat"] for c in good["caveats"]}


@pytest.mark.parametrize(
    ("ends", "limiter", "searches"),
    [("fuf", "one_cpu", 1), ("fu", "tester", 1), ("fuu", "tester", 2), ("fff", "one_cpu", 0)],
)
def test_most_searches_decide_on_the_bottleneck_and_the_others_are_counted(
    tmp_path: Path, ends: str, limiter: str, searches: int
) -> None:
    reps = {"f": Rep(Bench(100_000.0), {"0": 30.0, "1": 99.0}), "u": Rep(Bench(1e7), {"0": 30.0, "1": 50.0})}
    publications = {"paper": {"title": {"en": "A paper", "ja": "論文"}, "source": "a paper"}}
    row = {"kind": "value", "publication": "paper", "id": "rate", "name": {"en": "Rate", "ja": "速度"}}
    reference = [row | {"metric": "frames_per_s", "where": {"frame": 64}, "published": 1e5}]
    run = Pt({"frame": 64}, [reps[end] for end in ends])
    summary = summary_of(tmp_path, run, publications=publications, reference=reference)
    (point,), (compared,) = summary["points"], summary["scorecard"]["rows"]
    assert point["limiter"] == limiter
    assert point["search"] == ("at least" if searches else "bracketed")
    limited = [c for c in point["caveats"] if c["caveat"] == "tester_limited"]
    assert [c["values"] for c in limited] == ([{"searches": searches, "total": len(ends)}] if searches else [])
    assert all(f"{searches} of {len(ends)}" in c["text"] for c in limited)
    # A mean over a lower bound is not judged by a published number.
    assert compared["counted"] is (searches == 0)


def test_search_without_a_rate_does_not_decide_on_the_bottleneck(tmp_path: Path) -> None:
    without, with_rate = Rep(Bench(100_000.0, tester=0.0)), Rep(Bench(100_000.0), {"0": 30.0, "1": 99.0})
    (point,) = summary_of(tmp_path, Pt({"frame": 64}, [without, with_rate]))["points"]
    assert (point["limiter"], point["metrics"]["frames_per_s"]["n"]) == ("one_cpu", 1)
    assert [c["values"] for c in point["caveats"] if c["caveat"] == "tester_limited"] == [{"searches": 1, "total": 2}]


def test_disks_of_this_machine_are_no_part_of_the_device(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(100_000.0))]))
    assert summary["points"][0]["rule_book"] == []


def test_report_has_rates_a_curve_and_tables_in_both_languages(tmp_path: Path) -> None:
    points = [Pt({"frame": size}, [Rep(Bench(rate)) for _ in range(3)]) for size, rate in ((64, 9e4), (1518, 8e4))]
    summary = summary_of(tmp_path, *points)
    for language in ("en", "ja"):
        (group,) = REPORT.groups(summary, None, language)  # type: ignore[arg-type]
        assert [figure.name for figure in group.figures] == ["rates", "curve"]
        for figure in group.figures:
            assert charts.svg(figure.draw(charts.Size(640, 320, 120)))
        assert len(REPORT.tables(summary, {}, language)) == 3
    rows = REPORT.table(summary).rows
    assert len(rows) == 2 and all(row[-1] == "bracketed" for row in rows)


def test_report_has_the_rate_for_each_goal_and_its_limits(tmp_path: Path) -> None:
    goals = [{"loss_percent": 0.01}, {"loss_percent": 10, "width_percent": 0.5}]
    reps = [Rep(Bench(9e4), search={"goals": goals}) for _ in range(2)]
    search = {"kind": "packets", "frame": 64, "search": {"goals": goals}}
    summary = summary_of(tmp_path, Pt({"frame": 64}, reps), load=search)
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    study = Study.model_validate(fields(load=search))
    for language, words in (("en", "at most 10.0 %"), ("ja", "損失 10.0 % 以下")):
        table = REPORT.tables(summary, defaultdict(str), language)[1]
        assert say(language, "table.packets.goals") in table.caption
        first, second = (summary["points"][0]["metrics"][f"frames_per_s/goal-{place}"]["mean"] for place in (1, 2))
        # MLRsearch states the rate that was forwarded, also if a goal accepts a loss.
        assert first == pytest.approx(9e4, rel=0.01) and second == pytest.approx(9e4, rel=0.01) and first != second
        shown = str(table.rows)
        assert number(first, language) in shown and number(second, language) in shown
        assert any(words in text for text in REPORT.method(summary, study, None, language))


def test_goals_of_a_variable_are_explained_and_a_rate_that_is_not_bracketed_is_left_out(tmp_path: Path) -> None:
    # The highest load of the grid meets the second goal.
    goals = [{"loss_percent": 0.01}, {"loss_percent": 99}]
    variables = {"goals": {"two": {"load.search.goals": goals}}}
    parts = {"variables": variables, "factors": [{"frame": [64], "goals": ["two"]}]}
    rep = Rep(Bench(9e4), search={"goals": goals})
    summary = summary_of(tmp_path, Pt({"frame": 64, "goals": "two"}, [rep]), **parts)
    texts = REPORT.method(summary, Study.model_validate(fields(**parts)), None, "en")
    assert any("Goal 2 of the same search: a loss of at most 99.0 %" in text for text in texts)
    metrics = summary["points"][0]["metrics"]
    assert metrics[names.goal_rate(1)]["mean"] == pytest.approx(9e4, rel=0.01)
    assert metrics[names.goal_rate(2)]["mean"] is None


def test_figure_has_a_line_for_each_of_a_few_processors(tmp_path: Path) -> None:
    for count, expected in ((2, ["CPU 0", "CPU 1", "all CPUs"]), (6, ["busiest CPU", "all CPUs"])):
        busy = {str(cpu): 10.0 + cpu for cpu in range(count)}
        summary = summary_of(tmp_path / str(count), Pt({"frame": 64}, [Rep(Bench(9e4), busy=busy) for _ in range(3)]))
        (group,) = REPORT.groups(summary, None, "en")  # type: ignore[arg-type]
        svg = charts.svg(group.figures[1].draw(charts.Size(640, 320, 120)))
        for name in ("CPU 0", "CPU 1", "all CPUs", "busiest CPU"):
            assert (name in svg) is (name in expected), (count, name)


def test_each_nic_has_a_curve_of_its_slowest_point(tmp_path: Path) -> None:
    rates = ((64, 9e4), (1518, 8e4))
    points = [Pt({"frame": size}, [Rep(Bench(rate)) for _ in range(3)]) for size, rate in rates]
    summary = summary_of(tmp_path, *points)
    nics = ("e1000", "e1000e", "virtio-net", "vhost-net", "macvtap")
    summary["points"] = [
        point | {"factors": point["factors"] | {"nic": nic}} for nic in nics for point in summary["points"]
    ]
    drawn = figures.of_run(summary, "en")
    assert [figure.name for figure in drawn] == ["rates", "curve", *(f"curve_{n}" for n in (2, 3, 4, 5))]
    for figure, nic in zip(drawn[1:], nics, strict=False):
        assert figure.title.endswith(f"frame 1518, {nic}"), figure.title


def test_rates_over_sizes_have_a_line_for_each_set_of_other_levels(tmp_path: Path) -> None:
    sizes = [
        Pt({"frame": size}, [Rep(Bench(rate)) for _ in range(2)]) for size, rate in ((64, 9e4), (512, 8e4), (1518, 7e4))
    ]
    summary = summary_of(tmp_path, *sizes)
    found = [
        point | {"factors": point["factors"] | {"nic": nic}}
        for nic, count in (("e1000", 3), ("virtio-net", 3), ("macvtap", 2))
        for point in summary["points"][:count]
    ]
    figure = next(f for f in figures.of_run(summary | {"points": found}, "en") if f.name == "sizes")
    svg = charts.svg(figure.draw(charts.WIDE))
    assert "e1000" in svg and "virtio-net" in svg
    # Two sizes are no line.
    assert "macvtap" not in svg
    few = summary | {"points": summary["points"][:2]}
    assert "sizes" not in [f.name for f in figures.of_run(few, "en")]


def test_reordered_duplicated_and_corrupted_frames_are_counted(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(9e4, reordered=3, duplicated=2, corrupted=1))]))
    (point,) = summary["points"]
    trials = sum(trial["purpose"] == "search" for trial in point["trials"])
    assert point["metrics"]["reordered_frames"]["mean"] == 3 * trials
    assert point["metrics"]["duplicated_frames"]["mean"] == 2 * trials
    assert point["metrics"]["corrupted_frames"]["mean"] == trials


TCG = {"accelerator": "tcg", "accelerator_reason": "there is no KVM"}
KVM = {"accelerator": "kvm", "accelerator_reason": ""}
EMULATED = {"en": "guests with an emulated CPU (TCG)", "ja": "ゲストの CPU はエミュレーション（TCG）"}
WITH_KVM = {"en": "guests with KVM", "ja": "ゲストは KVM"}


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"device": TCG}, [EMULATED]),
        ({"device": KVM}, [WITH_KVM]),
        ({"guests": {"vm1": TCG, "vm2": TCG}}, [EMULATED]),
        ({"device": TCG, "guests": {"vm1": KVM}}, [EMULATED, WITH_KVM]),
        ({}, []),
    ],
)
def test_every_caption_says_how_the_processors_of_guests_ran(
    tmp_path: Path, record: dict[str, Any], shown: list[dict[str, str]]
) -> None:
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(9e4), record=record)]))
    for language in ("en", "ja"):
        (group,) = REPORT.groups(summary, None, language)  # type: ignore[arg-type]
        captions = [figure.note for figure in group.figures]
        letters: dict[str, str] = defaultdict(str)
        captions += [table.caption for table in REPORT.tables(summary, letters, language)]
        assert len(captions) == 5
        for caption in captions:
            for words in (EMULATED, WITH_KVM):
                assert (words[language] in caption) is (words in shown), caption
