"""Rates of tools: live, and of a whole repetition."""

from __future__ import annotations

from hakaru.analysis.counters import Counters
from hakaru.engine import contract
from hakaru.kinds.files.names import COUNTERS, ENTITY, RATE
from hakaru.run.meter import HostRates, Meter, Rates
from hakaru.store import Samples
from hakaru.wording import number

BYTES = ("read_bytes", "written_bytes")


class FilesMeter(Meter):
    """Files and bytes per second, of all hosts; while the trees are built, the files built."""

    def __init__(self, hosts: int) -> None:
        self._work = HostRates(hosts, ENTITY, COUNTERS[RATE], BYTES)
        self._build = HostRates(hosts, "trees", ["files_done"])

    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """As `Meter.add`."""
        built = self._build.add(node, sample)
        work = self._work.add(node, sample)
        if built and built[0] > 0:
            return Rates(f"{number(built[0])} files/s built", {"built_per_s": round(built[0], 1)})
        return rates_of(work[0], work[1] / 1e6) if work else None


def rates_of(files_per_s: float, mb_per_s: float) -> Rates:
    """The rates as text and as values."""
    values = {"files_per_s": round(files_per_s, 3), "mb_per_s": round(mb_per_s, 3)}
    return Rates(f"{number(files_per_s)} files/s, {number(mb_per_s)} MB/s", values)


def result_of(window: tuple[int, int], samples: Samples) -> Rates:
    """Rates of the measuring phase."""
    counters = Counters.of_table(samples.table())
    files, octets = (
        sum(counters.total_rate(window, engine="files", entity=ENTITY, name=name) for name in names)
        for names in (COUNTERS[RATE], BYTES)
    )
    return rates_of(files, octets / 1e6)
