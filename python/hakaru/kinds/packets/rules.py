"""The possible bottlenecks of packet forwarding, in the order in which they are evaluated."""

from __future__ import annotations

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.rules.processor import MACHINE_CPU
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.kinds.packets.dialogue import TESTER_CAPS, CapReason
from hakaru.search import Verdict as SearchVerdict
from hakaru.wording import say

CPU_FULL_PERCENT = 95.0
GENERATOR_PERCENT = 50.0
"""CPU use of a thread of the tester from which on the full processor may be its own."""
INPUT_PERCENT = 50.0


def is_of_tester(verdict: str, cap: str | None) -> bool:
    """Whether the tester limits a result. `cap`: origin of the highest rate that was tried."""
    at_cap = verdict == SearchVerdict.AT_LEAST.value and cap in TESTER_CAPS
    return at_cap or verdict == SearchVerdict.TESTER_LIMIT.value


def _tester(evidence: Evidence) -> Verdict | None:
    found = evidence.forwarding
    if found is None or not is_of_tester(found.verdict, found.cap):
        return None
    return Verdict("tester", values={"share": found.tester_percent})


def _tester_words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    found = evidence.forwarding
    beside = found is not None and found.verdict == SearchVerdict.TESTER_LIMIT.value
    return [say(language, "because.tester.beside" if beside else "because.tester", verdict.values)]


def _search_range(evidence: Evidence) -> Verdict | None:
    found = evidence.forwarding
    if found is None or found.verdict != SearchVerdict.AT_LEAST.value:
        return None
    return Verdict("search_range", values={"rate": found.cap_frames_per_s, "cap": found.cap})


def _range_words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    name = "search_range.flood" if verdict.values["cap"] == CapReason.FLOOD_LOSSES.value else "search_range"
    return [say(language, f"because.{name}", {"rate": verdict.values["rate"]})]


def _one_cpu(evidence: Evidence) -> Verdict | None:
    found = evidence.forwarding
    if found is None or found.busiest_cpu_percent is None or found.busiest_cpu_percent < CPU_FULL_PERCENT:
        return None
    if found.generator_percent is None or found.generator_percent >= GENERATOR_PERCENT:
        return None
    idle = 100.0 - (found.machine_percent or 0.0)
    return Verdict("one_cpu", percent=found.busiest_cpu_percent, values={"cpu": found.busiest_cpu, "idle": round(idle)})


def _input_queue(evidence: Evidence) -> Verdict | None:
    found = evidence.forwarding
    if found is None or found.at_input_percent is None or found.at_input_percent < INPUT_PERCENT:
        return None
    return Verdict("input_queue", percent=found.at_input_percent)


def _in_device(evidence: Evidence) -> Verdict | None:
    found = evidence.forwarding
    if found is None or found.in_device_percent is None or found.in_device_percent < INPUT_PERCENT:
        return None
    return Verdict("in_device", percent=found.in_device_percent)


TESTER = Rule(
    "tester",
    "test setup",
    "The device forwards the highest rate that the tester can send and count, alone or while the device works.",
    _tester,
    _tester_words,
)
SEARCH_RANGE = Rule(
    "search_range",
    "test setup",
    "The device forwards the highest rate that was tried: `load.search.highest`, or the limit set after it lost more "
    "than half of a flood.",
    _search_range,
    _range_words,
)
ONE_CPU = Rule(
    "one_cpu",
    "device",
    "One processor is at least 95 % busy in the trials next to the result, while the machine is not, and no thread of "
    "the generator uses 50 % of a processor.",
    _one_cpu,
)
INPUT_QUEUE = Rule(
    "input_queue",
    "device",
    "At least half of the lost frames found a queue in front of the device full, and no processor is full.",
    _input_queue,
)
IN_DEVICE = Rule(
    "in_device",
    "device",
    "At least half of the lost frames were dropped by the device, or no other counter has them, and no processor is "
    "full.",
    _in_device,
)
STAGES: Stages = ((TESTER,), (SEARCH_RANGE,), (MACHINE_CPU,), (ONE_CPU,), (INPUT_QUEUE,), (IN_DEVICE,))
