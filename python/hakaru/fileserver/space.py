"""Space of a chain over the stages of a repetition, and the check that its layers agree. Pure.

    created ── load ── loaded ── delete ── deleted ── TRIM ── guest_trimmed ── TRIM ── host_trimmed
        ── compaction of the image, and TRIM of the host ── compacted

A layer stores what the one above it has written, and metadata of its own. So between `created` and
`loaded` both grow by the same number of bytes, but for those metadata: `allowances` states how many
bytes they may have. A layer that has all of its space from the start does not grow. Only dynamic
disks are compacted, and the layers from the image down then shrink by the same number of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hakaru.fileserver.chain_spec import ChainSpec
from hakaru.fileserver.virtual_disk import VirtualDisk

STAGES = ("created", "loaded", "deleted", "guest_trimmed", "host_trimmed", "compacted")
"""Moments at which all layers are asked. `compacted` is left out if the disk is fixed, or if there
is no space for two images.
"""
LAYERS = ("files", "guest", "image", "host", "lu", "pool")
"""From the top down."""

_MIB = 1 << 20
_ENTRY_BYTES = 4 << 10
"""A block that is filled in part, for each file, or the block of a folder."""
_LOG_BYTES, _DISK_SHARE = 4 * _MIB, 16
"""Journal, tables and bitmaps that a file system writes and does not count as used: of a small
disk, and as a share of a larger one. mke2fs(8) gives ext4 a journal of about 1/16.
"""
_BLOCKS = 4
"""Blocks of an image of which only a part is used: a file system spreads its data over groups."""
_DEFAULT_BLOCK: Mapping[str, int] = {"raw": 4 << 10, "qcow2": 64 << 10, "vhd": 2 * _MIB, "vhdx": 8 * _MIB}
"""Cluster or block of QEMU if the description has none. VHDX: the smallest (block/vhdx.c)."""
_PAGES = 64
"""Pages of the LU of which only a part is used."""

Stages = Mapping[str, Mapping[str, int | None]]
"""Stage → `Layers.describe()`."""


@dataclass(frozen=True)
class Growth:
    """Growth of two adjacent layers between two stages; negative if they shrink."""

    upper: str
    lower: str
    upper_bytes: int
    """Growth of the upper layer. While the load ran: if the lower one has all of its space from the
    start, the bytes by which the disk was extended.
    """
    lower_bytes: int
    allowed_bytes: int
    """Metadata and rounding by which they may differ."""

    @property
    def agrees(self) -> bool:
        """Whether the layers agree."""
        return abs(self.lower_bytes - self.upper_bytes) <= self.allowed_bytes

    def to_json(self) -> dict[str, Any]:
        """The growth for a record."""
        return asdict(self) | {"agrees": self.agrees}


def bytes_of(layers: Mapping[str, int | None]) -> dict[str, int]:
    """Return layer → bytes at one stage. The image has the blocks that the host allocates to it,
    which is known for every format.
    """
    names = dict(zip(LAYERS, _FIELDS, strict=True))
    return {layer: int(layers[field] or 0) for layer, field in names.items()}


_FIELDS = (
    *("files_bytes", "guest_used_bytes", "image_allocated_bytes"),
    *("host_used_bytes", "lu_mapped_bytes", "pool_used_bytes"),
)


def growths(
    stages: Stages, spec: ChainSpec, page_bytes: int, rewritten_bytes: int, extended_bytes: int = 0
) -> list[Growth]:
    """Return the growth of each pair of layers while the load ran, from `created` to `loaded`.

    `rewritten_bytes`: written by the load over files that existed. `extended_bytes`: by which the
    virtual disk was extended meanwhile; `spec` describes the larger one.
    """
    before, after = (bytes_of(stages[name]) for name in ("created", "loaded"))
    grown = {layer: after[layer] - before[layer] for layer in LAYERS}
    allowed = allowances(spec.disk, int(stages["loaded"]["entries"] or 0), page_bytes, rewritten_bytes)
    found = []
    for (upper, lower), most in zip(_PAIRS, allowed, strict=True):
        # A layer with all of its space from the start hides the growth from those below. Space that
        # is only reserved (`falloc`) reaches the LU when it is written.
        # The pool of the chain has the pages of its LU alone, so it always follows the LU.
        follows = "lu" if lower == "pool" else _growing(upper, spec.disk)
        # A disk whose space is all allocated has that of the added part too.
        is_whole = lower != "pool" and _has_all_space(lower, spec.disk)
        expected = extended_bytes if is_whole else grown[follows]
        # A file system counts some metadata of the space that it was extended by as used.
        added = 0 if lower == "pool" else extended_bytes // _DISK_SHARE
        found.append(Growth(upper, lower, expected, grown[lower], most + added))
    return found


_PAIRS = (("files", "guest"), ("guest", "image"), ("image", "host"), ("host", "lu"), ("lu", "pool"))


def _has_all_space(layer: str, disk: VirtualDisk) -> bool:
    match disk.chosen_preallocation:
        case "full":
            return layer in ("image", "host", "lu", "pool")
        case "falloc":
            return layer in ("image", "host")
        case _:
            return False


def _growing(layer: str, disk: VirtualDisk) -> str:
    """The layer whose growth one below `layer` follows."""
    return "guest" if _has_all_space(layer, disk) else layer


def compactions(stages: Stages, spec: ChainSpec, page_bytes: int) -> list[Growth]:
    """Return the growth of each pair of layers from the image down while the image was compacted,
    from `host_trimmed` to `compacted`; empty without these stages. `spec`: before the compaction.
    """
    if "compacted" not in stages:
        return []
    before, after = (bytes_of(stages[name]) for name in ("host_trimmed", "compacted"))
    grown = {layer: after[layer] - before[layer] for layer in LAYERS}
    allowed = allowances(spec.disk, int(stages["compacted"]["entries"] or 0), page_bytes, 0)
    return [
        Growth(upper, lower, grown[upper], grown[lower], most)
        for (upper, lower), most in zip(_PAIRS, allowed, strict=True)
        if upper in ("image", "host", "lu")
    ]


def compaction_bytes(stages: Stages, disk: VirtualDisk) -> int:
    """Return the bytes that compaction needs at most, besides those of the image, once all files
    were deleted (`host_trimmed`): those of a copy, and of what is written meanwhile.
    """
    log, rounding = _log_bytes(disk), _rounding(disk)
    return min(bytes_of(stages["host_trimmed"])["image"], bytes_of(stages["created"])["image"] + rounding) + log


def _log_bytes(disk: VirtualDisk) -> int:
    return max(_LOG_BYTES, disk.size // _DISK_SHARE)


def _rounding(disk: VirtualDisk) -> int:
    """Bytes of an image that the file system on it does not count as used."""
    return _log_bytes(disk) + _BLOCKS * (disk.block or _DEFAULT_BLOCK[disk.format])


def allowances(
    disk: VirtualDisk, entries: int, page_bytes: int, rewritten_bytes: int
) -> tuple[int, int, int, int, int]:
    """Return the bytes by which each pair of layers may differ, from the top down.

    `entries`: number of files and folders. `rewritten_bytes`: written over files that existed.
    """
    log = _log_bytes(disk)
    # A file that is written again may get other blocks of the disk, and a growing image keeps both.
    rounding = _rounding(disk) + rewritten_bytes
    # A layer below a reserved one follows the file system at the top. The host's log is written to
    # the LU while its blocks count as used from the start.
    to_lu = (rounding if disk.chosen_preallocation == "falloc" else 0) + log + _PAGES * page_bytes
    return (entries * _ENTRY_BYTES + _MIB, rounding, 2 * _MIB, to_lu, 0)


def disorders(stages: Stages, page_bytes: int) -> Iterator[tuple[str, str, str]]:
    """Return (stage, upper, lower) for each stage at which a layer has less than the one above it,
    where that cannot be. `pool` is that of one LU alone, and has the same bytes as the LU.
    """
    for stage, layers in stages.items():
        sizes = bytes_of(layers)
        if sizes["files"] > sizes["guest"]:
            yield stage, "files", "guest"
        if sizes["image"] > sizes["host"]:
            yield stage, "image", "host"
        if sizes["lu"] != sizes["pool"] or sizes["lu"] % page_bytes:
            yield stage, "lu", "pool"


def disagreement(
    stages: Stages, spec: ChainSpec, page_bytes: int, rewritten_bytes: int, extended_bytes: int = 0
) -> dict[str, Any] | None:
    """Return the first pair of layers that does not agree, with the bytes by which it does not;
    None if all agree. Arguments as of `growths`.
    """
    for stage, upper, lower in disorders(stages, page_bytes):
        sizes = bytes_of(stages[stage])
        return {
            "upper": upper,
            "lower": lower,
            "stage": stage,
            "bytes": abs(sizes[lower] - sizes[upper]),
            "allowed_bytes": 0,
        }
    changes = {
        "loaded": growths(stages, spec, page_bytes, rewritten_bytes, extended_bytes),
        "compacted": compactions(stages, spec, page_bytes),
    }
    for stage, grown in changes.items():
        for growth in grown:
            if not growth.agrees:
                return {
                    "upper": growth.upper,
                    "lower": growth.lower,
                    "stage": stage,
                    "bytes": abs(growth.lower_bytes - growth.upper_bytes),
                    "allowed_bytes": growth.allowed_bytes,
                }
    return None
