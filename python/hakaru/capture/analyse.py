"""Analysis of capture files by the engine's `analyse`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from hakaru.engine.binary import find_engine
from hakaru.errors import EnvironmentError_, UsageError, error_of_exit_code

FORMAT = 2
HEADER_BYTES = 48
"""Length of the basic header of every PDU (RFC 7143 section 11.2)."""


def analyse(paths: Sequence[Path], ports: Sequence[int] = (3260,), *, progress: bool = False) -> dict[str, Any]:
    """Analyse a capture. `docs/reference/analyse.md` describes the result.

    `paths`: files or pipes, the parts of one capture; each is read once. `ports`: TCP ports that
    targets listen on; iSCSI on other ports is recognised by its content. `progress`: print percent
    on stderr.

    Raises EnvironmentError_ for a file that cannot be read, UsageError for one that is no capture
    or contains no iSCSI.
    """
    options = [f"--port={port}" for port in ports] + (["--progress"] if progress else [])
    with _inheritable(paths) as (names, descriptors), tempfile.TemporaryFile() as out:
        command: list[str | Path] = [find_engine(), "analyse", *options, "--", *names]
        with subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, pass_fds=descriptors) as engine:
            stderr = _forward_progress(engine.stderr)
            if engine.wait() != 0:
                message, _, hint = stderr.removeprefix("error: ").partition("\nhint: ")
                raise error_of_exit_code(engine.returncode, message.strip(), hint.strip())
        out.seek(0)
        analysed: dict[str, Any] = json.load(out)
    if analysed["format"] != FORMAT:
        raise EnvironmentError_(
            f"the engine's analysis has format {analysed['format']}, not {FORMAT}",
            "install hakaru and its engine of the same version",
        )
    if not analysed["capture"]["sessions"]:
        raise UsageError(_without_iscsi(paths, analysed["capture"]), _hint(analysed["capture"]))
    return analysed


@contextmanager
def _inheritable(paths: Sequence[Path]) -> Iterator[tuple[list[Path], list[int]]]:
    """Yield names of the files for the engine, and the descriptors that it must inherit, because
    pipes of a shell are open only in this process.
    """
    names, descriptors = [], []
    try:
        for path in paths:
            if path.is_fifo():
                descriptors.append(os.open(path, os.O_RDONLY))
                path = Path(f"/dev/fd/{descriptors[-1]}")
            names.append(path)
        yield names, descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _without_iscsi(paths: Sequence[Path], capture: dict[str, Any]) -> str:
    names = ", ".join(str(path) for path in paths)
    return f"no iSCSI in {names}: {capture['packets']} packets, {capture['other_connections']} other TCP connections"


def _hint(capture: dict[str, Any]) -> str:
    if capture["packets"] == 0:
        return "capture while commands are in progress, on the interface that they pass through"
    if capture["not_seen"]["unknown_link"]:
        return "capture on an Ethernet interface, or on Linux's `any`: other link layers are not read"
    cut = capture["packets_cut"] or capture["not_seen"]["cut"]
    if cut and capture["payload_bytes_max"] < HEADER_BYTES:
        return (
            f"capture with a snap length of at least 256 bytes: at most {capture['payload_bytes_max']} bytes after "
            f"the TCP header were kept of any packet, but an iSCSI header has {HEADER_BYTES}"
        )
    return "capture on the initiator's or the target's interface; set --port if the target does not listen on 3260"


def _forward_progress(stream: IO[bytes] | None) -> str:
    """Print the engine's progress as it arrives, and return the message that follows it."""
    assert stream is not None
    message = ""
    while chunk := stream.read1(4096):  # type: ignore[attr-defined]
        text = chunk.decode(errors="replace")
        progress, error, rest = text.partition("error: ")
        if not message:
            print(progress, end="", file=sys.stderr, flush=True)
            progress = ""
        message += progress + error + rest
    return message
