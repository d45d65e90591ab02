"""Whether the numbers of a load of VMs can be believed (limits in docs/methodology/checks.md).

Two checks need many requests: over a long way a request of megabytes takes half a second, so that a
count over some seconds is off by one at each end. Steadiness is judged where 20 requests and more
end in a second; Little's law holds up to one request. Bytes on the wire are compared where the
kernel shapes links; where a fabric does, it counts frames.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from hakaru.analysis import checks, emulated, hops
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Nic, Use
from hakaru.caveats import Caveat

OFTEN_PER_S = 20.0


def of_repetition(
    repetition: Repetition, metrics: dict[str, float], use: dict[str, Use], nics: list[Nic]
) -> list[Caveat]:
    """Every check of one repetition that was done. `metrics`: of any load, as counted."""
    counters, window = repetition.counters, repetition.window
    found = [*checks.clock(counters), *checks.parts(counters), *checks.coverage(counters, window)]
    if metrics["iops"] >= OFTEN_PER_S or not math.isfinite(metrics["iops"]):
        found += checks.steady(counters, window)
    found += [*checks.errors(counters), *checks.warmed_up(counters, window, metrics)]
    found += [*_littles_law(metrics, window), *checks.bytes_conserved(counters)]
    if not counters.nodes("fabric"):
        found += checks.wire(counters, window, nics)
    found += [*checks.generator(repetition, use), *hops.conserved(counters), *emulated.of_repetition(repetition, use)]
    return [*found, *checks.machine(counters, window, use), *checks.dropped(counters, window)]


def _littles_law(metrics: dict[str, float], window: tuple[int, int]) -> Iterator[Caveat]:
    """As for any load; a count that is off by one request at an end is none."""
    ended = metrics["iops"] * (window[1] - window[0]) / 1e9
    product = metrics["iops"] * metrics["latency_ms_mean"] / 1e3
    outstanding = metrics["outstanding_mean"]
    if math.isfinite(product) and ended > 0 and abs(outstanding - product) * ended <= product:
        return
    yield from checks.littles_law(metrics)
