"""The trials of one repetition: the tester's own limit, the search, then latencies.

    tester     frames over the loop, as fast as possible: twice, the second trial counts
    flood      frames through the device, as fast as possible: bounds the rates of the search
    search     trials through the device, chosen by `hakaru.search`
    latency    trials at shares of the rate found

Pure: `hakaru.run.dialogue.converse` runs the trials.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from hakaru.engine import contract
from hakaru.kinds.packets.load import PacketsLoad, SearchSpec
from hakaru.kinds.packets.streams import flooding, rates_of_loop, rates_through
from hakaru.run.dialogue import Dialogue, Losses, Order
from hakaru.search import (
    Bisection,
    Controller,
    MlrSearch,
    Procedure,
    PublishedProcedure,
    RateGrid,
    TrialResult,
    Verdict,
)
from hakaru.search import Trial as SearchTrial

TESTER_TRIAL_S = 0.5
TESTER_TRIALS = 2
STOPPED_ATTEMPTS = 3
"""Times that a trial without rates is tried in which processors stop."""
STOPPED_SHARE = 0.02
"""Part of such a trial that may be excluded by stops."""
EXCLUDED_SHARE = 0.5
"""Part of a trial with rates that may be excluded. One with less time left says too little."""
ATTEMPTS = 2
"""Times that a trial is tried which the tester cannot send or count."""
LATENCY_ATTEMPTS = 3
"""Times that a trial for the latency with a fault of the tester is tried."""
LATE_FRAMES = 128
"""Frames that a late tester may send in one burst: half of the queue of 256 frames in front of a
device on a veth cable, so that the burst alone does not fill it.
"""
LATE_LIMIT_MIN_NS, LATE_LIMIT_MAX_NS = 100_000, 5_000_000
"""Bounds of the longest delay of a frame: a wake-up of the kernel, and the engine's default."""

Json = dict[str, Any]


class CapReason(Enum):
    """Origin of the highest rate that a search tries."""

    TESTER = "tester"
    """Rate that the tester sends and counts without a device."""
    FLOOD = "flood"
    """Rate that the tester sends while the device works on the same machine."""
    FLOOD_LOSSES = "flood_losses"
    """Twice of what the device forwarded of a flood of which it lost more than half, or half of
    that flood.
    """
    STUDY = "study"
    """`load.search.highest`."""


TESTER_CAPS = frozenset({CapReason.TESTER.value, CapReason.FLOOD.value})
"""Highest rates that are limits of the tester."""


@dataclass(frozen=True)
class Cap:
    """The highest rate that a search tries, in frames per second, and its origin."""

    frames_per_s: float
    reason: CapReason


