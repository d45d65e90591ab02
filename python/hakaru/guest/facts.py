"""Properties of this machine that decide which guests it can run, collected once.

facts = collect_facts(accelerator)     within a second; starts QEMU only to list its devices
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from hakaru.guest.emulator import PROGRAM
from hakaru.guest.requirements import Accelerator, Facts, Version
from hakaru.guest.tap import DEVICE as TUN

VHOST_NET = Path("/dev/vhost-net")
MEMORY = Path("/proc/meminfo")
_TIMEOUT_S = 30


def collect_facts(accelerator: Accelerator, *, vhost_net: Path = VHOST_NET, tun: Path = TUN) -> Facts:
    """Examine this machine. `accelerator`: that of the guests to come."""
    version, devices, netdevs = read_qemu()
    return Facts(
        qemu=version,
        devices=devices,
        netdevs=netdevs,
        accelerator=accelerator,
        tun=_device_problem(tun),
        vhost_net=_device_problem(vhost_net),
        macvtap=_macvtap_problem(),
        processors=frozenset(os.sched_getaffinity(0)),
        memory_bytes=_memory_available(),
        locked_bytes=_lockable(),
    )


def _lockable() -> int | None:
    """Memory that QEMU may lock; None if there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    # The capability to exceed the limit (CAP_IPC_LOCK).
    return None if soft == resource.RLIM_INFINITY or os.geteuid() == 0 else soft


def _memory_available() -> int | None:
    """Memory that new processes may use, by Linux; None if it cannot be read."""
    try:
        text = MEMORY.read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else None


def read_qemu() -> tuple[Version | None, frozenset[str], frozenset[str]]:
    """Return version, devices and network backends of QEMU; None and nothing if it is missing."""
    if shutil.which(PROGRAM) is None:
        return None, frozenset(), frozenset()
    version = parse_version(_output("--version"))
    devices = frozenset(re.findall(r'^name "([^"]+)"', _output("-device", "help"), re.MULTILINE))
    netdevs = frozenset(re.findall(r"^([a-z0-9-]+)$", _output("-netdev", "help"), re.MULTILINE))
    return version, devices, netdevs


def parse_version(text: str) -> Version | None:
    """Parse the output of `--version`: `QEMU emulator version 7.2.22 (Debian …)`."""
    found = re.search(r"version (\d+)\.(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _output(*arguments: str) -> str:
    try:
        done = subprocess.run(
            [PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _device_problem(path: Path) -> str:
    if not path.exists():
        return f"this machine has no {path}"
    if not os.access(path, os.R_OK | os.W_OK):
        return f"this user may not open {path}"
    return ""


def _macvtap_problem() -> str:
    """Try to create a macvtap in namespaces that vanish with the process that tries."""
    try:
        tried = subprocess.run(
            [sys.executable, "-m", "hakaru.guest.macvtap_trial"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "it is unknown whether the kernel has macvtap"
    if tried.returncode != 0:
        return (tried.stdout.strip().splitlines() or ["the kernel has no macvtap"])[-1]
    # The device's node appears in the host's /dev, which namespaces without root cannot change.
    return "" if os.geteuid() == 0 else "only root may open the device /dev/tapN of a macvtap"
