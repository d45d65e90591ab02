"""One point of a study of packet forwarding: estimates over its repetitions, and its bottleneck."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hakaru.analysis import checks, rules
from hakaru.analysis.estimate import finite, variation
from hakaru.analysis.gathered import Gathered
from hakaru.analysis.latency import Latencies, merge
from hakaru.analysis.points import Point
from hakaru.analysis.rules.evidence import Evidence, Forwarding
from hakaru.analysis.run_data import Repetition, RunData
from hakaru.analysis.utilisation import Use, of_repetition
from hakaru.caveats import Caveat
from hakaru.kinds.packets import names
from hakaru.kinds.packets.analysis import trials
from hakaru.kinds.packets.analysis.processors import near
from hakaru.kinds.packets.analysis.trials import Trial
from hakaru.kinds.packets.load import PacketsLoad, load_at
from hakaru.kinds.packets.rules import STAGES, is_of_tester
from hakaru.search import Verdict

UNLOCATED_SHARE = 0.01
"""Share of the lost frames whose place may be unknown without a caveat."""
VERDICT_ORDER = (
    Verdict.BELOW_RANGE.value,
    Verdict.UNFINISHED.value,
    Verdict.TESTER_LIMIT.value,
    Verdict.AT_LEAST.value,
    Verdict.BRACKETED.value,
)
"""Verdicts of a search, the one that limits the result most first."""


@dataclass
class PacketsPoint(Point):
    """Results of one combination of levels: a `Point` with its trials and the verdict of its
    searches.
    """

    trials: list[Trial] = field(default_factory=list)
    searched: str = Verdict.UNFINISHED.value
    device: str = ""
    """Way in which the device forwards."""
    cap: dict[str, Any] | None = None
    """Highest rate that a search tried and its origin, of the repetition whose verdict limits the
    result most.
    """

    def to_json(self) -> dict[str, Any]:
        """One element of `points` of the report."""
        described = super().to_json()
        described["repetitions"][names.RATE] = [finite(rate) for rate in self.per_repetition.get(names.RATE, [])]
        return described | {
            "search": self.searched,
            "cap": self.cap,
            "device": self.device,
            "trials": [trial.to_json() for trial in self.trials],
        }


def analyse(run: RunData, raw: Mapping[str, Any]) -> PacketsPoint:
    """Analyse one point of the run."""
    study = run.study_at(raw["point"], raw["factors"])
    load, device = load_at(study), study.lab.device
    units = {name: unit for name, unit in names.metrics_of(load).items() if name != names.VARIATION}
    gathered = _Searches(str(run.run.get("origin")), units)
    for repetition in run.repetitions(str(raw["point"])):
        if gathered.accept(repetition):
            gathered.add(repetition, load)
    fields = gathered.point_fields(raw, run.study.measure, units, names.RATE)
    fields["metrics"][names.VARIATION] = variation(gathered.values[names.RATE])
    evidence = _evidence(gathered, fields, load)
    return PacketsPoint(
        **fields,
        evidence=evidence,
        verdict=rules.judge(STAGES, evidence),
        trials=gathered.trials,
        searched=gathered.verdict,
        cap=gathered.cap,
        device=device.forwards if device is not None else "",
    )


class _Searches(Gathered):
    """Values gathered over the repetitions of a point."""

    def __init__(self, origin: str, metrics: Iterable[str]) -> None:
        super().__init__(origin, metrics)
        self.trials: list[Trial] = []
        self._ends: list[tuple[str, dict[str, Any] | None]] = []

    @property
    def verdict(self) -> str:
        """The verdict of all repetitions that limits the result most."""
        return self._limiting[0]

    @property
    def cap(self) -> dict[str, Any] | None:
        """The highest rate tried in that repetition, with its origin."""
        return self._limiting[1]

    @property
    def _limiting(self) -> tuple[str, dict[str, Any] | None]:
        none = (Verdict.UNFINISHED.value, None)
        return min(self._ends, key=lambda end: VERDICT_ORDER.index(end[0]), default=none)

    def add(self, repetition: Repetition, load: PacketsLoad) -> None:
        """Add one repetition that gave a result."""
        own = trials.of_log(repetition.trials.get("log") or [], repetition.counters)
        goals = repetition.trials.get("goals") or []
        self.trials += own
        verdict = str(repetition.trials.get("verdict") or Verdict.UNFINISHED.value)
        cap = repetition.trials.get("cap")
        self._ends.append((verdict, cap))
        use = of_repetition(repetition.counters, repetition.window, [])
        values = {**_rates(goals, load), **_counts(own), **_latencies(repetition, load)}
        values["tester_frames_per_s"] = _float(repetition.trials.get("tester_frames_per_s"))
        tester_rate = values["tester_frames_per_s"]
        values["share_of_tester_percent"] = 100 * values[names.RATE] / tester_rate if tester_rate else math.nan
        values.update(_cpu_near(own, values[names.RATE]))
        self.add_values(repetition, values, _used(use, values), Latencies.none())
        self.caveats += _checks(own, verdict, cap)
        self.caveats += checks.machine(repetition.counters, repetition.window, {})


def _used(use: dict[str, Use], values: Mapping[str, float]) -> dict[str, Use]:
    """Use of the processors in the trials next to the result instead of the whole repetition."""
    near = {"cpu/machine": Use(values["machine_percent"])} if math.isfinite(values["machine_percent"]) else {}
    return {name: used for name, used in use.items() if not name.startswith("cpu/")} | near


def _rates(goals: list[dict[str, Any]], load: PacketsLoad) -> dict[str, float]:
    # The verdict of a point is that of its first goal, so an irregular rate of another one would
    # be shown without a mark.
    found = {
        names.goal_rate(place): _float(goal["throughput"])
        for place, goal in enumerate(goals, start=1)
        if place == 1 or goal["verdict"] == Verdict.BRACKETED.value
    }
    rate = found.get(names.goal_rate(1), math.nan)
    sizes = sum(size * weight for size, weight in load.sizes) / sum(weight for _, weight in load.sizes)
    return {names.RATE: rate, "mbit_per_s": rate * sizes * 8 / 1e6, **found}


def _counts(own: list[Trial]) -> dict[str, float]:
    searched = [trial for trial in own if trial.purpose == "search"]
    # Trials in which the receiver lost frames are not valid, but they show where frames are lost.
    lost = sum(trial.lost for trial in searched)
    places = {place: sum(trial.lost_at[place] for trial in searched) for place in trials.PLACES}
    places["unlocated"] = sum(trial.unlocated for trial in searched)
    return {
        "trials": float(len(searched)),
        "search_s": sum(trial.seconds for trial in searched),
        **{names.lost_at(place): 100.0 * count / lost if lost else math.nan for place, count in places.items()},
        "reordered_frames": float(sum(trial.reordered for trial in searched)),
        "duplicated_frames": float(sum(trial.duplicated for trial in searched)),
    }


def _cpu_near(own: list[Trial], rate: float) -> dict[str, float]:
    close = near(own, rate)
    machine = [t.machine_percent for t in close if t.machine_percent is not None]
    busiest = [t.busiest[1] for t in close if t.busiest is not None]
    mean = {name: float(np.mean(found)) if found else math.nan for name, found in (("m", machine), ("b", busiest))}
    return {"machine_percent": mean["m"], "busiest_cpu_percent": mean["b"]}


def _latencies(repetition: Repetition, load: PacketsLoad) -> dict[str, float]:
    values = {}
    for share in load.latency.percent if load.latency else ():
        rows = [
            row for row in repetition.histograms.to_pylist() if row["entity"] == f"latency/{share:g}" and row["hdr"]
        ]
        merged = merge(str(row["hdr"]) for row in rows)
        for name, percentile in names.PERCENTILES.items():
            found = merged.get_value_at_percentile(percentile) / 1e3 if rows else math.nan
            values[names.latency(share, name)] = found
    return values


def _checks(own: list[Trial], verdict: str, cap: Mapping[str, Any] | None) -> list[Caveat]:
    searched = [trial for trial in own if trial.purpose == "search"]
    caveats = []
    lost, unlocated = sum(t.lost for t in searched), sum(abs(t.unlocated) for t in searched)
    if unlocated > UNLOCATED_SHARE * lost:
        caveats.append(Caveat("losses_unlocated", {"frames": unlocated, "lost": lost}))
    invalid = sum(not trial.is_valid for trial in searched)
    if invalid:
        caveats.append(Caveat("trials_invalid", {"trials": invalid}))
    without_cpu = sum(trial.cpu_missing is not None for trial in searched)
    if without_cpu:
        caveats.append(Caveat("cpu_not_sampled", {"trials": without_cpu, "samples": trials.SAMPLES_MIN}))
    if is_of_tester(verdict, cap["reason"] if cap else None):
        caveats.append(Caveat("tester_limited"))
    elif verdict == Verdict.AT_LEAST.value:
        caveats.append(Caveat("search_capped", {"rate": cap["frames_per_s"] if cap else None}))
    elif verdict == Verdict.UNFINISHED.value:
        caveats.append(Caveat("search_unfinished"))
    elif verdict == Verdict.BELOW_RANGE.value:
        caveats.append(Caveat("search_below_range"))
    return caveats


def _evidence(gathered: _Searches, fields: dict[str, Any], load: PacketsLoad) -> Evidence:
    def mean(name: str) -> float | None:
        estimate = fields["metrics"].get(name)
        return estimate.mean if estimate else None

    def together(*places: str) -> float | None:
        shares = [mean(names.lost_at(place)) for place in places]
        known = [share for share in shares if share is not None]
        return sum(known) if known else None

    close = near(gathered.trials, mean(names.RATE))
    used_by_cpu = {
        cpu: float(np.mean([t.cpu_percent[cpu] for t in close if cpu in t.cpu_percent]))
        for cpu in sorted({cpu for t in close for cpu in t.cpu_percent})
    }
    busiest = max(used_by_cpu.items(), key=lambda item: item[1], default=None)
    mbit = mean("mbit_per_s")
    used = {name: estimate.mean for name, estimate in fields["utilisation"].items() if estimate.mean is not None}
    return Evidence(
        None if mbit is None else mbit / 8,
        used,
        forwarding=Forwarding(
            verdict=gathered.verdict,
            tester_percent=mean("share_of_tester_percent"),
            busiest_cpu=busiest[0] if busiest else None,
            busiest_cpu_percent=busiest[1] if busiest else None,
            generator_percent=float(np.mean([t.generator_percent for t in close])) if close else None,
            machine_percent=mean("machine_percent"),
            at_input_percent=together("input", "host"),
            # Neither the tester nor the path to the device counted the rest.
            in_device_percent=together("device", "unlocated"),
            cap=str(gathered.cap["reason"]) if gathered.cap else None,
            cap_frames_per_s=gathered.cap["frames_per_s"] if gathered.cap else None,
        ),
    )


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)
