"""The engine's configuration, from an array file and the changes made online. Pure.

The file *declares* the array; online changes are added to it:

- an LU created online is served until it is deleted online. If the file declares its volume, the
  file takes precedence.
- a volume that was enlarged online keeps its size: the larger of both applies, because nothing is
  made smaller
- a group that was added online stays, independently of the file
- a LUN that was assigned online and is declared for another store is refused, so that no LUN leads
  to other data than before
"""

from __future__ import annotations

from dataclasses import dataclass

from hakaru.array.consistency import cartridge_slots, tape_luns, volume_name
from hakaru.array.load import Loaded
from hakaru.array.model import MS_NS, SECOND_NS, ChapUser, FileStore, Lu, Pool, TapeLibrary, ThinStore
from hakaru.array.state import POOLS, RESERVATIONS, Online, OnlineLu
from hakaru.engine import contract
from hakaru.run.configure import cap_config, port_groups_config, seed_of, shares_config
from hakaru.study.model import Placement


@dataclass(frozen=True)
class ServedLu:
    """The configuration of a served LU, and whether the file declares it."""

    config: contract.LuConfig
    declared: bool


def array_config(loaded: Loaded, online: Online) -> contract.ArrayConfig:
    """The configuration of the array to serve."""
    file = loaded.file
    return contract.ArrayConfig(
        target_name=file.target_name,
        portals=list(file.portals),
        port_groups=port_groups_config(file.port_groups),
        pools=[_pool(loaded, pool, online) for pool in file.pools],
        lus=[lu.config for lu in served_lus(loaded, online)],
        tape_library=None if file.tape_library is None else _tape_library(loaded, file.tape_library),
        access=_access(loaded),
        allow_external=file.allow_external,
        state_directory=str(loaded.state / RESERVATIONS),
        model=contract.NoModel(kind="none") if file.model is None else file.model,
        caps=[cap_config(cap) for cap in file.caps],
        shares=shares_config(file.shares),
        seed=seed_of(file.target_name),
        sample_interval_ms=file.sample_interval // MS_NS,
        sessions_max=file.sessions,
        spin_us=file.spin // 1000,
    )


def served_lus(loaded: Loaded, online: Online) -> list[ServedLu]:
    """Declared LUs, then those created online. Raises `UsageError` with a place if they contradict
    each other.
    """
    served = [ServedLu(_declared(loaded, lu, online), True) for lu in loaded.file.lus]
    volumes = {volume_of(lu.config.store) for lu in served}
    places: dict[int, tuple[str | int, ...]] = {lu.lun: ("lus", i, "lun") for i, lu in enumerate(loaded.file.lus)}
    if loaded.file.tape_library is not None:
        places |= dict.fromkeys(tape_luns(loaded.file.tape_library), ("tape_library",))
    pools = [pool.name for pool in loaded.file.pools]
    for lu in online.lus:
        name = f"{lu.pool}/{lu.volume}"
        if name in volumes:
            continue
        if lu.lun in places:
            raise loaded.document.error(
                loaded.document.place_of(places[lu.lun]),
                f"LUN {lu.lun} was assigned to {name} online",
                f"choose another LUN, or remove this LU, start, and delete {name} with `hakaru array delete`",
            )
        if lu.pool not in pools:
            raise loaded.document.error(
                loaded.document.place_of(("pools",)),
                f"LU {lu.lun}, created online, is {name}, but pool {lu.pool!r} is missing",
                "declare the pool again",
            )
        served.append(ServedLu(online_lu(lu), False))
    return served


def _tape_library(loaded: Loaded, library: TapeLibrary) -> contract.TapeLibraryConfig:
    return contract.TapeLibraryConfig(
        lun=library.lun,
        vendor=library.vendor,
        product=library.product,
        drives=[
            contract.TapeDriveConfig(
                lun=drive.lun, generation=drive.generation, vendor=drive.vendor, product=drive.product
            )
            for drive in library.drives
        ],
        slots=library.slots,
        import_export=library.import_export,
        folder=None if library.folder is None else str(loaded.resolve(library.folder)),
        pool=library.pool,
        cartridges=[
            contract.CartridgeConfig(
                barcode=cartridge.barcode,
                slot=slot,
                write_protected=cartridge.write_protected,
                generation=cartridge.generation,
            )
            for cartridge, slot in zip(library.cartridges, cartridge_slots(library), strict=True)
        ],
        capacity_bytes=library.capacity,
        early_warning_bytes=library.early_warning,
        times=None if library.times is None else contract.TapeTimesConfig(compression=library.times.compression),
    )


