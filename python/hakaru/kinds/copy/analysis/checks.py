"""Checks of the repetitions of a copy. Each returns caveats (limits: docs/methodology/checks.md).

counters          grow with time
warm-up           not cut short by a host that was done long before the last
bytes             jobs and arrays agree to the byte, except for requests that failed or were cut
                  off; a guest's kernel that is the initiator reads up to 1 MiB more
frames            each channel of the fabric accounts for every frame, at every sample
test setup        backup engine at most 90 % of a CPU; the fabric as in `hakaru.analysis.emulated`
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.analysis import checks, emulated, hops
from hakaru.analysis.counters import Counters
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Use
from hakaru.caveats import Caveat
from hakaru.kinds.copy.analysis import metrics
from hakaru.kinds.copy.analysis.setup import Setup

WARMUP_SHARE = 0.95
"""Least share of the study's warm-up that a copy takes if no host is done too soon. Hosts and the
run measure their times by themselves, so they differ a little.
"""


def of_repetition(repetition: Repetition, setup: Setup, use: dict[str, Use]) -> list[Caveat]:
    """All checks of one repetition that gave a result."""
    counters = repetition.counters
    caveats = [
        *_clock(counters),
        *_errors(counters),
        *_warm_up(repetition, setup),
        *_bytes(counters, setup, checks.KERNEL_READ_BYTES_MAX * len(repetition.kernel_initiators)),
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


def _warm_up(repetition: Repetition, setup: Setup) -> Iterator[Caveat]:
    """Check that no host ended the warm-up too soon for the others.

    A run ends the warm-up at half of the time until the first host is done, if that is earlier. It
    does so for every copy that is too short for the warm-up of the study, which is no fault.
    """
    taken_s = metrics.warmup_taken_s(repetition)
    fits_others = setup.warmup_s <= (taken_s + metrics.measured_s(repetition)) / 2
    if fits_others and taken_s < WARMUP_SHARE * setup.warmup_s:
        yield Caveat("warmup_cut", {"asked_s": setup.warmup_s, "taken_s": taken_s, "done_s": 2 * taken_s})


def _bytes(counters: Counters, setup: Setup, read_by_kernels: int) -> Iterator[Caveat]:
    """Check that jobs read as many bytes as the source array sent, and wrote as many as the
    destination array received. The source may have sent up to `read_by_kernels` bytes more, which
    kernels read on their own.

    Not possible if both are the same array.
    """
    if setup.source == setup.destination:
        return
    incomplete = counters.last_total(engine="backup", entity="backups", name="in_flight_now") or 0.0
    incomplete += counters.last_total(engine="backup", entity="backups", name="errors") or 0.0
    for node, job_counter, array_counter, requests in (
        (setup.source, "read_bytes", "read_bytes", "reads"),
        (setup.destination, "written_bytes", "write_bytes", "writes"),
    ):
        job_bytes = counters.last_total(engine="backup", entity="backups", name=job_counter)
        array_bytes = [*_moved(counters, setup, node, array_counter)]
        count = counters.last_total(engine="backup", entity="backups", name=requests)
        if job_bytes is None or not array_bytes:
            continue
        tolerance = incomplete * (job_bytes / count if count else 0.0)
        if setup.tape is not None:
            # The drives report whole stored bytes, and pad the last block of a compressed copy.
            tolerance += setup.tape.compression * (setup.tape.drives + 511 * setup.jobs)
        surplus = read_by_kernels if requests == "reads" else 0
        if not -tolerance <= sum(array_bytes) - job_bytes <= tolerance + surplus:
            yield Caveat(
                "bytes_not_conserved",
                {"kind": array_counter.partition("_")[0], "initiator": job_bytes, "array": sum(array_bytes)},
            )


def _moved(counters: Counters, setup: Setup, node: str, name: str) -> Iterator[float]:
    """Bytes that the LUs of an array moved. Writes to tapes are counted by the drives, which pad
    each block to 512 bytes, and after compression; without whole blocks of 512 bytes there is no
    count to compare.
    """
    if node != setup.destination or setup.tape is None:
        for _, series in counters.select(engine="array", node=node, entity="lu/", name=name):
            yield float(series.value[-1])
    elif setup.block_bytes % 512 == 0 and setup.image_bytes % 512 == 0:
        for _, series in counters.select(engine="array", node=node, entity="tape/", name="stored_bytes"):
            yield float(series.value[-1]) * setup.tape.compression
