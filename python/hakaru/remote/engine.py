"""An engine on another machine: the engine's lines are those of an `ssh` process.

The end of the connection closes the engine's stdin, which means stop. So nothing stays on the other
machine, however this process or the connection ends.
"""

from __future__ import annotations

from asyncio.subprocess import Process

from hakaru.engine import contract
from hakaru.engine.child import ChildEngine
from hakaru.errors import HakaruError, LostError
from hakaru.remote import ssh

HELLO_TIMEOUT_S = 20.0


class RemoteEngine(ChildEngine):
    """A running engine. Created by `SshHost.spawn`.

    `offset_ns`: clock of its machine minus that of this one.
    """

    # A segment that is lost on the way is sent again within this time.
    start_lead_ns = 1_000_000_000
    grace_s = 5.0

    def __init__(self, node: str, kind: str, destination: str, process: Process, offset_ns: int) -> None:
        super().__init__(node, kind, f"the engine at {destination}", process)
        self._destination = destination
        self._offset_ns = offset_ns

    async def introduce(self, config: contract.EngineConfig) -> None:
        """Check the version of the engine's contract, and configure it."""
        await self._introduce(config, HELLO_TIMEOUT_S)

    async def _lost(self) -> HakaruError:
        status = await self._status()
        if status == ssh.FAILED:
            reason, hint = ssh.explain(self._destination, tuple(self._stderr))
            return LostError(f"{self.name} was lost: {self._destination}: {reason}", hint)
        return LostError(
            f"{self.name} was lost: exit status {status} at {self._destination}",
            self._stderr_hint("its stderr is empty"),
        )

    def _engine_ns(self, host_ns: int) -> int:
        return host_ns + self._offset_ns

    def _host_ns(self, engine_ns: int) -> int:
        return engine_ns - self._offset_ns
