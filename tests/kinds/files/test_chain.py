"""Loads on the disk of a file server in a guest: refusals, and the configuration that follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import UsageError
from hakaru.kinds.files.run import RUN
from hakaru.lab.plan import plan_lab
from hakaru.run.plan import estimate
from hakaru.study import Expanded, expand, load

from tests.kinds.files.study import TREE, written
from tests.study.shipped import shipped

GUEST = {"image": "file-server", "memory": "1 GiB"}
LAB = {"hosts": ["server"], "array": "storage", "load_guest": GUEST}
CLIENT = LAB | {"hosts": ["client", "server"]}
MIB = 1 << 20


def to(**parts: Any) -> dict[str, Any]:
    """A destination on a VHD of 64 MiB, with these parts instead of its own."""
    disk = {"format": "vhd", "size": "64 MiB"} | parts.pop("disk", {})
    chain = {"disk": disk, "lu": {"size": "512 MiB", "pool": "256 MiB"} | parts.pop("lu", {})}
    beside = {"smb": parts.pop("smb")} if "smb" in parts else {}
    return {"to": {"chain": chain | parts} | beside}


def expanded_of(folder: Path, **parts: Any) -> Expanded:
    return expand(load(str(written(folder, **({"lab": LAB, "load": to()} | parts)))).study)


LARGE = TREE | {"targets": 2000, "scale": "1/50"}


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"lab": {"hosts": ["server"]}}, "the disk is in a guest, and the lab has none"),
        ({"lab": LAB | {"load_guest": {}}}, "the guest's image 'auto' has no Samba"),
        ({"lab": LAB | {"load_guest": {"image": "file-server"}}}, "too large for 768 MiB of memory"),
        ({"lab": LAB | {"hosts": 3}}, "hosts that neither the file server nor the tools use"),
        ({"load": to(smb={})}, "tools outside the guest need a host of their own"),
        ({"load": to() | {"keep": True}}, "the disk is new in each repetition"),
        ({"load": to() | {"tree": LARGE}}, "do not fit on a disk of 64 MiB"),
        ({"load": to(disk={"size": "480 MiB"})}, "does not fit on an LU of 512 MiB"),
        (
            {"load": to(disk={"size": "300 MiB", "subformat": "fixed"})},
            "a fixed disk of 300 MiB fills a pool of 256 MiB",
        ),
        ({"load": to(lu={"size": "256 MiB"})}, "XFS needs more than a LU of 256 MiB"),
        ({"load": to(guest_file_system="xfs")}, "XFS needs more than a virtual disk of 64 MiB"),
        ({"load": to(guest_file_system="btrfs")}, "btrfs needs more than a virtual disk of 64 MiB"),
        ({"load": to(guest_file_system="ntfs")}, "load.to.chain.guest_file_system"),
        ({"load": to(guest_file_system="ntfs")}, "guest_file_system"),
        ({"load": to(disk={"format": "vmdk"})}, "format"),
        ({"load": to(disk={"preallocation": "metadata"})}, "a dynamic vhd disk has no preallocation 'metadata'"),
        ({"load": to(disk={"cache": "fast"})}, "cache"),
        ({"load": to(partition_start=1)}, "load.to.chain.partition_start"),
        (
            {"load": to(partition_start=65_536, disk={"size": "32 MiB"})},
            "do not fit on a disk of 32 MiB",
        ),
        (
            {"load": to(partition_start=63, disk={"format": "raw", "size": "2 TiB"}, lu={"size": "4 TiB"})},
            "has more sectors than its partition table can count",
        ),
        ({"load": to(lu={"page": "100 KiB"})}, "is not a page: a power of two"),
        ({"factors": [{"disk_format": ["raw", "vhd"], "disk_subformat": ["sparse"]}]}, "subformat"),
        ({"factors": [{"disk_cache": ["writeback", "fast"]}]}, "cache"),
        ({"load": {"to": {"directory": "small"}}, "factors": [{"disk_format": ["raw"]}]}, "load.to"),
    ],
)
def test_impossible_chains_are_refused_with_their_place(tmp_path: Path, parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load(str(written(tmp_path, **({"lab": LAB, "load": to()} | parts))))


def test_chain_its_array_and_the_load_in_the_guest_follow_from_the_study(tmp_path: Path) -> None:
    factors = [{"disk_subformat": ["fixed", "dynamic"], "disk_cache": ["none"], "guest_write_back": [False]}]
    expanded = expanded_of(tmp_path, factors=factors)
    planned = plan_lab(expanded.study.lab)
    turn = next(turn for turn in expanded.repetitions if turn.point.factors["disk_subformat"] == "dynamic")
    (chain,) = RUN.chains(expanded.at(turn.point), planned)
    assert chain.server is None and chain.hosts == ("server",)
    assert (chain.node, chain.array, chain.portal) == ("server", "storage", f"{planned.addresses('storage')[0]}:3260")
    spec = chain.spec
    assert (spec.disk.format, spec.disk.subformat, spec.disk.cache) == ("vhd", "dynamic", "none")
    assert (spec.guest_write_back, spec.host_write_back, spec.lu_write_back) == (False, True, True)
    ((node, array),) = RUN.servers(expanded, turn, planned).items()
    assert node == "storage" and array.engine == "array" and array.target_name == chain.target_name
    (pool,) = array.pools
    assert (pool.directory, pool.groups[0].size_bytes) == (chain.pool_folder, 256 * MIB)
    assert array.lus[0].store.kind == "thin" and array.lus[0].size_bytes == 512 * MIB
    ((host, config),) = RUN.loads(expanded, turn, planned).items()
    assert host == "server" and config.engine == "files" and config.task == "load"
    assert config.destination.kind == "directory" and config.destination.path == "/srv/share/trees"
    # Files are deleted after their bytes were counted in every layer.
    assert not config.remove
    assert RUN.file_servers(expanded, turn, planned) == {}
    # The pool is in memory, beside the guest.
    without = expanded_of(tmp_path, load=to(lu={"pool": "128 MiB"}))
    more = estimate(expanded, planned).memory_bytes - estimate(without, planned).memory_bytes
    assert more == 128 * MIB


def test_points_compare_disks_with_partitions_at_several_sectors(tmp_path: Path) -> None:
    expanded = expanded_of(tmp_path, factors=[{"partition_start": [63, 2048]}])
    planned = plan_lab(expanded.study.lab)
    specs = [RUN.chains(expanded.at(point), planned)[0].spec for point in expanded.points]
    assert [spec.partition_start for spec in specs] == [63, 2048]
    (whole,) = RUN.chains(expanded_of(tmp_path).study, planned)
    assert whole.spec.partition_start is None


def test_first_of_two_hosts_is_idle_if_the_tools_are_in_the_guest(tmp_path: Path) -> None:
    expanded = expanded_of(tmp_path, lab=CLIENT)
    ((host, _),) = RUN.loads(expanded, expanded.repetitions[0], plan_lab(expanded.study.lab)).items()
    assert host == "server"


def test_drives_of_a_model_are_below_the_pool(tmp_path: Path) -> None:
    expanded = expanded_of(tmp_path, load=to(lu={"model": {"kind": "preset", "name": "jdsf-2011"}}))
    (array,) = RUN.servers(expanded, expanded.repetitions[0], plan_lab(expanded.study.lab)).values()
    assert array.engine == "array" and array.pools[0].groups[0].placement is not None
    assert array.model.kind == "preset"


MODEL = {
    "kind": "array",
    "controller": {"command_us": 60.0, "data_us_per_mib": 0.0},
    "cache": {"size_bytes": 16 * MIB, "hit_us": 100.0},
    "groups": [
        {"raid": "raid0", "drives": 2, "stripe_unit_bytes": 65536, "drive": {"kind": "preset", "name": "sas-15k-300"}}
    ],
}


def test_write_cache_of_the_array_is_a_factor(tmp_path: Path) -> None:
    modelled = to(lu={"model": MODEL})
    expanded = expanded_of(tmp_path, load=modelled, factors=[{"array_write_back": [True, False]}])
    planned = plan_lab(expanded.study.lab)
    written_by = {}
    for turn in expanded.repetitions:
        (array,) = RUN.servers(expanded, turn, planned).values()
        assert array.engine == "array" and array.model.kind == "array" and array.model.cache is not None
        written_by[turn.point.factors["array_write_back"]] = array.model.cache.write
        # Nothing else of it changes, nor of the other layers.
        assert array.model.cache.size_bytes == 16 * MIB
        (chain,) = RUN.chains(expanded.at(turn.point), planned)
        assert chain.spec.lu_write_back
    assert written_by == {True: "back", False: "through"}


@pytest.mark.parametrize("model", [{"kind": "none"}, {"kind": "preset", "name": "jdsf-2011"}])
def test_write_cache_that_the_array_lacks_cannot_be_switched_off(tmp_path: Path, model: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the array has no write cache to switch off"):
        expanded_of(tmp_path, load=to(lu={"model": model, "array_write_back": False}))


def test_tools_outside_the_guest_reach_samba_in_it(tmp_path: Path) -> None:
    expanded = expanded_of(tmp_path, lab=CLIENT, load=to(smb={"server": {"strict_sync": False}}))
    planned = plan_lab(expanded.study.lab)
    turn = expanded.repetitions[0]
    (chain,) = RUN.chains(expanded.at(turn.point), planned)
    assert chain.server is not None and (chain.node, chain.hosts) == ("server", ("client",))
    assert chain.server.shares[0].path == "/srv/share" and not chain.server.settings.strict_sync
    ((host, config),) = RUN.loads(expanded, turn, planned).items()
    assert host == "client" and config.engine == "files" and config.task == "load"
    assert config.destination.kind == "smb" and config.destination.address == f"{planned.addresses('server')[0]}:445"
    # It is in the guest, not in a node.
    assert RUN.file_servers(expanded, turn, planned) == {}


def segments(count: int, arrays: int) -> dict[str, Any]:
    """A lab of VLANs, each with a client, a file server and, in the first ones, an array."""
    names = [f"segment-{n}" for n in range(1, max(count, arrays) + 1)]
    nodes = {f"client-{n}": n for n in range(1, count + 1)} | {f"server-{n}": n for n in range(1, count + 1)}
    stores = {f"array-{n}": n for n in range(1, arrays + 1)}
    links = {
        node: {"between": [node, "switch"], "rate": "1 Gbit/s", "vlan": f"segment-{n}"}
        for node, n in (nodes | stores).items()
    }
    vlans = {name: {"id": 11 + n} for n, name in enumerate(names)}
    switches = {"switch": {"router": {"interfaces": names}}}
    return {
        **{"hosts": list(nodes), "arrays": list(stores), "switches": switches, "vlans": vlans, "links": links},
        "load_guest": GUEST,
    }


def test_each_file_server_has_a_guest_a_disk_a_pool_and_clients_of_its_own(tmp_path: Path) -> None:
    lab = segments(2, 2)
    expanded = expanded_of(tmp_path, lab=lab, load=to(smb={}) | {"servers": 2}, factors=[{"tools": [2]}])
    planned, turn = plan_lab(expanded.study.lab), expanded.repetitions[0]
    chains = RUN.chains(expanded.at(turn.point), planned)
    assert [(chain.node, chain.array, chain.hosts) for chain in chains] == [
        ("server-1", "array-1", ("client-1",)),
        ("server-2", "array-2", ("client-2",)),
    ]
    arrays = RUN.servers(expanded, turn, planned)
    assert list(arrays) == ["array-1", "array-2"]
    for chain, array in zip(chains, arrays.values(), strict=True):
        assert array.engine == "array" and chain.portal in array.portals
        assert array.pools[0].directory == chain.pool_folder
    assert len({chain.pool_folder for chain in chains}) == len({array.seed for array in arrays.values()}) == 2
    addresses = [config.destination.address for config in RUN.loads(expanded, turn, planned).values()]  # type: ignore[union-attr]
    assert addresses == [f"{planned.addresses(node)[0]}:445" for node in ("server-1", "server-2")]
    one = expanded_of(tmp_path, lab=segments(1, 1), load=to(smb={}), factors=[{"tools": [2]}])
    more = estimate(expanded, planned).memory_bytes - estimate(one, plan_lab(one.study.lab)).memory_bytes
    assert more >= 256 * MIB + (1 << 30)


@pytest.mark.parametrize(
    ("lab", "load_", "problem"),
    [
        (segments(2, 1), {"servers": 2}, "2 file servers, and the lab has 1 arrays for their disks"),
        (segments(2, 3), {"servers": 2}, "the lab has 3 arrays, and the disk of each file server"),
        (segments(1, 2), {"servers": 2}, "0 of 1 clients of file server client-1"),
        (segments(2, 2), {"servers": 2, "clients": 2, "tools": 2}, "0 of 2 clients of file server server-2"),
    ],
)
def test_file_servers_in_guests_without_an_array_or_a_client_are_refused(
    tmp_path: Path, lab: dict[str, Any], load_: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        expanded_of(tmp_path, lab=lab, load=to(smb={}) | load_, factors=[{"tools": [2]}])


def test_shipped_study_compares_growing_with_fixed_disks() -> None:
    study = shipped("file-server-disks").study
    full, quick = expand(study), expand(study, quick=True)
    assert [point.factors["disk"] for point in full.points][:2] == ["vhd-fixed", "vhd-dynamic"]
    assert [point.factors["disk"] for point in quick.points] == ["vhd-fixed", "vhd-dynamic"]
    assert quick.measure.repetitions >= 4
    for expanded in (full, quick):
        # With `array`, the same chains are on modelled drives.
        plain = [point for point in expanded.points if "array" not in point.factors]
        specs = [RUN.chains(expanded.at(point), plan_lab(expanded.study.lab)) for point in plain]
        assert all(len(each) == 1 for each in specs) and len(set(specs)) == len(specs)


def test_array_and_its_drives_have_intervals_of_their_own(tmp_path: Path) -> None:
    measure = {"repetitions": 1, "sample_interval": {"hosts": "10 s", "arrays": "60 s", "drives": "200 ms"}}
    modelled = to(lu={"model": {"kind": "preset", "name": "jdsf-2011"}})
    # Without drives, there is nothing to sample more often.
    for tools_to, drives in ((modelled, 200), (to(), None)):
        expanded = expanded_of(tmp_path, load=tools_to, measure=measure)
        planned, turn = plan_lab(expanded.study.lab), expanded.repetitions[0]
        (array,) = RUN.servers(expanded, turn, planned).values()
        assert array.engine == "array"
        assert (array.sample_interval_ms, array.drive_sample_interval_ms) == (60_000, drives)
        (tools,) = RUN.loads(expanded, turn, planned).values()
        assert tools.engine == "files" and tools.task == "load" and tools.sample_interval_ms == 10_000


def test_plan_counts_the_samples_of_each_kind_of_node(tmp_path: Path) -> None:
    sizes = []
    for interval in ({"hosts": "10 s", "arrays": "60 s"}, "10 s", {"hosts": "10 s", "drives": "200 ms"}, "1 s"):
        expanded = expanded_of(tmp_path, measure={"repetitions": 1, "sample_interval": interval})
        sizes.append(estimate(expanded, plan_lab(expanded.study.lab)).disk_bytes)
    assert sizes == sorted(set(sizes))
