"""The CPU of the load generator, of the array's software, or of the whole machine."""

from __future__ import annotations

from collections.abc import Callable

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.limits import MACHINE, fill_of, is_machine, limit_of
from hakaru.analysis.rules.rule import Rule, Verdict, sentence
from hakaru.wording import say, tenths

WAITED_PERCENT = 50.0
"""Share of the time in which some process waits for a CPU. On two CPUs it corresponds to about 80 %
utilisation (M/M/2).
"""


def _process_at_limit(name: str, *resources: str) -> Callable[[Evidence], Verdict | None]:
    def evaluate(evidence: Evidence) -> Verdict | None:
        full = [r for r in resources if evidence.used.get(r, 0.0) >= limit_of(r)]
        if not full:
            return None
        percent = evidence.used[full[0]]
        return Verdict(name, full[0], percent, fill_of(full[0], percent))

    return evaluate


def _machine(evidence: Evidence) -> Verdict | None:
    machines = {resource: percent for resource, percent in evidence.used.items() if is_machine(resource)}
    if not machines:
        return None
    machine = max(machines, key=lambda resource: machines[resource])
    percent = machines[machine]
    waits = evidence.busiest == machine and (evidence.cpu_wait_percent or 0.0) >= WAITED_PERCENT
    if percent < limit_of(machine) and not (waits and evidence.copying is not None):
        return None
    return Verdict("machine_cpu", machine, percent, fill_of(machine, percent))


def _machine_words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    # The resource is that of this machine, or of a named one.
    message = None if verdict.resource == MACHINE else "because.machine_cpu.host"
    parts, wait = [sentence(language, verdict, message)], evidence.cpu_wait_percent
    if wait is not None:
        parts.append(say(language, "because.machine_cpu.waited", {"percent": tenths(wait, language)}))
    return [*parts, say(language, "because.machine_cpu.hint")] if evidence.copying is not None else parts


GENERATOR_CPU = Rule(
    "generator_cpu",
    "test setup",
    "The load generator (of VMs or of a copy) uses at least 90 % of a CPU.",
    _process_at_limit("generator_cpu", "cpu/initiator", "cpu/backup"),
)
ARRAY_CPU = Rule(
    "array_cpu",
    "test setup",
    "The array's software uses at least 90 % of a CPU.",
    _process_at_limit("array_cpu", "cpu/array"),
)
MACHINE_CPU = Rule(
    "machine_cpu",
    "test setup",
    "The CPUs of this machine, or of a load host, are at least 95 % busy. For a copy, also if no other resource is "
    "closer to its limit and processes waited for a CPU at least half of the time (pressure stall information, `some` "
    "of `/proc/pressure/cpu`).",
    _machine,
    _machine_words,
)
