"""The fabric beside its peers: how fast, how exact. Each case is `bench/fabric_scene.py`, in
namespaces of its own.

`tun_delay` reimplements the loop of mahimahi's mm-delay (Debian 12 does not package mahimahi);
`tbf` is the kernel's token bucket; `veth` is a bare veth pair; `waits` (sleeps.c) is the error that
this machine alone adds to two delays, to compare the fabric's error with. Kernels without `sch_tbf`
leave that peer out.
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
    """Compiles the peer in `NAME.c`."""
    program = folder / name
    subprocess.run(["cc", "-O2", "-o", str(program), str(SCENE.with_name(f"{name}.c"))], check=True)
    return program


@dataclass(frozen=True)
class FabricBench:
    """Settings. `binary`: the engine; `folder`: for compiled peers."""

    binary: Path
    rounds: int
    seconds: int
    folder: Path

    def fabric_tcp_through_10_ms(self) -> list[Figure]:
        """One TCP flow, one emulated switch, 10 ms each way, the same socket buffers everywhere."""
        tun_delay = str(build(self.folder, "tun_delay"))
        figures = []
        for name, offloads in (("super_frames", True), ("frame_by_frame", False)):
            figure = Figure(f"fabric_tcp_10ms_{name}", "bit/s", goal={"tun_delay": 8.0} if offloads else {})
            flow = {"measure": "tcp", "seconds": 2 * self.seconds, "omit": 3, "offloads": offloads}
            for _ in range(self.rounds):
                ours = self._case(medium="fabric", delay_us=TEN_MS_US, **flow)
                tun = self._case(medium="tun_delay", delay_us=TEN_MS_US, tun_delay=tun_delay, **flow)
                none = self._case(medium="veth", **flow)
                figure.add(ours["bits_per_s"], tun_delay=tun["bits_per_s"], veth=none["bits_per_s"])
            figures.append(figure)
        return figures

    def fabric_round_trip(self) -> list[Figure]:
        """The error of the delay added to single frames, with a fabric that sleeps and with one
        that spins.

        `fabric_added_delay_error_*`: for each frame, with 10 ms of delay: the time from leaving one
        host's interface to entering the other's, by the kernel's timestamps there, less the median
        of the same over a bare veth pair in the same round. The hosts' handling of an echo is
        excluded. Early and late count alike.

        `fabric_rtt_error_*`: for each echo, with 20 ms of added round trip: its round-trip time
        less the median over a bare veth pair in the same round, with echoes equally far apart.
        (Hosts that were idle for 22 ms take about 20 us for an echo over any medium; their
        variation from one echo to the next remains in the figure.) Early and late count alike.
        `waits` is its peer: a process that waits for the same instants in the same way, asleep or
        spinning, and does nothing else.

        `fabric_rtt_uncorrected_*`: the whole round-trip time beyond 20 ms; `veth` is that of the
        bare pair.
        """
        tun_delay = str(build(self.folder, "tun_delay"))
        waits = str(build(self.folder, "sleeps"))
        figures = []
        for name, spin_us, limits in (("asleep", 0, (60.0, 200.0)), ("spinning", 100_000, (15.0, 40.0))):
            shares = dict(zip(("p50", "p99"), limits, strict=True))
            ways = [
                Figure(f"fabric_added_delay_error_{name}_{share}", "us", lower_is_better=True, limit=limit)
                for share, limit in shares.items()
            ]
            errors = [
                Figure(f"fabric_rtt_error_{name}_{share}", "us", lower_is_better=True, limit=limit)
                for share, limit in shares.items()
            ]
            whole = [Figure(f"fabric_rtt_uncorrected_{name}_{share}", "us", lower_is_better=True) for share in shares]
            count, every_ms = 200 * self.seconds, 2
            echoes = {"measure": "rtt", "count": count, "every_ms": every_ms}
            as_far_apart = {**echoes, "count": count // 2, "every_ms": every_ms + 2 * TEN_MS_US / 1000}
            for _ in range(self.rounds):
                none = self._case(medium="veth", **as_far_apart)
                delayed = {**echoes, "delay_us": TEN_MS_US, "hosts_us": none["beyond_us_p50"]}
                delayed["way_us"] = none["way_us_p50"]
                ours = self._case(medium="fabric", spin_us=spin_us, **delayed)
                tun = self._case(medium="tun_delay", tun_delay=tun_delay, **delayed)
                least = self._waits(waits, count, 1000 * every_ms, spin_us > 0)
                for share, way, error, all_of_it in zip(shares, ways, errors, whole, strict=True):
                    way_us, error_us, beyond_us = f"way_error_us_{share}", f"error_us_{share}", f"beyond_us_{share}"
                    way.add(ours[way_us], tun_delay=tun[way_us])
                    error.add(ours[error_us], tun_delay=tun[error_us], waits=least[error_us])
                    all_of_it.add(ours[beyond_us], tun_delay=tun[beyond_us], veth=none[beyond_us])
            figures += ways + errors + whole
        return figures

    @staticmethod
    def _waits(program: str, count: int, every_us: int, spinning: bool) -> dict[str, float]:
        words = [program, str(count), str(every_us), str(TEN_MS_US), *(["spin"] if spinning else [])]
        found: dict[str, float] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        return found

    def fabric_rate(self) -> list[Figure]:
        """The error of a link's rate in percent, as a TCP receiver sees it.

        `fabric_rate_error_*` is by the wall clock, as users of the link see it: a sender that
        leaves the link idle for a while, and a fabric that is late, both make it larger.
        `fabric_rate_idle_*` is the link's idle time by the engine's `busy_ns`, percent of the same
        window: the part of the error that the link did not cause. It may be slightly below 0
        because `busy_ns` counts 10 us ahead. `fabric_rate_error_while_busy_*`: bytes received over
        the busy time. It checks the engine's own account against the receiver, and cannot detect a
        fabric that is too slow.
        """
        figures = []
        for name, rate in RATES_BITS_PER_S.items():
            figure = Figure(f"fabric_rate_error_{name}", "%", lower_is_better=True, limit=1.0)
            while_busy = Figure(f"fabric_rate_error_while_busy_{name}", "%", lower_is_better=True)
            idle = Figure(f"fabric_rate_idle_{name}", "%", lower_is_better=True)
            late = Figure(f"fabric_late_p99_{name}", "us", lower_is_better=True)
            flow = {"measure": "rate", "seconds": self.seconds, "rate_bits_per_s": rate}

            def error(got: float, rate: int = rate) -> float:
                return abs(got / rate - 1) * 100

            for _ in range(self.rounds):
                ours = self._case(medium="fabric", **flow)
                while_busy.add(error(ours["busy_bits_per_s"]))
                idle.add(100 * (1 - ours["busy_share"]))
                late.add(ours["medium"]["late_us_p99"])
                peers = {}
                try:
                    peers["tbf"] = error(self._case(medium="tbf", **flow)["wire_bits_per_s"])
                except RuntimeError as missing:  # The kernel has no sch_tbf.
                    print(f"note: fabric_rate: no tbf beside it: {missing}", file=sys.stderr)
                figure.add(error(ours["wire_bits_per_s"]), **peers)
            figures += [figure, while_busy, idle, late]
        return figures

    def fabric_loss(self) -> list[Figure]:
        """Standard deviations between the number of datagrams lost and the expected one in a
        hundred.
        """
        figure = Figure("fabric_loss_deviations", "sigma", lower_is_better=True, limit=4.0)
        p = LOSS_PERCENT / 100
        sent = {"medium": "fabric", "measure": "datagrams", "count": DATAGRAMS, "loss_percent": LOSS_PERCENT}
        for seed in range(self.rounds):
            seen = self._case(**sent, seed=seed)
            lost = DATAGRAMS - seen["arrived"]
            figure.add(abs(lost - p * DATAGRAMS) / (p * (1 - p) * DATAGRAMS) ** 0.5)
        return [figure]

    def _case(self, **case: Any) -> dict[str, Any]:
        words = [*ALONE, sys.executable, str(SCENE), json.dumps({"engine": str(self.binary), **case})]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{case}: {done.stderr.strip().splitlines()[-1:]}")
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen
