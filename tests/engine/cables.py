"""An array and a load in namespaces of their own, joined by several cables, each of which a test
can cut. No root is needed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.capture.namespace import Namespace, namespace
from tests.peers.array import need


class Cables:
    """The namespaces of an array and of a load. Cable N, from 0, has the network 10.9.N.0/24, the
    array the address 10.9.N.1 and the load 10.9.N.2.
    """

    def __init__(self, load: Namespace, count: int) -> None:
        self.load = load
        self.portals = [f"10.9.{cable}.1:3260" for cable in range(count)]
        command = [*load.inside, need("unshare", "util-linux"), "--net", "cat"]
        self._array = subprocess.Popen(command, stdin=subprocess.PIPE)
        pid = str(self._array.pid)
        self.of_array = (*load.inside[:-1], pid)
        try:
            self._wait_for_namespace()
            for cable in range(count):
                far = ("peer", "name", f"b{cable}", "netns", pid)
                load.run("ip", "link", "add", f"a{cable}", "type", "veth", *far)
                load.run("ip", "address", "add", f"10.9.{cable}.2/24", "dev", f"a{cable}")
                load.run("ip", "link", "set", f"a{cable}", "up")
                self._run("ip", "address", "add", f"10.9.{cable}.1/24", "dev", f"b{cable}")
                self.mend(cable)
        except BaseException:
            self.close()
            raise

    def _wait_for_namespace(self) -> None:
        """Wait until the array's process has left the namespace of the load."""
        of_load = self.load.run("readlink", "/proc/self/ns/net").strip()
        own = Path("/proc/self/ns/net").readlink()
        link = Path(f"/proc/{self._array.pid}/ns/net")
        while str(link.readlink()) in (of_load, str(own)):
            assert self._array.poll() is None, "no network namespace can be created here"

    def _run(self, *words: str) -> None:
        subprocess.run([*self.of_array, *words], check=True, capture_output=True, timeout=60)

    def cut(self, cable: int) -> None:
        """Cut a cable: frames are lost in both directions. No connection ends because of that."""
        self._run("ip", "link", "set", f"b{cable}", "down")

    def mend(self, cable: int) -> None:
        """Repair a cable."""
        self._run("ip", "link", "set", f"b{cable}", "up")

    def close(self) -> None:
        """Remove the namespace of the array."""
        self._array.kill()
        self._array.communicate()


@contextmanager
def cables(count: int) -> Iterator[Cables]:
    """Provide the namespaces and cables for the length of a test."""
    with namespace() as load:
        joined = Cables(load, count)
        try:
            yield joined
        finally:
            joined.close()
