"""Rows of the scorecard: one for every kind of published number, in any kind of study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import scorecard, summarise
from hakaru.analysis.estimate import SampleMean, ratio
from hakaru.units import unit_in
from scipy import stats

from tests.analysis import small_distance
from tests.analysis.small_backup import PUBLICATIONS as BACKUP_PUBLICATIONS
from tests.analysis.small_backup import PUBLISHED as BACKUP_TABLE
from tests.analysis.small_backup import published_shape
from tests.analysis.small_run import Pt, Rep, write_run

Json = dict[str, Any]
PUBLICATIONS = {"paper": {"title": {"en": "A paper", "ja": "論文"}, "source": "a paper, 2011"}}
NAME = {"en": "A number", "ja": "数値"}
LEVELS = (1, 4, 7, 8, 10, 16)
IOPS = (1000, 3000, 3300, 3000, 2600, 2300)


def single(kind: str, metric: str = "iops", **more: Any) -> Json:
    return {"kind": kind, "publication": "paper", "id": "row", "name": NAME, "metric": metric} | more


def table(**more: Any) -> Json:
    rows = [{"vms": 1.0, "iops": 1000.0}, {"vms": 7.0, "iops": 3000.0}, {"vms": 9.0, "iops": 1.0}]
    named = {"kind": "table", "publication": "paper", "table": "paper", "over": "vms", "metrics": {"iops": "iops"}}
    return named | {"where": {"pattern": "any"}, "rows": rows} | more


def constant(rate: int, vms: int = 1, **more: Any) -> Rep:
    return Rep(reads=(rate,) * 8, writes=(0,) * 8, vms=vms, **more)


def swept(folder: Path, *references: Json, levels: Sequence[int] = LEVELS, expect: Sequence[Json] = ()) -> Json:
    """Summary of a run whose points have exact rates; the study's full form has all levels."""
    rates = dict(zip(LEVELS, IOPS, strict=True))
    points = [Pt({"pattern": "any", "vms": n}, [constant(rates[n])] * 3) for n in levels]
    more: Json = {"reference": list(references), "expect": list(expect), "publications": PUBLICATIONS}
    return summarise(write_run(folder, points, factors=[{"pattern": ["any"], "vms": list(LEVELS)}], **more))


def row_of(folder: Path, reference: Json, **more: Any) -> Json:
    (row,) = swept(folder, reference, **more)["scorecard"]["rows"]
    return dict(row)


@pytest.mark.parametrize(
    ("needs", "reasons"),
    [
        ({"cpus": 1}, []),
        ({"cpus": 4096}, ["needs 4,096"]),
        ({"kvm": True}, []),
        ({"hardware": {"en": "a tape robot", "ja": "ロボット"}, "cpus": 4096}, ["a tape robot", "needs 4,096"]),
    ],
)
def test_row_is_shown_and_not_judged_without_what_it_needs(tmp_path: Path, needs: Json, reasons: list[str]) -> None:
    row = row_of(tmp_path, single("value", where={"vms": 4}, published=2500, needs=needs))
    assert row["mean"] == 3000, "the measured side is shown in any case"
    assert (row["error_percent"] is None, row["counted"]) == (bool(reasons), not reasons)
    assert all(reason in row["not_judged"]["en"] for reason in reasons)
    assert scorecard.error("en", row) == ("not judged here" if reasons else "+20.0\u00a0%")


def test_row_is_not_judged_where_the_test_setup_was_the_bottleneck(tmp_path: Path) -> None:
    points = [
        Pt({"pattern": "any", "vms": 1}, [constant(1000)] * 3),
        Pt({"pattern": "any", "vms": 4}, [constant(3000, machine_cpu=0.99)] * 3),
    ]
    references = [
        single("value", where={"vms": 1}, published=1250),
        single("value", where={"vms": 4}, published=2500) | {"id": "limited"},
        single("ratio", of={"vms": 4}, to={"vms": 1}, published=2) | {"id": "ratio"},
    ]
    more: Json = {"reference": references, "publications": PUBLICATIONS}
    summary = summarise(write_run(tmp_path, points, factors=[{"pattern": ["any"], "vms": [1, 4]}], **more))
    assert [point["limiter"] for point in summary["points"]] == ["undetermined", "machine_cpu"]
    rows = {row["row"]: row for row in summary["scorecard"]["rows"]}
    assert {name: row["counted"] for name, row in rows.items()} == {"row": True, "limited": False, "ratio": False}
    assert rows["row"]["error_percent"] == pytest.approx(-20)
    assert rows["limited"]["mean"] == 3000, "the measured side is shown in any case"
    assert "the test setup was the bottleneck" in rows["limited"]["not_judged"]["en"]
    assert (summary["scorecard"]["median_error_percent"], summary["scorecard"]["predicted_measured"]) == (20, 1)


