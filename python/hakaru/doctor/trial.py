"""A program that builds a small lab for the doctor and removes it: `python -m hakaru.doctor.trial
kernel|fabric|netem|samba`.

It is a separate process, because it enters a sandbox. Prints one line on stdout, or the error on
stderr.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from typing import Any

from hakaru.errors import HakaruError
from hakaru.lab import sandbox

_STAR: dict[str, Any] = {"hosts": 2, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1 Gbit/s"}}
_LABS: dict[str, dict[str, Any]] = {
    "kernel": _STAR,
    "fabric": {**_STAR, "backend": "fabric"},
    "netem": {
        "arrays": ["array"],
        "switches": {"switch": {}},
        "links": {
            "host-1": {"between": ["host-1", "switch"], "delay": "1 ms"},
            "array": {"between": ["array", "switch"]},
        },
        "backend": "kernel",
    },
}
_MESSAGES = {
    "kernel": "veth, bridge and token buckets work; a lab of 3 nodes took {ms:.0f} ms to build",
    "fabric": "the engine can open interfaces of a lab; a lab of 3 nodes and the engine took {ms:.0f} ms to start",
    "netem": "available: the kernel backend can emulate delay and loss",
    "samba": "Samba {version} runs without root; it took {ms:.0f} ms to start",
}


async def _serve() -> str:
    """Start a file server in the sandbox itself, whose loopback is up like that of a node."""
    from pyroute2 import AsyncIPRoute

    from hakaru.fileserver.samba import Samba
    from hakaru.fileserver.samba_settings import FileServer, Share, User

    async with AsyncIPRoute() as links:
        await links.link("set", index=1, state="up")
    with tempfile.TemporaryDirectory(prefix="hakaru-doctor-") as folder:
        server = FileServer("trial", (Share(name="data", path=folder),), (User("trial", "trial"),))
        namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        started = time.monotonic()
        async with await Samba.start(server, namespace=namespace) as samba:
            return _MESSAGES["samba"].format(version=samba.version, ms=1000 * (time.monotonic() - started))


async def _build(kind: str) -> str:
    from hakaru.lab.build import Lab
    from hakaru.lab.model import LabSpec
    from hakaru.lab.plan import plan_lab

    started = time.monotonic()
    async with Lab(plan_lab(LabSpec.model_validate(_LABS[kind]))) as lab, lab.fabric():
        return _MESSAGES[kind].format(ms=1000 * (time.monotonic() - started))


if __name__ == "__main__":
    try:
        sandbox.enter()
        print(asyncio.run(_serve() if sys.argv[1] == "samba" else _build(sys.argv[1])))
    except HakaruError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
