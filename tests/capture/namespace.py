"""A network namespace that an ordinary user created, and in which only that user may capture."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.peers.array import need


class Namespace:
    """A namespace whose loopback is up. It ends with the process that holds it."""

    def __init__(self) -> None:
        need("nsenter", "util-linux")
        unshare = [need("unshare", "util-linux"), "--user", "--map-root-user", "--net"]
        self._keeper = subprocess.Popen(
            [*unshare, "sh", "-c", "ip link set lo up && echo ready && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != b"ready\n":
            self.close()
            pytest.skip("no network namespace can be created here")
        target = str(self._keeper.pid)
        self.inside = ("nsenter", "--user", "--preserve-credentials", "--net", "--target", target)

    def run(self, *words: str) -> str:
        """Run a command that must succeed in the namespace; return its stdout."""
        return subprocess.run([*self.inside, *words], capture_output=True, text=True, check=True, timeout=120).stdout

    def cable(self, near: str, far: str) -> None:
        """Create two connected interfaces that are up."""
        self.run("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        self.run("ip", "link", "set", near, "up")
        self.run("ip", "link", "set", far, "up")

    def send_frame(self, interface: str, types: str) -> None:
        """Send a broadcast frame: the addresses, `types` (hexadecimal), a hundred zero bytes."""
        script = (
            "import socket\n"
            "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
            f"s.bind(({interface!r}, 0))\n"
            f"s.send(bytes.fromhex('ffffffffffff 020000000001 {types}') + bytes(100))"
        )
        self.run("python3", "-c", script)

    def close(self) -> None:
        """End the namespace and all processes in it."""
        self._keeper.kill()
        self._keeper.communicate()


@contextmanager
def namespace() -> Iterator[Namespace]:
    """Provide a namespace for the length of a test."""
    created = Namespace()
    try:
        yield created
    finally:
        created.close()