def volume_of(store: contract.Store) -> str | None:
    """POOL/VOLUME of a thin store; None for another store."""
    return f"{store.pool}/{store.volume}" if isinstance(store, contract.ThinStore) else None


def online_lu(lu: OnlineLu) -> contract.LuConfig:
    """The configuration of an LU that was created online."""
    return contract.LuConfig(
        lun=lu.lun,
        size_bytes=lu.size_bytes,
        block_bytes=lu.block_bytes,
        store=contract.ThinStore(pool=lu.pool, volume=lu.volume, quota_bytes=lu.quota_bytes),
        read_only=lu.read_only,
    )


def _declared(loaded: Loaded, lu: Lu, online: Online) -> contract.LuConfig:
    store = _store(loaded, lu)
    grown = {f"{lu.pool}/{lu.volume}": lu.size_bytes for lu in online.lus} | online.sizes
    return contract.LuConfig(
        lun=lu.lun,
        size_bytes=max(lu.size, grown.get(volume_of(store) or "", 0)),
        block_bytes=lu.block,
        store=store,
        placement=_placement(lu.placement),
        read_only=lu.read_only,
        thin=lu.thin,
        removable=lu.removable,
        sanitize=lu.sanitize,
        explicit_alua=lu.explicit_alua,
    )


def _store(loaded: Loaded, lu: Lu) -> contract.Store:
    if isinstance(lu.store, FileStore):
        path = str(loaded.resolve(lu.store.path))
        return contract.FileStore(path=path, adopt=lu.store.adopt, direct=lu.store.direct)
    if isinstance(lu.store, ThinStore):
        return contract.ThinStore(pool=lu.store.pool, volume=volume_name(lu, lu.store), quota_bytes=lu.store.quota)
    return contract.MemoryStore()


def pool_directory(loaded: Loaded, pool: Pool) -> str:
    """Return the absolute directory of a pool."""
    return str(loaded.state / POOLS / pool.name if pool.directory is None else loaded.resolve(pool.directory))


def _pool(loaded: Loaded, pool: Pool, online: Online) -> contract.PoolConfig:
    declared = [
        contract.GroupConfig(name=group.name, size_bytes=group.size, placement=_placement(group.placement))
        for group in pool.groups
    ]
    names = {group.name for group in pool.groups}
    added = [
        contract.GroupConfig(
            name=group.name,
            size_bytes=group.size_bytes,
            placement=None if group.placement is None else contract.Placement(**group.placement),
        )
        for group in online.groups
        if group.pool == pool.name and group.name not in names
    ]
    return contract.PoolConfig(
        name=pool.name,
        directory=pool_directory(loaded, pool),
        page_bytes=pool.page,
        soft_threshold_percent=pool.soft_threshold_percent,
        hold_when_full_s=pool.hold_when_full // SECOND_NS,
        direct=pool.direct,
        groups=declared + added,
    )


def _access(loaded: Loaded) -> contract.AccessConfig:
    access = loaded.file.access
    rules = None
    if access.rules is not None:
        rules = [
            contract.AccessRule(
                initiator_name=rule.initiator_name,
                address=rule.address,
                user=rule.user,
                lus=None
                if rule.lus is None
                else [contract.LuAccess(lun=lu.lun, read_only=lu.read_only) for lu in rule.lus],
            )
            for rule in access.rules
        ]
    return contract.AccessConfig(
        users=[_user(loaded, user) for user in access.users],
        target=None if access.target is None else _user(loaded, access.target),
        algorithms=list(access.algorithms),
        rules=rules,
    )


def _user(loaded: Loaded, user: ChapUser) -> contract.ChapUser:
    return contract.ChapUser(name=user.name, secret=contract.SecretFile(path=str(loaded.resolve(user.secret_file))))


def _placement(place: Placement | None) -> contract.Placement | None:
    return None if place is None else contract.Placement(group=place.group, offset_bytes=place.offset)
