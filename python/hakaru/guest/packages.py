"""Downloads and unpacks Debian packages without root and without changes to this machine's package
system.

apt runs with its own folders and an empty list of installed packages, so it downloads all
dependencies, independent of the packages of the host. It uses the sources and keys of the host, so
packages are verified as on the host.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from hakaru.errors import EnvironmentError_

# 140 packages with 100 MB in total take seconds; a mirror that hangs takes forever.
_TIMEOUT_S = 600
_PROGRAMS = ("apt-get", "dpkg-deb", "dpkg")


def architecture() -> str:
    """Return the host's Debian architecture (`amd64`). Raises EnvironmentError_ without apt."""
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            raise EnvironmentError_(
                f"{program} is not installed, and guests are made of Debian packages", "use a Debian machine for guests"
            )
    return _run(["dpkg", "--print-architecture"]).strip()


def fetch(names: Sequence[str], folder: Path) -> list[Path]:
    """Download packages with all dependencies into the new `folder`; return the .deb files, sorted
    by name.

    Raises EnvironmentError_ with apt's message if a package is unknown or not available.
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
        # apt run by root downloads as another user, who may not read a home directory.
        "APT::Sandbox::User": "root",
        "Acquire::Retries": 3,
        # A mirror that cannot be reached is an error, not a warning followed by unknown packages.
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    _run([*apt, "update"])
    _run([*apt, "--yes", "--download-only", "install", *names])
    return sorted((cache / "archives").glob("*.deb"))


def unpack(packages: Sequence[Path], root: Path) -> None:
    """Unpack the packages' files below `root` without running their scripts."""
    root.mkdir()
    # Newer packages put everything below usr and rely on these links. Older ones would create
    # folders instead.
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        # `dpkg-deb --extract` would replace a link by the folder of an older package.
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as content:
            _run(["tar", "--extract", "--keep-directory-symlink", "--no-same-owner", "-C", str(root)], content.stdout)
        if content.returncode != 0:
            raise EnvironmentError_(f"{package.name} cannot be unpacked", "try again; the download may be damaged")


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
        words = done.stderr.strip().splitlines() or ["no error message"]
        raise EnvironmentError_(
            f"{command[0]} failed: {words[-1]}", "check with `apt-get update` as root whether the package sources work"
        )
    return done.stdout
