"""The watch engine: refused configurations, files after its end, and counters of its own work."""

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
    """Return a configuration that watches TCP."""
    return {"interval_us": 1000, "trace": "off", "file": str(folder / "tcp.series")} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"interval_us": 999}, "tcp.interval_us is 999; it must be 1000 to 60000000"),
        ({"ports": list(range(1, 66))}, "tcp.ports has 65 ports; at most 64 are allowed"),
        ({"ports": [0]}, "port 0"),
        ({"file": "/nowhere/tcp.series"}, "cannot write the TCP series /nowhere/tcp.series"),
    ],
    ids=["interval", "number of ports", "port 0", "folder"],
)
def test_invalid_configuration_is_refused_with_field_and_value(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    assert message in error_of([], tcp(tmp_path, **changes))


def test_required_but_forbidden_tracing_is_refused_with_the_reason(tmp_path: Path) -> None:
    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("user namespaces are forbidden here")
    error = error_of(unshare, tcp(tmp_path, trace="on"))
    assert "cannot trace TCP" in error
    assert "CAP_" in error


def error_of(prefix: list[str], config: dict[str, Any]) -> str:
    """Return the error output of the engine for an invalid configuration."""
    order = {"type": "configure", "contract": 1, "config": {"engine": "watch", "tcp": config}}
    done = subprocess.run(
        [*prefix, find_engine(), "run"],
        input=json.dumps(order) + "\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (2, 3)
    assert "hint: " in done.stderr
    return done.stderr


def connection() -> tuple[socket.socket, socket.socket, int]:
    """Return a connection over loopback and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        server, _ = listener.accept()
    return client, server, port


def until_recorded(engine: Engine, readings: int) -> dict[str, float]:
    """Wait for this many readings and return the counters."""
    while True:
        counters: dict[str, float] = engine.wait_for("sample")["counters"]["tcp_watch"]
        if counters["readings"] >= readings:
            return counters


def test_watch_reads_only_both_ends_of_the_selected_connection(tmp_path: Path) -> None:
    client, server, port = connection()
    stranger = connection()
    client.sendall(bytes(1000))
    assert len(server.recv(1000, socket.MSG_WAITALL)) == 1000
    config = {"engine": "watch", "sample_interval_ms": 100, "tcp": tcp(tmp_path, ports=[port])}
    engine = Engine(config)
    try:
        engine.send({"type": "start", "at_ns": 0})
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


def test_series_ends_at_its_limit_and_dropped_records_are_counted(tmp_path: Path) -> None:
    client, server, port = connection()
    limit = 20_000
    config = tcp(tmp_path, ports=[port], file_bytes_max=limit)
    engine = Engine({"engine": "watch", "sample_interval_ms": 100, "tcp": config})
    try:
        engine.send({"type": "start", "at_ns": 0})
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
        engine.send({"type": "start", "at_ns": 0})
        # More data than the engine buffers before it writes.
        until_recorded(engine, 3000)
        assert Path("/proc/mounts").read_text() == mounts, "tracefs is in no tree"
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait(10)
    finally:
        engine.close()
        client.close()
        server.close()
    assert Path("/proc/mounts").read_text() == mounts
    # The written part can be read.
    assert len(read_series(tmp_path / "tcp.series").kinds["sock_diag"]) > 0
