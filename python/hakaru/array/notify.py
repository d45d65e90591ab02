"""systemd's notification protocol (sd_notify(3)): a datagram to the socket that `$NOTIFY_SOCKET`
names.

With `Type=notify` a unit counts as started when the array accepts logins, not when its process
exists.
"""

from __future__ import annotations

import contextlib
import os
import socket


def notify(*states: str) -> None:
    """Send states such as `READY=1`, `STOPPING=1` or `STATUS=…`. Does nothing without
    $NOTIFY_SOCKET. Never fails.
    """
    name = os.environ.get("NOTIFY_SOCKET", "")
    if not name.startswith(("/", "@")):
        return
    # A leading @ denotes an abstract socket.
    address = "\0" + name[1:] if name.startswith("@") else name
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.sendto("\n".join(states).encode(), address)
