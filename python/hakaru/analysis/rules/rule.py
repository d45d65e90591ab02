"""`Rule`, one possible bottleneck, and `Verdict`, the rule that held with its numbers."""

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
the load itself (too few requests outstanding, or waiting for R2Ts), or the test setup: hakaru and
its machine.
"""
CAPACITIES: tuple[Resource, ...] = ("device", "link")
"""Layers that fill up as a load grows: of these a sweep names the one that came to its limit
first.
"""


@dataclass(frozen=True)
class Verdict:
    """The bottleneck of a point.

    `limiter`: the rule's name, or `undetermined`. `resource`: the resource as utilisation calls it,
    None where the bottleneck is none (a window, a timer). `percent`: how much of it was used.
    `fill`: from its limit (0) to full (1). `values`: numbers for the rule's words.
    """

    limiter: str
    resource: str | None = None
    percent: float | None = None
    fill: float = 0.0
    values: Mapping[str, Any] = field(default_factory=dict)
    rule: Rule | None = field(default=None, compare=False, repr=False)
    """The rule that held."""

    @property
    def test_setup_limited(self) -> bool:
        """Whether the bottleneck is the load generator, the emulated network or this machine, so
        that the result reflects the test setup and not the system under test.
        """
        return self.limiter in ("generator_cpu", "machine_cpu", "fabric")


Words = Callable[[str, Verdict, Evidence], list[str]]


@dataclass(frozen=True)
class Rule:
    """One possible bottleneck.

    `name`: the verdict; two rules may find the same one by different evidence. `criterion`: one
    sentence for the table in docs/methodology/limiter.md. `evaluate`: the verdict where the
    evidence shows it, else None; pure. `words`: the sentences in one language; by default
    `because.NAME` alone.
    """

    name: str
    resource: Resource
    criterion: str
    evaluate: Callable[[Evidence], Verdict | None]
    words: Words | None = None

    @property
    def is_capacity(self) -> bool:
        """Whether the resource fills up as a load grows."""
        return self.resource in CAPACITIES

    def sentences(self, language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
        """Return the reasons for the verdict, in `language`."""
        if self.words is not None:
            return self.words(language, verdict, evidence)
        return [sentence(language, verdict)]


def sentence(language: str, verdict: Verdict, message: str | None = None) -> str:
    """`because.NAME` filled with the verdict's resource, percent and values."""
    named = {"resource": resource(language, verdict.resource)} if verdict.resource else {}
    used = {"percent": tenths(verdict.percent, language)} if verdict.percent is not None else {}
    return say(language, message or f"because.{verdict.limiter}", named | used | dict(verdict.values))
