"""The next load for one goal of MLRsearch.

A goal is approached through targets (`hakaru.search.ledger.targets_of`). For its present target, a
selector applies rules in a fixed order, and the first that applies nominates a load:

    halve         the middle of the interval that the previous target left, if it has 1 to 2 widths
    refine lower  lower end of that interval, with the longer trials of this target
    refine upper  upper end of that interval
    extend down   no lower bound yet: below the upper one, by steps that grow with each failure
    extend up     no upper bound yet: above the lower one
    bisect        both bounds: between them, or nearer to the interval of the previous target

Without a nomination, the target is reached and the next one begins. The order and the sizes of
steps are those of the reference library, which the tests compare trial by trial. All loads are
steps of the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hakaru.search.ledger import Bound, Bounds, Ledger, Target


@dataclass(frozen=True)
class Nomination:
    """A trial that a selector proposes."""

    step: int
    trial_s: float
    width: int
    """Size of the step that led here; becomes the shared stride if the trial is run."""
    growing_bound: Bound = Bound.UNDECIDED
    """The stride grows if the trial makes `step` this relevant bound."""

    @property
    def order(self) -> tuple[int, float, int]:
        """Key for sorting: the lowest load first, then the longest trial, then the widest step."""
        return self.step, -self.trial_s, -self.width


@dataclass
class SharedStride:
    """Stride of the trial that was run last, shared by the selectors of all goals."""

    width: int


class Selector:
    """Nominates trials for one goal. `start` is the interval found by the trials for all goals."""

    def __init__(self, targets: tuple[Target, ...], ledger: Ledger, top: int, start: Bounds, shared: SharedStride):
        self._targets = iter(targets)
        self._ledger = ledger
        self._top = top
        self._shared = shared
        self._nomination: Nomination | None = None
        self._begin(next(self._targets), start)

    def nominate(self) -> Nomination | None:
        """Return the next trial for the goal; None if the goal is reached or cannot be reached."""
        while True:
            bounds = self._ledger.bounds(self._target)
            self._nomination = next(self._nominations(bounds), None)
            if self._nomination is not None:
                return self._nomination
            target = next(self._targets, None)
            if target is None:
                return None
            self._begin(target, bounds)

    def settle(self) -> None:
        """Adjust the stride after the nominated trial was run and entered in the ledger."""
        nomination = self._nomination
        assert nomination is not None, "settle follows a nomination"
        bounds = self._ledger.bounds(self._target)
        reached = {Bound.LOWER: bounds.lower, Bound.UPPER: bounds.upper}.get(nomination.growing_bound)
        if reached == nomination.step:
            self._stride *= self._target.expansion
            self._shared.width = self._stride

    def _begin(self, target: Target, start: Bounds) -> None:
        """Start with a target, from the interval that the previous one left."""
        self._target = target
        self._start = start
        self._limit_stride(start.distance or 0)

    def _limit_stride(self, width: int) -> None:
        self._stride = max(width, self._target.width) * self._target.expansion

    def _nominations(self, bounds: Bounds) -> Iterator[Nomination]:
        """Yield the nominations of all rules that apply, in order. Only the first is used, and the
        rules after it are not evaluated.
        """
        for step in self._revisited():
            if not self._is_useless(step, bounds):
                self._limit_stride(self._target.width)
                yield Nomination(step, self._target.trial_s, self._target.width)
        if bounds.lower is None and bounds.upper:
            yield from self._extension_down(bounds, above=-1)
        elif bounds.upper is None and bounds.lower is not None and bounds.lower < self._top:
            yield from self._extension_up(bounds, below=self._top + 1)
        elif bounds.lower is not None and bounds.upper is not None and bounds.upper - bounds.lower > self._target.width:
            yield from self._bisection(bounds.lower, bounds.upper)

    def _revisited(self) -> Iterator[int]:
        """Yield the middle, the lower and the upper end of the start interval."""
        lower, upper = self._start
        width = self._target.width
        if lower is not None and upper is not None and width < upper - lower <= 2 * width:
            yield lower + lower_part(upper - lower, width)
        if lower is not None:
            yield lower
        if upper is not None:
            yield upper

    def _extension_down(self, bounds: Bounds, above: int) -> Iterator[Nomination]:
        """Yield a load below the upper bound, if it is above the step `above`."""
        assert bounds.upper is not None
        stride = max(self._shared.width, self._stride)
        step = self._placed(bounds.upper - stride, bounds)
        if step is not None and step > above and not self._is_useless(step, bounds):
            yield Nomination(step, self._target.trial_s, stride, Bound.UPPER)

    def _extension_up(self, bounds: Bounds, below: int) -> Iterator[Nomination]:
        """Yield a load above the lower bound, if it is below the step `below`."""
        assert bounds.lower is not None
        stride = max(self._shared.width, self._stride)
        step = self._placed(bounds.lower + stride, bounds)
        if step is not None and step < below and not self._is_useless(step, bounds):
            yield Nomination(step, self._target.trial_s, stride, Bound.LOWER)

    def _bisection(self, lower: int, upper: int) -> Iterator[Nomination]:
        """Yield a load between the bounds.

        The bounds may come from trials for another goal and be far apart, while the interval of the
        previous target is near one of them. An extension from that bound is then shorter than half
        the interval and is preferred, as long as it does not reach the previous target's interval.
        """
        bounds = Bounds(lower, upper)
        middle = lower + lower_part(upper - lower, self._target.width)
        if self._start.upper is not None and middle < self._start.upper:
            for nomination in self._extension_down(bounds, above=middle):
                if nomination.step < self._start.upper:
                    yield nomination
        if self._start.lower is not None and middle > self._start.lower:
            for nomination in self._extension_up(bounds, below=middle):
                if nomination.step > self._start.lower:
                    yield nomination
        width = min(middle - lower, upper - middle)
        self._limit_stride(width)
        yield Nomination(middle, self._target.trial_s, width)

    def _is_useless(self, step: int, bounds: Bounds) -> bool:
        """Return whether a trial at `step` cannot narrow the bounds."""
        if bounds.lower is not None and step <= bounds.lower:
            return True
        if bounds.upper is not None and step >= bounds.upper:
            return True
        return bounds.distance is not None and bounds.distance <= self._target.width

    def _placed(self, step: int, bounds: Bounds) -> int | None:
        return placed(step, self._target.width, bounds, self._top)


def lower_part(distance: int, width: int) -> int:
    """Return the part of an interval below its middle; `distance` is more than `width`, in steps.

    One part is `width` times a power of two, so that repeated halving ends with exactly `width`.
    The lower part is the smaller one.
    """
    while distance < 2 * width and width % 2 == 0:
        width //= 2
    if distance <= 2 * width:
        return distance // 2
    part = width
    while distance - 2 * part > 2 * part:
        part *= 2
    return part if distance < 3 * part else distance - 2 * part


def placed(step: int, width: int, bounds: Bounds, top: int) -> int | None:
    """Return the useful load nearest to `step`, or None.

    It is at least `width` away from existing bounds. Without a bound, the end of the grid takes its
    place and may itself be used: a load closer to it than `width` becomes the end.
    """
    lower, upper = bounds
    low, high = (0 if lower is None else lower), (top if upper is None else upper)
    step = min(max(step, 0), top)
    if (lower is not None and step <= lower) or (upper is not None and step >= upper):
        return None
    if width >= high - low:
        return low if lower is None else high if upper is None else None
    first, last = low + width, high - width
    if first > last:
        first = last = low + lower_part(high - low, width)
    if step < first:
        return low if lower is None else first
    if step > last:
        return high if upper is None else last
    return step
