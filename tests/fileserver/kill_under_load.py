"""Program of the tests: `python -m tests.fileserver.kill_under_load FOLDER` serves a folder by
Samba on 127.0.0.1, kills it while clients write, starts it again, and reads what it has
acknowledged. It prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.fileserver.samba import Samba
from hakaru.fileserver.samba_settings import FileServer, Share, User
from hakaru.lab import sandbox
from hakaru.system_calls import CLONE_NEWNET, unshare

from tests.fileserver.acknowledged import Clients

CLIENTS, FOLDERS = 4, 24
USER = User("tester", "what the tester knows")


async def spawn(config: contract.EngineConfig) -> EngineProcess:
    return await EngineProcess.spawn("client", config)


async def work(folder: Path) -> dict[str, Any]:
    server = FileServer("fs-1", (Share(name="data", path=str(folder)),), (USER,))
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    clients = Clients(spawn, "127.0.0.1:445", USER)
    found: dict[str, Any] = {}
    async with await Samba.start(server, namespace=namespace) as samba:
        clients.begin(CLIENTS)
        await clients.reach(FOLDERS)
        # The first process of a PID namespace, with which all others of Samba end.
        os.kill(samba.pid, signal.SIGKILL)
        found["error"] = (await samba.wait()).message
        await clients.wait()
    found["clients"] = [error.message for error in clients.errors]
    found["acknowledged"], found["interrupted"] = len(clients.acknowledged), sorted(clients.interrupted)
    async with await Samba.start(server, namespace=namespace):
        found["wrong"] = await clients.verify()
        for interrupted in sorted(clients.interrupted):
            await clients.write(interrupted)
        found["completed"] = len(clients.acknowledged)
        found["wrong_completed"] = await clients.verify()
        found["damaged"] = damage(folder, sorted(clients.acknowledged))
        found["wrong_damaged"] = await clients.verify()
    return found


def damage(folder: Path, acknowledged: list[str]) -> list[str]:
    """Damage a file of each of the first three folders in a way of its own; return the files."""
    files = [largest(folder / name) for name in acknowledged[:3]]
    flipped, shortened, deleted = files
    content = bytearray(flipped.read_bytes())
    content[len(content) // 2] ^= 1
    flipped.write_bytes(content)
    os.truncate(shortened, shortened.stat().st_size - 1)
    deleted.unlink()
    return [str(file.relative_to(folder)) for file in files]


def largest(folder: Path) -> Path:
    """Return the largest file below a folder."""
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: (path.stat().st_size, path))


if __name__ == "__main__":
    sandbox.enter()
    unshare(CLONE_NEWNET)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(json.dumps(asyncio.run(work(Path(sys.argv[1])))))
