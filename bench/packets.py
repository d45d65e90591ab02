"""Benchmark of the generator of packets and its peers: frames per second over a veth pair, sent as
fast as possible. Each case runs `bench/packets_scene.py` in a namespace of its own.

Peers are trafgen (Debian package netsniff-ng) and dpdk-testpmd (dpdk-dev) with its AF_PACKET and
AF_XDP drivers. A peer that is missing, or that the kernel refuses, is left out with a note.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figure import Figure

SCENE = Path(__file__).with_name("packets_scene.py")
# Root stays root of the machine, because DPDK's AF_XDP driver loads a program, and netsniff-ng maps
# a large ring.
ALONE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net"]
SIZES = (64, 1518)
PROGRAMS = {
    "trafgen": "trafgen",
    "testpmd_af_packet": "dpdk-testpmd",
    "testpmd_af_xdp": "dpdk-testpmd",
}
RECEIVERS = {
    "netsniff_ng": "netsniff-ng",
    "testpmd_af_packet": "dpdk-testpmd",
    "testpmd_af_xdp": "dpdk-testpmd",
}


@dataclass(frozen=True)
class PacketsBench:
    """Benchmark of the generator. `binary`: the engine."""

    binary: Path
    rounds: int
    seconds: int

    def packets_sent(self) -> list[Figure]:
        """Measure senders alone: frames that reached the other end of a veth pair, by the kernel's
        count, sent as fast as possible. Nothing receives them. `sendmmsg` is hakaru without AF_XDP,
        the other peers are trafgen, and dpdk-testpmd with its AF_PACKET and AF_XDP drivers. The
        kernel's pktgen needs a module and root of the machine; it is not measured.
        """
        cases = {"sendmmsg": {"sender": "hakaru_sendmmsg"}} | {
            peer: {"sender": peer} for peer, program in PROGRAMS.items() if _is_there(program)
        }
        return [self._figure(f"packets_sent_{size}", "sent", size, "none", cases) for size in SIZES]

    def packets_counted(self) -> list[Figure]:
        """Measure senders and receivers together: frames that the receiver counted. hakaru sends to
        every receiver; in `trafgen`, netsniff-ng counts what trafgen sends. `af_xdp` is hakaru that
        receives through AF_XDP.
        """
        cases = {
            peer: {"sender": "hakaru", "receiver": peer} for peer, program in RECEIVERS.items() if _is_there(program)
        }
        if _is_there("trafgen") and "netsniff_ng" in cases:
            cases["trafgen"] = {"sender": "trafgen", "receiver": "netsniff_ng"}
        goal = dict.fromkeys(cases, 1.0)
        cases["af_xdp"] = {"sender": "hakaru", "receiver": "hakaru_af_xdp"}
        return [self._figure(f"packets_counted_{size}", "counted", size, "hakaru", cases, goal) for size in SIZES]

    def _figure(
        self,
        name: str,
        value: str,
        size: int,
        receiver: str,
        cases: dict[str, dict[str, str]],
        goal: dict[str, float] | None = None,
    ) -> Figure:
        figure = Figure(name, "1/s", goal=goal or {})
        cases = dict(cases)
        for turn in range(self.rounds):
            ours = self._case(sender="hakaru", receiver=receiver, bytes=size)
            peers = {}
            for peer, case in list(cases.items()):
                try:
                    peers[peer] = self._case(bytes=size, **{"receiver": receiver, **case})[value]
                except RuntimeError as refused:
                    if turn > 0:
                        raise
                    print(f"note: {name}: the peer {peer} is not available: {refused}", file=sys.stderr)
                    del cases[peer]
            figure.add(ours[value], **peers)
        return figure

    def _case(self, **case: Any) -> dict[str, float]:
        case = {"engine": str(self.binary), "seconds": self.seconds, **case}
        words = [*ALONE, sys.executable, str(SCENE), json.dumps(case)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{case['sender']}: {done.stderr.strip().splitlines()[-1:]}")
        result: dict[str, float] = json.loads(done.stdout)
        return result


def _is_there(program: str) -> bool:
    found = shutil.which(program) is not None
    if not found:
        print(f"note: packets: {program} is not installed, so it is not measured", file=sys.stderr)
    return found
