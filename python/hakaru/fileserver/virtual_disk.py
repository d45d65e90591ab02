"""Virtual disks: their formats, and the commands of QEMU that create and attach them. Pure.

    disk = VirtualDisk(format="vhd", subformat="dynamic", size="8 GiB")
    refusal(disk, qemu_img)              what this qemu-img lacks for it, or None
    create_commands(disk, "/srv/disk")   qemu-img create …, and what it leaves out
    attach_command(disk, "/srv/disk", "/dev/nbd0")
    resize_command(larger, "/srv/disk")  qemu-img resize …, to the size of a larger disk
    overlay_command(disk, "/srv/disk", "/srv/overlay")   qemu-img create …, over the image
    compact_commands(disk, …)            qemu-img convert …, without what the overlay discards
    compacted(disk)                      the same disk after them

`QemuImg` has the facts about the qemu-img of a machine or guest. `parse_formats` and
`parse_options` read them from its help.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hakaru.units import Size, format_size

Format = Literal["raw", "qcow2", "vhd", "vhdx"]
Preallocation = Literal["off", "metadata", "falloc", "full"]
CacheMode = Literal["writeback", "none", "writethrough", "directsync", "unsafe"]

_SECTOR = 512
_KIB, _MIB, _GIB, _TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
# block/vpc.c: VHD_MAX_SECTORS of 0xff000000. docs/interop/qcow2: limited by the L1 table of 32 MiB.
# block/vhdx.h: VHDX_MAX_IMAGE_SIZE. A raw image has the limit of its file system.
_SIZE_MAX: Mapping[Format, int] = {"raw": 8 << 60, "qcow2": 64 * _TIB, "vhd": 2040 * _GIB, "vhdx": 64 * _TIB}
# Powers of two. A VHD of QEMU always has blocks of 2 MiB (block/vpc.c).
_BLOCK: Mapping[Format, range] = {"qcow2": range(512, 2 * _MIB + 1), "vhdx": range(_MIB, 256 * _MIB + 1)}
_VHD_BLOCK_BYTES = 2 * _MIB
_EXTENDED_L2_MIN_BYTES = 16 * _KIB


@dataclass(frozen=True)
class Traits:
    """Properties of a format in QEMU."""

    driver: str
    """QEMU's name of the format."""
    growing: tuple[Preallocation, ...]
    """Preallocations of an image that grows."""
    fixed: tuple[Preallocation, ...]
    """Preallocations of an image whose space is all mapped."""
    returns_space: bool
    """Whether discarded blocks are returned to the file system of the image."""
    subformats: bool = False
    """Whether the format has the two subformats by itself."""
    has_map: bool = True
    """Whether `qemu-img map` reports which ranges have data, and where."""
    can_grow: bool = True
    """Whether `qemu-img resize` makes an image larger."""


FORMATS: Mapping[Format, Traits] = {
    "raw": Traits("raw", ("off",), ("falloc", "full"), returns_space=True),
    "qcow2": Traits("qcow2", ("off", "metadata"), ("falloc", "full"), returns_space=True),
    # block/vpc.c and block/vhdx.c have no .bdrv_co_pdiscard. QEMU writes no data of a fixed VHD, so
    # without `preallocation` its file is sparse. block/vhdx.c has no .bdrv_co_block_status. Neither
    # has .bdrv_co_truncate.
    "vhd": Traits("vpc", ("off",), ("off", "falloc", "full"), returns_space=False, subformats=True, can_grow=False),
    "vhdx": Traits("vhdx", ("off",), ("off",), returns_space=False, subformats=True, has_map=False, can_grow=False),
}


