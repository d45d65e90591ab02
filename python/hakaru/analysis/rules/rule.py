"""`Rule`, one possible bottleneck, and `Verdict`, the rule that holds, with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.sentences import resource
from hakaru.wording import say, tenths

UNDETERMINED = "undetermined"

Resource = Literal["device", "link", "network", "tcp", "load", "test setup"]
"""The layer of a bottleneck: a device of the array, a link, a switch on the path, TCP at an end,
the load itself (too few requests outstanding, or waiting for R2Ts), or the test setup (hakaru and
its machine).
"""
CAPACITIES: tuple[Resource, ...] = ("device", "link")
"""Layers with a capacity that a growing load exhausts. Among these, a sweep names the resource that
reached its limit first.
"""


@dataclass(frozen=True)
class Verdict:
    """The bottleneck of a point.

    `limiter`: the rule's name, or `undetermined`. `resource`: its name in `utilisation`, None if
    the bottleneck is no resource (a window, a timer). `percent`: the utilisation of the resource.
    `fill`: its position between the limit (0) and full (1). `values`: numbers for the sentence.
    """

    limiter: str
    resource: str | None = None
    percent: float | None = None
    fill: float = 0.0
    values: Mapping[str, Any] = field(default_factory=dict)
    rule: Rule | None = field(default=None, compare=False, repr=False)
    """The rule that holds; None if undetermined."""

    @property
    def test_setup_limited(self) -> bool:
        """Whether the result reflects the test setup and not the system under test, by the layer of
        its rule.
        """
        return self.rule is not None and self.rule.is_test_setup


Words = Callable[[str, Verdict, Evidence], list[str]]


@dataclass(frozen=True)
class Rule:
    """One possible bottleneck.

    `name`: name of the verdict; two rules may reach the same verdict from different evidence.
    `criterion`: description for the table in docs/methodology/limiter.md. `evaluate`: returns the
    verdict if the evidence shows it, else None; pure. `words`: returns the sentences in a language;
    by default `because.NAME` alone.
    """

    name: str
    resource: Resource
    criterion: str
    evaluate: Callable[[Evidence], Verdict | None]
    words: Words | None = None

    @property
    def is_test_setup(self) -> bool:
        """Whether the bottleneck is hakaru itself, its machine, or the range of a search, so that
        the system under test might have given another result.
        """
        return self.resource == "test setup"

    @property
    def is_capacity(self) -> bool:
        """Whether a growing load exhausts the resource."""
        return self.resource in CAPACITIES

    def sentences(self, language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
        """Return the reasons for the verdict, in `language`."""
        if self.words is not None:
            return self.words(language, verdict, evidence)
        return [sentence(language, verdict)]


def sentence(language: str, verdict: Verdict, message: str | None = None) -> str:
    """`because.NAME` (or `message`) with the resource, percent and values of the verdict filled
    in.
    """
    named = {"resource": resource(language, verdict.resource)} if verdict.resource else {}
    used = {"percent": tenths(verdict.percent, language)} if verdict.percent is not None else {}
    return say(language, message or f"because.{verdict.limiter}", named | used | dict(verdict.values))
