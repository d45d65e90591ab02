"""Shared libraries of programs that a guest runs.

Programs of a Debian root are examined with the loader of that root, because this machine's loader
would find this machine's libraries.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from hakaru.errors import EnvironmentError_

LOADER = "lib64/ld-linux-x86-64.so.2"


def run_from(root: Path, folders: Sequence[Path], command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a program of a Debian root with the loader and the libraries of that root."""
    loader = root / "usr" / LOADER
    if not loader.exists():
        raise EnvironmentError_(f"no package contains {loader.name}", "")
    whole: list[str | Path] = [loader, "--library-path", ":".join(map(str, folders)), *command]
    return subprocess.run(whole, capture_output=True, text=True, check=False)


def find_libraries(root: Path, program: Path) -> set[Path]:
    """Return the libraries of a program below `root`, under the names that the guest's loader will
    request.
    """
    loader = root / "usr" / LOADER
    # The loader would look up the RUNPATH of some libraries on the host, so all folders are listed.
    folders = sorted({path.parent for path in (root / "usr/lib").rglob("lib*.so*")}, key=str)
    done = run_from(root, folders, ["--list", program])
    if done.returncode != 0:
        raise EnvironmentError_(f"{program.name} lacks a library: {(done.stdout + done.stderr).strip()}", "")
    libraries = {loader}
    for library in listed(done.stdout):
        if library == loader:
            continue
        if not library.is_relative_to(root):
            if library.name == loader.name:
                continue
            raise EnvironmentError_(f"{program.name} needs {library}, which no package of the guest has", "")
        libraries.add(library)
    return libraries


def libraries_here(program: Path) -> dict[str, Path]:
    """Return the libraries of one of this machine's own programs, under the names that it requests.

    Empty if it is linked statically. Raises EnvironmentError_ if one is missing.
    """
    done = subprocess.run([f"/{LOADER}", "--list", program], capture_output=True, text=True, check=False)
    if "statically linked" in done.stdout + done.stderr or "not a dynamic executable" in done.stdout + done.stderr:
        return {}
    if done.returncode != 0:
        raise EnvironmentError_(
            f"{program.name} lacks a library: {(done.stdout + done.stderr).strip()}", "run `hakaru doctor`"
        )
    return {library.name: library for library in listed(done.stdout)}


def listed(output: str) -> list[Path]:
    """Parse the output of the loader's `--list`: lines `NAME => PATH (ADDRESS)`."""
    paths = []
    for line in output.splitlines():
        _, arrow, path = line.partition(" => ")
        if arrow:
            paths.append(Path(path.rpartition(" (")[0]))
    return paths
