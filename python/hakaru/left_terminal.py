"""The terminal as a full-screen view leaves it when it is killed: raw, in the alternate screen,
with reports of the mouse. Imports only the standard library, because the supervisor of a sandbox
uses it.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
from typing import Any

MODES = ("?2026l", "?2048l", "?2004l", "?1000l", "?1003l", "?1015l", "?1006l", "?1004l", "<u", "?1049l", "?25h")
LEAVE = "".join(f"\x1b[{mode}" for mode in MODES)
"""Ends the modes that Textual sets: mouse, paste, focus, keys, alternate screen, hidden cursor."""
LOCAL_MODES = 3
"""Index of the local modes in the attributes of a terminal."""


def attributes() -> list[Any] | None:
    """The attributes of the terminal on stdin; None if there is none."""
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError, AttributeError):
        return None


def restore(before: list[Any] | None) -> bool:
    """Take the terminal out of a view if it was left raw, and was not raw `before`. Returns whether
    it was.
    """
    now = attributes()
    if before is None or now is None or now[LOCAL_MODES] & termios.ICANON or not before[LOCAL_MODES] & termios.ICANON:
        return False
    # In the background, this signal would stop the process.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    try:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSAFLUSH, before)
        if os.isatty(sys.stderr.fileno()):
            os.write(sys.stderr.fileno(), LEAVE.encode())
    except (termios.error, OSError):
        return False  # the terminal has gone
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return True
