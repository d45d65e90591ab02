"""Program that the tests run in its own sandbox: `python scenario.py NAME FOLDER`. It prints JSON
lines.

It takes the place of `hakaru run`: a lab of two nodes, Samba in one and smbclient in the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from hakaru.errors import HakaruError
from hakaru.fileserver.samba import Samba
from hakaru.fileserver.samba_settings import FileServer, SambaSettings, Share, User
from hakaru.lab import sandbox
from hakaru.lab.plan.actions import AddAddress
from hakaru.system_calls import CLONE_NEWNET, unshare

LAB = {"hosts": 1, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1 Gbit/s"}}
SERVER, CLIENT = "array", "host-1"
USERS = (User("vm-1", "what vm-1 knows"), User("vm-2", "what vm-2 knows"))


def report(**values: Any) -> None:
    """Write one line for the test."""
    print(json.dumps(values), flush=True)


def file_server(folder: Path, **settings: Any) -> FileServer:
    """Return a server with a share for all users, one for reading, and one for guests."""
    shares = (
        Share(name="data", path=str(folder)),
        Share(name="archive", path=str(folder), read_only=True),
        Share(name="public", path=str(folder), guests=True),
    )
    return FileServer("fs-1", shares, USERS, SambaSettings(**settings))


async def serve(lab: Any, folder: Path) -> None:
    """Report the results of smbclient for each user and share."""
    address = next(
        action.address
        for action in lab.plan.actions
        if getattr(action, "node", "") == SERVER and isinstance(action, AddAddress)
    )
    (folder / "shared").mkdir()
    content = folder / "content"
    content.write_bytes(os.urandom(3_000_001))
    async with await Samba.start(file_server(folder / "shared"), namespace=lab.namespaces[SERVER]) as samba:
        report(described=samba.describe())

        def client(share: str, user: str, password: str, commands: str, *options: str) -> None:
            words = ["smbclient", f"//{address}/{share}", "-U", f"{user}%{password}", *options, "-c", commands]
            with lab.namespaces.inside(CLIENT):
                process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            output = process.communicate(timeout=120)[0]
            report(share=share, user=user, status=process.returncode, output=output)

        for number, user in enumerate(USERS):
            copy = folder / f"copy-{number}"
            client("data", user.name, user.password, f"put {content} file; get file {copy}")
            report(identical=copy.read_bytes() == content.read_bytes())
        client("data", "vm-1", USERS[0].password, f"put {content} signed", "--client-protection=sign")
        client("data", "vm-1", "something else", "ls")
        client("archive", "vm-1", USERS[0].password, f"put {content} other")
        client("archive", "vm-1", USERS[0].password, f"get file {folder / 'copy-archive'}")
        client("public", "unknown", "anything", f"put {content} public")
        client("data", "unknown", "anything", "ls")
        owners = {path.stat().st_uid for path in (folder / "shared").iterdir()}
        report(owned=owners == {os.geteuid()}, files=sorted(path.name for path in (folder / "shared").iterdir()))
        samba.check()


async def kill(lab: Any, folder: Path) -> None:
    """Kill Samba and report the error."""
    async with await Samba.start(file_server(folder), namespace=lab.namespaces[SERVER]) as samba:
        os.kill(samba.pid, signal.SIGKILL)
        await samba.wait()
        samba.check()


async def hold(lab: Any, folder: Path) -> None:
    """Start Samba and a client that stays connected, and wait."""
    async with await Samba.start(file_server(folder), namespace=lab.namespaces[SERVER]) as samba:
        report(pid=samba.pid)
        await asyncio.sleep(300)


async def bare(folder: Path) -> None:
    """Start Samba in a network namespace without a sandbox, whose end would take it along."""
    unshare(CLONE_NEWNET)
    # Samba needs an interface.
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    async with await Samba.start(file_server(folder), namespace=namespace) as samba:
        report(pid=samba.pid)
        await asyncio.sleep(300)


async def missing(lab: Any, folder: Path) -> None:
    """Start a server whose directory does not exist."""
    await Samba.start(file_server(folder / "nowhere"), namespace=lab.namespaces[SERVER])


async def refused(lab: Any, folder: Path) -> None:
    """Start a server in something that is no network namespace."""
    await Samba.start(file_server(folder), namespace=os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


async def in_lab(work: Callable[[Any, Path], Coroutine[Any, Any, None]], folder: Path) -> None:
    from hakaru.lab.build import Lab
    from hakaru.lab.model import LabSpec
    from hakaru.lab.plan import plan_lab

    async with Lab(plan_lab(LabSpec.model_validate(LAB))) as lab:
        await work(lab, folder)


SCENARIOS = {"serve": serve, "kill": kill, "hold": hold, "missing": missing, "refused": refused}

if __name__ == "__main__":
    name, folder = sys.argv[1], Path(sys.argv[2])
    try:
        if name == "bare":
            asyncio.run(bare(folder))
        sandbox.enter()
        asyncio.run(in_lab(SCENARIOS[name], folder))
    except HakaruError as error:
        report(error=type(error).__name__, message=error.message, hint=error.hint)
        sys.exit(error.exit_code)
