"""One direction of the SMB benchmark: `smb_scene.py JSON`, in a network namespace of its own.

Prints a list with the results of every round: {hakaru, smbclient, smb2} → {files_per_s,
cpu_s_per_1k, server_cpu_s_per_1k}. Times are those of whole processes, with their start and login;
those of the server are of all its processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine_process import EngineProcess
from hakaru.fileserver.samba import Samba
from hakaru.fileserver.samba_settings import FileServer, Share, User

MEMORY = "/dev/shm"
ADDRESS, SHARE, USER = "127.0.0.1", "data", User("bench", "bench")
FILES, FILE_BYTES = 1000, 16 << 10
"""Files of each tool, and their size."""


class Scene:
    """A server with the files, and its clients. `folder`: where smbclient keeps its copies, which
    `smb2` writes.
    """

    def __init__(self, case: dict[str, Any], share: Path, folder: Path) -> None:
        self.engine, self.direction, self.tools = case["engine"], case["direction"], case["tools"]
        self.smb2_program: str | None = case["smb2"]
        self.server_pid = 0
        """Samba's first process."""
        self.share, self.folder = share, folder
        sizes = {
            "kind": "table",
            "classes": [{"up_to_bytes": FILE_BYTES - 1, "count": 0}, {"up_to_bytes": FILE_BYTES, "count": 1}],
        }
        # Without levels of folders, as smbclient names its folder once.
        self.trees = {"seed": 1, "trees": self.tools, "depth": 1, "folders": 1, "targets": FILES, "sizes": sizes}
        password = {"kind": "text", "text": USER.password}
        self.destination = {
            "kind": "smb",
            "address": f"{ADDRESS}:445",
            "share": SHARE,
            "folder": "trees",
            "user": {"kind": "password", "name": USER.name, "password": password},
            # As smbclient, which names its folder once. It sends open, transfer and close apart.
            **case["session"],
        }

    def build(self) -> None:
        """Build the trees, and empty folders for the copies."""
        self._run(task="build", trees=self.trees)
        for tool in range(self.tools):
            (self.folder / str(tool)).mkdir()

    def hakaru(self) -> None:
        """Copy all files once with one engine."""
        percent = 100 if self.direction == "read" else 0
        values = self._run(task="load", trees=self.trees, tools=self.tools, read_percent=percent, seed=1)
        copied = values["files_read"] + values["files_written"]
        if values["errors"] or copied != self.tools * FILES:
            raise RuntimeError(f"hakaru copied {copied:.0f} files, with {values['errors']:.0f} errors")

    def smbclient(self) -> None:
        """Copy all files once with one process for each tree."""
        verb = "mget" if self.direction == "read" else "mput"
        processes = []
        for tool in range(self.tools):
            commands = f"prompt off; cd trees/t{tool:05}; lcd {self.folder / str(tool)}; {verb} f*"
            words = ["smbclient", f"//{ADDRESS}/{SHARE}", "--configfile=/dev/null"]
            words += ["-U", f"{USER.name}%{USER.password}", "-c", commands]
            processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        statuses = [process.wait() for process in processes]
        if any(statuses):
            raise RuntimeError("smbclient failed")
        copies = sum(1 for path in self.folder.glob("*/f*") if path.stat().st_size == FILE_BYTES)
        if copies != self.tools * FILES:
            raise RuntimeError(f"smbclient copied {copies} files")

    def smb2(self) -> None:
        """Copy all files once with one process of bench/smb2, which has a task for each tree."""
        words = [self.smb2_program, self.direction, f"{ADDRESS}:445", SHARE, USER.name, USER.password]
        words += [f"trees/t{tool:05}={self.folder / str(tool)}" for tool in range(self.tools)]
        copied = int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        if copied != self.tools * FILES:
            raise RuntimeError(f"smb2 copied {copied} files")

    def check(self) -> None:
        """Compare the files of the server with their description."""
        self._run(task="verify")

    def measure(self, client: Callable[[], None]) -> dict[str, float]:
        """Return rate and CPU time of a client; of all processes that it started and waited for."""
        served = cpu_s(self.server_pid)
        begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        client()
        after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        served = cpu_s(self.server_pid) - served
        files = self.tools * FILES
        return {
            "files_per_s": files / seconds,
            "cpu_s_per_1k": 1000 * used / files,
            "server_cpu_s_per_1k": 1000 * served / files,
        }

    def _run(self, **config: Any) -> dict[str, float]:
        engine = EngineProcess([self.engine], {"engine": "files", "destination": self.destination} | config)
        try:
            engine.start()
            values: dict[str, float] = engine.wait_for("result")["values"]
            return values
        finally:
            engine.end()


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, its children that have ended, and its children that run."""
    ticks = 0
    tasks = Path(f"/proc/{pid}/task")
    children = [child for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    for process in [pid, *children]:
        with contextlib.suppress(FileNotFoundError):
            # Behind the name in parentheses: utime, stime, cutime and cstime are fields 14 to 17.
            values = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, values[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


async def main(case: dict[str, Any]) -> list[dict[str, dict[str, float]]]:
    """Start the server, and run all clients in every round, in alternating order."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with tempfile.TemporaryDirectory(dir=MEMORY) as share, tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        server = FileServer("bench", (Share(name=SHARE, path=share),), (USER,))
        async with await Samba.start(server, namespace=namespace) as samba:
            scene = Scene(case, Path(share), Path(folder))
            scene.server_pid = samba.pid
            results = await asyncio.to_thread(_rounds, scene, case["rounds"])
            samba.check()
            return results


def _rounds(scene: Scene, rounds: int) -> list[dict[str, dict[str, float]]]:
    scene.build()
    if scene.direction == "write":
        # The files that smbclient writes are copies of those that it overwrites.
        scene.direction = "read"
        scene.smbclient()
        scene.direction = "write"
    clients = {"hakaru": scene.hakaru, "smbclient": scene.smbclient}
    if scene.smb2_program:
        clients["smb2"] = scene.smb2
    results = []
    for number in range(rounds):
        names = list(clients) if number % 2 == 0 else list(reversed(clients))
        results.append({name: scene.measure(clients[name]) for name in names})
    scene.check()
    return results


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
