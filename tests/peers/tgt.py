"""tgt, a target of another maker, on loopback. It has its own control socket and is ended by its
process ID.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.peers.array import need

TARGET_NAME = "iqn.2011-10.example.tgt:peer"
# The LUs of tgt begin at LUN 1: LUN 0 is its controller.
LUN = 1


@dataclass(frozen=True)
class Tgt:
    """A running tgtd."""

    portal: str
    backing: Path
    process: subprocess.Popen[bytes]
    control: str
    """Number of the control socket, for `tgtadm -C`."""

    @property
    def url(self) -> str:
        """Return the URL of the LU."""
        return f"iscsi://{self.portal}/{TARGET_NAME}/{LUN}"


@contextmanager
def tgt(
    folder: Path,
    size_bytes: int,
    parameters: str = "",
    user: tuple[str, str] | None = None,
    own: tuple[str, str] | None = None,
    tape: bool = False,
) -> Iterator[Tgt]:
    """Run a target with one LU in a file; `parameters` are those of `tgtadm --params`.

    `tape`: the LU is a tape drive with an empty cartridge, `size_bytes` a multiple of 1 MiB.

    `user`: CHAP name and secret of initiators; `own`: name and secret of the target itself. Skip
    the test if tgt is not installed or cannot start.
    """
    need("tgtd", "tgt")
    if os.geteuid() != 0:
        pytest.skip("tgtd needs root")
    backing = folder / "tgt-lu"
    if tape:
        size = ["--size", str(size_bytes >> 20), "--barcode", "HAK001L5"]
        command = ["tgtimg", "--op", "new", "--device-type", "tape", "--type", "data", *size, "--file", str(backing)]
        subprocess.run(command, capture_output=True, check=True)
    else:
        with backing.open("wb") as file:
            file.truncate(size_bytes)
    # tgtd cannot choose a free port itself. A port of 127.0.0.1 that stays taken belongs to this
    # target alone, and at another address of loopback nothing else uses it.
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    address = ".".join(map(str, (127, *(random.randint(1, 254) for _ in range(3)))))
    # tgtd accepts only control numbers below 32768.
    control, portal = str(port % 32768), f"{address}:{port}"

    def admin(*arguments: str) -> bool:
        command = ["tgtadm", "-C", control, "--lld", "iscsi", *arguments]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    # In a process group of its own. In the group of the tests, the kernel would continue a stopped
    # daemon as soon as the command in a sandbox ends (setpgid(2), orphaned process groups).
    daemon = subprocess.Popen(
        ["tgtd", "-f", "-C", control, "--iscsi", f"portal={portal}"],
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        deadline = time.monotonic() + 60
        while not admin("--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET_NAME):
            assert time.monotonic() < deadline and daemon.poll() is None, "tgtd does not answer"
            time.sleep(0.05)
        kind = ["--device-type", "tape"] if tape else []
        new = ["--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", str(LUN), "-b", str(backing), *kind]
        assert admin(*new)
        if parameters:
            unit = ["--mode", "logicalunit", "--tid", "1", "--lun", str(LUN)]
            assert admin("--op", "update", *unit, "--params", parameters)
        assert admin("--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL")
        for account, outgoing in ((user, ()), (own, ("--outgoing",))):
            if account is not None:
                name, secret = account
                assert admin("--op", "new", "--mode", "account", "--user", name, "--password", secret)
                assert admin("--op", "bind", "--mode", "account", "--tid", "1", "--user", name, *outgoing)
        yield Tgt(portal, backing, daemon, control)
    finally:
        daemon.kill()
        daemon.wait()
        taken.close()
