"""The engine's `analyse` on capture files."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from hakaru.engine.binary import find_engine
from hakaru.errors import EnvironmentError_, UsageError, error_of_exit_code

FORMAT = 1


def analyse(paths: Sequence[Path], ports: Sequence[int] = (3260,), *, progress: bool = False) -> dict[str, Any]:
    """What the files say, as `docs/reference/analyse.md` describes it. Several are the parts of one capture.

    `ports`: where targets listen; iSCSI on others is found by its content. `progress`: percent on stderr.

    Raises EnvironmentError_ for a file that cannot be read, UsageError for one that is no capture, or has no iSCSI in
    it.
    """
    options = [f"--port={port}" for port in ports] + (["--progress"] if progress else [])
    command: list[str | Path] = [find_engine(), "analyse", *options, "--", *paths]
    with tempfile.TemporaryFile() as out, subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE) as engine:
        said = _pass_progress_on(engine.stderr)
        if engine.wait() != 0:
            message, _, hint = said.removeprefix("error: ").partition("\nhint: ")
            raise error_of_exit_code(engine.returncode, message.strip(), hint.strip())
        out.seek(0)
        found: dict[str, Any] = json.load(out)
    if found["format"] != FORMAT:
        raise EnvironmentError_(
            f"the engine's analysis has format {found['format']}, not {FORMAT}",
            "install hakaru and its engine together",
        )
    if not found["capture"]["sessions"]:
        raise UsageError(_without_iscsi(paths, found["capture"]), _hint(found["capture"]))
    return found


def _without_iscsi(paths: Sequence[Path], capture: dict[str, Any]) -> str:
    names = ", ".join(str(path) for path in paths)
    return f"no iSCSI in {names}: {capture['packets']} packets, {capture['other_connections']} other TCP connections"


def _hint(capture: dict[str, Any]) -> str:
    if capture["packets"] == 0:
        return "let the capture run while commands are under way, on the interface they go through"
    if capture["not_seen"]["unknown_link"]:
        return "capture on an Ethernet interface, or on Linux's `any`: other link layers are not read"
    if capture["packets_cut"] == capture["packets"]:
        return "capture with a longer snap length: 256 bytes at least"
    return "capture on the initiator's or the target's interface; --port says where the target listens, if not on 3260"


def _pass_progress_on(stream: IO[bytes] | None) -> str:
    """What the engine says on stderr after its progress, which is printed as it comes."""
    assert stream is not None
    said = ""
    while chunk := stream.read1(4096):  # type: ignore[attr-defined]
        text = chunk.decode(errors="replace")
        progress, error, rest = text.partition("error: ")
        if not said:
            print(progress, end="", file=sys.stderr, flush=True)
            progress = ""
        said += progress + error + rest
    return said
