"""Benchmark of a guest's NICs. Each case runs `bench/vhost_user_scene.py` in its own namespace. A
machine that cannot run the guest leaves these figures out with a note.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from figure import Figure
from hakaru.guest.image import find_image

SCENE = Path(__file__).with_name("vhost_user_scene.py")
ALONE = ["unshare", "--user", "--map-root-user", "--net"]
SIZES = (64, 1518)
OFFERED = (2000.0, 30_000.0, 200_000.0)
# Booting an emulated guest takes up to minutes on a busy machine.
BOOT_S = 300


@dataclass(frozen=True)
class VhostUserBench:
    """Benchmark of NICs. `binary`: the engine."""

    binary: Path
    rounds: int
    seconds: int

    def guest_forwarding(self) -> list[Figure]:
        """Measure ports of the fabric in a guest's memory (vhost-user) against TAPs of the same
        guest: the rate at which it routes frames of 200 000/s offered, the share that it loses of
        30 000/s, and the processor time of a frame at 2000/s.

        `tap` and hakaru have 1024 receive descriptors, `vhost_user_256` is hakaru with 256, QEMU's
        default. The guest is the bottleneck, and without KVM its processor is emulated. The
        processor time is that of QEMU and, for vhost-user, of the fabric. The kernel moves a frame
        to a TAP in the time of its sender, which is not counted.
        """
        # In the namespace of a case, no package of the image can be downloaded.
        find_image("cloud")
        figures = []
        for size in SIZES:
            rate = Figure(f"guest_forwarded_{size}", "1/s")
            lost = Figure(f"guest_lost_{size}", "%", lower_is_better=True)
            cpu = Figure(f"guest_forwarded_{size}_cpu", "us", lower_is_better=True)
            case = {"engine": str(self.binary), "bytes": size, "offered": OFFERED, "rounds": self.rounds}
            words = [*ALONE, sys.executable, str(SCENE), json.dumps({**case, "seconds": self.seconds})]
            limit = BOOT_S + self.rounds * 15 * self.seconds
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
            if done.returncode != 0:
                last = done.stderr.strip().splitlines()[-1:]
                print(f"note: guest_forwarding: not measured: {last}", file=sys.stderr)
                return []
            for paths in json.loads(done.stdout):
                ours = paths.pop("vhost_user")
                for figure, name in ((rate, "rate"), (lost, "lost_percent"), (cpu, "cpu_us")):
                    figure.add(ours[name], **{path: found[name] for path, found in paths.items()})
            figures += [rate, lost, cpu]
        return figures
