"""Configuration of every engine, from a study, a point and addresses. Pure.

The shapes are those of the contract (`crates/contract`). Every random sequence gets a seed derived
from the run's seed, the repetition and its owner, so that a run can be repeated exactly and no two
repetitions draw the same sequence.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path

from hakaru.engine import contract
from hakaru.lab.plan import LabPlan
from hakaru.run import pool_folder
from hakaru.study import Expanded, Repetition
from hakaru.study.intervals import Intervals
from hakaru.study.model import ArraySpec, Lu
from hakaru.study.port_groups import PortGroup
from hakaru.study.storage import Cap, Placement, Pool, SharesSpec
from hakaru.study.tape import TapeLibrarySpec

INITIATOR_NAME = "iqn.2011-10.example.hakaru"
MS = 1_000_000
US = 1000
CAPTURE_RING_BYTES = 64 << 20
"""Half a second of complete packets at 1 Gbit/s."""
CAPTURE_PARTS = 8
"""Largest number of files of a capture. The oldest one, an eighth of the size, is deleted first."""
SINGLE_ARRAY = "array"
"""Name from which the seed of the array of a study with `array` is derived, in every lab."""


Reaches = Callable[[str, str], bool]
"""(host, portal) → whether a path leads from one to the other."""


def reaches(plan: LabPlan) -> Reaches:
    """Return a function that says whether a host can reach a portal. Paths are looked up once."""
    addresses = {host: plan.reachable_addresses(host) for host in plan.loading_names}
    return lambda host, portal: portal.rpartition(":")[0] in addresses[host]


def seed_of(*parts: str | int) -> int:
    """Return a seed below 2^53 (exact in JSON) that is derived from `parts`."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 11


def array_configs(expanded: Expanded, turn: Repetition, lab: LabPlan) -> dict[str, contract.ArrayConfig]:
    """Node → its array in the study, which listens on the node's portals with the engine's default
    login keys.
    """
    study = expanded.at(turn.point)
    return {
        name: _array_config(expanded, turn, lab.portals(name), array, name if study.arrays else SINGLE_ARRAY)
        for name, array in study.storage.items()
    }


def _array_config(
    expanded: Expanded, turn: Repetition, portals: Sequence[str], array: ArraySpec, name: str
) -> contract.ArrayConfig:
    return contract.ArrayConfig(
        target_name=array.target_name,
        portals=list(portals),
        port_groups=port_groups_config(array.port_groups),
        isolated_network=True,
        pools=[_pool(pool, name) for pool in array.pools],
        lus=[_lu(lu, seed_of(expanded.seed, name, lu.lun, "fill")) for lu in array.lus],
        tape_library=None if array.tape_library is None else tape_library_config(array.tape_library),
        model=array.model,
        caps=[cap_config(cap) for cap in array.caps],
        shares=shares_config(array.shares),
        seed=seed_of(expanded.seed, turn.name, name),
        sample_interval_ms=expanded.measure.intervals.arrays // MS,
        drive_sample_interval_ms=drive_interval_ms(expanded.measure.intervals, array.model),
    )


def drive_interval_ms(intervals: Intervals, model: contract.Model) -> int | None:
    """Interval of the drives of an array, in the format of the engine; None if it is that of the
    array, or if the array has no modelled drives.
    """
    drives = intervals.drives_alone
    return None if drives is None or isinstance(model, contract.NoModel) else drives // MS


def tape_library_config(library: TapeLibrarySpec) -> contract.TapeLibraryConfig:
    """A tape library in the format of the engine."""
    drives = zip(library.drive_luns, library.generations, strict=True)
    return contract.TapeLibraryConfig(
        lun=library.lun,
        drives=[contract.TapeDriveConfig(lun=lun, generation=generation) for lun, generation in drives],
        slots=library.slot_count,
        import_export=library.import_export,
        pool=library.pool,
        cartridges=[
            contract.CartridgeConfig(
                barcode=cartridge.barcode, slot=slot, write_protected=cartridge.write_protected or None
            )
            for slot, cartridge in library.placed
        ],
        capacity_bytes=library.capacity,
        early_warning_bytes=library.early_warning,
        times=contract.TapeTimesConfig(compression=library.compression),
    )


