"""The machines on which the engines of a run are started.

async with open_hosts(specs) as hosts:                  name → LoadHost, checked and compared
    await asyncio.gather(*(h.begin() for h in …))       before a repetition: its clock
    engine = await hosts["kvm-1"].spawn(config)         an `EngineSession`
    …
    await asyncio.gather(*(h.end() for h in …))         after it: the drift of its clock
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.engine import contract
from hakaru.engine.binary import find_engine
from hakaru.engine.child import start_child
from hakaru.engine.offset import ClockRecord
from hakaru.engine.process import EngineProcess
from hakaru.engine.session import EngineSession
from hakaru.errors import EnvironmentError_
from hakaru.remote import facts, ssh
from hakaru.remote.clock import RemoteClock
from hakaru.remote.engine import RemoteEngine
from hakaru.remote.facts import Facts, UnusableEngineError
from hakaru.remote.secrets import with_secrets


@dataclass(frozen=True)
class HostSpec:
    """A machine. `ssh`: destination of the SSH client; None: this machine. `engine`: path of the
    engine there.
    """

    name: str
    ssh: str | None = None
    engine: str = ""


class LoadHost(ABC):
    """A machine on which engines are started."""

    def __init__(self, spec: HostSpec) -> None:
        self.spec = spec
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """The machine and its engine, after `open`."""
        assert self._facts is not None
        return self._facts

    @property
    def clock(self) -> ClockRecord | None:
        """Offset of its clock from this machine's; None if it is the same clock."""
        return None

    @abstractmethod
    async def open(self, here: Facts) -> None:
        """Reach the machine, compare its engine with that of this machine (`here`), and measure its
        clock. Raises EnvironmentError_ or LostError with the reason.
        """

    @abstractmethod
    async def spawn(self, config: contract.EngineConfig) -> EngineSession:
        """Start and configure an engine."""

    @abstractmethod
    async def begin(self) -> None:
        """Measure the offset of the clock, with which engines of this repetition convert their
        instants. Raises LostError.
        """

    @abstractmethod
    async def end(self) -> None:
        """Measure the offset again, after the repetition. Raises LostError."""

    @abstractmethod
    async def close(self) -> None:
        """End everything that `open` has started. Safe at any time."""

    def describe(self) -> dict[str, Any]:
        """Return the machine as a node of lab.json."""
        found = self.facts
        return {
            "name": self.spec.name,
            "kind": "host",
            "ssh": self.spec.ssh,
            "system": found.system,
            "cpus": found.cpus,
            "engine": {"version": found.version, "contract": found.contract},
            "clock": None if self.clock is None else self.clock.describe(),
        }


class LocalHost(LoadHost):
    """This machine."""

    async def open(self, here: Facts) -> None:
        self._facts = here

    async def spawn(self, config: contract.EngineConfig) -> EngineSession:
        return await EngineProcess.spawn(self.spec.name, config)

    async def begin(self) -> None:
        """Do nothing, because the clock is the same."""

    async def end(self) -> None:
        """Do nothing, because the clock is the same."""

    async def close(self) -> None:
        """Do nothing, because nothing is open."""


class SshHost(LoadHost):
    """Another machine, reached by the user's SSH client."""

    def __init__(self, spec: HostSpec, destination: str) -> None:
        super().__init__(spec)
        self._destination = destination
        self._asker: RemoteClock | None = None
        self._clock: ClockRecord | None = None

    @property
    def clock(self) -> ClockRecord | None:
        assert self._clock is not None
        return self._clock

    async def open(self, here: Facts) -> None:
        name, engine = self.spec.name, self.spec.engine
        if shutil.which("ssh") is None:
            raise EnvironmentError_(f"load host {name}: `ssh` is not installed here", "install `openssh-client`")
        answer = await facts.ask(ssh.arguments(self._destination, facts.command(engine)), f"load host {name}")
        if answer.status == ssh.FAILED:
            reason, hint = ssh.explain(self._destination, answer.stderr)
            raise EnvironmentError_(f"load host {name} ({self._destination}): {reason}", hint)
        try:
            self._facts = facts.parse(answer, engine)
        except UnusableEngineError as error:
            message = f"load host {name} ({self._destination}): {error.message}"
            raise EnvironmentError_(message, error.hint or self._how_to_copy()) from None
        self._compare(here)
        self._asker = await RemoteClock.open(name, self._destination, engine)
        await self.begin()

    def _compare(self, here: Facts) -> None:
        """Raise EnvironmentError_ if the engine is another one than that of this machine."""
        there = self.facts
        if there.same_engine(here):
            return
        difference = f"version {there.version} with contract {there.contract}, but this machine's is "
        difference += f"{here.version} with contract {here.contract}"
        if (there.version, there.contract) == (here.version, here.contract):
            difference = f"another build of version {there.version}, with other messages than this machine's"
        raise EnvironmentError_(
            f"load host {self.spec.name} ({self._destination}): its engine is {difference}; "
            "their results cannot be merged",
            self._how_to_copy(),
        )

    def _how_to_copy(self) -> str:
        """Return a hint for a machine without this machine's engine."""
        if "/" not in self.spec.engine:
            # `scp` would write it to the home directory, which is not on the PATH of a login.
            return (
                f"copy this machine's engine there: `scp {find_engine()} {self._destination}:`, and name it in the "
                f"site file: `engine: ~/{find_engine().name}`; for another architecture, take it from a wheel of that "
                "architecture"
            )
        return (
            f"copy this machine's engine there: `scp {find_engine()} {self._destination}:{self.spec.engine}`; "
            "for another architecture, take it from a wheel of that architecture, and name its path as `engine`"
        )

    async def spawn(self, config: contract.EngineConfig) -> EngineSession:
        assert self._clock is not None
        process = await start_child(ssh.arguments(self._destination, f"exec {self.spec.engine} run"))
        offset_ns = self._clock.start.offset_ns
        engine = RemoteEngine(self.spec.name, config.engine, self._destination, process, offset_ns)
        try:
            await engine.introduce(with_secrets(config))
        except BaseException:
            await engine.close()
            raise
        return engine

    async def begin(self) -> None:
        assert self._asker is not None
        self._clock = ClockRecord(await self._asker.measure())

    async def end(self) -> None:
        assert self._asker is not None and self._clock is not None
        self._clock = ClockRecord(self._clock.start, await self._asker.measure())

    async def close(self) -> None:
        if self._asker is not None:
            await self._asker.close()


async def facts_here() -> Facts:
    """Return the facts of this machine. Raises EnvironmentError_ if it has no engine."""
    program = find_engine()
    answer = await facts.ask(["sh", "-c", facts.command(shlex.quote(str(program)))], "this machine")
    return facts.parse(answer, str(program))


def host_of(spec: HostSpec) -> LoadHost:
    """Return the machine, which is not reached yet."""
    return LocalHost(spec) if spec.ssh is None else SshHost(spec, spec.ssh)


@contextlib.asynccontextmanager
async def open_hosts(specs: Sequence[HostSpec]) -> AsyncIterator[Mapping[str, LoadHost]]:
    """Reach all machines, and compare their engines with this machine's. Yields name → machine.

    Raises the EnvironmentError_ or LostError of a machine that cannot be used; its message names
    the machine.
    """
    hosts = {spec.name: host_of(spec) for spec in specs}
    here = await facts_here()
    try:
        await together(host.open(here) for host in hosts.values())
        yield hosts
    finally:
        await asyncio.gather(*(host.close() for host in hosts.values()))


async def together(work: Iterable[Awaitable[None]]) -> None:
    """Await all. The first error cancels the others, and is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
