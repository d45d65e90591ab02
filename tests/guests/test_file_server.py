"""The chain from an LU of a thin pool to Samba in a guest, and the bytes that each layer sees."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.image import Image, find_image

from tests.guests.conftest import TIMEOUT_S
from tests.guests.file_server import FILE_BYTES, MIB, PAGE_BYTES
from tests.guests.small_accesses import PAGE
from tests.peers.array import need

CHAINS: dict[str, dict[str, Any]] = {
    "raw": {"disk": {"format": "raw", "size": "64 MiB"}},
    "qcow2": {"disk": {"format": "qcow2", "size": "64 MiB"}, "host_file_system": "ext4"},
    "vhd": {"disk": {"format": "vhd", "size": "64 MiB"}},
    "raw falloc": {
        "disk": {"format": "raw", "size": "64 MiB", "subformat": "fixed", "preallocation": "falloc"},
        "host_write_back": False,
        "partition_start": 63,
    },
    "vhd full": {
        "disk": {"format": "vhd", "size": "64 MiB", "subformat": "fixed", "cache": "writethrough"},
        "guest_write_back": False,
    },
    "vhdx": {"disk": {"format": "vhdx", "size": "64 MiB", "subformat": "fixed"}},
}
Chains = dict[str, dict[str, Any]]

DISK_MIB = 64


@pytest.fixture(scope="module")
def chains(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Chains:
    """Results of one program that builds all chains in one guest (`file_server.py`)."""
    need("smbclient", "smbclient")
    try:
        # The program is in a sandbox, in which no package can be downloaded.
        find_image("file-server")
    except EnvironmentError_ as error:
        pytest.skip(f"no guest image: {error.message}; {error.hint}")
    folder = tmp_path_factory.mktemp("chain")
    done = subprocess.run(
        [sys.executable, "-m", "tests.guests.file_server", json.dumps(list(CHAINS.values())), str(folder)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    results = [line for line in lines if "described" in line]
    used = iter([line for line in lines if "identical" in line])
    shrunk = iter([line for line in lines if "shrunk" in line])
    for result in results:
        result |= next(used if result["described"]["disk"]["subformat"] == "dynamic" else shrunk)
    return {**dict(zip(CHAINS, results, strict=True)), "left": lines[-1]}


def change(chains: Chains, name: str, before: str, after: str) -> dict[str, int]:
    """Return the change of each layer's bytes between two stages, in MiB rounded to the nearest."""
    stages = chains[name]["stages"]
    return {layer: round((value - stages[before][layer]) / MIB) for layer, value in stages[after].items()}


SPACE = ("image_data_bytes", "image_allocated_bytes", "host_used_bytes", "lu_mapped_bytes")


@pytest.mark.parametrize("name", ["raw", "qcow2", "vhd"])
def test_client_in_another_node_stores_and_reads_files_through_all_layers(chains: Chains, name: str) -> None:
    assert chains[name]["identical"]
    assert chains[name]["checked"] == ""
    # After it was killed.
    assert chains[name]["lost"] == "file server fs-1 in guest fs-1 was lost: Samba has ended"
    written = change(chains, name, "empty", "written")
    size = FILE_BYTES // MIB
    assert written["files_bytes"] == size
    for layer in ("guest_used_bytes", *SPACE):
        # A VHD grows by blocks of 2 MiB, and each layer adds its tables.
        assert size <= written[layer] <= size + 6, (layer, written)


@pytest.mark.parametrize("name", ["raw", "qcow2", "vhd"])
def test_layers_agree_with_those_below_them(chains: Chains, name: str) -> None:
    for stage, layers in chains[name]["stages"].items():
        assert layers["files_bytes"] <= layers["guest_used_bytes"], stage
        assert layers["image_allocated_bytes"] <= layers["host_used_bytes"], stage
        # Blocks that the host has freed remain mapped until it trims; those it uses are mapped, but
        # for blocks that it has allocated and not written.
        assert layers["lu_mapped_bytes"] % PAGE_BYTES == 0, stage
        # The pool counts all LUs: of this chain, and of those built before it.
        assert layers["pool_used_bytes"] == layers["lu_mapped_bytes"] + layers["others_mapped_bytes"], stage


@pytest.mark.parametrize("name", ["raw", "qcow2"])
def test_deleted_file_is_freed_layer_by_layer_by_trim(chains: Chains, name: str) -> None:
    size = FILE_BYTES // MIB
    deleted = change(chains, name, "written", "deleted")
    assert deleted["guest_used_bytes"] == -size
    assert all(abs(deleted[layer]) <= 2 for layer in SPACE), deleted
    trimmed = change(chains, name, "deleted", "guest trimmed")
    assert chains[name]["trimmed"] >= FILE_BYTES
    assert all(trimmed[layer] <= -size + 4 for layer in SPACE[:3]), trimmed
    assert abs(trimmed["lu_mapped_bytes"]) <= 2, trimmed
    on_host = change(chains, name, "guest trimmed", "host trimmed")
    assert on_host["lu_mapped_bytes"] <= -size + 4, on_host
    assert all(abs(on_host[layer]) <= 2 for layer in SPACE[:3]), on_host


def test_dynamic_vhd_returns_nothing_until_it_is_compacted(chains: Chains) -> None:
    size = FILE_BYTES // MIB
    deleted = change(chains, "vhd", "written", "deleted")
    assert deleted["guest_used_bytes"] == -size
    trimmed = change(chains, "vhd", "deleted", "guest trimmed")
    # The guest believes that it has trimmed.
    assert chains["vhd"]["trimmed"] >= FILE_BYTES
    assert all(abs(trimmed[layer]) <= 2 for layer in SPACE), trimmed
    on_host = change(chains, "vhd", "guest trimmed", "host trimmed")
    assert all(abs(on_host[layer]) <= 2 for layer in SPACE[:3]), on_host
    # It has a second file by then, but only that one, and nothing of the tables' zeros.
    compacted = change(chains, "vhd", "empty", "compacted")
    assert all(-8 <= compacted[layer] - size <= 2 for layer in SPACE), compacted


