"""Benchmark of the SMB client of the engine `files` and its peers: files per second, and CPU time
of the clients and of the server. Each direction runs `bench/smb_scene.py` in a namespace of its
own.

All clients copy the same files from and to the same server (Samba), in turn:

    smbclient   one process per tool (Debian package smbclient), with `mget` and `mput`; its copies
                are in memory (tmpfs)
    smb2        the crate of that name (bench/smb2), one process with a connection and a task per
                tool; writes the copies of smbclient, and discards what it reads

The engine computes the data that it writes, and discards the data that it reads. dbench (as
packaged by Debian) and fio do not speak SMB: they need a mounted share, so they cannot do this work
without root and the kernel's client.
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
SMB2 = Path(__file__).with_name("smb2")
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
        smb2 = _build_smb2()
        rate = Figure(f"smb_{direction}_files_per_s", "1/s", goal={"smbclient": 1.5})
        cpu = Figure(f"smb_{direction}_client_cpu_per_1k_files", "s", lower_is_better=True, goal={"smbclient": 3.0})
        server = Figure(f"smb_{direction}_server_cpu_per_1k_files", "s", lower_is_better=True)
        case = {"engine": str(self.binary), "direction": direction, "rounds": self.rounds, "tools": TOOLS}
        for ours, theirs in self._case(**case, smb2=smb2, session=SESSION):
            for figure, name in ((rate, "files_per_s"), (cpu, "cpu_s_per_1k"), (server, "server_cpu_s_per_1k")):
                figure.add(ours[name], **{peer: values[name] for peer, values in theirs.items()})
        return [rate, cpu, server]

    def _case(self, **case: Any) -> list[tuple[dict[str, float], dict[str, dict[str, float]]]]:
        """Return the figures of hakaru and of its peers, by round."""
        words = [*ALONE, sys.executable, str(SCENE), json.dumps(case)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{case['direction']}: {done.stderr.strip().splitlines()[-1:]}")
        return [(clients.pop("hakaru"), clients) for clients in json.loads(done.stdout)]


def _build_smb2() -> str | None:
    """Build the peer `smb2` in `target/smb2` and return its path; None if it cannot be built."""
    target = SMB2.parent.parent / "target" / "smb2"
    words = ["cargo", "build", "--quiet", "--release", "--locked"]
    words += [f"--manifest-path={SMB2 / 'Cargo.toml'}", f"--target-dir={target}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"note: smb: smb2 was not built: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return str(target / "release" / "smb2-copies")