class VirtualDisk(BaseModel):
    """A virtual disk, as a study describes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = Field(description="Format of the image.")
    size: Size = Field(description="Size that the guest sees, in multiples of 512 bytes.")
    subformat: Literal["dynamic", "fixed"] = Field(
        default="dynamic", description="`dynamic`: takes space as it is written; `fixed`: takes all of it at once."
    )
    preallocation: Preallocation | None = Field(
        default=None,
        description="`falloc`: space of the file system, not written; `full`: written with zeros. "
        "Default: `off` if dynamic, otherwise `full`, or `off` for VHDX.",
    )
    block: Size | None = Field(
        default=None, description="Cluster of qcow2 or block of VHDX, a power of two. Default: QEMU's."
    )
    extended_l2: bool = Field(default=False, description="qcow2: subclusters, 32 per cluster.")
    cache: CacheMode = Field(
        default="writeback",
        description="`writeback`: page cache, flushed on demand; `writethrough`: each write is flushed; "
        "`none`, `directsync`: the same without the page cache; `unsafe`: never flushed.",
    )
    discard: bool = Field(default=True, description="Whether TRIM of the guest reaches the image.")
    detect_zeroes: bool = Field(default=False, description="Whether written zeros are discarded instead.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        traits, name = FORMATS[self.format], self.format
        if self.size % _SECTOR or not 0 < self.size <= _SIZE_MAX[name]:
            raise ValueError(
                f"{format_size(self.size)} is not a size of a {name} disk: multiples of 512 bytes, up to "
                f"{format_size(_SIZE_MAX[name])}"
            )
        allowed = traits.growing if self.subformat == "dynamic" else traits.fixed
        if self.preallocation is not None and self.preallocation not in allowed:
            raise ValueError(
                f"a {self.subformat} {name} disk has no preallocation {self.preallocation!r}; it has "
                + " or ".join(allowed)
            )
        if self.block is not None:
            self._check_block(self.block)
        if self.extended_l2 and (name != "qcow2" or (self.block or 64 * _KIB) < _EXTENDED_L2_MIN_BYTES):
            raise ValueError("`extended_l2` needs qcow2 with clusters of at least 16 KiB")
        if self.detect_zeroes and not self.discard:
            raise ValueError("`detect_zeroes` discards zeros, so it needs `discard: true`")
        return self

    def _check_block(self, block: int) -> None:
        if self.format == "vhd":
            if block != _VHD_BLOCK_BYTES:
                raise ValueError("QEMU creates VHDs with blocks of 2 MiB only; use VHDX for other sizes")
            return
        allowed = _BLOCK.get(self.format)
        if allowed is None:
            raise ValueError(f"a {self.format} disk has no blocks; remove `block`")
        if block not in allowed or block & (block - 1):
            raise ValueError(
                f"{format_size(block)} is not a block of {self.format}: a power of two from "
                f"{format_size(allowed.start)} to {format_size(allowed.stop - 1)}"
            )

    @property
    def chosen_preallocation(self) -> Preallocation:
        """The preallocation, with the default resolved."""
        if self.preallocation is not None:
            return self.preallocation
        return FORMATS[self.format].fixed[-1] if self.subformat == "fixed" else "off"

    @property
    def returns_space(self) -> bool:
        """Whether TRIM in the guest makes the image smaller."""
        return self.discard and FORMATS[self.format].returns_space


@dataclass(frozen=True)
class QemuImg:
    """Facts about a qemu-img."""

    version: str
    """`7.2.22`; empty: not installed."""
    formats: frozenset[str] = frozenset()
    options: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Driver → options of `qemu-img create`."""


@dataclass(frozen=True)
class Refusal:
    """Reason why a disk cannot be created, and a remedy."""

    reason: str
    hint: str


def refusal(disk: VirtualDisk, program: QemuImg) -> Refusal | None:
    """Return the first thing that a qemu-img lacks for a disk."""
    if not program.version:
        return Refusal("qemu-img is not installed", "sudo apt-get install qemu-utils")
    driver = FORMATS[disk.format].driver
    if driver not in program.formats:
        return Refusal(
            f"qemu-img {program.version} has no format {driver} for a {disk.format} disk",
            "use another format, or another build of QEMU",
        )
    for name in _options(disk):
        if name not in program.options.get(driver, frozenset()):
            return Refusal(
                f"qemu-img {program.version} has no option {name} of the format {driver}", "use a newer QEMU"
            )
    return None


def _options(disk: VirtualDisk) -> dict[str, str]:
    """Return options of `qemu-img create -o`."""
    options: dict[str, str] = {}
    if FORMATS[disk.format].subformats:
        options["subformat"] = disk.subformat
    elif disk.chosen_preallocation != "off":
        options["preallocation"] = disk.chosen_preallocation
    match disk.format:
        case "vhd":
            # Otherwise the size is rounded to a geometry of cylinders, heads and sectors.
            options["force_size"] = "on"
        case "qcow2":
            if disk.block is not None:
                options["cluster_size"] = str(disk.block)
            if disk.extended_l2:
                options["extended_l2"] = "on"
        case "vhdx":
            if disk.block is not None:
                options["block_size"] = str(disk.block)
        case "raw":
            pass
    return options


