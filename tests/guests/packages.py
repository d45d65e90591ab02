"""Debian packages, brought and unpacked without root and without a trace on this machine's own
package system.

apt is run with folders of its own and an empty list of what is installed, so it brings whole
closures, whatever the host has; it uses the host's sources and keys, so what comes is checked as
for the host.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from hakaru.errors import EnvironmentError_

# 140 packages of 100 MB in all take seconds; a mirror that hangs takes for ever.
_TIMEOUT_S = 600
_PROGRAMS = ("apt-get", "dpkg-deb", "dpkg")


def architecture() -> str:
    """The host's, as Debian calls it (`amd64`). Raises EnvironmentError_ where there is no apt."""
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            raise EnvironmentError_(
                f"{program} is not installed, and guests are made of Debian packages", "use a Debian machine for guests"
            )
    return _run(["dpkg", "--print-architecture"]).strip()


def fetch(names: Sequence[str], folder: Path) -> list[Path]:
    """Download packages with all they depend on into `folder` (made here); the .deb files, sorted
    by name.

    Raises EnvironmentError_ with apt's words if one is unknown or cannot be had.
    """
    state, cache = folder / "state", folder / "cache"
    (state / "lists" / "partial").mkdir(parents=True)
    (cache / "archives" / "partial").mkdir(parents=True)
    (state / "status").touch()
    settings = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": cache,
        "APT::Install-Recommends": "false",
        # The user that apt downloads as, when root runs it, may not look into a home directory.
        "APT::Sandbox::User": "root",
        "Acquire::Retries": 3,
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    _run([*apt, "update"])
    _run([*apt, "--yes", "--download-only", "install", *names])
    return sorted((cache / "archives").glob("*.deb"))


def unpack(packages: Sequence[Path], root: Path) -> None:
    """Put the packages' files below `root`; none of their scripts run."""
    root.mkdir()
    # Newer packages put everything below usr and rely on these links; older ones would make folders
    # of them.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        # Not `dpkg-deb --extract`, which replaces a link by the folder that an older package has in
        # its place.
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as content:
            _run(["tar", "--extract", "--keep-directory-symlink", "--no-same-owner", "-C", str(root)], content.stdout)
        if content.returncode != 0:
            raise EnvironmentError_(f"{package.name} cannot be unpacked", "try again; it may have come damaged")


def _run(command: list[str], stdin: IO[bytes] | int | None = subprocess.DEVNULL) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentError_(
            f"{command[0]} did not end within {_TIMEOUT_S} s", "is the package mirror reachable?"
        ) from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or ["it says nothing"]
        raise EnvironmentError_(
            f"{command[0]} failed: {words[-1]}", "`apt-get update` as root tells whether the package sources work"
        )
    return done.stdout
