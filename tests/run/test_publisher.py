"""The socket of a run: what readers get, and that none of them can delay the run."""

from __future__ import annotations

import errno
import json
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hakaru import unix_socket
from hakaru.run.publisher import CLOSE_S, READERS_MAX, SOCKET, Publisher


class Reader:
    """A client that reads lines with a time limit."""

    def __init__(self, directory: Path) -> None:
        self.connection = unix_socket.connect(directory, SOCKET, 60)
        self.lines = self.connection.makefile("r", encoding="utf-8")

    def events(self, count: int) -> list[Any]:
        return [json.loads(self.lines.readline()) for _ in range(count)]

    def rest(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Publisher]:
    publisher = Publisher()
    publisher.open(tmp_path)
    yield publisher
    publisher.close()


def publish(publisher: Publisher, name: str, **values: Any) -> None:
    publisher.publish(name, json.dumps({"event": name, **values}))


def test_only_the_owner_has_access_and_nothing_remains(publisher: Publisher, tmp_path: Path) -> None:
    mode = (tmp_path / SOCKET).stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    publisher.close()
    assert list(tmp_path.iterdir()) == []


def test_a_late_reader_gets_what_happened_and_then_what_follows(publisher: Publisher, tmp_path: Path) -> None:
    publish(publisher, "run_started")
    publish(publisher, "repetition_started", n=1)
    publish(publisher, "sample", n=1)
    early = Reader(tmp_path)
    assert [e["event"] for e in early.events(3)] == ["run_started", "repetition_started", "sample"]
    publish(publisher, "result", n=1)
    publish(publisher, "repetition_started", n=2)
    publish(publisher, "sample", n=2)
    late = Reader(tmp_path)
    # Samples of earlier repetitions are not kept.
    names = ["run_started", "repetition_started", "result", "repetition_started", "sample"]
    assert [e["event"] for e in late.events(5)] == names
    publish(publisher, "done")
    assert [late.events(1), early.events(4)[-1:]] == [[{"event": "done"}]] * 2
    publisher.close()
    assert [late.rest(), early.rest()] == [[], []]


def test_the_socket_follows_the_directory_when_it_is_renamed(tmp_path: Path) -> None:
    partial = tmp_path / "run.partial"
    partial.mkdir()
    publisher = Publisher()
    publisher.open(partial)
    final = partial.rename(tmp_path / "run")
    publish(publisher, "done")
    assert Reader(final).events(1) == [{"event": "done"}]
    publisher.close()
    assert list(final.iterdir()) == []


def test_the_socket_of_a_killed_run_is_replaced(tmp_path: Path) -> None:
    unix_socket.bind(tmp_path, SOCKET).close()
    with pytest.raises(ConnectionRefusedError):
        unix_socket.connect(tmp_path, SOCKET)
    publisher = Publisher()
    publisher.open(tmp_path)
    Reader(tmp_path).close()
    publisher.close()


def test_a_path_longer_than_the_address_of_a_socket_is_possible(tmp_path: Path) -> None:
    deep = tmp_path / ("long" * 30)
    deep.mkdir()
    publisher = Publisher()
    publisher.open(deep)
    publish(publisher, "done")
    assert Reader(deep).events(1) == [{"event": "done"}]
    publisher.close()


def test_a_directory_without_a_socket_ends_no_run(tmp_path: Path) -> None:
    publisher = Publisher()
    publisher.open(tmp_path / "missing")
    publish(publisher, "done")
    publisher.close()
    assert publisher.error == "No such file or directory"


def test_a_reader_that_stops_reading_is_dropped_with_a_notice_and_others_are_not(tmp_path: Path) -> None:
    limit = 1 << 20
    publisher = Publisher(queue_max_bytes=limit)
    publisher.open(tmp_path)
    stopped, healthy = Reader(tmp_path), Reader(tmp_path)
    publish(publisher, "run_started")
    assert [stopped.events(1), healthy.events(1)] == [[{"event": "run_started"}]] * 2
    padding, count, longest_s = "x" * 1000, 3000, 0.0
    for n in range(count):
        began = time.monotonic()
        publish(publisher, "sample", n=n, padding=padding)
        longest_s = max(longest_s, time.monotonic() - began)
        # One reader keeps up; the queue of the other grows to three times the limit.
        assert healthy.events(1)[0]["n"] == n
    rest = stopped.rest()
    assert rest[-1] == {"event": "dropped", "at": rest[-1]["at"], "reason": "the reader is too slow"}
    numbers = [event["n"] for event in rest[:-1]]
    assert numbers == list(range(len(numbers))), "the lines before the notice are complete and in order"
    assert len(numbers) < count
    # A blocked call would wait for the reader, which never reads.
    assert longest_s < 60
    publisher.close()


def test_readers_that_leave_are_forgotten(publisher: Publisher, tmp_path: Path) -> None:
    for _ in range(3 * READERS_MAX):
        reader = Reader(tmp_path)
        publish(publisher, "sample")
        reader.events(1)
        reader.close()
    # The place of a reader that left is free again.
    publish(publisher, "done")
    assert Reader(tmp_path).events(1) == [{"event": "done"}]


def test_a_reader_too_many_learns_why_it_is_disconnected(publisher: Publisher, tmp_path: Path) -> None:
    publish(publisher, "run_started")
    readers = [Reader(tmp_path) for _ in range(READERS_MAX)]
    assert all(reader.events(1) for reader in readers)
    extra = Reader(tmp_path)
    (refused,) = extra.rest()
    assert refused == {"event": "refused", "at": refused["at"], "reason": "32 readers watch the run already"}
    # The place of one that leaves is free again.
    readers[0].close()
    publish(publisher, "done")
    assert [reader.events(1) for reader in readers[1:]] == [[{"event": "done"}]] * (READERS_MAX - 1)


def test_the_end_of_a_run_does_not_wait_for_a_reader_that_stopped(tmp_path: Path) -> None:
    publisher = Publisher()
    publisher.open(tmp_path)
    stopped = unix_socket.connect(tmp_path, SOCKET, 60)
    assert isinstance(stopped, socket.socket)
    for n in range(2000):
        publish(publisher, "sample", n=n, padding="x" * 1000)
    began = time.monotonic()
    publisher.close()
    # A call that waits for the reader would never return.
    assert time.monotonic() - began < CLOSE_S + 60
    stopped.close()


def test_reader_without_a_descriptor_waits_for_the_next_event(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread would otherwise use a processor that the measurement needs."""
    refused: list[None] = []

    def accept(_: socket.socket) -> None:
        refused.append(None)
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(socket.socket, "accept", accept)
        reader = Reader(tmp_path)
        deadline = time.monotonic() + 60
        events = 0
        while len(refused) < 5 and time.monotonic() < deadline:
            publish(publisher, "repetition", n=events)
            events += 1
            time.sleep(0.001)
        assert 5 <= len(refused) <= events + 1
    publish(publisher, "done")
    assert [event["event"] for event in reader.events(events + 1)][-1] == "done"
    reader.close()
