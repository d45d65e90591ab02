"""The verdict on a point, by the rules of its kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hakaru.analysis.rules.arithmetic import bound_words
from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.rule import UNDETERMINED, Rule, Verdict
from hakaru.analysis.sentences import resource
from hakaru.wording import say, tenths

Stages = Sequence[Sequence[Rule]]
"""Stages of rules in order. If several rules of a stage hold, the one whose resource is closest to
full decides.
"""


def verdicts_of(stages: Stages) -> frozenset[str]:
    """Names of the possible verdicts: those of the rules, and `undetermined`."""
    return frozenset(rule.name for stage in stages for rule in stage) | {UNDETERMINED}


def judge(stages: Stages, evidence: Evidence) -> Verdict:
    """The bottleneck of a point, from the first stage in which a rule holds. `undetermined` if none
    holds.
    """
    if evidence.mb_per_s is None:
        return Verdict(UNDETERMINED, values={"reason": "no_value"})
    for holding in _by_stage(stages, evidence):
        if holding:
            return max(holding, key=lambda verdict: verdict.fill)
    return Verdict(UNDETERMINED, values={"reason": "none_at_limit" if evidence.watched else "not_watched"})


def all_holding(stages: Stages, evidence: Evidence) -> list[Verdict]:
    """The verdicts of all rules that hold, in the order of the stages. Within a stage, the resource
    closest to full comes first.
    """
    if evidence.mb_per_s is None:
        return []
    return [
        verdict
        for holding in _by_stage(stages, evidence)
        for verdict in sorted(holding, key=lambda verdict: -verdict.fill)
    ]


def _by_stage(stages: Stages, evidence: Evidence) -> Iterator[list[Verdict]]:
    for stage in stages:
        evaluated = ((rule, rule.evaluate(evidence)) for rule in stage)
        yield [replace(verdict, rule=rule) for rule, verdict in evaluated if verdict is not None]


def words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    """The reasons for a verdict, as sentences."""
    if verdict.rule is not None:
        return verdict.rule.sentences(language, verdict, evidence)
    reason = str(verdict.values["reason"])
    if reason == "no_value":
        return [say(language, "because.no_value")]
    lowest = bound_words(language, evidence, evidence.bounds[0].name) if evidence.bounds else []
    return [
        say(language, f"because.undetermined.{reason}"),
        *busiest(language, evidence),
        *lowest,
        *_clocks(language, evidence),
    ]


def _clocks(language: str, evidence: Evidence) -> list[str]:
    """A sentence about the shares of TCP's time by state, or that the kernel does not count them.
    None if links were not measured.
    """
    flow = next(iter(evidence.flows), None)
    if flow is None or flow.link_busy_percent is None:
        return []
    shares = {
        "idle": flow.tcp_idle_percent,
        "receive_window": flow.tcp_receive_window_percent,
        "send_buffer": flow.tcp_send_buffer_percent,
        "path": flow.tcp_path_percent,
    }
    if None in shares.values():
        return [say(language, "because.clocks.none")]
    return [say(language, "because.clocks", {n: tenths(share, language) for n, share in shares.items()})]


def busiest(language: str, evidence: Evidence) -> list[str]:
    """A sentence about the resource that is closest to its limit; none if nothing was monitored."""
    name = evidence.busiest
    if name is None:
        return []
    values = {"resource": resource(language, name), "percent": tenths(evidence.used[name], language)}
    return [say(language, "because.busiest", values)]
