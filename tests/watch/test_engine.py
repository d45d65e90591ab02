"""What the watch engine refuses, what it leaves behind, and what it says of its own work."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine.binary import find_engine
from hakaru.store import read_series, series_table

from tests.peers.array import Engine


def tcp(folder: Path, **changes: Any) -> dict[str, Any]:
    """A TCP watch's configuration."""
    return {"interval_us": 1000, "trace": "off", "file": str(folder / "tcp.series")} | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"interval_us": 999}, "tcp.interval_us is 999; it must be 1000 to 60000000"),
        ({"ports": list(range(1, 66))}, "tcp.ports has 65 ports; at most 64 are allowed"),
        ({"ports": [0]}, "port 0"),
        ({"file": "/nowhere/tcp.series"}, "cannot write the TCP series /nowhere/tcp.series"),
    ],
    ids=["interval", "number of ports", "port 0", "folder"],
)
def test_configuration_that_cannot_be_is_refused_with_what_and_where(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    assert said in refused([], tcp(tmp_path, **changes))


def test_tracing_that_is_demanded_and_forbidden_is_refused_with_the_reason(tmp_path: Path) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("user namespaces are forbidden here")
    said = refused(alone, tcp(tmp_path, trace="on"))
    assert "cannot trace TCP" in said
    assert "CAP_" in said


def refused(prefix: list[str], config: dict[str, Any]) -> str:
    """What the engine says when it is configured so; it ends by itself and not well."""
    order = {"type": "configure", "contract": 1, "config": {"engine": "watch", "tcp": config}}
    done = subprocess.run(
        [*prefix, find_engine(), "run"],
        input=json.dumps(order) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode in (2, 3)
    assert "hint: " in done.stderr
    return done.stderr


def connection() -> tuple[socket.socket, socket.socket, int]:
    """A connection over loopback, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        server, _ = listener.accept()
    return client, server, port


def until_recorded(engine: Engine, readings: int) -> dict[str, float]:
    """Waits until so many readings were made; the counters of then."""
    while True:
        counters: dict[str, float] = engine.hear("sample")["counters"]["tcp_watch"]
        if counters["readings"] >= readings:
            return counters


def test_both_ends_of_a_connection_are_read_and_no_other(tmp_path: Path) -> None:
    client, server, port = connection()
    stranger = connection()
    client.sendall(bytes(1000))
    assert len(server.recv(1000, socket.MSG_WAITALL)) == 1000
    config = {"engine": "watch", "sample_interval_ms": 100, "tcp": tcp(tmp_path, ports=[port])}
    engine = Engine(config)
    try:
        engine.say({"type": "start", "at_ns": 0})
        until_recorded(engine, 50)
        engine.stop()
    finally:
        engine.close()
        for end in (client, server, *stranger[:2]):
            end.close()
    rows = series_table("here", read_series(tmp_path / "tcp.series")).to_pylist()
    assert len({row["socket"] for row in rows}) == 2
    assert all(f":{port}" in (row["local"] + row["peer"]) for row in rows)
    assert {row["state"] for row in rows} == {"established"}
    sender = [row for row in rows if row["peer"] == f"127.0.0.1:{port}"]
    assert {row["sent_bytes"] for row in sender} <= {1000, None}
    assert all(row["retransmits"] == 0 and row["congestion_window_bytes"] > 0 for row in rows)


def test_series_ends_at_its_limit_and_what_is_missing_is_counted(tmp_path: Path) -> None:
    client, server, port = connection()
    limit = 20_000
    config = tcp(tmp_path, ports=[port], file_bytes_max=limit)
    engine = Engine({"engine": "watch", "sample_interval_ms": 100, "tcp": config})
    try:
        engine.say({"type": "start", "at_ns": 0})
        until_recorded(engine, 500)
        values = engine.stop()
    finally:
        engine.close()
        client.close()
        server.close()
    assert values["tcp_records_dropped"] > 0
    assert (tmp_path / "tcp.series").stat().st_size <= limit
    assert not read_series(tmp_path / "tcp.series").cut


def test_killed_tracer_leaves_nothing_behind(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may trace")
    client, server, port = connection()
    mounts = Path("/proc/mounts").read_text()
    config = tcp(tmp_path, ports=[port], trace="on")
    engine = Engine({"engine": "watch", "sample_interval_ms": 100, "tcp": config})
    try:
        engine.say({"type": "start", "at_ns": 0})
        # More than is kept back before a piece is written.
        until_recorded(engine, 3000)
        assert Path("/proc/mounts").read_text() == mounts, "tracefs is in no tree"
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait(10)
    finally:
        engine.close()
        client.close()
        server.close()
    assert Path("/proc/mounts").read_text() == mounts
    # What it had written can be read.
    assert len(read_series(tmp_path / "tcp.series").kinds["sock_diag"]) > 0
