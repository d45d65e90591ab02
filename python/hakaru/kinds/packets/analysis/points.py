"""One point of a study of packet forwarding: estimates over its repetitions, and its bottleneck."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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

STOPPED_LOSSES = 0.1
"""Share of the lost frames that may be due to stops of processors where the places are counted."""
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
LOWER_BOUNDS = (Verdict.TESTER_LIMIT.value, Verdict.AT_LEAST.value, Verdict.UNFINISHED.value)
CAVEAT_OF_VERDICT = {
    Verdict.AT_LEAST.value: "search_capped",
    Verdict.UNFINISHED.value: "search_unfinished",
    Verdict.BELOW_RANGE.value: "search_below_range",
}


@dataclass
class PacketsPoint(Point):
    """Results of one combination of levels: a `Point` with its trials and the verdict of its
    searches.
    """

    trials: list[Trial] = field(default_factory=list)
    searched: str = Verdict.UNFINISHED.value
    """How a search ended: the end that limits the result most."""
    has_lower_bound: bool = False
    """Whether a search gave only a lower bound: it ended at the highest rate that it tried, or with
    its budget.
    """
    close: list[Trial] = field(default_factory=list)
    """The trials next to the rate that each search found."""
    device: str = ""
    """Way in which the device forwards."""
    cap: dict[str, Any] | None = None
    """Highest rate that a search tried and its origin, of the repetition whose verdict limits the
    result most.
    """

    @property
    def is_of_test_setup(self) -> bool:
        """Whether its rate is that of the test setup, or a mean over lower bounds of searches."""
        return super().is_of_test_setup or self.has_lower_bound

    @property
    def open_reason(self) -> str:
        """As `Point.open_reason`, or `lower_bound`."""
        return super().open_reason if super().is_of_test_setup else "lower_bound"

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
    # The disks of this machine are no part of the device.
    fields["rule_book"] = []
    fields["metrics"][names.VARIATION] = variation(gathered.values[names.RATE])
    fields["caveats"] += _caveats_of_ends(gathered.ends)
    evidence = _evidence(gathered, fields)
    return PacketsPoint(
        **fields,
        evidence=evidence,
        verdict=rules.judge(STAGES, evidence),
        trials=gathered.trials,
        close=gathered.close(range(len(gathered.ends))),
        searched=gathered.limiting.verdict,
        cap=gathered.limiting.cap,
        has_lower_bound=any(end.verdict in LOWER_BOUNDS for end in gathered.ends),
        device=device.forwards if device is not None else "",
    )


@dataclass(frozen=True)
class _End:
    """How a search ended: its verdict, and the highest rate that it tried, with its origin."""

    verdict: str = Verdict.UNFINISHED.value
    cap: dict[str, Any] | None = None

    @property
    def caveat(self) -> str | None:
        """The caveat of a search that did not bracket the rate; None if it did."""
        if is_of_tester(self.verdict, self.cap["reason"] if self.cap else None):
            return "tester_limited"
        return CAVEAT_OF_VERDICT.get(self.verdict)


class _Searches(Gathered):
    """Values gathered over the repetitions of a point."""

    def __init__(self, origin: str, metrics: Iterable[str]) -> None:
        super().__init__(origin, metrics)
        self.trials_of: list[list[Trial]] = []
        self.ends: list[_End] = []

    @property
    def trials(self) -> list[Trial]:
        """The trials of all searches."""
        return [trial for trials in self.trials_of for trial in trials]

    def close(self, searches: Iterable[int]) -> list[Trial]:
        """The trials of these searches next to the rate that each of them found."""
        rates = self.values[names.RATE]
        return [trial for index in searches for trial in near(self.trials_of[index], rates[index])]

    @property
    def limiting(self) -> _End:
        """The end of a search that limits the result most."""
        return min(self.ends, key=lambda end: VERDICT_ORDER.index(end.verdict), default=_End())

    @property
    def typical(self) -> _End:
        """The most frequent end of the searches that found a rate, which decides on the bottleneck.
        In a tie, the one that limits the result most.
        """
        found = [end for end, rate in zip(self.ends, self.values[names.RATE], strict=True) if math.isfinite(rate)]
        times = Counter(end.caveat for end in found or self.ends)
        order = sorted(found or self.ends, key=lambda end: VERDICT_ORDER.index(end.verdict))
        return max(order, key=lambda end: times[end.caveat], default=_End())

    @property
    def typical_searches(self) -> list[int]:
        """Indices of the searches that ended as `typical`."""
        return [index for index, end in enumerate(self.ends) if end.caveat == self.typical.caveat]

    def add(self, repetition: Repetition, load: PacketsLoad) -> None:
        """Add one repetition that gave a result."""
        own = trials.of_log(repetition.trials.get("log") or [], repetition.counters)
        goals = repetition.trials.get("goals") or []
        self.trials_of.append(own)
        verdict = str(repetition.trials.get("verdict") or Verdict.UNFINISHED.value)
        self.ends.append(_End(verdict, repetition.trials.get("cap")))
        use = of_repetition(repetition.counters, repetition.window, [])
        values = {**_rates(goals, load), **_counts(own), **_latencies(repetition, load)}
        values["tester_frames_per_s"] = _float(repetition.trials.get("tester_frames_per_s"))
        tester_rate = values["tester_frames_per_s"]
        values["share_of_tester_percent"] = 100 * values[names.RATE] / tester_rate if tester_rate else math.nan
        repeats = variation(goals[0].get("repeats") or ()) if goals else None
        values[names.REPEATS] = _float(repeats.mean if repeats else None)
        values.update(_cpu_near(own, values[names.RATE]))
        self.add_values(repetition, values, _used(use, values), Latencies.none())
        self.caveats += _checks(own)
        self.caveats += _latency_check(repetition)
        self.caveats += checks.machine(repetition.counters, repetition.window, {})


def _used(use: dict[str, Use], values: Mapping[str, float]) -> dict[str, Use]:
    """Use of the processors in the trials next to the result instead of the whole repetition."""
    near = {"cpu/machine": Use(values["machine_percent"])} if math.isfinite(values["machine_percent"]) else {}
    return {name: used for name, used in use.items() if not name.startswith("cpu/")} | near


def _rates(goals: list[dict[str, Any]], load: PacketsLoad) -> dict[str, float]:
    # The verdict of a point is that of its first goal, so an irregular rate of another one would
    # be shown without a mark.
    found = {names.goal_rate(place): math.nan for place in range(1, len(load.search.goals) + 1)}
    found |= {
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
    # Losses while processors stopped do not, and counters do not separate them, so trials with many
    # of them are left out.
    located = [trial for trial in searched if trial.lost - trial.judged_lost <= STOPPED_LOSSES * trial.lost]
    lost = sum(trial.lost for trial in located)
    places = {place: sum(trial.lost_at[place] for trial in located) for place in trials.PLACES}
    places["unlocated"] = sum(trial.unlocated for trial in located)
    return {
        "trials": float(len(searched)),
        "search_s": sum(trial.seconds for trial in searched),
        **{names.lost_at(place): 100.0 * count / lost if lost else math.nan for place, count in places.items()},
        "reordered_frames": float(sum(trial.reordered for trial in searched)),
        "duplicated_frames": float(sum(trial.duplicated for trial in searched)),
        "corrupted_frames": float(sum(trial.lost_at["damaged"] for trial in searched)),
    }


def _cpu_near(own: list[Trial], rate: float) -> dict[str, float]:
    close = near(own, rate)
    machine = [t.machine_percent for t in close if t.machine_percent is not None]
    busiest = [t.busiest[1] for t in close if t.busiest is not None]
    mean = {name: float(np.mean(found)) if found else math.nan for name, found in (("m", machine), ("b", busiest))}
    return {"machine_percent": mean["m"], "busiest_cpu_percent": mean["b"]}


def _latencies(repetition: Repetition, load: PacketsLoad) -> dict[str, float]:
    """The percentiles of the delays of all frames. Those that were lost have none and lie above
    every percentile, so it exists only if they are few enough.
    """
    values = {}
    losses = _losses_at(repetition)
    for share in load.latency.percent if load.latency else ():
        rows = [
            row for row in repetition.histograms.to_pylist() if row["entity"] == f"latency/{share:g}" and row["hdr"]
        ]
        merged = merge(str(row["hdr"]) for row in rows)
        for name, percentile in names.PERCENTILES.items():
            received = 1.0 - losses.get(share, 0.0)
            exists = rows and percentile / 100.0 <= received
            values[names.latency(share, name)] = (
                merged.get_value_at_percentile(min(100.0, percentile / received)) / 1e3 if exists else math.nan
            )
    return values


def _losses_at(repetition: Repetition) -> dict[float, float]:
    """Share of the rate, in percent → share of the frames lost in its last trial for the delays,
    which is the one that counts.
    """
    losses = {}
    for entry in repetition.trials.get("log") or []:
        if entry["purpose"] == "latency":
            sent, lost = (sum(int(stream[name]) for stream in entry["streams"]) for name in ("sent", "lost"))
            losses[float(entry["percent"])] = lost / sent if sent else 0.0
    return losses


def _checks(own: list[Trial]) -> list[Caveat]:
    searched = [trial for trial in own if trial.purpose == "search"]
    caveats = []
    surplus = [trial.surplus for trial in own if trial.surplus]
    if surplus:
        caveats.append(Caveat("frames_surplus", {"trials": len(surplus), "frames": sum(surplus)}))
    lost, unlocated = sum(t.lost for t in searched), sum(abs(t.unlocated) for t in searched)
    if unlocated > UNLOCATED_SHARE * lost:
        caveats.append(Caveat("losses_unlocated", {"frames": unlocated, "lost": lost}))
    excluded = sum(trial.excluded_s for trial in searched)
    percent = round(100 * excluded / sum(trial.seconds for trial in searched), 2) if searched else 0.0
    if percent:
        values = {
            "percent": percent,
            "ms": round(1e3 * max(trial.longest_stop_s for trial in searched), 1),
        }
        caveats.append(Caveat("processors_stopped", values))
    invalid = sum(not trial.is_valid for trial in searched)
    if invalid:
        caveats.append(Caveat("trials_invalid", {"trials": invalid}))
    without_cpu = sum(trial.cpu_missing is not None for trial in searched)
    if without_cpu:
        caveats.append(Caveat("cpu_not_sampled", {"trials": without_cpu, "samples": trials.SAMPLES_MIN}))
    return caveats


def _latency_check(repetition: Repetition) -> list[Caveat]:
    """The caveat of loads at which every trial for the latency had a fault of the tester."""
    entries = repetition.trials.get("log") or []
    tried = {entry["percent"] for entry in entries if entry["purpose"] == "latency"}
    entities = {row["entity"] for row in repetition.histograms.to_pylist() if row["hdr"]}
    measured = {share for share in tried if f"latency/{share:g}" in entities}
    missing = len(tried) - len(measured)
    return [Caveat("latency_missing", {"missing": missing, "loads": len(tried)})] if missing else []


def _caveats_of_ends(ends: Sequence[_End]) -> list[Caveat]:
    """The caveats of searches that did not bracket the rate, each with their number."""
    by_name: dict[str, list[_End]] = {}
    for end in ends:
        if end.caveat is not None:
            by_name.setdefault(end.caveat, []).append(end)
    caveats = []
    for name, own in by_name.items():
        values: dict[str, Any] = {"searches": len(own), "total": len(ends)}
        if name == CAVEAT_OF_VERDICT[Verdict.AT_LEAST.value]:
            values["rate"] = min((end.cap["frames_per_s"] for end in own if end.cap), default=None)
        caveats.append(Caveat(name, values))
    return caveats


def _evidence(gathered: _Searches, fields: dict[str, Any]) -> Evidence:
    """The evidence of the searches with the most frequent end."""
    typical, chosen = gathered.typical, gathered.typical_searches

    def mean(name: str) -> float | None:
        found = [value for index in chosen if math.isfinite(value := gathered.values[name][index])]
        return float(np.mean(found)) if found else None

    def together(*places: str) -> float | None:
        shares = [mean(names.lost_at(place)) for place in places]
        known = [share for share in shares if share is not None]
        return sum(known) if known else None

    close = gathered.close(chosen)
    used_by_cpu = {
        cpu: float(np.mean([t.cpu_percent[cpu] for t in close if cpu in t.cpu_percent]))
        for cpu in sorted({cpu for t in close for cpu in t.cpu_percent})
    }
    busiest = max(used_by_cpu.items(), key=lambda item: item[1], default=None)
    mbit = mean("mbit_per_s")
    used = {name: estimate.mean for name, estimate in fields["utilisation"].items() if estimate.mean is not None}
    if (machine := mean("machine_percent")) is not None:
        used["cpu/machine"] = machine
    return Evidence(
        None if mbit is None else mbit / 8,
        used,
        forwarding=Forwarding(
            verdict=typical.verdict,
            tester_percent=mean("share_of_tester_percent"),
            busiest_cpu=busiest[0] if busiest else None,
            busiest_cpu_percent=busiest[1] if busiest else None,
            generator_percent=float(np.mean([t.generator_percent for t in close])) if close else None,
            machine_percent=mean("machine_percent"),
            at_input_percent=together("input", "host"),
            # Neither the tester nor the path to the device counted the rest.
            in_device_percent=together("device", "unlocated"),
            cap=str(typical.cap["reason"]) if typical.cap else None,
            cap_frames_per_s=typical.cap["frames_per_s"] if typical.cap else None,
        ),
    )


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)
