"""One process of `hakaru-engine` on this machine.

async with await EngineProcess.spawn("host-1", config, namespace=descriptor) as engine:
    …                                         see `hakaru.engine.session`, `hakaru.engine.child`
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from hakaru.engine import clock, contract
from hakaru.engine.binary import find_engine
from hakaru.engine.child import ChildEngine, start_child
from hakaru.engine.session import EngineSession
from hakaru.errors import EnvironmentError_

HELLO_TIMEOUT_S = 10.0
REMOVAL_S = 120.0
"""Time that a load of files has to delete its trees when it is ended, in place of `grace_s`."""


class LateStartError(EnvironmentError_):
    """The order to start reached an engine too late. Nothing was measured, so it may be tried
    again with new engines.
    """


class EngineProcess(ChildEngine):
    """A running engine. Created by `spawn`."""

    @classmethod
    async def spawn(
        cls,
        node: str,
        config: contract.EngineConfig,
        *,
        namespace: int | None = None,
        binary: Path | None = None,
    ) -> Self:
        """Start an engine, check the version of its contract, and configure it.

        `namespace`: descriptor of the network namespace to enter; None: this process's own. Raises
        EnvironmentError_ if there is no engine or it has another contract, LostError if it sends
        nothing.
        """
        program = binary or find_engine()
        arguments = ["run"] if namespace is None else ["run", "--netns", f"/proc/self/fd/{namespace}"]
        process = await start_child([program, *arguments], pass_fds=() if namespace is None else (namespace,))
        engine = cls(node, config.engine, str(program), process)
        if isinstance(config, contract.FilesLoad) and config.remove:
            engine.grace_s = REMOVAL_S
        try:
            await engine._introduce(config, HELLO_TIMEOUT_S)
        except BaseException:
            await engine.close()
            raise
        return engine


async def gang_start(engines: Iterable[EngineSession]) -> int:
    """Start all engines at one instant, and return it in nanoseconds of `CLOCK_MONOTONIC`.

    Raises LateStartError if this machine was too busy to reach all of them in time.
    """
    gang = list(engines)
    at_ns = clock.gang_start_ns(max(engine.start_lead_ns for engine in gang))
    await asyncio.gather(*(engine.start(at_ns) for engine in gang))
    late_ns = clock.now_ns() - at_ns
    if late_ns > 0:
        raise LateStartError(
            f"engines could not be started together: the last order arrived {late_ns / 1e6:.0f} ms too late",
            "this machine is busy; try again when it is idle",
        )
    return at_ns