def test_one_point_limited_by_the_test_setup_is_enough(tmp_path: Path) -> None:
    points = [
        Pt({"pattern": "any", "vms": 1}, [constant(1000)] * 3),
        Pt({"pattern": "any", "vms": 4}, [constant(900, machine_cpu=0.99)] * 3),
    ]
    references = [
        single("extreme", where={}, which="highest", published=1250),
        single("ratio", of={"pattern": "any"}, to={"vms": 1}, mean_over="vms", published=1) | {"id": "ratio"},
    ]
    more: Json = {"reference": references, "publications": PUBLICATIONS}
    summary = summarise(write_run(tmp_path, points, factors=[{"pattern": ["any"], "vms": [1, 4]}], **more))
    assert [row["counted"] for row in summary["scorecard"]["rows"]] == [False, False]


def test_points_that_differ_in_one_factor_can_count_as_their_mean(tmp_path: Path) -> None:
    one = single("ratio", of={"pattern": "any"}, to={"vms": 1}, mean_over="vms", published=2.5)
    (row,) = swept(tmp_path, one, levels=(1, 4, 8))["scorecard"]["rows"]
    assert row["mean"] == pytest.approx((1000 + 3000 + 3000) / 3 / 1000)
    assert row["n"] == 3


def test_means_over_a_factor_compare_the_levels_that_both_sides_measured(tmp_path: Path) -> None:
    """The run was interrupted: one pattern lacks the slowest level."""
    rates = {("a", 1): 1000, ("a", 4): 3000, ("b", 1): 500, ("b", 4): 1500, ("b", 8): 100}
    points = [Pt({"pattern": p, "vms": n}, [constant(rate)] * 3) for (p, n), rate in rates.items()]
    of, to = {"pattern": "a"}, {"pattern": "b"}
    references = [
        single("ratio", of=of, to=to, mean_over="vms", published=2),
        single("ranking", over="pattern", mean_over="vms", where={}, published=["a", "b"]) | {"id": "ranking"},
    ]
    more: Json = {"reference": references, "publications": PUBLICATIONS}
    run = write_run(tmp_path, points, factors=[{"pattern": ["a", "b"], "vms": [1, 4, 8]}], **more)
    ratio_row, ranking = summarise(run)["scorecard"]["rows"]
    assert ratio_row["mean"] == pytest.approx(2) and ranking["mean"] == ["a", "b"]


def test_mean_of_points_uses_every_repetition_of_each(tmp_path: Path) -> None:
    """A failed repetition of one point takes none from the others."""
    rates = {1: (900, 1100), 4: (2900, 3000, 3400), 8: (2000, 2000)}
    points = [Pt({"pattern": "any", "vms": n}, [constant(r) for r in each]) for n, each in rates.items()]
    points[0].reps = [constant(900), constant(5, status="failed", error="gone"), constant(1100)]
    one = single("ratio", of={"pattern": "any"}, to={"vms": 8}, mean_over="vms", published=1)
    more: Json = {"reference": [one], "publications": PUBLICATIONS}
    run = write_run(tmp_path, points, factors=[{"pattern": ["any"], "vms": [1, 4, 8]}], **more)
    (row,) = summarise(run)["scorecard"]["rows"]
    assert row["mean"] == pytest.approx((1000 + 3100 + 2000) / 3 / 2000)
    means = [SampleMean.over(each) for each in rates.values()]
    expected = ratio(SampleMean.average([mean for mean in means if mean]), means[-1])
    assert (row["low"], row["high"]) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    ("reference", "mean", "error"),
    [
        (single("value", where={"vms": 4}, published=2500), 3000, 20.0),
        (single("value", where={"vms": 9}, published=2500), None, None),
        (single("value", where={"pattern": "any"}, published=2500), None, None),
        (single("value", "errors_per_s", where={"vms": 4}, published=0), 0, 0.0),
        (single("value", where={"vms": 4}, published=0), 3000, 100.0),
        (single("ratio", of={"vms": 4}, to={"vms": 1}, published=4), 3, -25.0),
        (single("ratio", of={"vms": 4}, to={"vms": 9}, published=4), None, None),
        (single("difference", of={"vms": 1}, to={"vms": 4}, published=-1600), -2000, -25.0),
        (single("difference", of={"vms": 4}, to={"vms": 1}, published=1600), 2000, 25.0),
        (single("difference", of={"vms": 1}, to={"vms": 4}, published=15), -2000, 100 * -2015 / 15),
        (single("difference", of={"vms": 4}, to={"vms": 9}, published=1), None, None),
        (single("peak", over="vms", published=7), 7, 0.0),
        (single("peak", over="vms", published=8), 7, -12.5),
        (single("peak", over="vms", published=9), None, None),
        (single("extreme", which="highest", published=3000), 3300, 10.0),
        (single("extreme", which="lowest", published=2000), 1000, -50.0),
        (single("reaches", "latency_ms_mean", over="vms", at_least=5, published=9), 1, -100 * 8 / 9),
        (single("reaches", "latency_ms_mean", over="vms", at_least=99, published=9), None, 100.0),
        (single("ranking", over="vms", published=[7, 16, 1]), [7, 16, 1], 0.0),
        (single("ranking", over="vms", published=[16, 7, 1]), [7, 16, 1], 100 / 3),
        (single("ranking", over="vms", published=[1, 16, 7]), [7, 16, 1], 100.0),
    ],
)
def test_single_number_is_compared_by_its_kind(tmp_path: Path, reference: Json, mean: Any, error: float | None) -> None:
    row = row_of(tmp_path, reference)
    assert row["mean"] == (pytest.approx(mean) if isinstance(mean, float | int) else mean)
    assert row["error_percent"] == (None if error is None else pytest.approx(error))


