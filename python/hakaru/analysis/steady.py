"""Whether the rate of a load was steady while it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from hakaru.analysis.counters import Counters, Floats, Series
from hakaru.caveats import Caveat
from hakaru.steadiness import PARTS, limits_of_counts, steadiness

OFTEN_PER_S = 20.0
"""Lowest rate whose steadiness is judged: with fewer requests, a count over a few seconds is off by
a large share.
"""
SAMPLES_MIN = 5
BORDER_SLACK = 0.05
"""Longest time by which a sample may lie outside the window, as a share of the sample interval."""


def while_measured(
    counters: Counters, window: tuple[int, int], *, engine: str, entity: str, names: Sequence[str]
) -> Iterator[Caveat]:
    """Check that the sum of these counters, over all nodes, neither swung nor drifted within the
    window.
    """
    series = [each for name in names for _, each in counters.select(engine=engine, entity=entity, name=name)]
    samples = min((len(_full_intervals(each, window)) for each in series), default=0)
    if samples < SAMPLES_MIN:
        yield Caveat("too_short_to_judge", {"samples": samples})
        return
    counts = _in_parts(series, window)
    found = steadiness(counts)
    if found is not None and not found.is_within(*limits_of_counts(counts)):
        yield Caveat("not_steady", {"range_percent": found.range_percent, "drift_percent": found.drift_percent})


def _in_parts(series: Sequence[Series], window: tuple[int, int]) -> list[float]:
    """Growth of all counters together in each of `PARTS` equal parts of the window, or of the part
    of it that all of them cover.
    """
    covered = [each.clip(*window) for each in series]
    start, end = max(start for start, _ in covered), min(end for _, end in covered)
    borders = [start + (end - start) * i // PARTS for i in range(PARTS + 1)]
    totals = [sum(each.at(border) for each in series) for border in borders]
    return [after - before for before, after in pairwise(totals)]


def _full_intervals(series: Series, window: tuple[int, int]) -> Floats:
    """Lengths of the intervals between samples inside the window, in ns, without short ones.

    Samples that timer jitter placed just outside a border of the window count as inside. An engine
    takes its last sample when it ends, soon after the previous one.
    """
    lengths = np.diff(series.at_ns).astype(float)
    if not len(lengths):
        return lengths
    interval = float(np.median(lengths))
    slack = interval * BORDER_SLACK
    inside = (series.at_ns[:-1] >= window[0] - slack) & (series.at_ns[1:] <= window[1] + slack)
    return lengths[inside & (lengths > interval / 2)]
