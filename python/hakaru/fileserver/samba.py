"""Samba in a node of a lab: its start, its end, and how it is noticed when it is lost.

    async with await Samba.start(server, namespace=lab.namespaces["fs-1"]) as samba:
        …                          clients connect to port 445 of the node
        samba.check()              raises LostError if Samba has ended
    samba.describe()               for the record of the run

It runs without root (`hakaru.fileserver.confined`), also for root, as the user who started hakaru,
to whom all files of the shares then belong. Its own files are in a tmpfs that only it sees. Nothing
remains after the block, nor after SIGKILL of this process or of any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hakaru.errors import EnvironmentError_, LostError
from hakaru.fileserver import confined
from hakaru.fileserver.samba_settings import FOLDERS, FileServer, configuration, group, passwd

PROGRAMS = (("smbd", "samba"), ("pdbedit", "samba-common-bin"))
"""Programs and their Debian packages."""
PORT = 445
# Any id but 0 (`confined`).
_UID = 1000
# Samba takes 0.1 s on an idle machine.
START_TIMEOUT_S = 30.0
_END_S = 10.0
_LOG_LINES, _LOG_LINE_MAX = 20, 300


class Samba:
    """A running server. Created by `start`."""

    def __init__(self, server: FileServer, version: str, process: asyncio.subprocess.Process) -> None:
        self.server = server
        self.version = version
        """Version as Samba reports it: `4.17.12-Debian`."""
        self.pid = 0
        """Process id of Samba's first process."""
        self._process = process
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._reader = asyncio.create_task(self._read_log())

    @classmethod
    async def start(cls, server: FileServer, *, namespace: int) -> Self:
        """Start a server in a network namespace, given by a descriptor, and wait until it accepts
        connections.

        Raises EnvironmentError_ if Samba is not installed, a directory of a share is missing, or
        this machine does not allow the namespaces; LostError if it does not become ready.
        """
        version = check_programs()
        for share in server.shares:
            if not Path(share.path).is_dir():
                raise EnvironmentError_(
                    f"file server {server.name}: {share.path} of share {share.name} is not a directory",
                    "create it, or correct the path",
                )
        folder = state_folder()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(Path(confined.__file__).resolve())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(namespace,),
            process_group=0,
        )
        samba = cls(server, version, process)
        try:
            await samba._begin(_order(server, namespace, folder))
        except BaseException:
            await samba.close()
            raise
        return samba

    @property
    def running(self) -> bool:
        """Whether Samba is still running; may lag behind its end."""
        return self._process.returncode is None

    def check(self) -> None:
        """Raise LostError with the reason and the end of the log if Samba has ended."""
        if not self.running:
            raise self._lost_error()

    def describe(self) -> dict[str, Any]:
        """Return the server and its settings, for the record of a run."""
        return {"software": f"Samba {self.version}", **self.server.describe()}

    async def wait(self) -> LostError:
        """Wait until Samba ends and return the reason as an error. To be cancelled by others."""
        await self._process.wait()
        await asyncio.wait([self._reader], timeout=_END_S)
        return self._lost_error()

    async def close(self) -> None:
        """End Samba in any state. May be called twice."""
        try:
            assert self._process.stdin is not None
            # The end of its stdin is the order to stop.
            self._process.stdin.close()
            try:
                await asyncio.wait_for(self._process.wait(), _END_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        finally:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _begin(self, order: confined.Order) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(order).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await stdin.drain()
        try:
            line = await asyncio.wait_for(stdout.readline(), START_TIMEOUT_S)
        except TimeoutError:
            raise LostError(
                f"file server {self.server.name} did not accept connections within {START_TIMEOUT_S:g} s", self._hint()
            ) from None
        if not line:
            error = await self.wait()
            if self._process.returncode == confined.EXIT_ENVIRONMENT:
                raise EnvironmentError_(f"file server {self.server.name} does not start: {self._end()}", _NAMESPACES)
            raise error
        self.pid = int(line.split()[1])

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            if text := line.decode(errors="replace").strip():
                self._log.append(text[:_LOG_LINE_MAX])

    def _lost_error(self) -> LostError:
        status = self._process.returncode
        assert status is not None
        reason = f"signal {status - 128}" if status > 128 else f"signal {-status}" if status < 0 else f"status {status}"
        return LostError(f"file server {self.server.name} was lost: Samba ended with {reason}", self._hint())

    def _hint(self) -> str:
        return f"the end of its log: {' / '.join(self._log) or 'empty'}"

    def _end(self) -> str:
        return self._log[-1] if self._log else "no message"


_NAMESPACES = "`hakaru doctor` checks whether a file server can run here"


def check_programs() -> str:
    """Return the version of Samba. Raises EnvironmentError_ if it is not installed."""
    for program, package in PROGRAMS:
        if shutil.which(program) is None:
            raise EnvironmentError_(f"{program} is not installed", f"sudo apt-get install {package}")
    output = subprocess.run(["smbd", "--version"], capture_output=True, text=True, check=False).stdout
    return output.removeprefix("Version").strip()


def state_folder() -> str:
    """Return the folder of Samba's own package for its state, which the server hides by a tmpfs: no
    share can be below it. Raises EnvironmentError_ if it is missing.
    """
    build = subprocess.run(["smbd", "-b"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"^\s*STATEDIR: (\S+)$", build, re.MULTILINE)
    folder = found[1] if found else "/var/lib/samba"
    if not Path(folder).is_dir():
        raise EnvironmentError_(f"Samba's folder {folder} is missing", f"sudo mkdir {folder}")
    return folder


def _order(server: FileServer, namespace: int, folder: str) -> confined.Order:
    settings = f"{folder}/smb.conf"
    return {
        "network": namespace,
        "uid": _UID,
        "folder": folder,
        "folders": FOLDERS,
        "files": {
            "smb.conf": configuration(server, folder),
            "passwd": passwd(server.users, _UID),
            "group": group(_UID),
        },
        "users": {user.name: user.password for user in server.users},
        "add_user": ["pdbedit", f"--configfile={settings}", "--create", "--password-from-stdin", "-u"],
        "server": [
            *("smbd", "--foreground", "--no-process-group", f"--configfile={settings}"),
            *("--debug-stdout", "--debuglevel=0"),
        ],
    }