def row_of_spread(folder: Path, kind: str, published: float) -> Json:
    """Row of the points 4 and 1, whose repetitions differ."""
    points = [Pt({"pattern": "any", "vms": n}, [constant(r) for r in each]) for n, each in SPREAD.items()]
    reference = single(kind, of={"vms": 4}, to={"vms": 1}, published=published)
    summary = summarise(write_run(folder, points, reference=[reference], publications=PUBLICATIONS))
    (row,) = summary["scorecard"]["rows"]
    return dict(row)


SPREAD = {1: (900, 1000, 1100), 4: (2900, 3000, 3100)}


def test_ratio_has_the_interval_of_two_independent_means(tmp_path: Path) -> None:
    row = row_of_spread(tmp_path, "ratio", 4)
    expected = ratio(SampleMean.over(SPREAD[4]), SampleMean.over(SPREAD[1]))
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((3.0, expected.low, expected.high))


def test_difference_has_the_interval_of_welch(tmp_path: Path) -> None:
    row = row_of_spread(tmp_path, "difference", 1000)
    interval = stats.ttest_ind(SPREAD[4], SPREAD[1], equal_var=False).confidence_interval(0.95)
    assert (row["mean"], row["low"], row["high"]) == pytest.approx((2000, interval.low, interval.high))
    assert (row["unit"], row["error_percent"]) == ("1/s", pytest.approx(100))


@pytest.mark.parametrize(
    ("at_least", "published", "first", "error"),
    [
        (99, 9, 10, 0.0),
        (99, 10, 10, 0.0),
        (99, 8, 10, 25.0),
        (99, 12, 10, -100 / 6),
        (60, 4, 8, 100.0),
    ],
)
def test_first_level_at_a_limit_is_known_between_two_measured_levels(
    tmp_path: Path, at_least: float, published: float, first: float, error: float
) -> None:
    """Utilisation 50, 70, 50, 98, 100, 100 %: the peak at 4 VMs does not count."""
    rates = {1: 500, 4: 700, 7: 500, 8: 980, 10: 1000, 16: 1000}
    points = [Pt({"pattern": "any", "vms": n}, [constant(rate)] * 2) for n, rate in rates.items()]
    reference = single("reaches", over="vms", at_least=10 * at_least, published=published)
    run = write_run(tmp_path, points, reference=[reference], publications=PUBLICATIONS)
    (row,) = summarise(run)["scorecard"]["rows"]
    assert (row["mean"], row["error_percent"]) == (first, pytest.approx(error))


@pytest.mark.parametrize("levels", [(1, 4), (10, 16)])
def test_first_level_at_a_limit_needs_levels_on_both_sides(tmp_path: Path, levels: tuple[int, ...]) -> None:
    reference = single("reaches", over="vms", at_least=1, published=9)
    assert row_of(tmp_path, reference, levels=levels)["error_percent"] is None


def test_row_over_several_points_reports_how_many_a_short_run_has(tmp_path: Path) -> None:
    row = row_of(tmp_path, single("extreme", which="highest", published=3000), levels=(1, 4))
    assert (row["points"], row["points_needed"], row["mean"]) == (2, 6, 3000)


