"""Tasks of the `files` engine outside a study: build, verify, load and remove trees."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

from hakaru.engine import contract
from hakaru.engine.process import EngineProcess, gang_start
from hakaru.errors import VerificationError
from hakaru.wording import number

Task = contract.FilesBuild | contract.FilesVerify | contract.FilesRemove | contract.FilesLoad
ENTITY = "trees"


@dataclass(frozen=True)
class Done:
    """The end of a task: facts about the trees, final counters, and messages about single files."""

    found: dict[str, Any]
    values: dict[str, float]
    complaints: list[str]
    histograms: list[contract.NamedHistogram]
    """Times of the operations of a load."""
    error: VerificationError | None
    """Not None if files differ from their description."""


def run_task(task: Task, *, progress: bool) -> Done:
    """Run a task to its end. `progress`: print files and bytes on stderr.

    Raises the error of a task that cannot be carried out, by its class.
    """
    return asyncio.run(_run(task, progress))


async def _run(task: Task, progress: bool) -> Done:
    async with await EngineProcess.spawn("localhost", task) as engine:
        ready = await engine.ready()
        await gang_start([engine])
        values: dict[str, float] = {}
        histograms: list[contract.NamedHistogram] = []
        error = None
        try:
            async for event in engine.events():
                if isinstance(event, contract.Sample):
                    values = event.counters.get(ENTITY, {})
                    if progress:
                        _show(values, ready.found)
            result = await engine.result()
            values, histograms = dict(result.values), result.histograms
        except VerificationError as raised:
            error = raised
        finally:
            if progress:
                print(file=sys.stderr)
        complaints = [complaint.message for complaint in engine.complaints]
        return Done(ready.found, values, complaints, histograms, error)


def _show(counters: dict[str, float], found: dict[str, Any]) -> None:
    done, files = counters.get("files_done", 0.0), found["files"] + found["dummy_files"]
    text = f"{number(done)} of {number(files)} files, {number(counters.get('bytes_done', 0.0) / 1e6)} MB"
    print(f"\r{text:<60}", end="", file=sys.stderr, flush=True)
