"""Rates of copies: live, with the progress of each job, and over a whole repetition."""

from __future__ import annotations

from collections.abc import Mapping

from hakaru.analysis.counters import Counters
from hakaru.engine import contract
from hakaru.run.meter import HostRates, Meter, Rates
from hakaru.store import Samples
from hakaru.wording import number

ENTITY, JOB = "backups", "backup/"
JOBS_SHOWN_MAX = 8
MIB = 1 << 20


class CopyMeter(Meter):
    """Bytes written per second over all hosts, and the share of its image that each job has
    read.
    """

    def __init__(self, hosts: int, image_bytes: int) -> None:
        self._hosts = HostRates(hosts, ENTITY, ["written_bytes"])
        self._image_bytes = image_bytes

    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """As `Meter.add`."""
        rates = self._hosts.add(node, sample)
        return rates_of(rates[0] / MIB, self._copied()) if rates else None

    def _copied(self) -> dict[str, float]:
        return {
            entity.removeprefix(JOB): 100 * counters.get("read_bytes", 0.0) / self._image_bytes
            for sample in self._hosts.last.values()
            for entity, counters in sample.counters.items()
            if entity.startswith(JOB)
        }


def rates_of(mib_per_s: float, copied_percent: Mapping[str, float]) -> Rates:
    """The rates as text (`21.2 MiB/s, vm01 35 %, vm02 done`) and as values. With more than eight
    jobs, the text has their mean.
    """
    shares = sorted(copied_percent.items())
    shown = [f"{name} {'done' if share >= 100 else f'{share:.0f} %'}" for name, share in shares]
    if len(shown) > JOBS_SHOWN_MAX:
        shown = [f"{sum(copied_percent.values()) / len(shown):.0f} % of all"]
    values = {"mib_per_s": round(mib_per_s, 3), "copied_percent": dict(copied_percent)}
    return Rates(", ".join([f"{number(mib_per_s)} MiB/s", *shown]), values)


def result_of(window: tuple[int, int], samples: Samples, jobs_done: int, jobs: int) -> Rates:
    """Return the bytes that all jobs wrote, over the time until the last one ended."""
    counters = Counters.of_table(samples.table())
    written = sum(
        series.increase(*window) for _, series in counters.select(engine="backup", entity=ENTITY, name="written_bytes")
    )
    seconds = (window[1] - window[0]) / 1e9
    rate = written / MIB / seconds if seconds > 0 else 0.0
    return Rates(
        f"{number(rate)} MiB/s, {jobs_done} of {jobs} jobs done",
        {"mib_per_s": round(rate, 3), "jobs_done": jobs_done, "jobs": jobs},
    )
