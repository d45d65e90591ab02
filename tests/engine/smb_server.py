"""A private Samba in a network namespace of its own, and engines beside it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hakaru.fileserver.samba import Samba
from hakaru.fileserver.samba_settings import FileServer, SambaSettings, Share, User

from tests.capture.namespace import Namespace, namespace
from tests.fileserver.conftest import need_samba

USER = User("hakaru", "correct horse")
ADDRESS = "127.0.0.1:445"


class SmbServer:
    """A running server. `inside` begins commands that run beside it."""

    def __init__(self, within: Namespace, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.inside = folder, within.inside
        shares = (
            Share(name="data", path=str(folder)),
            Share(name="archive", path=str(folder), read_only=True),
        )
        server = FileServer("fs-1", shares, (USER,), SambaSettings(**settings))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        descriptor = os.open(f"/proc/{within.inside[-1]}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.samba = self._call(Samba.start(server, namespace=descriptor))
        except BaseException:
            self._end_loop()
            raise
        finally:
            os.close(descriptor)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def close(self) -> None:
        """End the server."""
        try:
            self._call(self.samba.close())
        finally:
            self._end_loop()

    def destination(self, folder: str = "trees", **settings: Any) -> dict[str, Any]:
        """Return a destination of an engine."""
        password = {"kind": "text", "text": USER.password}
        user = {"kind": "password", "name": USER.name, "password": password}
        return {"kind": "smb", "address": ADDRESS, "share": "data", "folder": folder, "user": user} | settings


def need_server() -> None:
    """Skip the test if this user cannot start a server here."""
    need_samba()
    if os.geteuid() != 0:
        pytest.skip("needs root, to enter the namespace of another process")


@contextmanager
def smb_server(folder: Path, **settings: Any) -> Iterator[SmbServer]:
    """Provide a server of a folder for the length of a test."""
    need_server()
    with namespace() as within:
        server = SmbServer(within, folder, settings)
        try:
            yield server
        finally:
            server.close()
