"""Goals of studies: ranges of levels, limits, and mistakes in them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hakaru import kind
from hakaru.errors import UsageError
from hakaru.kinds.vms.load import Open, load_at
from hakaru.run.options import Options, expand_options
from hakaru.study import Study, expand, load, of_described
from hakaru.study.factors import Factors

template = kind.named("vms").template("en")
assert template is not None
VMS = template.read_text()
LISTED = "vms: [1, 4, 8]"
SEARCHED = VMS.replace(LISTED, "vms: {from: 1, to: 16}") + "\ngoal: {latency_ms_p99: 20 ms}\n"


def written(folder: Path, text: str) -> str:
    path = folder / "study.yaml"
    path.write_text(text)
    return str(path)


def test_the_template_lists_the_levels_that_these_tests_replace() -> None:
    assert LISTED in VMS


@pytest.mark.parametrize(
    ("searched", "levels"),
    [
        ({"from": 1, "to": 4}, [1, 2, 3, 4]),
        ({"from": 2, "to": 10, "step": 4}, [2, 6, 10]),
        ({"from": 0.5, "to": 1.5, "step": 0.5}, [0.5, 1.0, 1.5]),
        ({"from": 100, "to": 200, "step": "30 %"}, [100, 143, 200]),
        ({"from": 1, "to": 3, "step": "30 %"}, [1, 2, 3]),
        ({"from": 1, "to": 21, "step": "5 %"}, list(range(1, 22))),
        ({"from": 1, "to": 12, "step": "10 %"}, list(range(1, 13))),
        ({"from": 12345.0, "to": 23456.0, "step": "50 %"}, [12345.0, 23456.0]),
        ({"from": 0.1234567891, "to": 1.1234567891, "step": 0.5}, [0.1234567891, 0.623456789, 1.1234567891]),
    ],
)
def test_range_has_these_levels(searched: dict[str, Any], levels: list[float]) -> None:
    assert Factors.model_validate({"vms": searched}).levels() == {"vms": levels}


def test_neighbouring_levels_are_at_most_the_step_apart() -> None:
    levels = Factors.model_validate({"rate": {"from": 100.0, "to": 5000.0, "step": "5 %"}}).levels()["rate"]
    assert (levels[0], levels[-1]) == (100.0, 5000.0)
    shares = [1 - float(low) / float(high) for low, high in pairwise(levels)]
    assert max(shares) <= 0.0501
    assert min(shares[:-1]) >= 0.045


@pytest.mark.parametrize("step", [1, 2, 5, 7, 10, 20, 33])
@pytest.mark.parametrize("last", [20, 32, 100, 2000])
def test_whole_levels_are_not_skipped_where_the_step_allows_them(step: int, last: int) -> None:
    levels = Factors.model_validate({"vms": {"from": 1, "to": last, "step": f"{step} %"}}).levels()["vms"]
    assert (levels[0], levels[-1]) == (1, last)
    for low, high in pairwise(map(int, levels)):
        assert 1 <= high - low < max(1.5, step / 100 * high + 1), (low, high)


def test_study_with_a_goal_has_a_search_for_each_combination_of_the_other_levels(tmp_path: Path) -> None:
    text = SEARCHED.replace("vms: {from: 1, to: 16}", "vms: {from: 1, to: 16}, queue_depth: [1, 8]")
    expanded = expand(load(written(tmp_path, text)).study)
    assert [s.over for s in expanded.searches] == ["vms", "vms"]
    assert [[p.factors["vms"] for p in s.points] for s in expanded.searches] == [list(range(1, 17))] * 2
    assert len({p.id for p in expanded.points}) == 32
    assert expanded.repetitions == ()
    described = expanded.describe({})
    assert of_described(described) == expanded.study.model_copy(update={"quick": None})
    assert isinstance(of_described(described), Study)


def test_only_keeps_levels_of_the_search_and_refuses_a_single_one(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, SEARCHED))
    kept = expand_options(loaded, Options(only=(("vms", ("2", "3", "8")),)))
    assert [p.id for p in kept.searches[0].points] == ["p02", "p03", "p08"]
    with pytest.raises(UsageError, match="single level of vms"):
        expand_options(loaded, Options(only=(("vms", ("2",)),)))


MISTAKES = [
    ("latency_ms_p99: 20 ms", "latency_p99: 20 ms", "did you mean 'latency_ms_p99'?"),
    ("latency_ms_p99: 20 ms", "latency_ms_p99: 20", "`20 ms` or `20 s`"),
    ("latency_ms_p99: 20 ms", "iops: 500 MB/s", "number without a unit"),
    ("latency_ms_p99: 20 ms", "latency_ms_p99: {least: 20 ms}", "write `latency_ms_p99: {most: …}`"),
    ("latency_ms_p99: 20 ms", "outstanding_mean: 5", "`outstanding_mean: {most: …}`"),
    ("latency_ms_p99: 20 ms", "latency_ms_p99: 20 ms, iops: 500", "`find: highest`"),
    ("{latency_ms_p99: 20 ms}", "{find: highest}", "needs the limit of a metric"),
    ("vms: {from: 1, to: 16}", LISTED, "write `vms: {from: 1, to: 8}` instead of its list"),
    ("vms: {from: 1, to: 16}", "vms: {from: 1, to: 16}, queue_depth: {from: 1, to: 4}", "here are 2"),
    ("vms: {from: 1, to: 16}", "vms: {from: 16, to: 1}", "should be above `from`"),
    ("vms: {from: 1, to: 16}", "vms: {from: 1, to: 16, step: 4}", "is not reached"),
    ("vms: {from: 1, to: 16}", "vms: {from: 1, to: 16, step: 0 %}", "more than 0 %"),
    ("vms: {from: 1, to: 16}", "vms: {from: 1, to: 9999, step: 1}", "use a larger `step`"),
    ("vms: {from: 1, to: 16}", "vms: {form: 1, to: 16}", "did you mean 'from'?"),
    ("\ngoal: {latency_ms_p99: 20 ms}\n", "", "add `goal: {METRIC: LIMIT}`"),
]


@pytest.mark.parametrize(
    ("right", "wrong", "correction"), MISTAKES, ids=[wrong or right for right, wrong, _ in MISTAKES]
)
def test_message_contains_the_correction(right: str, wrong: str, correction: str, tmp_path: Path) -> None:
    assert right in SEARCHED
    with pytest.raises(UsageError) as error:
        load(written(tmp_path, SEARCHED.replace(right, wrong)))
    text = f"{error.value.message}\n{error.value.hint}"
    assert correction in text, text
    assert len(error.value.message.splitlines()) == 1, text


def test_rate_of_an_open_load_is_searched(tmp_path: Path) -> None:
    searched = "vms: [1], rate_per_s: {from: 50.0, to: 200.0, step: 10 %}"
    closed = SEARCHED.replace("vms: {from: 1, to: 16}", searched)
    with pytest.raises(UsageError, match="a closed load, which has no rate"):
        load(written(tmp_path, closed))
    opened = closed.replace("kind: closed, queue_depth: 8", "kind: open, rate_per_s: 1")
    expanded = expand(load(written(tmp_path, opened)).study)
    (search,) = expanded.searches
    patterns = [load_at(expanded.at(point)).point_pattern for point in search.points]
    rates = [pattern.load.rate_per_s for pattern in patterns if isinstance(pattern.load, Open)]
    assert rates == [point.factors["rate_per_s"] for point in search.points]
    assert (rates[0], rates[-1]) == (50.0, 200.0)


def test_range_of_a_factor_without_order_is_refused(tmp_path: Path) -> None:
    names = "variables:\n  case: {a: {}, b: {load.queue_depth: 2}}\n"
    text = SEARCHED.replace("vms: {from: 1, to: 16}", "vms: [2], case: {from: 1, to: 2}") + names
    with pytest.raises(UsageError, match="names, which have no order"):
        load(written(tmp_path, text))


def test_range_of_a_place_that_takes_text_is_refused(tmp_path: Path) -> None:
    pattern = VMS.split("pattern: [")[1].split("]")[0]
    text = SEARCHED.replace(f"pattern: [{pattern}], vms: {{from: 1, to: 16}}", "pattern: {from: 1, to: 2}, vms: [1]")
    assert "pattern: {from" in text
    with pytest.raises(UsageError, match=r"takes no number such as 1, so pattern has no order"):
        load(written(tmp_path, text))


MEASURE = next(line for line in VMS.splitlines() if line.startswith("measure:"))
PRECISE = MEASURE.replace("repetitions: 3", "repetitions: 3, repetitions_max: 8, precision: 3 %")
PRECISION_MISTAKES = [
    ("repetitions_max: 8, ", "", "add `repetitions_max: 10`"),
    ("precision: 3 %", "precision: 3", "such as `3 %`"),
    ("precision: 3 %", "precision: 0 %", "more than 0 %"),
    ("precision: 3 %", "precision: {latency: 5 %}", "did you mean 'latency_ms_p99'?"),
    (", precision: 3 %", "", "add `precision: 3 %`"),
]


@pytest.mark.parametrize(("right", "wrong", "correction"), PRECISION_MISTAKES)
def test_message_about_the_precision_contains_the_correction(
    right: str, wrong: str, correction: str, tmp_path: Path
) -> None:
    valid = VMS.replace(MEASURE, PRECISE)
    assert load(written(tmp_path, valid)).study.measure.precisions("iops") == {"iops": 3.0}
    assert right in PRECISE
    with pytest.raises(UsageError) as error:
        load(written(tmp_path, valid.replace(right, wrong)))
    text = f"{error.value.message}\n{error.value.hint}"
    assert correction in text, text


def test_goal_and_precision_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="either a goal or a precision"):
        load(written(tmp_path, SEARCHED.replace(MEASURE, PRECISE)))


def test_more_repetitions_than_the_most_are_refused(tmp_path: Path) -> None:
    repetitions = next(line for line in VMS.splitlines() if "repetitions:" in line)
    changed = repetitions.replace("repetitions: ", "repetitions_max: 1, repetitions: ")
    assert changed != repetitions
    with pytest.raises(UsageError, match="fewer than `repetitions`"):
        load(written(tmp_path, SEARCHED.replace(repetitions, changed)))
