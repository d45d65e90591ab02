"""Benchmark of the fabric and its peers: speed and accuracy. Each case runs
`bench/fabric_scene.py` in namespaces of its own.

`tun_delay` reimplements the loop of mahimahi's mm-delay (Debian 12 does not package mahimahi);
`tbf` is the kernel's token bucket; `veth` is a bare veth pair; `waits` (sleeps.c) is the timing
error of this machine alone, a reference for the fabric's error. On a kernel without `sch_tbf` that
peer is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figure import Figure

SCENE = Path(__file__).with_name("fabric_scene.py")
ALONE = ["unshare", "--user", "--map-root-user", "--net"]
TEN_MS_US = 10_000
RATES_BITS_PER_S = {"10m": 10**7, "100m": 10**8, "1g": 10**9, "5g": 5 * 10**9}
LOSS_PERCENT, DATAGRAMS = 1.0, 20_000


def build(folder: Path, name: str) -> Path:
    """Compile the peer in `NAME.c`."""
    program = folder / name
    subprocess.run(["cc", "-O2", "-o", str(program), str(SCENE.with_name(f"{name}.c"))], check=True)
    return program


@dataclass(frozen=True)
class FabricBench:
    """Benchmark of the fabric. `binary`: the engine. `folder`: for compiled peers."""

    binary: Path
    rounds: int
    seconds: int
    folder: Path

    def fabric_tcp_through_10_ms(self) -> list[Figure]:
        """Measure one TCP flow over one emulated switch with 10 ms of delay in each direction. All
        media use the same socket buffers.
        """
        tun_delay = str(build(self.folder, "tun_delay"))
        figures = []
        for name, offloads in (("super_frames", True), ("frame_by_frame", False)):
            figure = Figure(f"fabric_tcp_10ms_{name}", "bit/s", goal={"tun_delay": 8.0} if offloads else {})
            flow = {"measure": "tcp", "seconds": 2 * self.seconds, "omit": 3, "offloads": offloads}
            for _ in range(self.rounds):
                ours = self._case(medium="fabric", delay_us=TEN_MS_US, **flow)
                tun = self._case(medium="tun_delay", delay_us=TEN_MS_US, tun_delay=tun_delay, **flow)
                bare = self._case(medium="veth", **flow)
                figure.add(ours["bits_per_s"], tun_delay=tun["bits_per_s"], veth=bare["bits_per_s"])
            figures.append(figure)
        return figures

    def fabric_round_trip(self) -> list[Figure]:
        """Measure the error of the delay added to single frames, with a fabric that sleeps and with
        one that spins. Early and late count alike.

        `fabric_added_delay_error_*` is per frame, with 10 ms of delay: the time from leaving one
        host's interface to entering the other's by the kernel's timestamps, less the median of the
        same over a bare veth pair in the same round. It excludes the hosts' handling of an echo.

        `fabric_rtt_error_*` is per echo, with 20 ms of added round trip: its round-trip time less
        the median over a bare veth pair in the same round, with echoes at the same interval. (Hosts
        that were idle for 22 ms take about 20 us for an echo over any medium. Their variation
        between echoes remains in the figure.) The peer `waits` is a process that waits for the same
        instants in the same way, asleep or spinning, and does nothing else.

        `fabric_rtt_uncorrected_*` is the round-trip time in excess of 20 ms; `veth` is that of the
        bare pair.
        """
        tun_delay = str(build(self.folder, "tun_delay"))
        waits = str(build(self.folder, "sleeps"))
        figures = []
        for name, spin_us, limits in (("asleep", 0, (60.0, 200.0)), ("spinning", 100_000, (15.0, 40.0))):
            shares = dict(zip(("p50", "p99"), limits, strict=True))
            delay_figures = [
                Figure(f"fabric_added_delay_error_{name}_{share}", "us", lower_is_better=True, limit=limit)
                for share, limit in shares.items()
            ]
            rtt_figures = [
                Figure(f"fabric_rtt_error_{name}_{share}", "us", lower_is_better=True, limit=limit)
                for share, limit in shares.items()
            ]
            uncorrected_figures = [
                Figure(f"fabric_rtt_uncorrected_{name}_{share}", "us", lower_is_better=True) for share in shares
            ]
            count, every_ms = 200 * self.seconds, 2
            echoes = {"measure": "rtt", "count": count, "every_ms": every_ms}
            spaced_echoes = {**echoes, "count": count // 2, "every_ms": every_ms + 2 * TEN_MS_US / 1000}
            for _ in range(self.rounds):
                bare = self._case(medium="veth", **spaced_echoes)
                delayed = {**echoes, "delay_us": TEN_MS_US, "hosts_us": bare["beyond_us_p50"]}
                delayed["way_us"] = bare["way_us_p50"]
                fabric = self._case(medium="fabric", spin_us=spin_us, **delayed)
                tun = self._case(medium="tun_delay", tun_delay=tun_delay, **delayed)
                waiting = self._waits(waits, count, 1000 * every_ms, spin_us > 0)
                for share, delay_figure, rtt_figure, uncorrected_figure in zip(
                    shares, delay_figures, rtt_figures, uncorrected_figures, strict=True
                ):
                    way_us, error_us, beyond_us = f"way_error_us_{share}", f"error_us_{share}", f"beyond_us_{share}"
                    delay_figure.add(fabric[way_us], tun_delay=tun[way_us])
                    rtt_figure.add(fabric[error_us], tun_delay=tun[error_us], waits=waiting[error_us])
                    uncorrected_figure.add(fabric[beyond_us], tun_delay=tun[beyond_us], veth=bare[beyond_us])
            figures += delay_figures + rtt_figures + uncorrected_figures
        return figures

    @staticmethod
    def _waits(program: str, count: int, every_us: int, spinning: bool) -> dict[str, float]:
        words = [program, str(count), str(every_us), str(TEN_MS_US), *(["spin"] if spinning else [])]
        errors_us: dict[str, float] = json.loads(
            subprocess.run(words, check=True, capture_output=True, text=True).stdout
        )
        return errors_us

    def fabric_rate(self) -> list[Figure]:
        """Measure the error of a link's rate in percent, as a TCP receiver sees it.

        `fabric_rate_error_*` is by the wall clock, as users of the link see it. A sender that
        leaves the link idle and a fabric that is late both increase it. `fabric_rate_idle_*` is the
        link's idle time by the engine's `busy_ns`, in percent of the same window: the part of the
        error that the link did not cause. It may be slightly below 0 because `busy_ns` counts 10 us
        ahead. `fabric_rate_error_while_busy_*` is the error of the bytes received over the busy
        time. It checks the engine's own account against the receiver, and cannot detect a fabric
        that is too slow.
        """
        figures = []
        for name, rate in RATES_BITS_PER_S.items():
            figure = Figure(f"fabric_rate_error_{name}", "%", lower_is_better=True, limit=1.0)
            while_busy = Figure(f"fabric_rate_error_while_busy_{name}", "%", lower_is_better=True)
            idle = Figure(f"fabric_rate_idle_{name}", "%", lower_is_better=True)
            late = Figure(f"fabric_late_p99_{name}", "us", lower_is_better=True)
            flow = {"measure": "rate", "seconds": self.seconds, "rate_bits_per_s": rate}

            def error(bits_per_s: float, rate: int = rate) -> float:
                return abs(bits_per_s / rate - 1) * 100

            for _ in range(self.rounds):
                ours = self._case(medium="fabric", **flow)
                while_busy.add(error(ours["busy_bits_per_s"]))
                idle.add(100 * (1 - ours["busy_share"]))
                late.add(ours["medium"]["late_us_p99"])
                peers = {}
                try:
                    peers["tbf"] = error(self._case(medium="tbf", **flow)["wire_bits_per_s"])
                except RuntimeError as missing:  # The kernel has no sch_tbf.
                    print(f"note: fabric_rate: the peer tbf is not available: {missing}", file=sys.stderr)
                figure.add(error(ours["wire_bits_per_s"]), **peers)
            figures += [figure, while_busy, idle, late]
        return figures

    def fabric_loss(self) -> list[Figure]:
        """Measure by how many standard deviations the number of lost datagrams differs from the
        expected one percent.
        """
        figure = Figure("fabric_loss_deviations", "sigma", lower_is_better=True, limit=4.0)
        p = LOSS_PERCENT / 100
        case = {"medium": "fabric", "measure": "datagrams", "count": DATAGRAMS, "loss_percent": LOSS_PERCENT}
        for seed in range(self.rounds):
            result = self._case(**case, seed=seed)
            lost = DATAGRAMS - result["arrived"]
            figure.add(abs(lost - p * DATAGRAMS) / (p * (1 - p) * DATAGRAMS) ** 0.5)
        return [figure]

    def _case(self, **case: Any) -> dict[str, Any]:
        words = [*ALONE, sys.executable, str(SCENE), json.dumps({"engine": str(self.binary), **case})]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{case}: {done.stderr.strip().splitlines()[-1:]}")
        result: dict[str, Any] = json.loads(done.stdout)
        return result
