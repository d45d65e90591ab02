"""Virtual disks: refused descriptions, and images that qemu-img of this machine creates."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hakaru.fileserver.chain import parse_examination
from hakaru.fileserver.image_map import ImageMap, parse_map
from hakaru.fileserver.virtual_disk import (
    FORMATS,
    QemuImg,
    VirtualDisk,
    attach_command,
    compact_commands,
    compacted,
    create_commands,
    overlaid,
    overlay_command,
    parse_formats,
    parse_options,
    parse_version,
    refusal,
    resize_command,
)
from pydantic import ValidationError

MIB = 1 << 20
SIZE = 64 * MIB


def disk(**values: Any) -> VirtualDisk:
    return VirtualDisk.model_validate({"size": "64 MiB", **values})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": "vmdk"}, "Input should be"),
        ({"format": "raw", "size": "1000 B"}, "multiples of 512 bytes"),
        ({"format": "raw", "size": 0}, "multiples of 512 bytes"),
        ({"format": "vhd", "size": "2041 GiB"}, "up to 2040 GiB"),
        ({"format": "vhdx", "size": "65 TiB"}, "up to 64 TiB"),
        ({"format": "raw", "preallocation": "full"}, "a dynamic raw disk has no preallocation 'full'; it has off"),
        ({"format": "raw", "subformat": "fixed", "preallocation": "metadata"}, "it has falloc or full"),
        ({"format": "qcow2", "subformat": "fixed", "preallocation": "metadata"}, "it has falloc or full"),
        ({"format": "vhd", "preallocation": "metadata"}, "it has off"),
        ({"format": "vhdx", "subformat": "fixed", "preallocation": "full"}, "it has off"),
        ({"format": "raw", "block": "64 KiB"}, "has no blocks"),
        ({"format": "vhd", "block": "1 MiB"}, "blocks of 2 MiB only"),
        ({"format": "qcow2", "block": "4 MiB"}, "a power of two from 512 B to 2 MiB"),
        ({"format": "qcow2", "block": "96 KiB"}, "a power of two from 512 B to 2 MiB"),
        ({"format": "vhdx", "block": "512 KiB"}, "a power of two from 1 MiB to 256 MiB"),
        ({"format": "qcow2", "block": "8 KiB", "extended_l2": True}, "at least 16 KiB"),
        ({"format": "vhd", "extended_l2": True}, "`extended_l2` needs qcow2"),
        ({"format": "raw", "discard": False, "detect_zeroes": True}, "needs `discard: true`"),
    ],
)
def test_impossible_disk_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        disk(**values)


def test_qemu_img_that_lacks_a_format_or_an_option_is_named() -> None:
    here = QemuImg("7.2.22", frozenset({"raw", "vpc"}), {"vpc": frozenset({"subformat"})})
    absent = refusal(disk(format="raw"), QemuImg(""))
    assert absent is not None and absent.hint == "sudo apt-get install qemu-utils"
    missing = refusal(disk(format="qcow2"), here)
    assert missing is not None and missing.reason == "qemu-img 7.2.22 has no format qcow2 for a qcow2 disk"
    option = refusal(disk(format="vhd"), here)
    assert option is not None and option.reason == "qemu-img 7.2.22 has no option force_size of the format vpc"
    assert refusal(disk(format="raw"), here) is None


def test_commands_have_every_choice() -> None:
    fixed = disk(format="vhd", subformat="fixed")
    create, fill = create_commands(fixed, "/d")
    assert shlex.join(create) == "qemu-img create -q -f vpc -o subformat=fixed,force_size=on /d 67108864"
    assert shlex.join(fill).startswith("dd if=/dev/zero of=/d bs=1M count=67108864 iflag=count_bytes conv=notrunc")
    chosen = disk(format="qcow2", block="1 MiB", extended_l2=True, preallocation="metadata", cache="none")
    (create,) = create_commands(chosen, "/d")
    assert create[5:7] == ["-o", "preallocation=metadata,cluster_size=1048576,extended_l2=on"]
    assert attach_command(chosen, "/d", "/dev/nbd0")[2:] == [
        *("--connect=/dev/nbd0", "--format=qcow2", "--cache=none", "--discard=unmap", "/d")
    ]
    without = disk(format="raw", discard=False)
    assert "--discard=ignore" in attach_command(without, "/d", "/dev/nbd0")
    assert not without.returns_space and not disk(format="vhd").returns_space and disk(format="raw").returns_space


CREATED = [
    {"format": "raw"},
    {"format": "raw", "subformat": "fixed"},
    {"format": "raw", "subformat": "fixed", "preallocation": "falloc"},
    {"format": "qcow2"},
    {"format": "qcow2", "preallocation": "metadata", "block": "128 KiB", "extended_l2": True},
    {"format": "qcow2", "subformat": "fixed"},
    {"format": "vhd"},
    {"format": "vhd", "subformat": "fixed"},
    {"format": "vhd", "subformat": "fixed", "preallocation": "off"},
    {"format": "vhd", "subformat": "fixed", "preallocation": "falloc"},
    {"format": "vhdx", "block": "8 MiB"},
    {"format": "vhdx", "subformat": "fixed"},
]


@pytest.fixture
def qemu_img() -> QemuImg:
    if shutil.which("qemu-img") is None:
        pytest.skip("qemu-img is not installed (Debian package qemu-utils)")
    drivers = [traits.driver for traits in FORMATS.values()]
    text = run("qemu-img", "--version") + run("qemu-img", "--help")
    text += "".join(f"\ndriver {d}\n" + run("qemu-img", "create", "-f", d, "-o", "help", "/tmp/none") for d in drivers)
    return parse_examination(text, drivers)


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def map_of(described: VirtualDisk, path: Path) -> ImageMap:
    return parse_map(run("qemu-img", "map", "--output=json", "-f", FORMATS[described.format].driver, str(path)))


@pytest.mark.parametrize("values", CREATED, ids=lambda values: "-".join(map(str, values.values())))
def test_image_is_created_with_the_size_and_the_space_described(
    qemu_img: QemuImg, tmp_path: Path, values: dict[str, Any]
) -> None:
    described, path = disk(**values), tmp_path / "image"
    assert refusal(described, qemu_img) is None
    for command in create_commands(described, str(path)):
        run(*command)
    # The size is exact, also for VHDs, which QEMU would round.
    assert map_of(described, path).size_bytes == SIZE
    allocated = path.stat().st_blocks * 512
    if described.chosen_preallocation in ("falloc", "full"):
        assert allocated >= SIZE
    else:
        # VHDX has a log and tables of some MiB.
        assert allocated < SIZE // 4
    driver = FORMATS[described.format].driver
    run("qemu-io", "-f", driver, "-c", "write -P 7 5M 1M", "-c", "read -P 7 5M 1M", str(path))
    image = map_of(described, path)
    assert image.data_bytes >= MIB
    # Without a map, everything counts as data at an unknown place.
    assert (image.fragments > 0) == FORMATS[described.format].has_map


def test_compaction_drops_zeros_but_not_data(qemu_img: QemuImg, tmp_path: Path) -> None:
    described, path = disk(format="vhd"), tmp_path / "image"
    for command in create_commands(described, str(path)):
        run(*command)
    run("qemu-io", "-f", "vpc", "-c", "write -P 7 0 4M", "-c", "write -P 0 8M 16M", str(path))
    before = map_of(described, path).data_bytes
    compact(described, path)
    after = map_of(described, path)
    assert (before, after.data_bytes, after.size_bytes) == (20 * MIB, 4 * MIB, SIZE)
    run("qemu-io", "-r", "-f", "vpc", "-c", "read -P 7 0 4M", "-c", "read -P 0 8M 16M", str(path))
    assert [each.name for each in tmp_path.iterdir()] == ["image"]


@pytest.mark.parametrize("values", [{"format": "vhd"}, {"format": "vhdx"}, {"format": "raw", "discard": False}])
def test_compaction_drops_what_its_overlay_discards_also_if_the_format_ignores_that(
    qemu_img: QemuImg, tmp_path: Path, values: dict[str, Any]
) -> None:
    described, path, driver = disk(**values), tmp_path / "image", FORMATS[disk(**values).format].driver
    for command in create_commands(described, str(path)):
        run(*command)
    run("qemu-io", "-f", driver, "-c", "write -P 7 0 4M", "-c", "write -P 9 8M 32M", str(path))
    before = path.stat().st_blocks * 512
    compact(described, path, "discard 8M 32M", "write -P 5 4M 64k")
    # The block of 2 MiB or 8 MiB that was written on the overlay is new.
    assert before - 32 * MIB - MIB <= path.stat().st_blocks * 512 <= before - 32 * MIB + 8 * MIB
    reads = ("read -P 7 0 4M", "read -P 5 4M 64k", "read -P 0 8M 32M")
    run("qemu-io", "-r", "-f", driver, *(word for read in reads for word in ("-c", read)), str(path))


def compact(described: VirtualDisk, path: Path, *orders: str) -> None:
    """Compact an image on whose overlay qemu-io executes these orders."""
    scratch, overlay = (path.with_name(name) for name in ("scratch", "overlay"))
    run(*overlay_command(described, str(path), str(overlay)))
    assert map_of(overlaid(described), overlay).size_bytes == overlaid(described).size
    if orders:
        run("qemu-io", "-f", "qcow2", *(word for order in orders for word in ("-c", order)), str(overlay))
    for command in compact_commands(described, str(path), str(scratch), str(overlay)):
        run(*command)


@pytest.mark.parametrize("values", CREATED, ids=lambda values: "-".join(map(str, values.values())))
def test_compacted_image_has_the_space_that_its_description_has(
    qemu_img: QemuImg, tmp_path: Path, values: dict[str, Any]
) -> None:
    described, path = disk(**values), tmp_path / "image"
    for command in create_commands(described, str(path)):
        run(*command)
    compact(described, path)
    after = compacted(described)
    assert after.chosen_preallocation == "off" and path.stat().st_blocks * 512 < SIZE // 4
    assert (after.format, after.size, after.block, after.extended_l2) == (
        *(described.format, described.size, described.block, described.extended_l2),
    )
    assert after.subformat == ("dynamic" if described.format in ("raw", "qcow2") else described.subformat)
    # Nothing remains to be dropped.
    assert compacted(after) == after


def test_seven_of_eight_blocks_of_a_dynamic_vhd_are_misaligned(qemu_img: QemuImg, tmp_path: Path) -> None:
    misaligned: dict[str, int] = {}
    for name in ("vhd", "qcow2", "raw"):
        described, path = disk(format=name), tmp_path / name
        for command in create_commands(described, str(path)):
            run(*command)
        run("qemu-io", "-f", FORMATS[described.format].driver, "-c", "write -P 7 0 16M", str(path))
        image = map_of(described, path)
        assert image.data_bytes == 16 * MIB
        misaligned[name] = image.misaligned_bytes(4096)
    # Each block of 2 MiB follows a bitmap of 512 bytes: only each eighth is at a multiple of 4 KiB.
    assert misaligned == {"vhd": 14 * MIB, "qcow2": 0, "raw": 0}
    # Footer, header and one sector of the table; then the bitmap and the data of each block.
    offsets = [512 + 1024 + 512 + (i + 1) * 512 + i * 2 * MIB for i in range(8)]
    blocks = map_of(disk(format="vhd"), tmp_path / "vhd").ranges
    assert [(part.start, part.offset) for part in blocks if part.data] == [
        (i * 2 * MIB, offset) for i, offset in enumerate(offsets)
    ]


def test_map_counts_data_and_pieces() -> None:
    image = parse_map(
        """[{"start": 0, "length": 4096, "depth": 0, "present": true, "zero": false, "data": true, "offset": 8704},
        {"start": 4096, "length": 4096, "depth": 0, "present": true, "zero": false, "data": true, "offset": 12800},
        {"start": 8192, "length": 8192, "depth": 0, "present": false, "zero": true, "data": false},
        {"start": 16384, "length": 4096, "depth": 0, "present": true, "zero": false, "data": true, "offset": 20480}]"""
    )
    assert (image.size_bytes, image.data_bytes, image.fragments) == (20480, 12288, 2)
    assert (image.misaligned_bytes(4096), image.misaligned_bytes(512)) == (8192, 0)
    # Sector 63 is off by 3584 bytes, which aligns the first ranges and misaligns the last one.
    assert image.misaligned_bytes(4096, 63 * 512) == 4096
    assert image.misaligned_bytes(4096, 2048 * 512) == 8192


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"start": 0}]', '[{"start": 4, "length": 4, "data": true}]'])
def test_text_that_is_no_map_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="map of an image"):
        parse_map(text)


def test_unknown_help_gives_no_formats() -> None:
    assert (parse_formats("nothing"), parse_options("nothing"), parse_version("nothing")) == (
        frozenset(),
        frozenset(),
        "",
    )


def test_image_grows_in_the_formats_that_can_and_the_added_part_is_allocated_as_the_rest(
    qemu_img: QemuImg, tmp_path: Path
) -> None:
    for values in CREATED:
        described, path = disk(**values), tmp_path / "image"
        for command in create_commands(described, str(path)):
            run(*command)
        larger = described.model_copy(update={"size": 2 * SIZE})
        if FORMATS[described.format].can_grow:
            run(*resize_command(larger, str(path)))
            assert map_of(larger, path).size_bytes == 2 * SIZE, values
            is_whole = described.chosen_preallocation in ("falloc", "full")
            assert (path.stat().st_blocks * 512 >= 2 * SIZE) == is_whole, values
        else:
            driver = FORMATS[described.format].driver
            with pytest.raises(subprocess.CalledProcessError):
                run("qemu-img", "resize", "-q", "-f", driver, str(path), str(2 * SIZE))
        path.unlink()