def create_commands(disk: VirtualDisk, path: str) -> list[list[str]]:
    """Return the commands that create an image at an absolute path."""
    assert path.startswith("/"), path
    words = ["qemu-img", "create", "-q", "-f", FORMATS[disk.format].driver]
    options = _options(disk)
    if options:
        words += ["-o", ",".join(f"{name}={value}" for name, value in options.items())]
    commands = [[*words, path, str(disk.size)]]
    if disk.format == "vhd" and disk.subformat == "fixed":
        # The data of a fixed VHD begin at byte 0; a footer of 512 bytes follows.
        match disk.chosen_preallocation:
            case "falloc":
                commands.append(["fallocate", "--length", str(disk.size), path])
            case "full":
                # 1 MiB at a time; `dd` with the size as its block would need as much memory.
                fill = ["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={disk.size}", "iflag=count_bytes"]
                commands.append([*fill, "conv=notrunc,fsync", "status=none"])
            case _:
                pass
    return commands


def attach_command(disk: VirtualDisk, path: str, device: str) -> list[str]:
    """Return the command that attaches an image as a block device and then continues in the
    background.
    """
    return [
        *("qemu-nbd", "--fork", f"--connect={device}", f"--format={FORMATS[disk.format].driver}"),
        *(f"--cache={disk.cache}", f"--discard={'unmap' if disk.discard else 'ignore'}"),
        *(("--detect-zeroes=unmap",) if disk.detect_zeroes else ()),
        path,
    ]


def resize_command(disk: VirtualDisk, path: str) -> list[str]:
    """Return the command that gives an image that is not attached the size of a larger `disk`. The
    added space is allocated as that of the image.
    """
    assert FORMATS[disk.format].can_grow, disk.format
    words = ["qemu-img", "resize", "-q", "-f", FORMATS[disk.format].driver]
    if disk.chosen_preallocation != "off":
        words.append(f"--preallocation={disk.chosen_preallocation}")
    return [*words, path, str(disk.size)]


def compacted(disk: VirtualDisk) -> VirtualDisk:
    """Return the description of an image after `compact_commands`. It takes only the space of its
    data, so a fixed one is sparse. Raw images and qcow2 have no other fixed ones, so theirs is
    dynamic.
    """
    subformat = disk.subformat if FORMATS[disk.format].subformats else "dynamic"
    return VirtualDisk.model_validate({**disk.model_dump(), "subformat": subformat, "preallocation": "off"})


def overlaid(disk: VirtualDisk) -> VirtualDisk:
    """Return the description of an overlay of an image: a disk of the same size."""
    return VirtualDisk.model_validate({"format": "qcow2", "size": disk.model_dump()["size"], "cache": "unsafe"})


def overlay_command(disk: VirtualDisk, path: str, overlay: str) -> list[str]:
    """Return the command that creates an empty overlay of an image that is not attached. What is
    written or discarded in the overlay leaves the image as it is. In contrast to VHD and VHDX, an
    overlay stores what was discarded, as zeros.
    """
    driver = FORMATS[disk.format].driver
    return ["qemu-img", "create", "-q", "-f", "qcow2", "-F", driver, "-b", path, overlay]


def compact_commands(disk: VirtualDisk, path: str, scratch: str, overlay: str) -> list[list[str]]:
    """Return the commands that copy an image that is not attached to `scratch`, as its overlay has
    changed it and without unused blocks and zeros, and put the copy in its place. The counterpart
    of Hyper-V's compaction.
    """
    driver = FORMATS[disk.format].driver
    options = ",".join(f"{name}={value}" for name, value in _options(compacted(disk)).items())
    kind = ("-O", driver, *(("-o", options) if options else ()))
    convert = ["qemu-img", "convert", "-f", "qcow2", *kind, overlay, scratch]
    return [convert, ["mv", scratch, path], ["rm", overlay]]


def parse_formats(text: str) -> frozenset[str]:
    """Parse the line `Supported formats:` of `qemu-img --help`."""
    found = re.search(r"^Supported formats:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def parse_options(text: str) -> frozenset[str]:
    """Parse the options of `qemu-img create -f FORMAT -o help FILE`."""
    return frozenset(re.findall(r"^  ([a-z0-9_.-]+)=", text, re.MULTILINE))


def parse_version(text: str) -> str:
    """Parse `qemu-img --version`: `qemu-img version 7.2.22 (Debian …)`."""
    found = re.search(r"version (\d+(?:\.\d+)+)", text)
    return found[1] if found else ""
