"""Benchmark of the SMB client of the engine `files` and its peer: files per second, and CPU time of
the clients and of the server. Each direction runs `bench/smb_scene.py` in a namespace of its own.

The peer is one process of smbclient (Debian package smbclient) per tool, with `mget` and `mput`, on
the same server (Samba) and the same files, in turn. smbclient stores its copies in memory (tmpfs).
The engine computes the data that it writes, and discards the data that it reads.
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

SCENE = Path(__file__).with_name("smb_scene.py")
ALONE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net"]
PROGRAMS = {"smbd": "samba", "pdbedit": "samba-common-bin", "smbclient": "smbclient"}
TOOLS = 4
SESSION = {"compound": "file", "folder_cache": True}
"""Settings of the engine's sessions. smbclient looks its folder up once, too."""


@dataclass(frozen=True)
class SmbBench:
    """Benchmark of the SMB client. `binary`: the engine."""

    binary: Path
    rounds: int

    def smb_read(self) -> list[Figure]:
        """Measure reading whole files."""
        return self._figures("read")

    def smb_write(self) -> list[Figure]:
        """Measure overwriting whole files."""
        return self._figures("write")

    def _figures(self, direction: str) -> list[Figure]:
        for program, package in PROGRAMS.items():
            if shutil.which(program) is None:
                print(f"note: smb: {program} is not installed ({package}), so it is not measured", file=sys.stderr)
                return []
        rate = Figure(f"smb_{direction}_files_per_s", "1/s", goal={"smbclient": 1.5})
        cpu = Figure(f"smb_{direction}_client_cpu_per_1k_files", "s", lower_is_better=True, goal={"smbclient": 3.0})
        server = Figure(f"smb_{direction}_server_cpu_per_1k_files", "s", lower_is_better=True)
        case = {"engine": str(self.binary), "direction": direction, "rounds": self.rounds, "tools": TOOLS}
        for ours, theirs in self._case(**case, session=SESSION):
            rate.add(ours["files_per_s"], smbclient=theirs["files_per_s"])
            cpu.add(ours["cpu_s_per_1k"], smbclient=theirs["cpu_s_per_1k"])
            server.add(ours["server_cpu_s_per_1k"], smbclient=theirs["server_cpu_s_per_1k"])
        return [rate, cpu, server]

    def _case(self, **case: Any) -> list[tuple[dict[str, float], dict[str, float]]]:
        words = [*ALONE, sys.executable, str(SCENE), json.dumps(case)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{case['direction']}: {done.stderr.strip().splitlines()[-1:]}")
        return [(pair["hakaru"], pair["smbclient"]) for pair in json.loads(done.stdout)]