def port_groups_config(groups: Sequence[PortGroup]) -> list[contract.PortGroupConfig]:
    """Port groups in the format of the engine."""
    return [contract.PortGroupConfig(portals=group.portals, preferred=group.preferred) for group in groups]


def cap_config(cap: Cap) -> contract.CapConfig:
    """A cap in the format of the engine."""
    return contract.CapConfig(
        name=cap.name,
        lun=cap.lun,
        initiator_name=cap.initiator_name,
        iops=cap.iops,
        bytes_per_s=None if cap.rate is None else cap.rate // 8,
        burst_ms=cap.burst // MS,
    )


def shares_config(shares: SharesSpec | None) -> contract.SharesConfig | None:
    """Shares in the format of the engine."""
    if shares is None:
        return None
    classes = [contract.ShareClass(**each.model_dump()) for each in shares.classes]
    return contract.SharesConfig(in_flight=shares.in_flight, classes=classes, others=shares.others)


def _pool(pool: Pool, array: str) -> contract.PoolConfig:
    """A pool in the format of the engine, in a directory that no other array uses."""
    groups = [
        contract.GroupConfig(name=f"group-{i}", size_bytes=group.size, placement=_placement(group.placement))
        for i, group in enumerate(pool.groups)
    ]
    directory = f"{pool_folder.FOLDER}/{array}-{pool.name}"
    return contract.PoolConfig(name=pool.name, directory=directory, page_bytes=pool.page, groups=groups)


def _lu(lu: Lu, fill_seed: int) -> contract.LuConfig:
    store: contract.MemoryStore | contract.ThinStore = contract.MemoryStore()
    if lu.pool is not None:
        store = contract.ThinStore(pool=lu.pool, volume=f"lu-{lu.lun}")
    elif lu.fill is not None:
        store = contract.MemoryStore(fill_seed=fill_seed, fill_compressible_percent=lu.fill.compressible_percent)
    return contract.LuConfig(
        lun=lu.lun, size_bytes=lu.size, block_bytes=lu.block, store=store, placement=_placement(lu.placement)
    )


def _placement(place: Placement | None) -> contract.Placement | None:
    return None if place is None else contract.Placement(group=place.group, offset_bytes=place.offset)


def watch_config(
    expanded: Expanded,
    *,
    machine: bool,
    at_array: bool = False,
    tcp_file: Path | None = None,
    capture_file: Path | None = None,
    ports: Sequence[int] = (),
) -> contract.WatchConfig:
    """Configuration of a watch. `machine`: it also reads the counters of its machine or guest, as
    one watch of each must. `at_array`: its node is that of an array, with an interval of its own,
    unless it also reads the counters of the machine, which are those of its hosts.

    `tcp_file`: file for the TCP series of the connections of `ports`, if the study records one.
    `capture_file`: file for their packets, written in parts, if the study captures them.
    """
    watch, tcp, capture = expanded.study.watch, None, None
    if watch is not None and watch.tcp_interval is not None and tcp_file is not None:
        tcp = contract.TcpWatch(
            interval_us=watch.tcp_interval // US, ports=list(ports), trace=watch.tcp_trace, file=str(tcp_file)
        )
    if watch is not None and watch.capture is not None and capture_file is not None:
        capture = contract.Capture(
            interface=watch.capture.interface,
            file=str(capture_file),
            snap_bytes=watch.capture.snap,
            ring_bytes=CAPTURE_RING_BYTES,
            rotate_bytes=watch.capture.keep // CAPTURE_PARTS,
            files_max=CAPTURE_PARTS,
            ports=list(ports),
        )
    intervals = expanded.measure.intervals
    interval = intervals.arrays if at_array and not machine else intervals.hosts
    return contract.WatchConfig(sample_interval_ms=interval // MS, machine=machine, tcp=tcp, capture=capture)


def is_loopback(portal: str) -> bool:
    """Whether `address:port` is on this machine's loopback interface."""
    address = portal.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def port_of(portal: str) -> int:
    """The TCP port of `address:port`."""
    return int(portal.rpartition(":")[2])
