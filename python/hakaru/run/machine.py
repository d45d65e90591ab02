"""Facts about this machine for `machine.json` and `hakaru doctor`, read from procfs and sysfs."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path
from typing import Any

_OVERCOMMIT = "/proc/sys/vm/overcommit_memory"
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


def describe_machine() -> dict[str, Any]:
    """CPU, memory, kernel, clock, limits. Values that cannot be read are None."""
    memory = _table("/proc/meminfo")
    cpu = _table("/proc/cpuinfo")
    flags = (cpu.get("flags") or "").split()
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    return {
        "cpu_model": cpu.get("model name"),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_governor": _read(_GOVERNOR),
        "virtual": "hypervisor" in flags,
        "memory_bytes": _kib(memory.get("MemTotal")),
        "memory_available_bytes": memory_available_bytes(),
        "overcommit_memory": _read(_OVERCOMMIT),
        "kernel": platform.release(),
        "os": release.get("PRETTY_NAME"),
        "architecture": platform.machine(),
        "clock_source": _read(_CLOCK),
        "open_files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "load_average": os.getloadavg()[0],
    }


def memory_available_bytes() -> int | None:
    """Memory that may be taken without swapping, as the kernel estimates it."""
    return _kib(_table("/proc/meminfo").get("MemAvailable"))


def _table(path: str) -> dict[str, str]:
    """Parse `name: value` lines. The first of repeated names counts."""
    table: dict[str, str] = {}
    for line in (_read(path) or "").splitlines():
        name, separator, value = line.partition(":")
        if separator:
            table.setdefault(name.strip(), value.strip())
    return table


def _kib(text: str | None) -> int | None:
    return int(text.split()[0]) * 1024 if text else None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
