"""Adds `hakaru-engine` to a guest's image: a second archive behind the first, which the kernel
unpacks over it.

The engine brings its own loader and libraries from this machine, in a folder of its own, because it
may be linked with newer ones than the guest has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from hakaru.engine.binary import NAME
from hakaru.guest import cpio
from hakaru.guest.image import Image, cache_errors
from hakaru.guest.libraries import LOADER, libraries_here

PROGRAM = f"/usr/bin/{NAME}"
"""Path of the engine in a guest."""
_FOLDER = "usr/lib/hakaru"
# Each build of the engine gives another archive of 100 MB.
_UNUSED_S_MAX = 24 * 3600.0
# Archives must begin at a multiple of four bytes (kernel: init/initramfs.c). Zeros between them are
# skipped.
_ALIGNMENT = 512


def with_engine(image: Image, engine: Path) -> Path:
    """Return an initramfs of `image` that also has `engine` as `PROGRAM`, from the cache or new.

    Raises EnvironmentError_ if a library of the engine is missing, or the cache has no space.
    """
    libraries = libraries_here(engine)
    digest = hashlib.sha256(repr(_ALIGNMENT).encode() + Path(__file__).read_bytes())
    for file in (engine, *libraries.values()):
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    folder = image.initramfs.parent
    archive = folder / f"engine-{digest.hexdigest()[:16]}"
    with cache_errors():
        if not archive.exists():
            _delete_unused(folder)
            with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as scratch:
                made = Path(scratch) / archive.name
                with made.open("wb") as stream:
                    with image.initramfs.open("rb") as first:
                        shutil.copyfileobj(first, stream)
                    stream.write(bytes(-stream.tell() % _ALIGNMENT))
                    _add(cpio.Writer(stream), engine, libraries)
                made.replace(archive)
        # Records the time of the last use.
        os.utime(archive)
    return archive


def _add(archive: cpio.Writer, engine: Path, libraries: dict[str, Path]) -> None:
    program = f"{_FOLDER}/{NAME}"
    archive.add_file(program, engine, executable=True)
    for name, path in sorted(libraries.items()):
        archive.add_file(f"{_FOLDER}/{name}", path, executable=True)
    command = f"/{program}"
    if libraries:
        loader = Path(LOADER).name
        archive.add_file(f"{_FOLDER}/{loader}", Path(f"/{LOADER}"), executable=True)
        command = f"/{_FOLDER}/{loader} --library-path /{_FOLDER} {command}"
    script = f'#!/usr/bin/dash\nexec {command} "$@"\n'
    archive.add_file(PROGRAM[1:], script.encode(), executable=True)
    archive.close()


def _delete_unused(folder: Path) -> None:
    for archive in folder.glob("engine-*"):
        if archive.stat().st_mtime < time.time() - _UNUSED_S_MAX:
            archive.unlink(missing_ok=True)
