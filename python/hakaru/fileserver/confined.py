"""Program that runs Samba as an ordinary user of namespaces of its own: `python -I -S confined.py`.

`hakaru.fileserver.samba` starts it and sends one line of JSON on its stdin (`Order`). It imports
only the standard library and `hakaru.system_calls`, as the supervisor of a sandbox does. Samba gets

- the network namespace of a node, in which every port is allowed to ordinary users;
- a user namespace in which the user who started hakaru has the id `uid`. As user 0 of such a
  namespace Samba ends with `sys_setgroups failed`; as any other user it needs no root;
- a mount namespace with a tmpfs for its own files, so that none remains, and with an /etc/passwd
  and /etc/group of its own, in which Samba looks up its users;
- a PID namespace, so that no process that Samba has forked outlives it.

When Samba accepts connections, this program prints `ready PID`. Samba reports that it is ready as a
service of systemd does (sd_notify(3)), but listens up to some milliseconds later, so this program
also waits for the listening socket. It stops Samba at the end of its stdin, which also is the end
of hakaru, for whatever reason. The kernel kills Samba if this program is killed. The exit code is
that of Samba, or 128 and the number of the signal that ended it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Any, NoReturn

if __name__ == "__main__":
    # `python -I -S` finds only the standard library. hakaru's folder comes last, so that it hides
    # no standard module.
    sys.path.append(os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100

from hakaru import system_calls
from hakaru.system_calls import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
)

EXIT_ENVIRONMENT = 3
EXIT_LOST = 7
_PORTS_OF_ROOT = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
_MESSAGE_MAX_BYTES = 4096
_PORT = 445
_SOCKETS = "/proc/self/net/tcp"
_STATE_LISTEN = "0A"
# Nothing reports that a socket listens, so the list of sockets is read in this interval.
_LISTEN_INTERVAL_MS = 1
# After this time Samba and its children are killed instead of asked to end.
_GRACE_MS = 5000

Order = dict[str, Any]
"""`network`: descriptor of the network namespace. `uid`: id of the user. `folder`: an existing
folder that the tmpfs hides. `folders` and `files`: content of the tmpfs. `users`: name → password.
`add_user`, `server`: commands.
"""


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def enter_network(descriptor: int) -> None:
    """Move into the network namespace of a node and let ordinary users listen on every port."""
    system_calls.setns(descriptor, CLONE_NEWNET)
    # Belongs to the namespace of the node, and ends with it.
    _write(_PORTS_OF_ROOT, "0")


def become_user(identity: int) -> None:
    """Move into new namespaces, in which this user has the id `identity`. The next child is the
    first process of a PID namespace.
    """
    uid, gid = os.geteuid(), os.getegid()
    system_calls.unshare(CLONE_NEWUSER | CLONE_NEWNS)
    # A user may map their own ids once groups can no longer be dropped (user_namespaces(7)).
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{identity} {uid} 1")
    _write("/proc/self/gid_map", f"{identity} {gid} 1")
    system_calls.mount(None, "/", None, MS_REC | MS_PRIVATE)


def fill(folder: str, order: Order) -> None:
    """Mount the tmpfs, create the files in it, and put two of them in the place of those of the
    machine.
    """
    system_calls.mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV)
    for name in order["folders"]:
        os.mkdir(f"{folder}/{name}", 0o755)  # noqa: PTH102
    for name, text in order["files"].items():
        _write(f"{folder}/{name}", text)
    for name in ("passwd", "group"):
        system_calls.mount(f"{folder}/{name}", f"/etc/{name}", None, MS_BIND)


def add_users(order: Order) -> None:
    """Give each user a password. Raises OSError with the message of Samba."""
    for name, password in order["users"].items():
        done = subprocess.run(
            [*order["add_user"], name],
            input=f"{password}\n{password}\n",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise OSError(0, f"{name}: {(done.stderr + done.stdout).strip()}")


def _run(command: list[str], lifeline: int, notify: str) -> NoReturn:
    """Run Samba as the first process of its PID namespace."""
    # The kernel forgets this request when a process changes its credentials, so it comes last.
    system_calls.set_parent_death_signal(signal.SIGKILL)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    if poll.poll(0):
        os._exit(EXIT_LOST)
    # Its output is the log. Stdout of this program is for hakaru.
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ["NOTIFY_SOCKET"] = notify
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    os._exit(EXIT_ENVIRONMENT)


def serve(command: list[str], notify: str) -> int:
    """Run Samba until it or stdin ends, and return the exit code."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as messages:
        messages.bind(notify)
        ours, theirs = os.pipe()
        system_calls.unshare(CLONE_NEWPID)
        child = os.fork()
        if child == 0:
            os.close(theirs)
            _run(command, ours, notify)
        os.close(ours)
        ended = os.pidfd_open(child)
        poll = select.poll()
        for readable in (sys.stdin.fileno(), messages.fileno(), ended):
            poll.register(readable, select.POLLIN)
        starts = False
        while True:
            ready = {descriptor for descriptor, _ in poll.poll(_LISTEN_INTERVAL_MS if starts else None)}
            if messages.fileno() in ready and b"READY=1" in messages.recv(_MESSAGE_MAX_BYTES).split(b"\n"):
                starts = True
            if starts and is_listening(_PORT):
                starts = False
                sys.stdout.write(f"ready {child}\n")
                sys.stdout.flush()
            if ended in ready:
                break
            if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), _MESSAGE_MAX_BYTES):
                _stop(child, ended)
                break
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return code if code >= 0 else 128 - code


def is_listening(port: int) -> bool:
    """Whether a socket of this network namespace listens on a TCP port over IPv4."""
    with open(_SOCKETS) as table:  # noqa: PTH123
        rows = [line.split() for line in table][1:]
    # sl local_address rem_address st …, addresses as ADDRESS:PORT in hexadecimal.
    return any(row[3] == _STATE_LISTEN and int(row[1].rpartition(":")[2], 16) == port for row in rows)


def _stop(child: int, ended: int) -> None:
    """Ask Samba to end, then kill it; with it the kernel kills all other processes of its PID
    namespace.
    """
    os.kill(child, signal.SIGTERM)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    if not poll.poll(_GRACE_MS):
        os.kill(child, signal.SIGKILL)


def main() -> int:
    """Carry out the order on stdin. If a step fails, say so on stderr and return 3."""
    order: Order = json.loads(_read_line(sys.stdin.fileno()))
    folder = order["folder"]
    step = "entering the network of the node"
    try:
        enter_network(order["network"])
        step = "making a user namespace"
        become_user(order["uid"])
        step = f"mounting a tmpfs on {folder}"
        fill(folder, order)
        step = "adding users"
        add_users(order)
        step = "making a PID namespace"
        return serve(order["server"], f"{folder}/notify")
    except OSError as error:
        sys.stderr.write(f"{step} failed: {error.strerror}\n")
        return EXIT_ENVIRONMENT


def _read_line(descriptor: int) -> bytes:
    """Read a line without buffering bytes behind it."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(descriptor, 65536)
        if not chunk:
            sys.exit(EXIT_LOST)
        line += chunk
    return line


if __name__ == "__main__":
    sys.exit(main())
