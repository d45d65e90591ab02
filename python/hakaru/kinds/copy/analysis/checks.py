"""Whether a backup's numbers can be believed: the checks of a repetition (limits in
docs/methodology/checks.md).

counters          grow with time
bytes             jobs and arrays agree to the byte, but for requests that ended in error or were
                  cut off
frames            each channel of the fabric accounts for every frame, at every sample
the tool itself   backup engine under 90 % of a CPU; the fabric as `hakaru.analysis.emulated` says
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.analysis import checks, emulated, hops
from hakaru.analysis.counters import Counters
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Use
from hakaru.caveats import Caveat
from hakaru.kinds.copy.analysis.setup import Setup


def of_repetition(repetition: Repetition, setup: Setup, use: dict[str, Use]) -> list[Caveat]:
    """Every check of one repetition that was done."""
    counters = repetition.counters
    caveats = [
        *_clock(counters),
        *_errors(counters),
        *_bytes(counters, setup),
        *hops.conserved(counters),
        *emulated.of_repetition(repetition, use),
    ]
    if "cpu/backup" in use and use["cpu/backup"].percent > limit_of("cpu/backup"):
        caveats.append(Caveat("generator_saturated", {"percent": use["cpu/backup"].percent}))
    return [*caveats, *checks.machine(counters, repetition.window, use), *checks.dropped(counters, repetition.window)]


def _clock(counters: Counters) -> Iterator[Caveat]:
    for name in ("read_bytes", "written_bytes"):
        if any(not s.grows() for _, s in counters.select(engine="backup", entity="backups", name=name)):
            yield Caveat("clock_stepped")
            return


def _errors(counters: Counters) -> Iterator[Caveat]:
    count = counters.last_total(engine="backup", entity="backups", name="errors")
    if count:
        yield Caveat("io_errors", {"errors": count})


def _bytes(counters: Counters, setup: Setup) -> Iterator[Caveat]:
    """Check that jobs read the bytes that the source's array gave, and wrote those that the
    destination's array took.

    Not one array for both.
    """
    if setup.source == setup.destination:
        return
    ended = counters.last_total(engine="backup", entity="backups", name="in_flight_now") or 0.0
    ended += counters.last_total(engine="backup", entity="backups", name="errors") or 0.0
    for node, ours, theirs, requests in (
        (setup.source, "read_bytes", "read_bytes", "reads"),
        (setup.destination, "written_bytes", "write_bytes", "writes"),
    ):
        counted = counters.last_total(engine="backup", entity="backups", name=ours)
        last = [float(s.value[-1]) for _, s in counters.select(engine="array", node=node, entity="lu/", name=theirs)]
        count = counters.last_total(engine="backup", entity="backups", name=requests)
        if counted is None or not last:
            continue
        slack = ended * (counted / count if count else 0.0)
        if abs(counted - sum(last)) > slack:
            yield Caveat(
                "bytes_not_conserved", {"kind": theirs.partition("_")[0], "initiator": counted, "array": sum(last)}
            )
