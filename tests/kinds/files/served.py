"""Program of the tests: `python -m tests.kinds.files.served FOLDER COMMAND…` serves a folder with
Samba on 127.0.0.1, runs a command beside it, and exits with its status.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from hakaru.fileserver.samba import Samba
from hakaru.fileserver.samba_settings import FileServer, Share, User
from hakaru.lab import sandbox
from hakaru.system_calls import CLONE_NEWNET, unshare

USER, PASSWORD = "tester", "what the tester knows"


async def work(folder: str, command: list[str]) -> int:
    """Return the status of the command."""
    server = FileServer("files", (Share(name="data", path=folder),), (User(USER, PASSWORD),))
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    async with await Samba.start(server, namespace=namespace):
        return await (await asyncio.create_subprocess_exec(*command)).wait()


if __name__ == "__main__":
    sandbox.enter()
    unshare(CLONE_NEWNET)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    sys.exit(asyncio.run(work(sys.argv[1], sys.argv[2:])))
