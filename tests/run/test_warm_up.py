"""The warm-up of a load lasts until its rate is steady, within a limit."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hakaru.errors import UsageError
from hakaru.lab.plan import plan_lab
from hakaru.run import kind
from hakaru.run.plan import cost_of
from hakaru.run.warm_up import SteadyWarmUp, uneven_begin
from hakaru.steadiness import steadiness
from hakaru.store import RunReader
from hakaru.study import expand, load
from hakaru.study.model import Measure

from tests.cli.command import pages_of
from tests.run.conftest import STUDY, Hakaru

SECOND = 1_000_000_000
MEASURE = "measure: {warmup: 200 ms, time: 1 s, repetitions: 2, sample_interval: 200 ms}"


def study_with(folder: Path, steady: str) -> Path:
    path = folder / "study.yaml"
    measure = f"measure: {{warmup: 200 ms, time: 1 s, repetitions: 1, sample_interval: 200 ms, steady: {steady}}}"
    path.write_text(STUDY.replace(MEASURE, measure).replace("lab:\n", "lab:\n  backend: kernel\n"))
    return path


def started(measure: Measure, start_ns: int, *loads: str) -> SteadyWarmUp:
    """The warm-up of loads that start together."""
    assert measure.steady is not None
    warm_up = SteadyWarmUp(measure, measure.steady, loads)
    for name in loads:
        warm_up.start(name, start_ns)
    return warm_up


def begun_after(rates: Callable[[int], float], **steady: str) -> tuple[int | None, SteadyWarmUp]:
    """Feed one sample a second of two loads, each with half of `rates(second)`, for 150 seconds.
    Return the second at which the load was steady.
    """
    fields = {"warmup": "2 s", "time": "10 s", "repetitions": 1, "steady": {"within": "100 s"} | steady}
    measure = Measure.model_validate(fields)
    start = 7 * SECOND
    warm_up = started(measure, start, "host-1", "host-2")
    done = 0.0
    for second in range(151):
        for load_name in ("host-1", "host-2"):
            if warm_up.learn(load_name, start + second * SECOND, done / 2):
                return second, warm_up
        done += rates(second)
    return None, warm_up


def test_constant_rate_is_steady_after_the_first_window() -> None:
    assert begun_after(lambda second: 1000)[0] == 12
    assert begun_after(lambda second: 1000, window="5 s")[0] == 7


def test_rate_that_falls_to_a_level_is_steady_once_the_window_is_on_the_level() -> None:
    # From 9000/s at the start to 1000/s from second 40 on, as when a cache fills up.
    second, _ = begun_after(lambda second: max(1000, 9000 - 200 * second))
    assert second is not None and 46 <= second <= 50


def test_rate_that_never_settles_has_a_caveat_with_its_last_steadiness() -> None:
    second, warm_up = begun_after(lambda second: 1000 if second % 10 < 5 else 3000)
    assert second is None
    caveat = warm_up.caveat()
    assert caveat is not None and caveat.name == "never_steady"
    assert caveat.values["seconds"] == 100 and caveat.values["range_percent"] > 20


def test_rate_that_settles_after_the_longest_warm_up_is_not_steady() -> None:
    second, warm_up = begun_after(lambda second: 1000 + 2000 * (second < 101 and second % 10 < 5))
    assert second is None and not warm_up.is_steady
    assert warm_up.caveat() is not None


def test_windows_after_the_begin_of_a_measurement_are_not_judged() -> None:
    measure = Measure.model_validate({"warmup": "0 s", "time": "5 s", "repetitions": 1, "steady": {"within": "100 s"}})
    warm_up = started(measure, 0, "host-1")
    rising = [warm_up.learn("host-1", second * SECOND, 1000 * second**3) for second in range(8)]
    warm_up.end(7 * SECOND)
    level = [warm_up.learn("host-1", second * SECOND, 343_000 + 1000 * second) for second in range(8, 40)]
    assert not any(rising) and not any(level)


def test_load_that_does_nothing_has_a_caveat_of_its_own() -> None:
    second, warm_up = begun_after(lambda second: 0)
    caveat = warm_up.caveat()
    assert second is None and caveat is not None and caveat.name == "warm_up_idle"


@pytest.mark.parametrize("sampled", [[], [0, 5], [0, 5, 101]], ids=["none", "before-a-window", "after-the-limit"])
def test_host_whose_samples_are_missing_is_named_instead_of_a_load_that_does_nothing(sampled: list[int]) -> None:
    fields = {"warmup": "2 s", "time": "10 s", "repetitions": 1, "steady": {"within": "100 s"}}
    measure = Measure.model_validate(fields)
    warm_up = started(measure, 0, "host-1", "host-2")
    for second in range(102):
        warm_up.learn("host-1", second * SECOND, 1000.0 * second)
        if second in sampled:
            warm_up.learn("host-2", second * SECOND, 1000.0 * second)
    caveat = warm_up.caveat()
    assert caveat is not None and caveat.name == "warm_up_unjudged"
    assert caveat.values == {"seconds": 100, "hosts": "host-2"}


def test_warm_up_starts_with_that_of_the_last_load() -> None:
    measure = Measure.model_validate({"warmup": "2 s", "time": "5 s", "repetitions": 1, "steady": {"within": "60 s"}})
    assert measure.steady is not None
    warm_up = SteadyWarmUp(measure, measure.steady, ["host-1", "host-2"])
    # The first load prepares for 10 s and the second one for 30 s; both are idle meanwhile.
    begun = {"host-1": 10, "host-2": 30}
    steady: list[int] = []
    for second in range(61):
        for name, at in begun.items():
            if second == at:
                warm_up.start(name, second * SECOND)
            if warm_up.learn(name, second * SECOND, 1000.0 * max(0, second - at)):
                steady.append(second)
    assert steady == [37]
    assert warm_up.describe(38 * SECOND)["seconds"] == pytest.approx(8)


@pytest.mark.parametrize("rate_per_s", [1, 5, 20, 100, 1000])
def test_scatter_of_few_requests_does_not_delay_the_measurement(rate_per_s: int) -> None:
    late = 0
    for seed in range(200):
        arrivals = np.random.default_rng(seed)
        second, _ = begun_after(lambda _, arrivals=arrivals: arrivals.poisson(rate_per_s))  # type: ignore[misc]
        late += second != 12
    # 3.5 % of the first windows exceed a limit, and the number of 200 windows scatters.
    assert late <= 15


def test_hosts_must_begin_within_a_share_of_the_measuring_time() -> None:
    assert uneven_begin([], SECOND) is None and uneven_begin([7, 7 + SECOND // 20], SECOND) is None
    caveat = uneven_begin([7, 8 + SECOND // 10], SECOND)
    assert caveat is not None and caveat.values["percent"] == pytest.approx(10)


def test_memory_of_a_long_warm_up_is_bounded() -> None:
    measure = Measure.model_validate({"warmup": "0 s", "time": "5 s", "repetitions": 1, "steady": {"within": "9000 s"}})
    warm_up = started(measure, 0, "host-1")
    for second in range(5000):
        warm_up.learn("host-1", second * SECOND, 1000 * (second // 7) ** 3)
    assert len(warm_up._counts["host-1"]) < 20


def test_noise_alone_rarely_delays_the_measurement() -> None:
    late = 0
    for seed in range(200):
        noise = random.Random(seed)
        second, _ = begun_after(lambda _, noise=noise: noise.gauss(1000, 30))  # type: ignore[misc]
        late += second != 12
    assert late <= 4


def test_steadiness_agrees_with_its_definition() -> None:
    found = steadiness([900, 950, 1000, 1050, 1100])
    assert found is not None
    assert found.range_percent == pytest.approx(20) and found.drift_percent == pytest.approx(20)
    level = steadiness([900, 1100, 1000, 1100, 900])
    assert level is not None and level.drift_percent == pytest.approx(0)


def test_plan_counts_the_shortest_and_the_longest_warm_up(tmp_path: Path) -> None:
    expanded = expand(load(str(study_with(tmp_path, "{within: 21 s, window: 4 s}"))).study)
    cost = cost_of(expanded, expanded.points[0], plan_lab(expanded.study.lab))
    assert (cost.seconds, cost.seconds_max) == pytest.approx((5.2, 22))
    assert kind.of(expanded.study).each(expanded) == "4.2 s to 21 s, until steady, warm-up + 1 s measured each"


@pytest.mark.parametrize(
    ("steady", "message"),
    [
        ("{within: 1 s}", "`sample_interval`: 1 s"),
        ("{within: 9 s, window: 600 ms}", "too short to judge a rate"),
        ("{within: 9 s, window: 9 s}", "write at most 8.8 s"),
        ("{within: 9 s, range: 0 %}", "range"),
        ("9 s", "within"),
    ],
)
def test_impossible_windows_are_refused(tmp_path: Path, steady: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(str(study_with(tmp_path, steady)))
    assert message in f"{refused.value.message} {refused.value.hint}"


def test_measuring_begins_early_if_the_load_is_steady(hakaru: Hakaru, tmp_path: Path) -> None:
    path = study_with(tmp_path, "{within: 60 s, window: 1 s, range: 10000 %, drift: 10000 %}")
    result = hakaru.run("run", str(path), "--only", "pattern=mixed", "--report", "none", "--json")
    assert result.returncode in (0, 5), result.stderr
    for record in RunReader(hakaru.only_run()).repetitions():
        assert record["warm_up"]["steady"] and 1.2 <= record["warm_up"]["seconds"] < 59
        length_ns = record["measure"]["end_ns"] - record["measure"]["start_ns"]
        # The window is common to both hosts, which may begin 5 % of the time apart.
        assert length_ns >= 0.9 * SECOND


def test_measuring_begins_at_the_limit_at_the_latest(hakaru: Hakaru, tmp_path: Path) -> None:
    # The only window ends with the longest warm-up.
    path = study_with(tmp_path, "{within: 1500 ms, window: 1300 ms}")
    result = hakaru.run("run", str(path), "--only", "pattern=reads", "--report", "none", "--json")
    assert result.returncode in (0, 5), result.stderr
    directory = hakaru.only_run()
    (record,) = RunReader(directory).repetitions()
    # A load that begins slightly late does not end its warm-up later. An earlier window would end
    # at a sample 200 ms before.
    assert record["warm_up"]["seconds"] > 1.4
    assert record["warm_up"]["steady"] or "never_steady" in {caveat["caveat"] for caveat in record["caveats"]}
    page = pages_of(directory)["en"].replace("\xa0", " ")
    assert "until the rate is steady (range below 20 %, drift below 10 %), for 1.5 s to 1.5 s" in page
