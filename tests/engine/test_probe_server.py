"""The answering side of a probe while the machine has no descriptors left."""

from __future__ import annotations

import json
import resource
import socket
from pathlib import Path

from tests.peers.array import Engine

ECHO = b"E"


def test_server_without_descriptors_pauses_and_answers_again_once_some_are_available() -> None:
    server = Engine({"engine": "probe", "role": "server", "listen": "127.0.0.1:0"})
    try:
        pid = server.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        open_now = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_now, hard))
        address, _, port = server.found["listen"].rpartition(":")
        with socket.create_connection((address, int(port)), timeout=20) as client:
            # The kernel completes the connection; the server cannot accept it.
            error = server.wait_for("error")
            assert "cannot accept connections" in error["message"] and error["fatal"] is False
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
            client.sendall(ECHO + b"hello")
            assert client.recv(5, socket.MSG_WAITALL) == b"hello"
        before_stop = _errors_until_result(server)
        assert before_stop == 0, "only the first pause is reported"
    finally:
        server.close()


def _errors_until_result(server: Engine) -> int:
    """Stop the server; return the number of errors that it reported meanwhile."""
    server.send({"type": "stop"})
    errors = 0
    assert server.process.stdout is not None
    for line in server.process.stdout:
        kind = json.loads(line)["type"]
        errors += kind == "error"
        if kind == "result":
            return errors
    raise AssertionError("the server ended without a result")
