"""One `hakaru-engine` process of a scene, spoken to directly: `bench` measures the engine without
the Python side that runs studies.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any


class EngineProcess:
    """A configured engine. Raises RuntimeError if it reports an error, refuses an order or ends."""

    def __init__(self, command: Sequence[str], config: dict[str, Any]) -> None:
        """`command`: the engine's program, after words that place it (`nsenter`, `taskset`)."""
        self.process = subprocess.Popen([*command, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.samples: list[dict[str, Any]] = []
        """All samples so far."""
        contract = self.wait_for("hello")["contract"]
        self.send(type="configure", contract=contract, config=config)
        self.found: dict[str, Any] = self.wait_for("ready")["found"]

    def start(self, at_ns: int = 0) -> None:
        """Start its load. `at_ns`: instant of CLOCK_MONOTONIC; 0: at once."""
        self.send(type="start", at_ns=at_ns)

    def send(self, **command: Any) -> None:
        """Send a command of the contract."""
        assert self.process.stdin is not None
        print(json.dumps(command), file=self.process.stdin, flush=True)

    def wait_for(self, kind: str) -> dict[str, Any]:
        """Return the next event of a kind, and store the samples before it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["type"] == kind:
                return event
            if event["type"] == "sample":
                self.samples.append(event)
            if event["type"] == "error" and event["fatal"]:
                raise RuntimeError(event["message"])
            if event["type"] == "reply" and event.get("error"):
                raise RuntimeError(event["error"]["message"])
        raise RuntimeError(f"the engine ended before it sent `{kind}`")

    def end(self) -> None:
        """Stop the engine; kill it if it does not end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
