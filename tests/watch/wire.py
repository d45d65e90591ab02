"""Two hosts in network namespaces, and a wire that delays every frame between them and loses chosen
frames.

Run this inside a new network namespace, which holds the near ends of both links. The wire is slow
because it moves single frames, so that a test can choose which frame is lost. Fast networks use the
fabric engine.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ADDRESS = {"a": "10.9.0.1", "b": "10.9.0.2"}
ETH_P_ALL = 3
CLONE_NEWNET = 0x4000_0000
PACKET_OUTGOING = 4
_libc = ctypes.CDLL(None, use_errno=True)


def run(*words: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Host:
    """A namespace with one interface `eth0`; its other end is `pNAME` in this namespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self.namespace = Path(f"/proc/{self._process.pid}/ns/net")
        try:
            self._connect(name)
        except BaseException:
            self.end()
            raise

    def _connect(self, name: str) -> None:
        here = Path("/proc/self/ns/net").readlink()
        while self.namespace.readlink() == here:
            os.sched_yield()
        pid = str(self._process.pid)
        run("ip", "link", "add", f"p{name}", "type", "veth", "peer", "name", "eth0", "netns", pid)
        run("ip", "link", "set", f"p{name}", "up")
        for end in (["ethtool", "-K", f"p{name}"], self.inside("ethtool", "-K", "eth0")):
            run(*end, "tx", "off", "tso", "off", "gso", "off", "gro", "off")
        run(*self.inside("ip", "address", "add", f"{ADDRESS[name]}/24", "dev", "eth0"))
        run(*self.inside("ip", "link", "set", "eth0", "up"))
        run(*self.inside("ip", "link", "set", "lo", "up"))

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def inside(self, *words: str) -> list[str]:
        """Return the command that runs `words` in the namespace."""
        return ["nsenter", f"--net={self.namespace}", *words]

    def set(self, name: str, value: str) -> None:
        """Set an IPv4 sysctl of the namespace."""
        run(*self.inside("sh", "-c", f"echo '{value}' > /proc/sys/net/ipv4/{name}"))

    def set_rto_min(self, rto_min_ms: int) -> None:
        """Set the shortest retransmission timeout towards the other host."""
        network = ADDRESS[self.name].rpartition(".")[0] + ".0/24"
        run(*self.inside("ip", "route", "change", network, "dev", "eth0", "rto_min", f"{rto_min_ms}ms"))

    def socket(self) -> socket.socket:
        """Return a TCP socket of the namespace. The thread returns to its own namespace."""
        own_namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        host_namespace = os.open(self.namespace, os.O_RDONLY)
        try:
            _enter(host_namespace)
            tcp_socket = socket.socket()
            _enter(own_namespace)
        finally:
            os.close(own_namespace)
            os.close(host_namespace)
        tcp_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tcp_socket.settimeout(20)
        return tcp_socket

    def end(self) -> None:
        """Remove the namespace."""
        self._process.kill()
        self._process.wait()


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Wire(threading.Thread):
    """A thread that moves frames between `pa` and `pb` after `delay_s`, and loses those frames of
    `a` for which `loses(frame)` is true.
    """

    def __init__(self, delay_s: float, loses: Callable[[bytes], bool]) -> None:
        super().__init__(daemon=True)
        self._delay_s, self._loses, self._ended = delay_s, loses, False
        self._ports = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) for _ in "ab"]
        for port, name in zip(self._ports, "ab", strict=True):
            port.bind((f"p{name}", 0))
            port.setblocking(False)
        self.start()

    def run(self) -> None:
        """Move frames until `end` is called."""
        waiting: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()
        while not self._ended:
            wait_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.05
            readable, _, _ = select.select(self._ports, [], [], wait_s)
            for port in readable:
                target = self._ports[1 - self._ports.index(port)]
                for frame in _frames(port):
                    if not (port is self._ports[0] and self._loses(frame)):
                        waiting.append((time.monotonic() + self._delay_s, target, frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _, target, frame = waiting.popleft()
                with contextlib.suppress(BlockingIOError):
                    target.send(frame)

    def end(self) -> None:
        """Stop moving frames."""
        self._ended = True
        self.join()


def _frames(port: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(BlockingIOError):
        while True:
            frame, source = port.recvfrom(2000)
            if source[2] != PACKET_OUTGOING:
                yield frame


def tcp_payload(frame: bytes) -> int:
    """Return the bytes of TCP payload in a frame, or 0 for other frames."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return 0
    header = 4 * (frame[14] & 15)
    return int.from_bytes(frame[16:18]) - header - 4 * (frame[14 + header + 12] >> 4)
