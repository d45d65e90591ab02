"""Cost of the misaligned blocks of a dynamic VHD: accesses and bytes of its LU compared with those
of each disk in the same run whose data are aligned. Pure.

Each block of 2 MiB of a dynamic VHD follows a bitmap of 512 bytes, so an access of the guest to
whole sectors of 4 KiB is one to parts of two blocks of the file system below. It reads both before
it writes. The points of a pair differ in the kind of the disk and in nothing else: not in caches,
file systems, load or lab. Statistics are those of `differences`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hakaru.analysis import sentences
from hakaru.analysis.comparison import rows
from hakaru.analysis.findings import Finding
from hakaru.fileserver.virtual_disk import VirtualDisk
from hakaru.kinds.files import names
from hakaru.kinds.files.analysis.differences import Pair, only_difference, words
from hakaru.kinds.files.analysis.points import FilesPoint
from hakaru.wording import LANGUAGES, say

_KIND = ("format", "subformat", "preallocation", "block", "extended_l2")
"""Fields of a disk in which the points of a pair may differ."""


SECTORS_OF_A_BLOCK = 8
"""Sectors of 512 bytes in a block of 4 KiB."""


def findings(points: Sequence[FilesPoint], several: bool) -> list[Finding]:
    """Return a finding about each pair: an aligned disk, and a dynamic VHD in its place."""
    pairs = list(_pairs(points))
    compared = [
        rows.rows([(pair.before.to_json(), pair.after.to_json())], lambda _: None, tuple(names.BELOW_DISK))
        for pair in pairs
    ]
    judged = iter(rows.judge([row for each in compared for row in each]))
    of_pairs = [[next(judged) for _ in each] for each in compared]
    tests = sum(row.difference is not None for each in of_pairs for row in each)
    return [_finding(pair, each, tests, several) for pair, each in zip(pairs, of_pairs, strict=True) if each]


def _pairs(points: Sequence[FilesPoint]) -> Iterator[Pair]:
    for after in points:
        for before in points:
            one, other = (point.load.to.chain for point in (before, after))
            if one is None or other is None or _is_misaligned(one.disk) or not _is_misaligned(other.disk):
                continue
            # Behind a partition that begins amid a block of 4 KiB, no kind of disk is aligned.
            if (one.partition_start or 0) % SECTORS_OF_A_BLOCK:
                continue
            kind = {name: getattr(one.disk, name) for name in _KIND}
            alike = other.model_copy(update={"disk": other.disk.model_copy(update=kind)})
            to = after.load.to.model_copy(update={"chain": alike})
            load = after.load.model_copy(update={"to": to})
            same = after.study.model_copy(update={"load": load}) == before.study
            if same and load == before.load and (factor := only_difference(before, after)) is not None:
                yield Pair(factor, before, after)


def _is_misaligned(disk: VirtualDisk) -> bool:
    return (disk.format, disk.subformat) == ("vhd", "dynamic")


def _finding(pair: Pair, judged: Sequence[rows.Row], tests: int, several: bool) -> Finding:
    percent = pair.after.mean(names.MISALIGNED)
    text = {}
    for language in LANGUAGES:
        level, base = (
            sentences.series({pair.factor: point.factors[pair.factor]}, language) for point in (pair.after, pair.before)
        )
        values = {"level": level, "base": base, "percent": percent}
        parts = [say(language, "files.misalignment", values)]
        parts += [part for row in judged for part in words(language, row, tests)]
        own = sentences.sentences(language, *parts)
        text[language] = sentences.in_series(language, pair.where, own, several)
    evidence = {
        **{"factor": pair.factor, "level": pair.after.factors[pair.factor], "base": pair.before.factors[pair.factor]},
        **{"misaligned_percent": percent, "rows": [row.to_json() for row in judged], "tests": tests},
    }
    return Finding("misalignment", pair.where, text, None, evidence)