def test_blocks_of_a_dynamic_vhd_are_misaligned_and_those_of_other_formats_are_not(chains: Chains) -> None:
    assert chains["raw"]["stages"]["written"]["misaligned_bytes"] == 0
    assert chains["qcow2"]["stages"]["written"]["misaligned_bytes"] == 0
    vhd = chains["vhd"]["stages"]["written"]
    assert vhd["image_data_bytes"] * 3 // 4 <= vhd["misaligned_bytes"] < vhd["image_data_bytes"]


@pytest.mark.parametrize("name", ["raw", "qcow2", "vhd"])
def test_small_accesses_to_misaligned_blocks_cost_the_lu_more_by_the_closed_form(chains: Chains, name: str) -> None:
    small = chains[name]["small"]
    places, misaligned = small["places"], small["misaligned"]
    assert places >= 5
    assert misaligned == 0 if name != "vhd" else places * 3 // 4 <= misaligned
    # 4 KiB at such a place are parts of two pages of the host, which are read one by one. ext4,
    # which is below qcow2, also reads a block of its map of the image.
    assert 0 <= small["read"] - (places + misaligned) * PAGE <= (PAGE if name == "qcow2" else 0)
    # They are also read before they are written. Each write to another block writes its bitmap, of
    # 512 bytes in a page of its own, too.
    bitmaps = places if name == "vhd" else 0
    read = (2 * misaligned + bitmaps) * PAGE
    written = (places + misaligned + bitmaps) * PAGE
    # To change the time of the image, XFS reads a cluster of inodes, of 16 KiB. It may write its
    # log.
    assert read <= small["read_to_write"] <= read + 4 * PAGE
    assert written <= small["written"] <= written + 4 * PAGE


def test_fixed_disk_takes_the_file_system_at_once_but_the_pool_only_if_it_is_written(chains: Chains) -> None:
    reserved, written = (chains[name]["stages"]["empty"] for name in ("raw falloc", "vhd full"))
    for layers in (reserved, written):
        assert layers["image_allocated_bytes"] >= DISK_MIB * MIB
    # The journal of the host and the new file system on the disk are written in both.
    assert written["lu_mapped_bytes"] - reserved["lu_mapped_bytes"] >= (DISK_MIB - 16) * MIB
    # QEMU maps all blocks of a fixed VHDX without writing them.
    assert chains["vhdx"]["stages"]["empty"]["image_allocated_bytes"] < DISK_MIB // 2 * MIB
    assert chains["vhdx"]["stages"]["empty"]["image_data_bytes"] is None


@pytest.mark.parametrize("name", ["raw falloc", "vhd full", "vhdx"])
def test_disk_is_mounted_again_if_qemu_img_fails(chains: Chains, name: str) -> None:
    shrunk = chains[name]["shrunk"]
    assert shrunk["output"] == "no space"
    # The share has its file, and no part of a copy remains beside the image.
    assert shrunk["after"] == ["kept", "disk.image"]
    assert shrunk["described"] == chains[name]["described"]["disk"]
    empty, failed = (chains[name]["stages"][stage] for stage in ("empty", "failed"))
    for layer in ("image_allocated_bytes", "host_used_bytes"):
        assert abs(failed[layer] - empty[layer]) < MIB, layer


@pytest.mark.parametrize(("name", "subformat"), [("raw falloc", "dynamic"), ("vhd full", "fixed"), ("vhdx", "fixed")])
def test_compacted_fixed_disk_is_sparse_and_described_so(chains: Chains, name: str, subformat: str) -> None:
    described = chains[name]["compacted"]
    assert (described["subformat"], described["preallocation"]) == (subformat, "off")
    assert described | {"subformat": "fixed"} == chains[name]["described"]["disk"] | {"preallocation": "off"}
    assert chains[name]["stages"]["compacted"]["image_allocated_bytes"] < DISK_MIB // 2 * MIB
    assert chains[name]["shrunk"]["kept"] == "kept" and chains[name]["checked"] == ""


def test_write_caches_are_switched_off_layer_by_layer(chains: Chains) -> None:
    def options(name: str, mount: str) -> list[str]:
        return str(chains[name]["described"][mount]).split(",")

    assert "sync" in options("vhd full", "guest_mount") and "sync" not in options("vhd full", "host_mount")
    assert "sync" in options("raw falloc", "host_mount") and "sync" not in options("raw falloc", "guest_mount")
    assert chains["vhd full"]["described"]["disk"]["cache"] == "writethrough"


def test_file_system_is_in_the_partition_of_its_disk_also_after_compaction(chains: Chains) -> None:
    described = {name: chains[name]["described"] for name in CHAINS}
    starts = {name: chain["partition_start"] for name, chain in described.items() if chain["partition_start"]}
    assert starts == {"raw falloc": 63}
    # The device mapper has the partition; the other disks have no need of it.
    devices = {name: chains[name]["share_device"] for name in CHAINS}
    assert devices == {name: "/dev/dm-0" if name in starts else "/dev/nbd0" for name in CHAINS}


def test_nothing_of_a_chain_remains_in_the_guest(chains: Chains) -> None:
    left = chains["left"]["left"]
    assert "/srv/" not in left and "smbd" not in left and "qemu-nbd" not in left
    assert "No active sessions" in left
