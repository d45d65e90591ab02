"""Stages of a chain, and the check that its layers agree."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.fileserver.chain_spec import ChainSpec
from hakaru.fileserver.space import Growth, Stages, allowances, compaction_bytes, compactions, disagreement, growths
from hakaru.fileserver.virtual_disk import VirtualDisk

MIB = 1 << 20
PAGE_BYTES = 64 << 10


def spec(**disk: Any) -> ChainSpec:
    return ChainSpec(VirtualDisk.model_validate({"format": "raw", "size": "64 MiB", **disk}))


def layers(files: int, guest: int, image: int, host: int, lu: int, pool: int | None = None) -> dict[str, int | None]:
    """Bytes of each layer, given in MiB."""
    return {
        "entries": 40,
        "files_bytes": files * MIB,
        "guest_used_bytes": guest * MIB,
        "image_allocated_bytes": image * MIB,
        "host_used_bytes": host * MIB,
        "lu_mapped_bytes": lu * MIB,
        "pool_used_bytes": (lu if pool is None else pool) * MIB,
    }


EMPTY = layers(0, 1, 5, 51, 70)
# Measured with XFS on the LU and ext4 on a raw disk of 64 MiB (docs/concepts/file-servers.md).
MEASURED = {"created": EMPTY, "loaded": layers(16, 17, 21, 67, 86)}


def test_layers_that_grow_by_the_same_bytes_agree() -> None:
    assert disagreement(MEASURED, spec(), PAGE_BYTES, 0) is None
    found = [
        (growth.upper_bytes // MIB, growth.lower_bytes // MIB) for growth in growths(MEASURED, spec(), PAGE_BYTES, 0)
    ]
    assert found == [(16, 16)] * 5


@pytest.mark.parametrize(
    ("loaded", "pair", "stage"),
    [
        (layers(16, 40, 44, 90, 109), ("files", "guest"), "loaded"),
        (layers(40, 41, 5, 51, 70), ("guest", "image"), "loaded"),
        (layers(16, 17, 21, 90, 109), ("image", "host"), "loaded"),
        (layers(40, 41, 45, 91, 70), ("host", "lu"), "loaded"),
        (layers(16, 17, 21, 67, 86, 87), ("lu", "pool"), "loaded"),
        (layers(16, 15, 21, 67, 86), ("files", "guest"), "loaded"),
        (layers(16, 17, 68, 67, 86), ("image", "host"), "loaded"),
    ],
)
def test_layer_that_differs_by_more_than_metadata_is_named(
    loaded: dict[str, int | None], pair: tuple[str, str], stage: str
) -> None:
    found = disagreement({"created": EMPTY, "loaded": loaded}, spec(), PAGE_BYTES, 0)
    assert found is not None
    assert (found["upper"], found["lower"]) == pair and found["stage"] == stage
    assert found["bytes"] > found["allowed_bytes"]


def test_lu_of_incomplete_pages_is_a_disagreement() -> None:
    loaded = {**layers(16, 17, 21, 67, 86), "lu_mapped_bytes": 86 * MIB + 1, "pool_used_bytes": 86 * MIB + 1}
    found = disagreement({"created": EMPTY, "loaded": loaded}, spec(), PAGE_BYTES, 0)
    assert found is not None and (found["upper"], found["lower"]) == ("lu", "pool")


def test_disk_that_has_all_of_its_space_does_not_grow() -> None:
    fixed = spec(format="vhd", subformat="fixed")
    whole = {"created": layers(0, 1, 64, 103, 129), "loaded": layers(16, 17, 64, 103, 129)}
    assert disagreement(whole, fixed, PAGE_BYTES, 0) is None
    # If it grows nevertheless, it was not written when it was created.
    grown = {"created": layers(0, 1, 5, 51, 70), "loaded": layers(40, 41, 45, 91, 110)}
    found = disagreement(grown, fixed, PAGE_BYTES, 0)
    assert found is not None and (found["upper"], found["lower"]) == ("guest", "image")
    assert disagreement(grown, spec(format="vhd"), PAGE_BYTES, 0) is None


def test_fixed_disk_grows_by_the_bytes_that_it_was_extended_by() -> None:
    fixed = spec(size="96 MiB", subformat="fixed")
    extended = {"created": layers(0, 1, 64, 103, 129), "loaded": layers(16, 17, 96, 135, 161)}
    assert disagreement(extended, fixed, PAGE_BYTES, 0, 32 * MIB) is None
    found = disagreement(extended, fixed, PAGE_BYTES, 0)
    assert found is not None and (found["upper"], found["lower"]) == ("guest", "image")
    # A growing disk follows its files.
    assert disagreement(MEASURED, spec(size="96 MiB"), PAGE_BYTES, 0, 32 * MIB) is None


def test_reserved_space_reaches_the_lu_when_it_is_written() -> None:
    reserved = spec(subformat="fixed", preallocation="falloc")
    written = {"created": layers(0, 1, 64, 103, 70), "loaded": layers(40, 41, 64, 103, 110)}
    assert disagreement(written, reserved, PAGE_BYTES, 0) is None
    lost = {"created": layers(0, 1, 64, 103, 70), "loaded": layers(40, 41, 64, 103, 70)}
    found = disagreement(lost, reserved, PAGE_BYTES, 0)
    assert found is not None and (found["upper"], found["lower"]) == ("host", "lu")


def test_allowances_follow_from_files_blocks_and_pages() -> None:
    few, many = allowances(spec().disk, 10, PAGE_BYTES, 0), allowances(spec().disk, 1000, PAGE_BYTES, 0)
    assert many[0] - few[0] == 990 * 4096 and many[1:] == few[1:]
    assert allowances(spec(format="vhd").disk, 10, PAGE_BYTES, 0)[1] - few[1] == 4 * (2 * MIB - 4096)
    assert allowances(spec().disk, 10, 4 * PAGE_BYTES, 0)[3] - few[3] == 64 * 3 * PAGE_BYTES
    assert few[4] == 0


def test_growing_image_keeps_the_blocks_of_files_that_were_written_again() -> None:
    again = {"created": EMPTY, "loaded": layers(16, 17, 51, 97, 116)}
    assert disagreement(again, spec(), PAGE_BYTES, 0) is not None
    assert disagreement(again, spec(), PAGE_BYTES, 30 * MIB) is None


# The same disk as VHD: its image keeps the file until it is compacted.
COMPACTED = {
    "created": layers(0, 1, 20, 52, 70),
    "loaded": layers(16, 17, 36, 68, 86),
    "host_trimmed": layers(0, 1, 36, 68, 86),
    "compacted": layers(0, 1, 16, 48, 66),
}


def test_layers_shrink_by_the_same_bytes_when_the_image_is_compacted() -> None:
    vhd = spec(format="vhd")
    assert disagreement(COMPACTED, vhd, PAGE_BYTES, 0) is None
    found = [(each.upper, each.upper_bytes // MIB, each.lower_bytes // MIB) for each in shrunk(COMPACTED, vhd)]
    assert found == [("image", -20, -20), ("host", -20, -20), ("lu", -20, -20)]
    assert shrunk({name: COMPACTED[name] for name in ("created", "loaded", "host_trimmed")}, vhd) == []


def shrunk(stages: Stages, described: ChainSpec) -> list[Growth]:
    return compactions(stages, described, PAGE_BYTES)


@pytest.mark.parametrize(
    ("compacted", "pair"),
    [
        (layers(0, 1, 16, 51, 69), ("image", "host")),
        (layers(0, 1, 16, 48, 75), ("host", "lu")),
        (layers(0, 1, 16, 48, 66, 67), ("lu", "pool")),
    ],
)
def test_layer_that_keeps_what_compaction_freed_above_is_named(
    compacted: dict[str, int | None], pair: tuple[str, str]
) -> None:
    found = disagreement({**COMPACTED, "compacted": compacted}, spec(format="vhd"), PAGE_BYTES, 0)
    assert found is not None and (found["upper"], found["lower"], found["stage"]) == (*pair, "compacted")


def test_compaction_needs_a_copy_of_the_new_image_but_not_of_the_data() -> None:
    vhd = spec(format="vhd", size="1 GiB").disk
    # A journal of 1/16 of the disk, and 4 blocks of 2 MiB; and a journal of the host.
    assert compaction_bytes({**COMPACTED, "host_trimmed": layers(0, 1, 700, 750, 800)}, vhd) == (20 + 64 + 8 + 64) * MIB
    assert compaction_bytes(COMPACTED, vhd) == (36 + 64) * MIB
