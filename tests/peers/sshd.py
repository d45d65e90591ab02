"""OpenSSH's server on loopback, with keys of its own, in the place of another machine.

    with sshd(folder) as server:          an ordinary process, ended by its process ID
        client(folder, {"kvm-1": server})  → a folder for PATH, whose `ssh` knows these hosts

Nothing of the user's own SSH configuration is read or changed.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.peers.array import need

SERVER = "/usr/sbin/sshd"
# The server changes to this empty folder when it runs as root. Its package creates it at boot.
_EMPTY = Path("/run/sshd")


@dataclass(frozen=True)
class Sshd:
    """A running server."""

    port: int
    host_key: str
    identity: Path
    """Private key that may log in."""
    process: subprocess.Popen[bytes]

    def sessions(self) -> list[int]:
        """Return the processes that serve connections, and those that these have started, parents
        first.
        """
        return _descendants(self.process.pid)

    def signal_sessions(self, number: signal.Signals) -> list[int]:
        """Send a signal to the server's own processes of all connections, and return them."""
        servers = [pid for pid in self.sessions() if _name(pid).startswith("sshd")]
        for pid in servers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return servers


@contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """Run a server that admits this user by one key. Skip the test if it is not installed."""
    need("ssh", "openssh-client")
    if not Path(SERVER).is_file():
        pytest.skip("sshd is not installed (package openssh-server)")
    folder.mkdir(parents=True)
    if os.geteuid() == 0:
        _EMPTY.mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(generate, check=True, stdin=subprocess.DEVNULL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\n"
        "UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPrintMotd no\n"
    )
    log = (folder / "log").open("wb")
    with (
        log,
        subprocess.Popen([SERVER, "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stderr=log) as process,
    ):
        try:
            _wait_for(port, process, folder / "log")
            yield Sshd(port, (folder / "host.pub").read_text(), folder / "user", process)
        finally:
            left = _descendants(process.pid)
            process.terminate()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 5):
            return
        time.sleep(0.01)
    pytest.fail(f"sshd did not start: {log.read_text(errors='replace')}")


def client(folder: Path, servers: Mapping[str, Sshd], *, known: bool = True, extra: str = "") -> Path:
    """Write a client configuration with these hosts, and a program `ssh` that uses it. Return its
    folder.

    `known`: whether the hosts' keys are known. `extra`: further lines of the configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)
    real = shutil.which("ssh", path=os.defpath + ":/usr/local/bin")
    assert real is not None
    keys = [f"[127.0.0.1]:{server.port} {server.host_key}" for server in servers.values()]
    (folder / "known_hosts").write_text("".join(keys) if known else "")
    hosts = [
        f"Host {name}\n HostName 127.0.0.1\n Port {server.port}\n IdentityFile {server.identity}\n"
        for name, server in servers.items()
    ]
    (folder / "config").write_text(
        "".join(hosts) + f"Host *\n User {getpass.getuser()}\n IdentitiesOnly yes\n IdentityAgent none\n"
        f" UserKnownHostsFile {folder}/known_hosts\n GlobalKnownHostsFile none\n{extra}"
    )
    program = folder / "ssh"
    program.write_text(f'#!/bin/sh\nexec {real} -F {folder}/config "$@"\n')
    program.chmod(0o755)
    return folder


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
