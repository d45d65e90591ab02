"""The goal of a study: limits of metrics, and the search for the last level that meets them all.

    goal: {latency_ms_p99: 20 ms, errors_per_s: 0}
    goal: {iops: {least: 5000}, find: lowest}

Each block of `factors` has one factor with a range (`vms: {from: 1, to: 32}`), which the search
goes over. A limit without `most` or `least` is the highest value of a metric of which lower values
are better, and the lowest one of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from hakaru.search import LevelResult, LevelSearch
from hakaru.study.part import LevelText, Part
from hakaru.study.results import Interval
from hakaru.suggest import did_you_mean
from hakaru.units import value_of_metric

Side = Literal["most", "least"]
Written = int | float | LevelText


@dataclass(frozen=True)
class Limit:
    """A limit of a metric, in the unit of the metric."""

    metric: str
    side: Side
    value: float

    def holds(self, value: float) -> bool:
        """Whether a value is within the limit."""
        return value <= self.value if self.side == "most" else value >= self.value


class LimitSpec(Part):
    """A limit with its side."""

    most: Written | None = None
    least: Written | None = None

    @model_validator(mode="after")
    def _has_one_side(self) -> LimitSpec:
        if (self.most is None) == (self.least is None):
            raise ValueError("write either `most` or `least`")
        return self


def _form(written: Any) -> str:
    return "sided" if isinstance(written, dict | LimitSpec) else "plain"


class Goal(Part):
    """Limits of metrics, by their names, and the search."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[
        str, Annotated[Annotated[Written, Tag("plain")] | Annotated[LimitSpec, Tag("sided")], Discriminator(_form)]
    ]

    find: Literal["highest", "lowest"] | None = Field(
        default=None,
        description="which of the levels that meet the goal; default: `highest` for limits that metrics must not "
        "exceed, `lowest` for those that they must reach",
    )
    budget: int | None = Field(
        default=None, ge=2, le=10_000, description="most repetitions of one search; default: as many as it may need"
    )

    @model_validator(mode="after")
    def _has_limits(self) -> Goal:
        if not self.__pydantic_extra__:
            raise ValueError("a goal needs the limit of a metric, such as `latency_ms_p99: 20 ms`")
        return self

    @property
    def written(self) -> dict[str, tuple[Side | None, Written]]:
        """Metric → side and limit, as written."""
        limits: dict[str, tuple[Side | None, Written]] = {}
        for metric, limit in self.__pydantic_extra__.items():
            if not isinstance(limit, LimitSpec):
                limits[metric] = (None, limit)
            elif limit.most is not None:
                limits[metric] = ("most", limit.most)
            elif limit.least is not None:
                limits[metric] = ("least", limit.least)
        return limits

    def search(self, better: Mapping[str, str | None], least: int, most: int) -> GoalSearch:
        """The search for this goal.

        `better`: metric → whether higher or lower values are better; `least` and `most`:
        repetitions of a level. Raises ValueError for a limit that is no quantity of its metric;
        `problems` must find nothing else.
        """
        limits = tuple(
            Limit(metric, side or ("least" if better[metric] == "higher" else "most"), value_of_metric(metric, value))
            for metric, (side, value) in self.written.items()
        )
        find = self.find or ("highest" if all(limit.side == "most" for limit in limits) else "lowest")
        return GoalSearch(limits, find, least, most, self.budget)


P = TypeVar("P")


@dataclass(frozen=True)
class GoalSearch:
    """The search for a goal over any factor."""

    limits: tuple[Limit, ...]
    find: Literal["highest", "lowest"]
    least: int
    """Repetitions of a level next to the answer."""
    most: int
    """Repetitions of a level at most."""
    budget: int | None

    @property
    def confidence(self) -> float:
        """Confidence of the intervals that decide a level.

        An undecided level is judged again after each repetition. Each of these looks may be wrong
        in a share of 0.05 / looks, so that all together are wrong in 0.05 at most (Bonferroni).
        """
        return 1 - 0.05 / max(1, self.most - max(self.least, 2) + 1)

    def steps(self, rising: Sequence[P]) -> list[P]:
        """Levels in the order of the search, the easiest first. `rising`: the lowest first."""
        return list(rising) if self.find == "highest" else list(reversed(rising))

    def over(self, steps: int) -> LevelSearch:
        """The search over this number of levels, at least 2."""
        return LevelSearch(steps, self.least, self.most, self.budget)

    def judge(self, values: Mapping[str, Interval], repetitions: int) -> LevelResult:
        """Judge a level by the estimates of its metrics over its repetitions.

        It meets the goal if all means do. It surely meets it if all intervals do, and surely
        misses it if one interval is entirely outside, with intervals of `confidence`. If levels
        get only one repetition, there are no intervals, and the values decide.
        """
        given = [(limit, values[limit.metric]) for limit in self.limits if limit.metric in values]
        means = [(limit, each.mean) for limit, each in given if each.mean is not None]
        if len(means) < len(self.limits):
            return LevelResult(repetitions, meets=False, is_sure=False, is_usable=False)
        meets = all(limit.holds(mean) for limit, mean in means)
        if self.most == 1:
            return LevelResult(repetitions, meets=meets, is_sure=True)
        wide = [(limit, each.at(self.confidence)) for limit, each in given]
        ends = [
            (limit.holds(each.low), limit.holds(each.high))
            for limit, each in wide
            if each.low is not None and each.high is not None
        ]
        surely_meets = len(ends) == len(given) and all(low and high for low, high in ends)
        surely_misses = any(not low and not high for low, high in ends)
        return LevelResult(repetitions, meets=meets, is_sure=surely_meets if meets else surely_misses)


def problems(goal: Goal, metrics: Mapping[str, str | None]) -> Iterator[tuple[str, str, str]]:
    """Problems of a goal: metric, message, hint. `metrics`: every metric of the study → whether
    higher or lower values are better.
    """
    sides: dict[str, str] = {}
    for metric, (side, value) in goal.written.items():
        if metric not in metrics:
            yield metric, f"no metric {metric!r}", did_you_mean(metric, metrics)
            return
        try:
            value_of_metric(metric, value)
        except ValueError as e:
            yield metric, str(e), ""
            return
        better = metrics[metric]
        if side is None and better is None:
            hint = f"write `{metric}: {{most: …}}` or `{metric}: {{least: …}}`"
            yield metric, f"neither higher nor lower values of {metric} are better", hint
            return
        wrong = {"most": "higher", "least": "lower"}
        if side is not None and better == wrong[side]:
            other = "least" if side == "most" else "most"
            message = f"{better} values of {metric} are better, so `{side}` makes no sense"
            yield metric, message, f"write `{metric}: {{{other}: …}}`"
            return
        sides[metric] = side or ("least" if better == "higher" else "most")
    if goal.find is None and len(set(sides.values())) > 1:
        most, least = (next(m for m, s in sides.items() if s == side) for side in ("most", "least"))
        message = f"{most} must not exceed its limit and {least} must reach its own, so no end of the range is the goal"
        yield (
            least,
            message,
            (
                "leave out one of them; write `find: highest` or `find: lowest` only if both limits are harder to meet "
                "towards the same end of the range"
            ),
        )