def test_interval_of_a_peak_is_the_range_of_levels_that_it_does_not_exclude(tmp_path: Path) -> None:
    rates = {4: (3100, 3200, 3300), 7: (3200, 3300, 3400), 8: (3150, 3250, 3350), 16: (2000, 2001, 2002)}
    points = [Pt({"pattern": "any", "vms": n}, [constant(rate) for rate in each]) for n, each in rates.items()]
    run = write_run(tmp_path, points, reference=[single("peak", over="vms", published=16)], publications=PUBLICATIONS)
    (row,) = summarise(run)["scorecard"]["rows"]
    assert (row["mean"], row["low"], row["high"]) == (7, 4, 8)


def test_level_without_an_interval_is_in_the_range_of_a_peak_by_its_value(tmp_path: Path) -> None:
    rates = {4: (3290,), 7: (3200, 3300, 3400), 8: (3150, 3250, 3350), 16: (2000, 2001, 2002)}
    points = [Pt({"pattern": "any", "vms": n}, [constant(rate) for rate in each]) for n, each in rates.items()]
    run = write_run(tmp_path, points, reference=[single("peak", over="vms", published=16)], publications=PUBLICATIONS)
    (row,) = summarise(run)["scorecard"]["rows"]
    assert (row["mean"], row["low"], row["high"]) == (7, 4, 8)


def test_rows_of_a_table_have_a_mark_each(tmp_path: Path) -> None:
    reference = table(
        metrics={"iops": "iops", "read_iops": "iops", "mb_per_s": "iops"},
        calibrated={"iops": [7], "mb_per_s": "all"},
        by_definition=["read_iops"],
    )
    card = swept(tmp_path, reference)["scorecard"]
    marks = {(row["metric"], row["level"]): row["mark"] for row in card["rows"]}
    assert [marks["iops", n] for n in (1, 7, 9)] == ["predicted", "calibrated", "predicted"]
    assert {marks["read_iops", n] for n in (1, 7, 9)} == {"by_definition"}
    assert {marks["mb_per_s", n] for n in (1, 7, 9)} == {"calibrated"}
    assert (card["calibrated"], card["predicted"], card["by_definition"], card["measured"]) == (4, 2, 3, 6)


def test_median_and_worst_are_those_of_measured_predictions(tmp_path: Path) -> None:
    rows = [
        single("value", where={"vms": 4}, published=1, calibrated=True, id="a"),
        single("value", where={"vms": 4}, published=2, by_definition=True, id="b"),
        single("value", where={"vms": 4}, published=2500, id="c"),
        single("value", where={"vms": 1}, published=1010, id="d"),
        single("value", where={"vms": 9}, published=1, id="e"),
        single("value", where={"vms": 7}, published=4000, id="f"),
    ]
    card = swept(tmp_path, *rows)["scorecard"]
    assert card["median_error_percent"] == pytest.approx(17.5)
    assert card["worst"]["row"] == "c"
    assert (card["predicted"], card["predicted_measured"]) == (4, 3)


def test_row_of_an_invalid_point_is_shown_but_not_counted(tmp_path: Path) -> None:
    points = [Pt({"pattern": "any", "vms": 4}, [constant(3000, vms_more=100)] * 2)]
    reference = single("value", where={"vms": 4}, published=2500)
    summary = summarise(write_run(tmp_path, points, reference=[reference], publications=PUBLICATIONS))
    (row,) = summary["scorecard"]["rows"]
    assert not summary["points"][0]["valid"]
    assert (row["valid"], row["counted"]) == (False, False)
    assert row["error_percent"] is not None
    assert summary["scorecard"]["worst"] is None


def test_row_has_words_in_both_languages_and_its_note(tmp_path: Path) -> None:
    row = swept(tmp_path, table(note={"en": "Why.", "ja": "理由。"}))["scorecard"]["rows"][0]
    assert row["name"]["en"].endswith(", 1 VM")
    assert "1 台" in row["name"]["ja"]
    assert row["note"] == {"en": "Why.", "ja": "理由。"}


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("iops", ""),
        ("latency_ms_mean", "ms"),
        ("mib_per_s/vm2_1", "MiB/s"),
        ("sum_mib_per_s", "MiB/s"),
        ("packets_per_s", "1/s"),
        ("busiest_drive_percent", "percent"),
        ("last_done_s", "s"),
    ],
)
def test_unit_of_a_number_that_was_not_measured_is_in_its_name(metric: str, unit: str) -> None:
    assert unit_in(metric) == unit


