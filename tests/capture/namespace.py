"""A network namespace that an ordinary user made: there, and only there, that user may capture."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.peers.array import need


class Namespace:
    """Its loopback is up; it is gone with the process that keeps it."""

    def __init__(self) -> None:
        need("nsenter", "util-linux")
        alone = [need("unshare", "util-linux"), "--user", "--map-root-user", "--net"]
        self._keeper = subprocess.Popen(
            [*alone, "sh", "-c", "ip link set lo up && echo ready && exec cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != b"ready\n":
            self.close()
            pytest.skip("no network namespace can be made here")
        target = str(self._keeper.pid)
        self.inside = ("nsenter", "--user", "--preserve-credentials", "--net", "--target", target)

    def run(self, *words: str) -> str:
        """What a command said there; it must succeed."""
        return subprocess.run([*self.inside, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def cable(self, one: str, other: str) -> None:
        """Two interfaces that are up, and what goes into one comes out of the other."""
        self.run("ip", "link", "add", one, "type", "veth", "peer", "name", other)
        self.run("ip", "link", "set", one, "up")
        self.run("ip", "link", "set", other, "up")

    def send_frame(self, interface: str, types: str) -> None:
        """One to all: the addresses, these bytes (hexadecimal), a hundred more."""
        script = (
            "import socket\n"
            "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
            f"s.bind(({interface!r}, 0))\n"
            f"s.send(bytes.fromhex('ffffffffffff 020000000001 {types}') + bytes(100))"
        )
        self.run("python3", "-c", script)

    def close(self) -> None:
        """Ends it, whatever is still in it."""
        self._keeper.kill()
        self._keeper.communicate()


@contextmanager
def namespace() -> Iterator[Namespace]:
    """One for the length of a test."""
    made = Namespace()
    try:
        yield made
    finally:
        made.close()
