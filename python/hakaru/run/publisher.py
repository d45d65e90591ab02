"""The events of a run on a Unix socket in its directory, for views of the run while it lasts.

    publisher.open(directory)     creates `live.sock`, which stays open if the directory is renamed
    publisher.publish(line)       queues one JSON line; never blocks
    publisher.close()             sends what the kernel takes at once, and removes the socket

Every reader first gets what happened so far: all events but the samples of earlier repetitions.
Readers send nothing. A thread does the I/O, so that no reader can delay the run. The queue of a
reader is bounded. A reader that falls too far behind gets one last event, `dropped`, and loses its
connection; it may connect again. A reader beyond the limit gets the event `refused` instead.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import os
import selectors
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from hakaru import unix_socket

SOCKET = "live.sock"
READERS_MAX = 32
REFUSED = "refused"
"""Event for a reader beyond the limit, before its connection is closed."""
QUEUE_MAX_BYTES = 32 << 20
"""Longest queue of one reader. The events `point` at the end of a run of a hundred points have
10 MB.
"""
SAMPLES_MAX = 3600
"""Samples of the current repetition that a new reader gets: those of the last hour."""
CLOSE_S = 0.25
"""Time at the end of a run for readers that are behind, all together."""
SEND_BYTES = 1 << 18


@dataclass
class _Reader:
    """One connection. `queue` holds lines, the first of which may be partly sent."""

    connection: socket.socket
    queue: collections.deque[bytes]
    sent: int = 0
    queued_bytes: int = 0
    """Size of the lines queued after those that the reader got when it connected."""
    first_bytes: int = 0
    """Size of the lines that were there when it connected and are still queued."""
    dropped: bool = False

    def add(self, line: bytes, limit_bytes: int) -> None:
        """Queue a line. If the queue is too long, drop it and leave the notice."""
        if self.dropped:
            return
        if self.queued_bytes + len(line) > limit_bytes:
            # A line that is partly sent is completed, so that the notice is a line of its own.
            rest = [self.queue[0]] if self.sent else []
            self.queue = collections.deque([*rest, _notice("dropped", "the reader is too slow")])
            self.dropped = True
            return
        self.queue.append(line)
        self.queued_bytes += len(line)

    def send(self) -> bool:
        """Send what the kernel takes. Returns False if the connection is to be closed."""
        while self.queue:
            piece = memoryview(self.queue[0])[self.sent : self.sent + SEND_BYTES]
            try:
                self.sent += self.connection.send(piece)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if self.sent == len(self.queue[0]):
                size = len(self.queue.popleft())
                self.sent = 0
                of_first = min(size, self.first_bytes)
                self.first_bytes -= of_first
                self.queued_bytes -= size - of_first
        return not self.dropped


@dataclass
class _History:
    """Events for readers that connect later."""

    lines: list[bytes] = field(default_factory=list)
    samples: collections.deque[bytes] = field(default_factory=lambda: collections.deque(maxlen=SAMPLES_MAX))

    def add(self, name: str, line: bytes) -> None:
        if name == "sample":
            self.samples.append(line)
            return
        if name in ("repetition_started", "result", "repetition"):
            self.samples.clear()
        self.lines.append(line)


class Publisher:
    """Serves the events of one run. Every method may be called in any state and raises nothing,
    because a run does not depend on its views.
    """

    def __init__(self, *, queue_max_bytes: int = QUEUE_MAX_BYTES) -> None:
        self._queue_max_bytes = queue_max_bytes
        self._lock = threading.RLock()
        self._history = _History()
        self._readers: dict[int, _Reader] = {}
        self._directory = -1
        self._thread: threading.Thread | None = None
        self._closing = False
        self.error: str | None = None
        """Why the run has no socket; None if it has one."""

    def open(self, directory: Path) -> None:
        """Create the socket in `directory`, in place of that of a killed run."""
        try:
            self._directory = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(SOCKET, dir_fd=self._directory)
            listener = unix_socket.bind(directory, SOCKET)
            listener.listen(READERS_MAX)
        except OSError as e:
            self.error = e.strerror or str(e)
            return
        self._wake_receiver, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._wake_receiver.setblocking(False)
        self._thread = threading.Thread(target=self._serve, args=(listener,), name="live", daemon=True)
        self._thread.start()

    def publish(self, name: str, line: str) -> None:
        """Queue the event `name` for every reader, present and future. `line` is its JSON."""
        raw = line.encode() + b"\n"
        with self._lock:
            self._history.add(name, raw)
            for reader in self._readers.values():
                reader.add(raw, self._queue_max_bytes)
        self._notify()

    def close(self) -> None:
        """Disconnect all readers and remove the socket. Readers that are behind delay this by at
        most a quarter of a second.
        """
        if self._thread is not None:
            self._closing = True
            self._notify()
            self._thread.join()
            self._thread = None
        if self._directory >= 0:
            with contextlib.suppress(OSError):
                os.unlink(SOCKET, dir_fd=self._directory)
            os.close(self._directory)
            self._directory = -1

    def _notify(self) -> None:
        if self._thread is not None:
            # Full: the thread is about to wake up. Closed: it has failed, which ends the views.
            with contextlib.suppress(OSError):
                self._wake.send(b"\0")

    def _serve(self, listener: socket.socket) -> None:
        """The thread: accept, send, and notice readers that leave."""
        with selectors.DefaultSelector() as selector, listener, self._wake, self._wake_receiver:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            while not self._closing:
                self._turn(selector, listener, None)
            deadline = time.monotonic() + CLOSE_S
            if listener in selector.get_map():
                selector.unregister(listener)
            while (left := deadline - time.monotonic()) > 0 and any(r.queue for r in self._readers.values()):
                self._turn(selector, listener, left)
            for reader in list(self._readers.values()):
                self._forget(selector, reader)

    def _turn(self, selector: selectors.BaseSelector, listener: socket.socket, timeout_s: float | None) -> None:
        for key, events in selector.select(timeout_s):
            if key.fileobj is listener:
                if not self._accept(selector, listener):
                    selector.unregister(listener)
            elif key.fileobj is self._wake_receiver:
                with contextlib.suppress(BlockingIOError):
                    self._wake_receiver.recv(4096)
                if listener not in selector.get_map() and not self._closing:
                    selector.register(listener, selectors.EVENT_READ)
            elif events & selectors.EVENT_READ and not _is_open(key.data.connection):
                self._forget(selector, key.data)
        with self._lock:
            for reader in list(self._readers.values()):
                if not reader.send():
                    self._forget(selector, reader)
                    continue
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if reader.queue else 0)
                if selector.get_key(reader.connection).events != wanted:
                    selector.modify(reader.connection, wanted, reader)

    def _accept(self, selector: selectors.BaseSelector, listener: socket.socket) -> bool:
        """Accept a reader. Returns False if this process has no descriptor for it: the connection
        then waits until the next event, and does not wake the thread meanwhile.
        """
        try:
            connection, _ = listener.accept()
        except OSError as error:
            return error.errno not in (errno.EMFILE, errno.ENFILE)  # others: the reader has left
        connection.setblocking(False)
        if len(self._readers) >= READERS_MAX:
            # The buffer of a new connection is empty, so that the notice fits.
            with connection, contextlib.suppress(OSError):
                connection.send(_notice(REFUSED, f"{READERS_MAX} readers watch the run already"))
            return True
        with self._lock:
            queue = collections.deque([*self._history.lines, *self._history.samples])
            reader = _Reader(connection, queue, first_bytes=sum(map(len, queue)))
            self._readers[connection.fileno()] = reader
        selector.register(connection, selectors.EVENT_READ, reader)
        return True

    def _forget(self, selector: selectors.BaseSelector, reader: _Reader) -> None:
        with self._lock:
            self._readers.pop(reader.connection.fileno(), None)
        selector.unregister(reader.connection)
        reader.connection.close()


def _notice(name: str, reason: str) -> bytes:
    """The line of an event that ends a connection."""
    event = {"event": name, "at": round(time.time(), 3), "reason": reason}
    return json.dumps(event).encode() + b"\n"


def _is_open(connection: socket.socket) -> bool:
    """Whether a reader is still there. Discards what it sends."""
    try:
        return bool(connection.recv(4096))
    except BlockingIOError:
        return True
    except OSError:
        return False
