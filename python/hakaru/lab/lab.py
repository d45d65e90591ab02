"""A lab that stands: built from a plan, engines started in its nodes, taken down at the end.

    async with Lab(plan_lab(study.lab)) as lab:
        array = await lab.start_engine(lab.plan.array_name, array_config)
        await array.ready()
        lab.checks = await check.check_links(lab)
        …
        lab.describe()                                   # lab.json

Only inside the sandbox (`sandbox.enter`). Leaving the block ends every engine that was started through it.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.lab import sandbox
from hakaru.lab.apply import Namespaces, apply_plan, read_sysctl
from hakaru.lab.plan import CONGESTION_CONTROL, LabPlan

if TYPE_CHECKING:
    from hakaru.lab.check import LinkCheck


class Lab:
    """The lab of a plan. `engine`: the program to run in its nodes; default as `find_engine` says."""

    def __init__(self, plan: LabPlan, *, engine: Path | None = None) -> None:
        self.plan = plan
        self.checks: list[LinkCheck] = []
        """What `check.check_links` found; part of `describe`."""
        self._engine = engine
        self._namespaces = Namespaces()
        self._engines: list[EngineProcess] = []
        self._congestion_control = ""

    async def __aenter__(self) -> Self:
        if sandbox.current() is None:
            raise RuntimeError("a lab is built inside the sandbox: call sandbox.enter() first")
        # In a thread: building changes the network namespace of the thread it runs in, for moments.
        self._namespaces = await asyncio.to_thread(apply_plan, self.plan)
        self._congestion_control = await asyncio.to_thread(
            read_sysctl, self._namespaces, self.plan.array_name, CONGESTION_CONTROL
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.gather(*(engine.close() for engine in self._engines))
        finally:
            self._namespaces.close()

    async def start_engine(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """An engine in a node, configured; wait for `ready` next. Raises as `EngineProcess.spawn`."""
        if node not in self._namespaces:
            raise KeyError(f"the lab has no node {node!r}")
        engine = await EngineProcess.spawn(node, config, namespace=self._namespaces[node], binary=self._engine)
        # A run starts some engines for every point: those that have ended need no ending.
        self._engines = [*(one for one in self._engines if one.running), engine]
        return engine

    def describe(self) -> dict[str, Any]:
        """The lab as built, for lab.json: nodes, links, link checks, sandbox, backend."""
        inside = sandbox.current()
        assert inside is not None, "a Lab only stands inside the sandbox"
        return {
            **self.plan.describe(),
            "checks": [check.describe() for check in self.checks],
            "sandbox": inside.describe(),
            "backend": {
                "links": "veth and bridge in network namespaces, token buckets (TBF) at both ends of a link",
                "tcp_congestion_control": self._congestion_control,
                "pyroute2": version("pyroute2"),
            },
        }
