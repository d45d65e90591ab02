"""Benchmark of the storage behind an LU: thin volumes against plain files, a large pool, and
digests.

A thin LU lies on a pool of one group; its peer is a plain file LU in the same folder, under the
same engine and load. Each comparison is made twice: through the page cache, and bypassing it
(`direct`), where most of a request's time is the device's.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers
from figure import Figure
from peers import LU_BYTES, Engine, Pattern, Portal

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MODES = {"cached": False, "direct": True}
# More than a page cache absorbs during a measurement, so that the load does not wrap around to
# blocks that it has written.
FIRST_WRITE_BYTES = 64 * GIB
LARGE_BYTES, LARGE_MAPPED_BYTES, PAGE_BYTES = 1 << 40, 64 * GIB, 256 * KIB
METADATA_SHARE_MAX, OPEN_S_MAX = 0.2, 5.0


@dataclass(frozen=True)
class StorageBench:
    """Benchmark of storage. `folder`: directory for files, on the file system to be measured.
    `cpus`: cores of target and client.
    """

    binary: Path
    rounds: int
    seconds: int
    folder: Path
    cpus: tuple[int, int]

    def thin_against_file(self) -> list[Figure]:
        """Measure 4 KiB random reads and overwrites of an LU that is fully mapped beforehand."""
        figures = []
        for mode, direct in MODES.items():
            read = Figure(f"thin_{mode}_4k_depth32_read_iops", "1/s", goal={"file": 0.85})
            overwrite = Figure(f"thin_{mode}_4k_depth32_overwrite_iops", "1/s", goal={"file": 0.85})
            with self._thin(LU_BYTES, direct) as thin, self._file(LU_BYTES, direct) as file:
                peers.fill(thin)
                peers.fill(file)
                for _ in range(self.rounds):
                    for figure, read_percent in ((read, 100), (overwrite, 0)):
                        pattern = Pattern(4 * KIB, 32, read_percent=read_percent)
                        figure.add(self._iops(thin, pattern), file=self._iops(file, pattern))
            figures += [read, overwrite]
        return figures

    def thin_first_writes(self) -> list[Figure]:
        """Measure 1 MiB sequential writes to blocks that were never written."""
        figures = []
        pattern = Pattern(MIB, 8, read_percent=0, random_percent=0, lu_bytes=FIRST_WRITE_BYTES)
        for mode, direct in MODES.items():
            figure = Figure(f"thin_{mode}_1m_first_write", "MB/s", goal={"file": 0.7})
            for _ in range(self.rounds):
                with self._thin(FIRST_WRITE_BYTES, direct) as portal:
                    own_iops = self._iops(portal, pattern)
                with self._file(FIRST_WRITE_BYTES, direct) as portal:
                    theirs = self._iops(portal, pattern)
                figure.add(own_iops * MIB / 1e6, file=theirs * MIB / 1e6)
            figures.append(figure)
        return figures

    def thin_large_pool(self) -> list[Figure]:
        """Measure a volume of 1 TiB with 64 GiB mapped: its metadata's size and the time to open
        it.

        The time runs from the start of the process until it accepts logins, with cold files. It is
        measured after a clean end and after a kill during writes. The data are in memory because
        only metadata are measured, and a file system takes minutes to delete a file of 262 144
        extents.
        """
        share = Figure("pool_64g_metadata_share", "%", lower_is_better=True, limit=METADATA_SHARE_MAX)
        clean = Figure("pool_64g_open", "s", lower_is_better=True, limit=OPEN_S_MAX)
        killed = Figure("pool_64g_open_after_kill", "s", lower_is_better=True, limit=OPEN_S_MAX)
        with (
            tempfile.TemporaryDirectory(dir=self.folder, prefix="large-") as folder,
            tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hakaru-bench-") as data,
        ):
            # Moves the group of the empty pool to memory afterwards, because a pool is never
            # created over an existing group file.
            engine, _, _ = self._open_large(Path(folder))
            engine.end()
            group = Path(folder, "g0.group")
            subprocess.run(["cp", "--sparse=always", group, data], check=True)
            group.unlink()
            group.symlink_to(Path(data, group.name))
            with ExitStack() as stack:
                engine, portal, _ = self._open_large(Path(folder))
                stack.callback(engine.end)
                # A page takes space when its first block is written; the group's file stays sparse.
                map_pages(portal, range(0, LARGE_MAPPED_BYTES, PAGE_BYTES))
            for _ in range(self.rounds):
                share.add(100 * metadata_bytes(Path(folder)) / LARGE_MAPPED_BYTES)
                engine, portal, seconds = self._open_large(Path(folder))
                clean.add(seconds)
                map_pages(portal, range(0, 1000 * PAGE_BYTES, PAGE_BYTES))
                engine.kill()
                engine, portal, seconds = self._open_large(Path(folder))
                killed.add(seconds)
                engine.end()
        return [share, clean, killed]

    def digests(self) -> list[Figure]:
        """Measure 64 KiB requests with and without header and data digests, on an LU in memory."""
        read = Figure("digests_64k_depth32_read_iops", "1/s", goal={"without": 0.7})
        write = Figure("digests_64k_depth32_write_iops", "1/s", goal={"without": 0.7})
        with peers.hakaru_array(self.binary, self.cpus[0]) as portal:
            peers.fill(portal)
            for _ in range(self.rounds):
                for figure, read_percent in ((read, 100), (write, 0)):
                    on = Pattern(64 * KIB, 32, read_percent=read_percent, digests=True)
                    off = Pattern(64 * KIB, 32, read_percent=read_percent)
                    figure.add(self._iops(portal, on), without=self._iops(portal, off))
        return [read, write]

    def _iops(self, portal: Portal, pattern: Pattern) -> float:
        load = peers.hakaru_initiator(self.binary, portal, pattern, self.seconds, self.cpus[1])
        if load.errors:
            raise RuntimeError(f"{load.errors} errors under {pattern}")
        return load.iops

    @contextmanager
    def _thin(self, size_bytes: int, direct: bool) -> Iterator[Portal]:
        """Provide a thin LU on a pool of its own that is large enough for it and deleted
        afterwards.
        """
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="thin-") as folder:
            lu, pool = thin_lu(size_bytes), pool_of(Path(folder), size_bytes + GIB, direct)
            with peers.hakaru_array(self.binary, self.cpus[0], lu, pools=[pool]) as portal:
                yield portal

    @contextmanager
    def _file(self, size_bytes: int, direct: bool) -> Iterator[Portal]:
        """Provide a plain file LU, deleted afterwards."""
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="file-") as folder:
            store = {"kind": "file", "path": str(Path(folder, "lu")), "direct": direct}
            with peers.hakaru_array(self.binary, self.cpus[0], block(size_bytes, store)) as portal:
                yield portal

    def _open_large(self, folder: Path) -> tuple[Engine, Portal, float]:
        """Start the engine with the large pool and cold files; return it with the seconds from its
        start until it was ready.
        """
        for path in folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        pool = pool_of(folder, 2 * LARGE_MAPPED_BYTES, direct=False)
        began = time.monotonic()
        engine = Engine(self.binary, self.cpus[0])
        portal = peers.begin_array(engine, thin_lu(LARGE_BYTES), pools=[pool])
        return engine, portal, time.monotonic() - began


def block(size_bytes: int, store: dict[str, Any]) -> dict[str, Any]:
    """Return an LU of 4 KiB blocks, which O_DIRECT accepts on every device."""
    return {"size_bytes": size_bytes, "block_bytes": 4096, "store": store}


def thin_lu(size_bytes: int) -> dict[str, Any]:
    """Return a thin LU on the pool of `pool_of`."""
    return block(size_bytes, {"kind": "thin", "pool": "bench", "volume": "volume"})


def pool_of(folder: Path, group_bytes: int, direct: bool) -> dict[str, Any]:
    """Return a pool of one group, in the form of the contract."""
    groups = [{"name": "g0", "size_bytes": group_bytes}]
    return {"name": "bench", "directory": str(folder), "page_bytes": PAGE_BYTES, "direct": direct, "groups": groups}


def metadata_bytes(folder: Path) -> int:
    """Return the bytes that a pool's metadata take on its device."""
    return sum(p.stat().st_blocks * 512 for p in folder.rglob("*") if p.is_file() and p.suffix != ".group")


def map_pages(portal: Portal, offsets: range) -> None:
    """Write one block at each offset with qemu-io."""
    script = "".join(f"aio_write -q -P 0x5a {offset} 4k\n" for offset in offsets) + "aio_flush\nquit\n"
    done = subprocess.run(
        ["qemu-io", "-f", "raw", portal.url], input=script, capture_output=True, text=True, check=False
    )
    failed = [line for line in (done.stdout + done.stderr).splitlines() if "fail" in line or "rror" in line]
    if done.returncode != 0 or failed:
        raise RuntimeError(f"qemu-io: exit status {done.returncode}: {' / '.join(failed[:3])}")
