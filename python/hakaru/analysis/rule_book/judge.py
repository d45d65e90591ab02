"""Judges the gauges of a point by the rules of a book."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hakaru.analysis.estimate import Estimate
from hakaru.analysis.rule_book.book import BookRule
from hakaru.analysis.rule_book.gauges import UNITS, Gauge, GaugeValues

Outcome = Literal["fine", "at_limit", "above", "overridden", "shown"]
_SEVERITY: dict[Outcome, int] = {"shown": 0, "fine": 0, "overridden": 1, "at_limit": 2, "above": 3}


@dataclass(frozen=True)
class Judgement:
    """A rule applied to a point: the device with the worst outcome, of these the one with the
    highest value.

    `overridden`: the value is above the limit, but the rule `by` found that device to be fine.
    `shown`: the rule has no limit.
    """

    rule: BookRule
    device: str
    value: Estimate
    outcome: Outcome
    by: str | None = None

    @property
    def headroom(self) -> tuple[float, float] | None:
        """As `BookRule.headroom_at` of the mean."""
        return None if self.value.mean is None else self.rule.headroom_at(self.value.mean)

    def to_json(self) -> dict[str, Any]:
        """One element of `rule_book` of a point of the report."""
        described: dict[str, Any] = {"rule": self.rule.rule, "gauge": self.rule.gauge, "device": self.device}
        described |= {"value": self.value.to_json(), "outcome": self.outcome, "by": self.by}
        ranges = {"limit": self.rule.limit, "published": self.rule.published, "headroom": self.headroom}
        described |= {name: None if bounds is None else list(bounds) for name, bounds in ranges.items()}
        return described | {"source": self.rule.source}


def judge(book: Sequence[BookRule], repetitions: Sequence[GaugeValues]) -> list[Judgement]:
    """Judge the means over repetitions by every rule whose gauge was measured, in the order of the
    book.
    """
    outcomes: dict[tuple[str, str], Outcome] = {}
    judgements = []
    for rule in book:
        values = _estimates(rule.gauge, repetitions)
        if not values:
            continue
        for device, value in values.items():
            outcomes[rule.rule, device] = _outcome(rule, value, device, outcomes)
        device = max(values, key=lambda each: (_SEVERITY[outcomes[rule.rule, each]], values[each].mean or 0.0))
        outcome = outcomes[rule.rule, device]
        by = rule.overridden_by if outcome == "overridden" else None
        judgements.append(Judgement(rule, device, values[device], outcome, by))
    return judgements


def _estimates(gauge: Gauge, repetitions: Iterable[GaugeValues]) -> dict[str, Estimate]:
    by_device: dict[str, list[float]] = {}
    for gauges in repetitions:
        for device, value in gauges.get(gauge, {}).items():
            by_device.setdefault(device, []).append(value)
    return {device: Estimate.over(values, UNITS[gauge]) for device, values in by_device.items()}


def _outcome(rule: BookRule, value: Estimate, device: str, outcomes: Mapping[tuple[str, str], Outcome]) -> Outcome:
    if rule.limit is None or value.mean is None:
        return "shown"
    low, high = rule.limit
    if value.mean <= low:
        return "fine"
    if value.mean <= high:
        return "at_limit"
    return "overridden" if outcomes.get((rule.overridden_by or "", device)) == "fine" else "above"
