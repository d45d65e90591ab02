"""What has to fit together where VMs load an array: images, regions, request sizes, room. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hakaru.study.factors import Factors
from hakaru.study.model import Open, Study
from hakaru.study.seating import seats
from hakaru.study.variables import Problem, near
from hakaru.units import format_size


def problems(study: Study) -> Iterator[Problem]:
    """What does not fit together whatever the number of VMs."""
    if study.vms is None:
        return
    luns = study.only_array.luns
    for c, column in enumerate(study.vms.columns):
        for i, lun in enumerate(column):
            if lun not in luns:
                yield ("vms", "columns", c, i), f"the array has no LU {lun}", f"its LUs are {luns}"
    vms = study.vms
    if vms.region is not None and not 0 < vms.region <= vms.image:
        yield ("vms", "region"), "larger than the image, or nothing", "a region is a part of a VM's image"
    named = [lun for column in vms.columns for lun in column]
    if len(set(named)) < len(named):
        yield ("vms", "columns"), "an LU stands there twice", "VMs would write over each other; name each LU once"
    yield from _patterns(study)
    most, blocks = study.iscsi.initiator.command_max, [lu.block for lu in study.only_array.lus]
    if most is not None and most % max(blocks):
        yield ("iscsi", "initiator", "command_max"), f"not a multiple of the block length {max(blocks)}", ""


def block_problems(study: Study, blocks: Iterable[tuple[tuple[str | int, ...], Factors]]) -> Iterator[Problem]:
    """What does not fit the levels of `pattern`, `vms` and `queue_depth`."""
    most = 0
    for place, block in blocks:
        for i, name in enumerate(block.pattern or ()):
            if name not in study.patterns:
                yield (*place, "pattern", i), f"no pattern {name!r}", near(name, study.patterns)
            elif block.queue_depth and isinstance(study.patterns[name].load, Open):
                yield (*place, "queue_depth"), f"pattern {name!r} has an open load, which has no queue depth", ""
        most = max(most, *(block.vms or [0]))
    vms, array = study.seats, study.only_array
    room = seats([[array.lu(lun).size // vms.image for lun in column] for column in vms.columns])
    if most > room:
        message = f"{most} VMs with images of {format_size(vms.image)} do not fit; there is room for {room}"
        yield ("vms", "columns"), message, "make the LUs larger or the images smaller"


def _patterns(study: Study) -> Iterator[Problem]:
    vms = study.seats
    block = max(lu.block for lu in study.only_array.lus)
    for field, size in (("image", vms.image), ("region", vms.region_bytes)):
        if size % block:
            yield ("vms", field), f"not a multiple of the block length {block}", ""
    for name, pattern in study.patterns.items():
        for i, one in enumerate(pattern.sizes):
            place = ("patterns", name, "sizes", i, "size")
            if one.size % block:
                yield place, f"not a multiple of the block length {block}", ""
            if one.size > vms.region_bytes:
                yield place, "larger than a VM's region", ""
        if pattern.align is not None and (pattern.align % block or not pattern.align):
            yield ("patterns", name, "align"), f"not a multiple of the block length {block}", ""
