"""Benchmark of building trees of files: the 128 000 files of the published file server, each a
thousandth of its size.

    hakaru      `hakaru files build` with its default number of threads; computes names, sizes and
                contents from the seed
    tar         `tar --extract` of an archive of the same trees, one process; its contents are ready

Both write into the folder of the benchmark's LUs, and neither waits for the disk.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from figure import Figure

FILES = 128_000
SCALE = "1/1000"
SECONDS_MAX = 60.0
ROUNDS_MAX = 3


class TreesBench:
    """Benchmark of trees. `folder`: where they are built."""

    def __init__(self, rounds: int, folder: Path) -> None:
        self.rounds = min(rounds, ROUNDS_MAX)
        self.folder = folder / "trees"

    def tree_build(self) -> list[Figure]:
        """Measure the time of building all trees."""
        figure = Figure("tree_build_128k_files", "s", lower_is_better=True, limit=SECONDS_MAX)
        archive = self.folder.with_suffix(".tar")
        try:
            self._build()
            count = sum(1 for path in self.folder.rglob("*") if path.is_file())
            if count < FILES:
                raise RuntimeError(f"the trees have {count} files instead of {FILES}")
            subprocess.run(["tar", "--create", f"--file={archive}", f"--directory={self.folder}", "."], check=True)
            for _ in range(self.rounds):
                figure.add(self._build(), tar=self._extract(archive))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            archive.unlink(missing_ok=True)
        return [figure]

    def _build(self) -> float:
        words = [str(Path(sys.executable).with_name("hakaru")), "files", "build", str(self.folder)]
        return self._timed([*words, "--scale", SCALE, "--quiet"])

    def _extract(self, archive: Path) -> float:
        return self._timed(["tar", "--extract", f"--file={archive}", f"--directory={self.folder}"])

    def _timed(self, words: list[str]) -> float:
        """Run a command on an empty folder. Returns its time in seconds."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        begin = time.monotonic()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begin