class PacketsDialogue(Dialogue):
    """The dialogue of one repetition with the tester on `node`."""

    def __init__(self, load: PacketsLoad, node: str, *, has_loop: bool = True, ways: int = 1) -> None:
        """`ways`: number of guests side by side. `has_loop`: whether two ports of the tester are
        connected without a device. Otherwise the flood through the device alone shows what the
        tester sends.
        """
        self._load, self._node, self._has_loop, self._ways = load, node, has_loop, ways
        self._now_s = 0.0
        self._trials: list[Json] = []
        self._losses: Losses = {}
        self._tester_rate: float | None = None
        self._cap: Cap | None = None
        self._controller: Controller | None = None
        self._histograms: list[contract.NamedHistogram] = []
        self._last: contract.TrialOutcome | None = None
        self._orders = self._all_orders()

    def next_order(self, now_s: float) -> Order | None:
        """As `Dialogue.next_order`."""
        self._now_s = now_s
        return next(self._orders, None)

    def record(self, order: Order, result: contract.TrialOutcome, losses: Losses) -> None:
        """As `Dialogue.record`."""
        self._last, self._losses = result, losses

    def window(self) -> tuple[int, int] | None:
        """As `Dialogue.window`."""
        return (self._trials[0]["start_ns"], self._trials[-1]["end_ns"]) if self._trials else None

    def describe(self) -> Json:
        """`tester_frames_per_s`, `cap`, `verdict` for the first goal, `goals`, `ended`, and the
        `log` of all trials, in their order.
        """
        verdict = Verdict.TESTER_LIMIT
        if self._controller is None:
            # The tester cannot even send the lowest rate, so no search has begun.
            goals, ended = [], None
        else:
            outcome = self._controller.outcome()
            goals = [
                {**asdict(goal), "goal": asdict(goal.goal), "verdict": goal.verdict.value} for goal in outcome.goals
            ]
            ended = outcome.ended.value if outcome.ended else None
            verdict = outcome.goals[0].verdict
        return {
            "tester_frames_per_s": self._tester_rate,
            "cap": self._cap and {"frames_per_s": self._cap.frames_per_s, "reason": self._cap.reason.value},
            "verdict": verdict.value,
            "goals": goals,
            "ended": ended,
            "log": self._trials,
        }

    def histograms(self) -> Mapping[str, Sequence[contract.NamedHistogram]]:
        """Latencies of the trials at shares of the rate found, as entities `latency/SHARE`."""
        return {self._node: self._histograms}

    def _all_orders(self) -> Iterator[Order]:
        yield from self._measure_tester()
        search = self._load.search
        if self._cap is None or self._cap.frames_per_s <= search.lowest:
            return
        highest = self._cap.frames_per_s
        widths = [goal.width_percent / 100 for goal in search.goals]
        grid = RateGrid.for_widths(search.lowest, highest, widths)
        budget_s = search.budget / 1e9 if search.budget else None
        self._controller = Controller(
            procedure_of(search),
            grid,
            budget_s=budget_s,
            shortfall_max=min(widths) / 2,
            attempts=ATTEMPTS,
            relative_width=min(widths),
        )
        yield from self._search(self._controller)
        rate = self._controller.outcome().goals[0].throughput
        if self._load.latency is not None and rate:
            for percent in self._load.latency.percent:
                yield from self._measure_latency(percent, rate)

    def _measure_tester(self) -> Iterator[Order]:
        """Frames that the tester sends and counts without a device, then a flood through the
        device. Both bound the rates of the search.
        """
        loop = rates_of_loop(self._load, self._ways)
        for _ in range(TESTER_TRIALS if self._has_loop else 0):
            _, received = yield from self._at_full_speed("tester", loop)
            self._tester_rate = received / TESTER_TRIAL_S
        # A device on this machine takes processor time from the tester.
        sent, received = yield from self._at_full_speed("flood", flooding(self._load, self._ways))
        if not self._has_loop:
            self._tester_rate = sent / TESTER_TRIAL_S
        rates = (self._tester_rate or 0.0, sent / TESTER_TRIAL_S, received / TESTER_TRIAL_S)
        self._cap = cap_of(*rates, self._load.search)

    def _at_full_speed(self, purpose: str, rates: Sequence[float | None]) -> Generator[Order, None, tuple[int, int]]:
        """A trial without rates, repeated if processors stopped in it. Returns the frames sent and
        received of the one with the shortest stops.
        """
        tried = []
        for _ in range(STOPPED_ATTEMPTS):
            yield self._order(rates, TESTER_TRIAL_S)
            result = self._answer()
            sent, received = (sum(getattr(s, name) for s in result.streams) for name in ("sent", "received"))
            shown = received if purpose == "tester" else sent
            self._log(purpose, shown / TESTER_TRIAL_S, TESTER_TRIAL_S, result)
            if purpose == "flood":
                # The device forwarded what the tester itself dropped.
                received = min(sent, received + sum(port.ring_dropped + port.rx_dropped for port in result.ports))
            stopped_ns = result.stops.excluded_ns if result.stops else 0
            tried.append((stopped_ns, sent, received))
            if stopped_ns <= STOPPED_SHARE * TESTER_TRIAL_S * 1e9:
                break
        _, sent, received = min(tried)
        return sent, received

    def _search(self, controller: Controller) -> Iterator[Order]:
        while (trial := controller.next_trial(self._now_s)) is not None:
            yield self._order(rates_through(self._load, self._ways, trial.load), trial.duration_s)
            result = self._answer()
            judged = search_result(trial, result)
            controller.record(judged)
            is_valid = controller.outcome().trials[-1].is_valid
            self._log("search", trial.load, trial.duration_s, result, is_valid=is_valid)

    def _measure_latency(self, percent: float, rate: float) -> Iterator[Order]:
        """A trial at a share of the rate found. One with a fault of the tester is repeated, because
        its latencies may be those of the tester.
        """
        assert self._load.latency is not None
        seconds = self._load.latency.time / 1e9
        load = rate * percent / 100
        for _ in range(LATENCY_ATTEMPTS):
            yield self._order(rates_through(self._load, self._ways, load), seconds)
            result = self._answer()
            self._log("latency", load, seconds, result, percent=percent)
            if not result.tester_faults:
                break
        else:
            return
        for histogram in result.histograms:
            if histogram.name == "latency_ns":
                self._histograms.append(histogram.model_copy(update={"entity": f"latency/{percent:g}"}))

    def _order(self, rates: Sequence[float | None], seconds: float) -> Order:
        trial = contract.Trial(
            id=len(self._trials) + 1,
            duration_ns=round(seconds * 1e9),
            # Streams through the device come first.
            rates=list(rates if self._has_loop else rates[: 2 * self._ways]),
            settle_ns=self._load.settle,
            late_limit_ns=late_limit_ns(rates, self._ways),
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
                "settled_ns": result.end_ns,
                "streams": [s.model_dump() for s in result.streams if s.sent or s.received or s.corrupted],
                "ports": [p.model_dump() for p in result.ports],
                "stops": result.stops and result.stops.model_dump(),
                "faults": [fault.model_dump() for fault in result.tester_faults],
                "device_losses": {place: lost for place, lost in self._losses.items() if lost},
                **more,
            }
        )


