#!/usr/bin/env python3
"""Searches on simulated devices, and writes the tables of docs/methodology/search.md between
`<!-- search TABLE -->` and `<!-- /search -->` (`make search`). `--check` reports whether they are
up to date.

All numbers are simulated in virtual time, so every machine gets the same ones within seconds.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from hakaru.search import (
    FORWARDING_GOALS,
    Bisection,
    Controller,
    CountGrid,
    Goal,
    MlrSearch,
    Outcome,
    Procedure,
    PublishedProcedure,
    RateGrid,
    Verdict,
    loss_ratio_of_percentile,
)
from hakaru.search.simulated import SimulatedForwarder, SimulatedServer, run_simulated

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/methodology/search.md"
MARKED = re.compile(r"(<!-- search (\w+) -->\n).*?(<!-- /search -->)", re.DOTALL)

CAPACITY = 800_000.0
LOADS = (9_001.0, 1_488_095.0)
SEEDS = 20
BURSTS = (0.0, 0.02, 0.1)
ERROR_MAX = 0.005
TIME_MAX_S = 60.0


def one_trial(duration_s: float) -> Goal:
    """Return the goal of a procedure that judges a load by one trial."""
    return Goal(relative_width=0.003, initial_trial_s=duration_s, final_trial_s=duration_s, duration_sum_s=duration_s)


SHIPPED = Goal(relative_width=0.01, duration_sum_s=5.0)
"""The goal of the study `forwarding`, whose devices vary by more than its width (a test compares
both)."""

METHODS: dict[str, tuple[Iterable[Goal], Callable[[], Procedure]]] = {
    "MLRsearch, one goal": (FORWARDING_GOALS[:1], lambda: MlrSearch(FORWARDING_GOALS[:1])),
    "MLRsearch, the four goals": (FORWARDING_GOALS, lambda: MlrSearch(FORWARDING_GOALS)),
    "MLRsearch, goal of `forwarding`": ((SHIPPED,), lambda: MlrSearch((SHIPPED,))),
    "MLRsearch, defaults of the library": ((Goal(),), lambda: MlrSearch((Goal(),))),
    "bisection, 1 s": ((one_trial(1),), lambda: Bisection(one_trial(1))),
    "bisection, 10 s": ((one_trial(10),), lambda: Bisection(one_trial(10))),
    "bisection, 60 s": ((one_trial(60),), lambda: Bisection(one_trial(60))),
    "published procedure, 3 × 1 s": ((one_trial(1),), lambda: PublishedProcedure(one_trial(1))),
    "published procedure, 3 × 10 s": ((one_trial(10),), lambda: PublishedProcedure(one_trial(10))),
}
"""Name → goals that determine the grid, and the procedure."""


def search(method: str, device: SimulatedForwarder) -> Outcome:
    """Return the outcome of a search with one of METHODS."""
    goals, procedure = METHODS[method]
    grid = RateGrid.for_widths(*LOADS, [goal.relative_width for goal in goals])
    return run_simulated(Controller(procedure(), grid), device.measure)


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def error(value: float) -> str:
    return f"{100 * value:+.2f} %"


def seconds(value: float) -> str:
    return f"{value:,.0f} s"


def accuracy(found: list[float]) -> list[str]:
    """Return the cells for searches that found a rate: number, mean error, greatest error, and
    relative standard deviation.
    """
    if len(found) < 2:
        return [f"{len(found)} of {SEEDS}", "", "", ""]
    mean = statistics.mean(found)
    worst = max((rate / CAPACITY - 1 for rate in found), key=abs)
    spread = f"{100 * statistics.stdev(found) / mean:.2f} %"
    return [f"{len(found)} of {SEEDS}", error(mean / CAPACITY - 1), error(worst), spread]


def methods() -> Iterable[list[str]]:
    """Rows of the comparison: every method at every probability of bursts."""
    yield ["bursts per s", "method", "found", "mean error", "greatest error", "spread", "trial time", "longest"]
    for bursts_per_s in BURSTS:
        for method in METHODS:
            outcomes = [search(method, SimulatedForwarder(seed, bursts_per_s=bursts_per_s)) for seed in range(SEEDS)]
            found = [rate for outcome in outcomes if (rate := outcome.goals[0].throughput) is not None]
            times = [outcome.trial_time_s for outcome in outcomes]
            cells = [percent(bursts_per_s), method, *accuracy(found)]
            yield [*cells, seconds(statistics.mean(times)), seconds(max(times))]


def goals() -> Iterable[list[str]]:
    """Rows of the four goals that one search had."""
    yield ["accepted loss", "exceed ratio", "found", "mean error", "greatest error", "spread", "trials for this goal"]
    outcomes = [
        search("MLRsearch, the four goals", SimulatedForwarder(seed, bursts_per_s=0.1)) for seed in range(SEEDS)
    ]
    for place, goal in enumerate(FORWARDING_GOALS):
        results = [outcome.goals[place] for outcome in outcomes]
        found = [result.throughput for result in results if result.throughput is not None]
        trials = f"{statistics.mean(result.trials for result in results):.0f}"
        yield [f"{100 * goal.loss_ratio:g} %", percent(goal.exceed_ratio), *accuracy(found), trials]


def settings() -> Iterable[list[str]]:
    """Rows of the attributes of the goals for packet forwarding."""
    yield ["accepted loss", "exceed ratio", "width", "trial", "sum of trials", "preceding targets"]
    for goal in FORWARDING_GOALS:
        yield [
            f"{100 * goal.loss_ratio:g} %",
            percent(goal.exceed_ratio),
            f"{100 * goal.relative_width:g} %",
            f"{goal.final_trial_s:g} s",
            f"{goal.duration_sum_s:g} s",
            str(goal.preceding_targets),
        ]


def capacities() -> Iterable[list[str]]:
    """Rows of devices with other capacities."""
    yield ["method", "devices", "error at most 0.5 %", "greatest error", "at most 60 s", "longest"]
    count = 200
    for method in ("MLRsearch, one goal", "MLRsearch, defaults of the library"):
        errors, times = [], []
        for seed in range(count):
            capacity = Random(seed).uniform(0.25, 1.75) * CAPACITY
            outcome = search(method, SimulatedForwarder(seed, capacity_per_s=capacity))
            errors.append((outcome.goals[0].throughput or 0.0) / capacity - 1)
            times.append(outcome.trial_time_s)
        accurate = sum(abs(deviation) <= ERROR_MAX for deviation in errors) / count
        fast = sum(time_s <= TIME_MAX_S for time_s in times) / count
        worst = error(max(errors, key=abs))
        yield [method, str(count), percent(accurate), worst, percent(fast), seconds(max(times))]


def vms() -> Iterable[list[str]]:
    """Rows of servers that VMs load."""
    yield ["server", "per VM", "goal", "loss ratio", "closed form", "found", "trial time"]
    for capacity, per_vm, limit_ms, percentile in (
        (5_000, 100, 20, 99),
        (5_000, 100, 20, 99.9),
        (2_000, 60, 20, 99),
        (20_000, 700, 5, 95),
    ):
        goal = Goal(loss_ratio=loss_ratio_of_percentile(percentile))
        outcomes = []
        for seed in range(SEEDS):
            server = SimulatedServer(seed, capacity_per_s=capacity, requests_per_vm=per_vm, limit_ms=limit_ms)
            outcomes.append(run_simulated(Controller(MlrSearch([goal]), CountGrid(1, 64)), server.measure))
        exact = math.floor(server.max_load(goal.loss_ratio))
        hits = sum(o.goals[0].lower == exact and o.goals[0].verdict is Verdict.BRACKETED for o in outcomes)
        time_s = statistics.mean(outcome.trial_time_s for outcome in outcomes)
        yield [
            f"{capacity:,}/s",
            f"{per_vm}/s",
            f"p{percentile:g} ≤ {limit_ms} ms",
            f"{100 * goal.loss_ratio:g} %",
            f"{exact} VMs",
            f"{hits} of {SEEDS} searches",
            seconds(time_s),
        ]


TABLES = {table.__name__: table for table in (methods, goals, settings, capacities, vms)}


def markdown(rows: Iterable[list[str]]) -> str:
    heading, *others = rows
    lines = [f"| {' | '.join(heading)} |", f"|{'---|' * len(heading)}", *(f"| {' | '.join(row)} |" for row in others)]
    return "".join(f"{line}\n" for line in lines)


def main() -> int:
    """Write the page, or with `--check` report whether it is up to date. Exit code 1: it is not."""
    text = PAGE.read_text()
    expected = MARKED.sub(lambda match: match[1] + markdown(TABLES[match[2]]()) + match[3], text)
    if text == expected:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{PAGE.relative_to(ROOT)} is not up to date: run tools/search.py", file=sys.stderr)
        return 1
    PAGE.write_text(expected)
    return 0


if __name__ == "__main__":
    sys.exit(main())
