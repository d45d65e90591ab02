"""What has to fit together where images are copied: LUs, room at both ends, blocks, contents. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hakaru.study.backup import Backup, BackupEnd
from hakaru.study.storage import ArraySpec
from hakaru.study.variables import Problem, near
from hakaru.units import format_size

ENDS = ("from", "to")


def problems(backup: Backup, arrays: Mapping[str, ArraySpec]) -> Iterator[Problem]:
    """What does not fit together."""
    ends = dict(zip(ENDS, (backup.source, backup.destination), strict=True))
    known = True
    for name, end in ends.items():
        for problem in _names(name, end, arrays):
            known = False
            yield problem
    if not known:
        return
    if backup.source.array == backup.destination.array and set(backup.source.lus) & set(backup.destination.lus):
        yield ("backup", "to", "lus"), "an LU is source and destination", "a copy must not write over what it reads"
    for name, end in ends.items():
        yield from _room(name, backup, end, arrays[end.array])
    yield from _blocks(backup, [arrays[end.array].lu(lun).block for end in ends.values() for lun in end.lus])
    if backup.compression != "none" or backup.verify:
        yield from _contents(backup, arrays[backup.source.array])


def _names(name: str, end: BackupEnd, arrays: Mapping[str, ArraySpec]) -> Iterator[Problem]:
    if end.array not in arrays:
        yield ("backup", name, "array"), f"no array {end.array!r}", near(end.array, arrays)
        return
    luns = arrays[end.array].luns
    for i, lun in enumerate(end.lus):
        if lun not in luns:
            yield ("backup", name, "lus", i), f"array {end.array!r} has no LU {lun}", f"its LUs are {luns}"
    if len(set(end.lus)) < len(end.lus):
        yield ("backup", name, "lus"), "an LU stands there twice", "name each LU once"


def _room(name: str, backup: Backup, end: BackupEnd, array: ArraySpec) -> Iterator[Problem]:
    for lun, images in backup.images_on(end).items():
        size = array.lu(lun).size
        if images * backup.image > size:
            message = (
                f"{images} images of {format_size(backup.image)} do not fit on LU {lun} of {end.array}, "
                f"which has {format_size(size)}"
            )
            yield ("backup", name, "lus"), message, "make the LU larger or the images smaller"


def _blocks(backup: Backup, lengths: list[int]) -> Iterator[Problem]:
    length = max(lengths)
    if backup.block % length:
        yield ("backup", "block"), f"not a multiple of the LUs' block length {length}", ""
    elif backup.image % backup.block:
        hint = "choose an image of whole blocks"
        yield ("backup", "image"), f"not a multiple of the block {format_size(backup.block)}", hint
    elif backup.image // backup.block < backup.streams:
        message = f"{backup.streams} streams, but an image has only {backup.image // backup.block} blocks"
        yield ("backup", "streams"), message, "choose fewer streams or smaller blocks"


def _contents(backup: Backup, array: ArraySpec) -> Iterator[Problem]:
    """Zeros compress to nothing, and are what a copy that never happened holds as well."""
    for lun in backup.source.lus:
        if array.lu(lun).fill is None:
            what = "compression" if backup.compression != "none" else "verify"
            message = f"LU {lun} of {backup.source.array} holds zeros, of which this says nothing"
            yield ("backup", what), message, "give that LU contents: `fill: {compressible_percent: 0}`"
