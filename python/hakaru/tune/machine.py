"""Facts about this machine that tuning needs, from procfs."""

from __future__ import annotations

from pathlib import Path

from hakaru.tune.knobs import Machine

SYSCTL = Path("/proc/sys/net/ipv4")
CONTROLS = ("cubic", "reno", "bbr")
"""Congestion controls that a lab supports."""


def this_machine(sysctl: Path = SYSCTL, *, buffer_max: int | None = None) -> Machine:
    """Return the available congestion controls and the limits up to which the kernel sizes socket
    buffers. `buffer_max` of a lab replaces these limits.
    """
    default = Machine()
    available = _words(sysctl / "tcp_available_congestion_control")
    return Machine(
        congestion_controls=tuple(c for c in CONTROLS if c in available) or default.congestion_controls,
        send_buffer_auto_max=buffer_max or _last(sysctl / "tcp_wmem", default.send_buffer_auto_max),
        receive_buffer_auto_max=buffer_max or _last(sysctl / "tcp_rmem", default.receive_buffer_auto_max),
    )


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _last(path: Path, fallback: int) -> int:
    words = _words(path)
    return int(words[-1]) if words and words[-1].isdigit() else fallback
