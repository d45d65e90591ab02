"""Facts about a machine and its engine, asked before it is used. Pure, apart from `ask`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hakaru.engine import contract
from hakaru.engine.child import end_child, start_child
from hakaru.errors import EnvironmentError_, LostError

ASK_TIMEOUT_S = 30.0
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_GRACE_S = 2.0


@dataclass(frozen=True)
class Facts:
    """A machine and its engine."""

    system: str
    """Operating system, kernel and architecture: `Linux 6.12.9 x86_64`."""
    cpus: int
    """CPUs that the engine may use."""
    version: str
    contract: int
    schema: str
    """Checksum of the engine's contract. Two engines with the same one understand the same
    messages.
    """

    def same_engine(self, other: Facts) -> bool:
        """Whether results of both engines may be merged."""
        return (self.version, self.contract, self.schema) == (other.version, other.contract, other.schema)


@dataclass(frozen=True)
class Answer:
    """The end of a command."""

    status: int
    lines: tuple[str, ...]
    stderr: tuple[str, ...]


class UnusableEngineError(EnvironmentError_):
    """A machine can be reached, but its engine cannot be used."""


def command(engine: str) -> str:
    """Return a command for any login shell, whose output `parse` reads. An engine without orders
    says `hello` and ends.
    """
    return f"uname -srm; nproc; {engine} schema | cksum; exec {engine} run </dev/null"


def parse(answer: Answer, engine: str) -> Facts:
    """Read the facts. Raises UnusableEngineError that names what is wrong with the engine."""
    end = answer.stderr[-1] if answer.stderr else "its stderr is empty"
    try:
        system, cpus, schema, *more = answer.lines
        count = int(cpus)
    except ValueError:
        raise UnusableEngineError(
            f"its login does not run commands in the usual manner: {' / '.join(answer.lines)[:200] or end}",
            "the login must run commands as `ssh HOST uname` does, and print nothing of its own",
        ) from None
    if answer.status == _NOT_FOUND:
        # A shell may read an engine for another architecture as a script, and finds no command.
        raise UnusableEngineError(f"there is no engine for {system} at {engine} ({end})", "")
    if answer.status == _NOT_EXECUTABLE or (answer.status and not more):
        raise UnusableEngineError(f"{engine} does not run there, on {system} (status {answer.status}: {end})", "")
    try:
        hello = contract.parse_event(more[0].encode()) if more else None
    except ValueError:
        hello = None
    if not isinstance(hello, contract.Hello):
        raise UnusableEngineError(f"{engine} is not a hakaru-engine ({' / '.join(more)[:200] or end})", "")
    return Facts(system, count, hello.version, hello.contract, schema)


async def ask(arguments: Sequence[str], name: str) -> Answer:
    """Run a command to its end. Raises LostError if that takes longer than 30 s."""
    process = await start_child(arguments)
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(), ASK_TIMEOUT_S)
    except TimeoutError:
        raise LostError(
            f"{name} did not answer within {ASK_TIMEOUT_S:g} s", "check whether the machine is overloaded"
        ) from None
    finally:
        await end_child(process, _GRACE_S)
    assert process.returncode is not None
    return Answer(process.returncode, _lines(stdout), _lines(stderr))


def _lines(output: bytes) -> tuple[str, ...]:
    lines = (line.strip() for line in output.decode(errors="replace").splitlines())
    return tuple(line for line in lines if line)
