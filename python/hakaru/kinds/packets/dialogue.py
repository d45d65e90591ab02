"""The trials of one repetition: the tester's own limit, the search, then latencies.

    tester     frames over the loop, as fast as possible: twice, the second trial counts
    flood      frames through the device, as fast as possible: the highest rate that can be tried
    search     trials through the device, chosen by `hakaru.search`
    latency    trials at shares of the rate found

Pure: `hakaru.run.dialogue.converse` runs the trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hakaru.engine import contract
from hakaru.kinds.packets.load import PacketsLoad, SearchSpec
from hakaru.kinds.packets.streams import flooding, rates_of_loop, rates_through
from hakaru.run.dialogue import Dialogue, Order
from hakaru.search import Bisection, Controller, MlrSearch, Procedure, PublishedProcedure, RateGrid, TrialResult
from hakaru.search import Trial as SearchTrial

TESTER_TRIAL_S = 0.5
TESTER_TRIALS = 2
ATTEMPTS = 2
"""Times that a trial is tried which the tester cannot send or count."""
OWN_FAULTS = frozenset({"unsent", "late"})
"""Faults of a tester that sends late; a search judges them by the number of frames not sent."""

Json = dict[str, Any]


class PacketsDialogue(Dialogue):
    """The dialogue of one repetition with the tester on `node`."""

    def __init__(self, load: PacketsLoad, node: str) -> None:
        self._load, self._node = load, node
        self._now_s = 0.0
        self._trials: list[Json] = []
        self._tester_rate: float | None = None
        self._flood_rate: float | None = None
        self._controller: Controller | None = None
        self._histograms: list[contract.NamedHistogram] = []
        self._last: contract.TrialOutcome | None = None
        self._orders = self._all_orders()

    def next_order(self, now_s: float) -> Order | None:
        """As `Dialogue.next_order`."""
        self._now_s = now_s
        return next(self._orders, None)

    def record(self, order: Order, result: contract.TrialOutcome) -> None:
        """As `Dialogue.record`."""
        self._last = result

    def window(self) -> tuple[int, int] | None:
        """As `Dialogue.window`."""
        return (self._trials[0]["start_ns"], self._trials[-1]["end_ns"]) if self._trials else None

    def describe(self) -> Json:
        """`tester_frames_per_s`, `goals`, `ended` and the `log` of all trials, in their order."""
        if self._controller is None:
            goals, ended = [], None
        else:
            outcome = self._controller.outcome()
            goals = [
                {**asdict(goal), "goal": asdict(goal.goal), "verdict": goal.verdict.value} for goal in outcome.goals
            ]
            ended = outcome.ended.value if outcome.ended else None
        return {
            "tester_frames_per_s": self._tester_rate,
            "flood_frames_per_s": self._flood_rate,
            "goals": goals,
            "ended": ended,
            "log": self._trials,
        }

    def histograms(self) -> Mapping[str, Sequence[contract.NamedHistogram]]:
        """Latencies of the trials at shares of the rate found, as entities `latency/SHARE`."""
        return {self._node: self._histograms}

    def _all_orders(self) -> Iterator[Order]:
        yield from self._measure_tester()
        if not self._tester_rate or not self._flood_rate:
            return
        search = self._load.search
        highest = min(self._tester_rate, self._flood_rate, search.highest or self._tester_rate)
        if highest <= search.lowest:
            return
        widths = [goal.width_percent / 100 for goal in search.goals]
        grid = RateGrid.for_widths(search.lowest, highest, widths)
        budget_s = search.budget / 1e9 if search.budget else None
        self._controller = Controller(procedure_of(search), grid, budget_s=budget_s, attempts=ATTEMPTS)
        yield from self._search(self._controller)
        rate = self._controller.outcome().goals[0].throughput
        if self._load.latency is not None and rate:
            for percent in self._load.latency.percent:
                yield from self._measure_latency(percent, rate)

    def _measure_tester(self) -> Iterator[Order]:
        """Frames that the tester sends and counts without a device."""
        for _ in range(TESTER_TRIALS):
            order = self._order(rates_of_loop(self._load), TESTER_TRIAL_S)
            yield order
            result = self._answer()
            received = sum(stream.received for stream in result.streams)
            self._tester_rate = received / TESTER_TRIAL_S
            self._log("tester", self._tester_rate, TESTER_TRIAL_S, result)
        # A device on this machine takes processor time from the tester.
        yield self._order(flooding(self._load), TESTER_TRIAL_S)
        result = self._answer()
        sent, received = (sum(getattr(s, name) for s in result.streams) for name in ("sent", "received"))
        self._log("flood", sent / TESTER_TRIAL_S, TESTER_TRIAL_S, result)
        # A device that loses many frames forwards less than twice of what it forwards now.
        self._flood_rate = min(sent, max(2 * received, sent // 2)) / TESTER_TRIAL_S

    def _search(self, controller: Controller) -> Iterator[Order]:
        while (trial := controller.next_trial(self._now_s)) is not None:
            yield self._order(rates_through(self._load, trial.load), trial.duration_s)
            result = self._answer()
            judged = search_result(trial, result)
            controller.record(judged)
            is_valid = controller.outcome().trials[-1].is_valid
            self._log("search", trial.load, trial.duration_s, result, is_valid=is_valid)

    def _measure_latency(self, percent: float, rate: float) -> Iterator[Order]:
        assert self._load.latency is not None
        seconds = self._load.latency.time / 1e9
        load = rate * percent / 100
        yield self._order(rates_through(self._load, load), seconds)
        result = self._answer()
        self._log("latency", load, seconds, result, percent=percent)
        if result.tester_faults:
            # Its latencies may be those of the tester.
            return
        for histogram in result.histograms:
            if histogram.name == "latency_ns":
                self._histograms.append(histogram.model_copy(update={"entity": f"latency/{percent:g}"}))

    def _order(self, rates: Sequence[float | None], seconds: float) -> Order:
        trial = contract.Trial(
            id=len(self._trials) + 1,
            duration_ns=round(seconds * 1e9),
            rates=list(rates),
            settle_ns=self._load.settle,
        )
        return Order(self._node, trial)

    def _answer(self) -> contract.TrialOutcome:
        assert self._last is not None, "a result follows an order"
        return self._last

    def _log(self, purpose: str, load: float, seconds: float, result: contract.TrialOutcome, **more: Any) -> None:
        self._trials.append(
            {
                "purpose": purpose,
                "frames_per_s": load,
                "seconds": seconds,
                "start_ns": result.start_ns,
                "end_ns": result.start_ns + round(seconds * 1e9),
                "streams": [s.model_dump() for s in result.streams if s.sent],
                "ports": [p.model_dump() for p in result.ports],
                "faults": [fault.model_dump() for fault in result.tester_faults],
                **more,
            }
        )


def procedure_of(search: SearchSpec) -> Procedure:
    """The procedure of a search."""
    goals = [goal.goal() for goal in search.goals]
    match search.procedure:
        case "mlr":
            return MlrSearch(goals)
        case "published":
            return PublishedProcedure(goals[0], search.repeats)
        case "bisection":
            return Bisection(goals[0])


def search_result(trial: SearchTrial, result: contract.TrialOutcome) -> TrialResult:
    """The counts of a trial, all directions together. Frames that the tester's own receiver dropped
    make it invalid, because they are no loss of the device.
    """
    sent = sum(stream.sent for stream in result.streams)
    intended = sum(stream.intended or 0 for stream in result.streams)
    own = sum(port.ring_dropped + port.rx_dropped for port in result.ports)
    has_fault = any(fault.kind not in OWN_FAULTS for fault in result.tester_faults)
    tester_ratio = min(1.0 - 1.0 / max(sent, 1), max(0.0, 1.0 - own / max(sent, 1))) if has_fault else 1.0
    return TrialResult(
        trial,
        offered=sent,
        lost=sum(stream.lost for stream in result.streams),
        intended=intended,
        tester_ratio=tester_ratio,
        effective_s=max(trial.duration_s, (result.end_ns - result.start_ns) / 1e9),
    )