def procedure_of(search: SearchSpec) -> Procedure:
    """The procedure of a search."""
    goals = [goal.goal() for goal in search.goals]
    match search.procedure:
        case "mlr":
            # The warm-up is as long as a trial, because it needs as many samples of the processors.
            return MlrSearch(goals, warmup_s=max(1.0, min(goal.initial_trial_s for goal in goals)))
        case "published":
            return PublishedProcedure(goals[0], search.repeats)
        case "bisection":
            return Bisection(goals[0])


def cap_of(tester: float, flood_sent: float, flood_received: float, search: SearchSpec) -> Cap:
    """The highest rate to try, from rates in frames per second.

    A device that loses more than half of a flood forwards less than twice of what it forwards then:
    the search does not begin far above. Half of the flood is tried in any case. So is the lowest
    rate of the study, which shows a slower device.
    """
    caps = [Cap(tester, CapReason.TESTER), Cap(flood_sent, CapReason.FLOOD)]
    if search.highest is not None:
        caps.append(Cap(search.highest, CapReason.STUDY))
    without_losses = max(2 * flood_received, flood_sent / 2)
    if without_losses > search.lowest:
        caps.append(Cap(without_losses, CapReason.FLOOD_LOSSES))
    # The first of equal rates counts.
    return min(caps, key=lambda cap: cap.frames_per_s)


def late_limit_ns(rates: Sequence[float | None], ways: int = 1) -> int:
    """The longest delay of a frame behind its due instant for these rates per stream: the time of
    `LATE_FRAMES` frames of the fastest port, which sends `ways` streams, within bounds.
    """
    fastest = ways * max((rate for rate in rates if rate), default=0.0)
    frames_ns = LATE_FRAMES * 1e9 / fastest if fastest else float(LATE_LIMIT_MAX_NS)
    return round(min(max(frames_ns, LATE_LIMIT_MIN_NS), LATE_LIMIT_MAX_NS))


def search_result(trial: SearchTrial, result: contract.TrialOutcome) -> TrialResult:
    """The counts of a trial, all directions together, without the frames that were due in times
    that are not judged, because processors stopped.

    - `unsent`: the search judges the number of frames that were not sent.
    - `late`: an interface refused frames, and those behind them left in a burst. If frames were
      lost, the burst may be the reason, and the trial is invalid. Without a loss it is valid,
      because a burst is harder for a device than the rate.
    - Other faults: the tester dropped frames itself. They are no loss of the device, and the trial
      is invalid.
    - A trial of which more than half is not judged is invalid, too.
    """
    sent = sum(stream.sent - (stream.excluded - stream.excluded_unsent) for stream in result.streams)
    lost = min(max(0, sent), sum(stream.lost - stream.excluded_lost for stream in result.streams))
    intended = sum((stream.intended or 0) - stream.excluded for stream in result.streams)
    own = sum(port.ring_dropped + port.rx_dropped for port in result.ports)
    kinds = {fault.kind for fault in result.tester_faults}
    has_fault = bool(kinds - {"unsent", "late"}) or ("late" in kinds and lost > 0)
    if result.stops is not None:
        has_fault = has_fault or result.stops.excluded_ns > EXCLUDED_SHARE * trial.duration_s * 1e9
    tester_ratio = min(1.0 - 1.0 / max(sent, 1), max(0.0, 1.0 - own / max(sent, 1))) if has_fault else 1.0
    return TrialResult(
        trial,
        offered=max(0, sent),
        lost=lost,
        intended=intended,
        tester_ratio=tester_ratio,
        effective_s=max(trial.duration_s, (result.end_ns - result.start_ns) / 1e9),
    )
