"""Rules of consistency for copies of images: LUs, space at both ends, blocks, contents. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hakaru.kinds.copy.load import CopyDestination, CopyEnd, CopyLoad, TapeWriting
from hakaru.study.storage import ArraySpec, Pool
from hakaru.study.tape import TapeLibrarySpec
from hakaru.study.variables import Problem
from hakaru.suggest import did_you_mean
from hakaru.units import format_size

ENDS = ("from", "to")
TAPE_BLOCK_MAX = 8 << 20
"""Longest write to a tape, bytes."""
TAPE_PAGES = 4
"""Pages of a cartridge besides those full of data: header and index, and both ends of the data."""


def problems(load: CopyLoad, arrays: Mapping[str, ArraySpec]) -> Iterator[Problem]:
    """Return the problems of the load with these arrays."""
    ends = dict(zip(ENDS, (load.source, load.destination), strict=True))
    if bool(load.destination.lus) == (load.destination.tape is not None):
        hint = "write either `lus: [0]` or `tape: {}`"
        yield ("load", "to"), "the copies go to disks or to tapes", hint
        return
    known = True
    for name, end in ends.items():
        for problem in _names(name, end, arrays):
            known = False
            yield problem
    if not known:
        return
    if load.source.array == load.destination.array and set(load.source.lus) & set(load.destination.lus):
        yield ("load", "to", "lus"), "an LU is source and destination", "a copy must not write over what it reads"
    for name, end in ends.items():
        yield from _room(name, load, end, arrays[end.array])
    library = arrays[load.destination.array].tape_library
    if load.destination.tape is not None and library is not None:
        yield from _tape(load, load.destination.tape, library)
        if library.pool is not None:
            yield from _tape_pool(load, library, arrays[load.destination.array].pool(library.pool))
    yield from _blocks(load, [arrays[end.array].lu(lun).block for end in ends.values() for lun in end.lus])
    if load.compression != "none" or load.verify:
        yield from _contents(load, arrays[load.source.array])


def _names(name: str, end: CopyEnd, arrays: Mapping[str, ArraySpec]) -> Iterator[Problem]:
    if end.array not in arrays:
        yield ("load", name, "array"), f"no array {end.array!r}", did_you_mean(end.array, arrays)
        return
    if isinstance(end, CopyDestination) and end.tape is not None and arrays[end.array].tape_library is None:
        hint = "add one to the array: `tape_library: {generation: lto5, cartridges: 4, capacity: 8 GiB}`"
        yield ("load", name, "tape"), f"array {end.array!r} has no tape library", hint
    luns = arrays[end.array].luns
    for i, lun in enumerate(end.lus):
        if lun not in luns:
            yield ("load", name, "lus", i), f"array {end.array!r} has no LU {lun}", f"its LUs are {luns}"
    if len(set(end.lus)) < len(end.lus):
        yield ("load", name, "lus"), "an LU is listed twice", "name each LU once"


def _room(name: str, load: CopyLoad, end: CopyEnd, array: ArraySpec) -> Iterator[Problem]:
    if not end.lus:
        return
    for lun, images in load.images_on(end).items():
        size = array.lu(lun).size
        if images * load.image > size:
            message = (
                f"{images} images of {format_size(load.image)} do not fit on LU {lun} of {end.array}, "
                f"which has {format_size(size)}"
            )
            yield ("load", name, "lus"), message, "make the LU larger or the images smaller"


def _blocks(load: CopyLoad, lengths: list[int]) -> Iterator[Problem]:
    length = max(lengths)
    if load.block % length:
        yield ("load", "block"), f"not a multiple of the LUs' block length {length}", ""
    elif load.image % load.block:
        hint = "choose an image of whole blocks"
        yield ("load", "image"), f"not a multiple of the block {format_size(load.block)}", hint
    elif load.image // load.block < load.streams:
        message = f"{load.streams} streams, but an image has only {load.image // load.block} blocks"
        yield ("load", "streams"), message, "choose fewer streams or smaller blocks"


def _contents(load: CopyLoad, array: ArraySpec) -> Iterator[Problem]:
    """Check that the source holds data. Zeros compress to nothing, and verifying them cannot reveal
    a missing copy.
    """
    for lun in load.source.lus:
        if array.lu(lun).fill is None:
            setting = "compression" if load.compression != "none" else "verify"
            message = f"LU {lun} of {load.source.array} holds only zeros, which make this setting meaningless"
            yield ("load", setting), message, "give that LU contents: `fill: {compressible_percent: 0}`"


def _tape(load: CopyLoad, tape: TapeWriting, library: TapeLibrarySpec) -> Iterator[Problem]:
    """Check streams, blocks, cartridges and their space."""
    if load.streams > 1:
        yield ("load", "streams"), "a tape has one stream of blocks", "leave `streams` out, or copy to disks"
    if not 4096 <= load.block <= TAPE_BLOCK_MAX:
        message = f"{format_size(load.block)} is not a length of a write to a tape"
        yield ("load", "block"), message, f"use 4 KiB to {format_size(TAPE_BLOCK_MAX)}"
    if tape.fixed_block is not None and load.block % tape.fixed_block:
        message = f"{format_size(load.block)} is not a multiple of the fixed block {format_size(tape.fixed_block)}"
        yield ("load", "block"), message, "choose a `fixed_block` that divides `block`"
    if tape.filemark_every is not None and tape.filemark_every < load.block:
        yield ("load", "to", "tape", "filemark_every"), "less than a block", "use at least `load.block`"
    per_vm = tape.cartridges == "per_vm"
    needed, writable = load.jobs if per_vm else min(load.jobs, library.drive_count), len(library.writable)
    if writable < needed:
        library_name = load.destination.array
        message = f"{needed} cartridges are needed, and the library of {library_name} has {writable}"
        if writable < len(library.placed):
            message = f"{needed} cartridges are needed, and {writable} of the library of {library_name} can be written"
        hint = f"write `cartridges: {needed}` in its `tape_library`, or `cartridges: appended` here"
        yield ("load", "to", "tape", "cartridges"), message, hint
    on_each = 1 if per_vm else -(-load.jobs // library.drive_count)
    if on_each * load.image > (library.capacity - library.early_warning) * library.compression:
        message = (
            f"{on_each} images of {format_size(load.image)} do not fit on a cartridge of "
            f"{format_size(library.capacity)} before its early warning"
        )
        yield ("load", "to", "tape"), message, "make `capacity` of the tape library larger, or the images smaller"


def _tape_pool(load: CopyLoad, library: TapeLibrarySpec, pool: Pool) -> Iterator[Problem]:
    """Check that a pool holds the images."""
    needed = load.jobs * load.image + len(library.placed) * TAPE_PAGES * pool.page
    if needed > pool.data_bytes:
        message = f"the images and the index of the cartridges need {format_size(needed)} of pool {pool.name}"
        yield ("load", "to", "tape"), message, f"it has {format_size(pool.data_bytes)}: make its groups larger"