def test_copy_is_compared_by_the_sum_of_the_rows_of_a_level(tmp_path: Path) -> None:
    summary = summarise(published_shape(tmp_path, (32,), (1,)))
    rows = {row["level"]: row for row in summary["scorecard"]["rows"]}
    assert rows["unthrottled"]["published"] == pytest.approx(21.24)
    assert rows["unthrottled"]["mean"] == pytest.approx(24e6 / 2**20)
    (reference,) = summary["references"]
    assert reference["rows"][0]["parts"] == [5.31, 5.29, 5.30, 5.34]
    assert reference["title"] == BACKUP_PUBLICATIONS["jdsf-2013"]["title"]
    assert reference["table"] == BACKUP_TABLE["table"]


def test_study_of_distance_is_compared_without_a_sweep(tmp_path: Path) -> None:
    factors = small_distance.factors
    points = [
        small_distance.Pt(factors(20, s), [small_distance.Load(small_distance.spec_of(s, 20))] * 2)
        for s in ("default", "parameters")
    ]
    reference = single(
        "ratio", "mb_per_s", of={"settings": "parameters", "rtt": "20 ms"}, to={"settings": "default"}, published=3
    )
    run = small_distance.write_run(tmp_path, points, reference=[reference], publications=PUBLICATIONS)
    (row,) = summarise(run)["scorecard"]["rows"]
    assert row["unit"] == "times"
    assert row["mean"] == pytest.approx(2.6, rel=0.1)


@pytest.mark.parametrize(
    ("published", "percent", "held"),
    [(2500, 25, True), (2500, 15, False), (3500, 15, True), (3500, 10, False), (0, 10, False)],
)
def test_expectation_from_a_publication_is_two_sided(
    tmp_path: Path, published: float, percent: float, held: bool
) -> None:
    reference = single("value", where={"vms": 4}, published=published)
    expect = {"kind": "reference", "id": "row", "percent": percent}
    (outcome,) = swept(tmp_path, reference, expect=[expect])["expectations"]
    assert outcome["held"] is held
    assert "A number" in outcome["text"] and "数値" in outcome["text_ja"]
    assert "3,000" in outcome["found"]


@pytest.mark.parametrize(
    ("reference", "percent", "held"),
    [
        (single("peak", over="vms", published=8), 15, True),
        (single("peak", over="vms", published=4), 15, False),
        (single("ranking", over="vms", published=[7, 4, 1]), 1, True),
        (single("ratio", of={"vms": 4}, to={"vms": 9}, published=4), 15, None),
    ],
)
def test_expectation_may_name_any_single_number(
    tmp_path: Path, reference: Json, percent: float, held: bool | None
) -> None:
    expect = {"kind": "reference", "id": "row", "percent": percent}
    (outcome,) = swept(tmp_path, reference, expect=[expect])["expectations"]
    assert outcome["held"] is held
    assert "{" not in outcome["text"] + outcome["found"] + outcome["text_ja"] + outcome["found_ja"]


def test_expectation_whose_interval_reaches_the_published_value_is_left_open(tmp_path: Path) -> None:
    points = [Pt({"pattern": "any", "vms": 4}, [constant(n) for n in (1900, 2000, 2100)])]
    reference = single("value", where={"vms": 4}, published=2200)
    expect = {"kind": "reference", "id": "row", "percent": 5}
    run = write_run(tmp_path, points, reference=[reference], expect=[expect], publications=PUBLICATIONS)
    (outcome,) = summarise(run)["expectations"]
    assert outcome["held"] is None


@pytest.mark.parametrize("expect", [{"id": "row"}, {"metric": "iops", "table": "paper"}])
def test_expectation_states_why_its_rows_are_not_judged(tmp_path: Path, expect: Json) -> None:
    needs = {"hardware": {"en": "a tape robot", "ja": "ロボット"}}
    references = (single("value", where={"vms": 4}, published=2500, needs=needs), table(needs=needs))
    asked = {"kind": "reference", "percent": 5} | expect
    (outcome,) = swept(tmp_path, *references, expect=[asked])["expectations"]
    assert outcome["held"] is None
    assert "a tape robot" in outcome["found"] and "ロボット" in outcome["found_ja"]


def test_expectation_about_a_table_that_is_left_open_still_states_the_difference(tmp_path: Path) -> None:
    points = [Pt({"pattern": "any", "vms": 7}, [constant(n) for n in (2500, 2700, 2900)])]
    expect = {"kind": "reference", "metric": "iops", "table": "paper", "percent": 5}
    run = write_run(tmp_path, points, reference=[table()], expect=[expect], publications=PUBLICATIONS)
    (outcome,) = summarise(run)["expectations"]
    assert outcome["held"] is None
    assert "-10" in outcome["found"] and "not judged" not in outcome["found"], outcome["found"]
