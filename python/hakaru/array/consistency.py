"""Checks of an array file that concern several fields: repeated names, sizes that do not fit,
addresses. Pure.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from hakaru.array.model import ArrayFile, FileStore, Lu, TapeLibrary, ThinStore
from hakaru.study import port_groups
from hakaru.study.storage import repeated_cap
from hakaru.study.tape import slots_of

Path_ = tuple[str | int, ...]
Problem = tuple[Path_, str, str]
"""Place in the file, message, hint."""

EXTERNAL_HINT = "use 127.0.0.1 or [::1], or set `allow_external: true`"
PORT_MAX = 65_535
TIB = 1 << 40
CARTRIDGE_TIB_MAX = 16
CARTRIDGES_TIB_MAX = 64


def problems(file: ArrayFile) -> list[Problem]:
    """All problems of an array file, in the order of the file."""
    return [
        *_addresses(file),
        *_port_groups(file),
        *_access(file),
        *_pools(file),
        *_lus(file),
        *_tape_library(file),
        *_caps(file),
        *_shares(file),
    ]


def split_address(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Split `127.0.0.1:3260` or `[::1]:3260` into address and port. Raises ValueError with the
    fault.
    """
    host, _, port = text.rpartition(":")
    address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    if int(port) > PORT_MAX:
        raise ValueError(f"there is no port {port}")
    return address, int(port)


def _addresses(file: ArrayFile) -> Iterator[Problem]:
    seen: set[str] = set()
    for i, portal in enumerate(file.portals):
        yield from _address(("portals", i), portal, file.allow_external)
        if portal in seen and not portal.endswith(":0"):
            yield ("portals", i), f"{portal} is given twice", "leave one out"
        seen.add(portal)
    if file.metrics is not None:
        yield from _address(("metrics",), file.metrics, file.allow_external)


def _address(path: Path_, text: str, allow_external: bool) -> Iterator[Problem]:
    try:
        host, _ = split_address(text)
    except ValueError as e:
        yield path, str(e), "for example 127.0.0.1:3260 or [::1]:3260"
        return
    if not (host.is_loopback or allow_external):
        yield path, f"{text} can be reached from outside this machine", EXTERNAL_HINT


def _port_groups(file: ArrayFile) -> Iterator[Problem]:
    for place, message, hint in port_groups.problems(file.port_groups, len(file.portals)):
        yield ("port_groups", *place), message, hint


def _access(file: ArrayFile) -> Iterator[Problem]:
    names = [user.name for user in file.access.users]
    for i, name in enumerate(names):
        if name in names[:i]:
            yield ("access", "users", i, "name"), f"user {name!r} is given twice", "leave one out"
    for i, algorithm in enumerate(file.access.algorithms):
        if algorithm in file.access.algorithms[:i]:
            yield ("access", "algorithms", i), f"{algorithm} is given twice", "leave one out"
    for i, rule in enumerate(file.access.rules or []):
        place: Path_ = ("access", "rules", i)
        if rule.user is not None and rule.user not in names:
            yield (*place, "user"), f"there is no user {rule.user!r}", f"the users are {', '.join(names) or 'none'}"
        if rule.address is not None:
            try:
                ipaddress.ip_network(rule.address)
            except ValueError as e:
                yield (*place, "address"), str(e), "for example 10.1.2.3 or 10.1.0.0/16"
        luns = [lu.lun for lu in rule.lus or []]
        for j, lun in enumerate(luns):
            if lun in luns[:j]:
                yield (*place, "lus", j, "lun"), f"LUN {lun} is given twice", "leave one out"
    external = [i for i, portal in enumerate(file.portals) if not _is_loopback(portal)]
    if external and file.allow_external and not (file.access.users and file.access.rules is not None):
        message = f"{file.portals[external[0]]} can be reached from outside this machine, and anyone may log in"
        yield ("portals", external[0]), message, "add `access` with `users` (CHAP) and `rules`"


def _pools(file: ArrayFile) -> Iterator[Problem]:
    names: set[str] = set()
    directories: dict[str, str] = {}
    for i, pool in enumerate(file.pools):
        if pool.name in names:
            yield ("pools", i, "name"), f"pool {pool.name!r} is given twice", "each pool needs a name of its own"
        names.add(pool.name)
        if pool.page & (pool.page - 1):
            yield ("pools", i, "page"), "a page must be a power of two", "for example 256 KiB"
        if pool.directory is not None:
            if pool.directory in directories:
                message = f"pool {directories[pool.directory]!r} uses the directory {pool.directory} as well"
                yield ("pools", i, "directory"), message, "give each pool a directory of its own"
            directories.setdefault(pool.directory, pool.name)
        groups: set[str] = set()
        for j, group in enumerate(pool.groups):
            place: Path_ = ("pools", i, "groups", j)
            if group.name in groups:
                yield (*place, "name"), f"group {group.name!r} is given twice", "each group needs a name of its own"
            groups.add(group.name)
            if group.size < 2 * pool.page:
                yield (*place, "size"), f"a group needs at least two pages of {pool.page} bytes", "make it larger"
            if _modelled(file) and group.placement is None:
                message = f"group {group.name!r} has no placement on the modelled drives"
                yield place, message, "add `placement: {group: 0}`"


def _caps(file: ArrayFile) -> Iterator[Problem]:
    repeated = repeated_cap(file.caps)
    if repeated is not None:
        message = f"cap {file.caps[repeated].name!r} is given twice"
        yield ("caps", repeated, "name"), message, "each cap needs a name of its own"
    for i, cap in enumerate(file.caps):
        yield from _limited_lun(file, cap.lun, ("caps", i, "lun"))


def _shares(file: ArrayFile) -> Iterator[Problem]:
    if file.shares is None:
        return
    for i, each in enumerate(file.shares.classes):
        yield from _limited_lun(file, each.lun, ("shares", "classes", i, "lun"))
    for i, pool in enumerate(file.pools):
        if pool.hold_when_full:
            message = "writes that wait for space would occupy the accesses in flight that `shares` allows"
            yield ("pools", i, "hold_when_full"), message, "remove it, or `shares`"


def _limited_lun(file: ArrayFile, lun: int | None, place: Path_) -> Iterator[Problem]:
    """Check the LUN of a cap or of a class with a share. Accesses of a tape drive are those of its
    changer.
    """
    library = file.tape_library
    luns = sorted({lu.lun for lu in file.lus} | ({library.lun} if library else set()))
    if lun is None or lun in luns:
        return
    if library is not None and lun in tape_luns(library):
        message = f"LUN {lun} is a tape drive; its accesses count as those of the changer"
        yield place, message, f"write {library.lun}, the LUN of the changer: it covers every drive"
    elif not file.pools:  # a volume of a pool may become an LU while the array serves
        yield place, f"there is no LUN {lun}", f"the LUNs are {', '.join(map(str, luns)) or 'none'}"


def volume_name(lu: Lu, store: ThinStore) -> str:
    """Name of a thin LU's volume: as in the array file, else derived from its LUN."""
    return store.volume or f"lu-{lu.lun}"


def _modelled(file: ArrayFile) -> bool:
    return file.model is not None and file.model.kind != "none"


def _is_loopback(address: str) -> bool:
    try:
        return split_address(address)[0].is_loopback
    except ValueError:
        return True


def tape_luns(library: TapeLibrary) -> list[int]:
    """LUNs of the changer and of the drives."""
    return [library.lun, *(drive.lun for drive in library.drives)]


def cartridge_slots(library: TapeLibrary) -> list[int]:
    """Slot of each cartridge: as in the array file, else the first one that no other one takes."""
    return slots_of([cartridge.slot for cartridge in library.cartridges])


def _tape_library(file: ArrayFile) -> Iterator[Problem]:
    library = file.tape_library
    if library is None:
        return
    place: Path_ = ("tape_library",)
    if library.pool is not None:
        yield from _tape_pool(file, library.pool, library.folder is not None)
    elif _modelled(file):
        hint = "put the cartridges into a `pool`, or remove `model` or the library"
        yield place, "the drives of the timing model are disks", hint
    if library.early_warning > library.capacity:
        message = "early warning would begin before the cartridge does"
        yield (*place, "early_warning"), message, "make it smaller than `capacity`"
    taken = library.capacity * (1.0 if library.times is None else library.times.compression)
    if taken > TIB * CARTRIDGE_TIB_MAX:
        message = f"with compression, a cartridge takes more than {CARTRIDGE_TIB_MAX} TiB"
        yield (*place, "capacity"), message, "reduce the capacity or the compression"
    if taken * len(library.cartridges) > TIB * CARTRIDGES_TIB_MAX:
        message = f"all cartridges together have more than {CARTRIDGES_TIB_MAX} TiB"
        yield (*place, "capacity"), message, "reduce the capacity or the number of cartridges"
    used = [lu.lun for lu in file.lus]
    places = [(*place, "lun"), *((*place, "drives", i, "lun") for i in range(len(library.drives)))]
    for lun, at in zip(tape_luns(library), places, strict=True):
        if lun in used:
            yield at, f"LUN {lun} is given twice", "the changer, each drive and each disk need a number of their own"
        used.append(lun)
    slots, barcodes = set[int](), set[str]()
    for i, (slot, cartridge) in enumerate(zip(cartridge_slots(library), library.cartridges, strict=True)):
        barcode = cartridge.barcode
        at = (*place, "cartridges", i)
        if slot > library.slots:
            yield at, f"there is no slot for {barcode}", f"the library has {library.slots} slots"
        if slot in slots:
            yield (*at, "slot"), f"slot {slot} is given twice", "each cartridge needs a slot of its own"
        if barcode in barcodes:
            yield (*at, "barcode"), f"the barcode {barcode} is given twice", "each cartridge needs its own"
        slots.add(slot)
        barcodes.add(barcode)


def _tape_pool(file: ArrayFile, pool: str, has_folder: bool) -> Iterator[Problem]:
    """Check the pool of the cartridges. That it is smaller than they are together is no mistake, as
    with other volumes.
    """
    place: Path_ = ("tape_library", "pool")
    if has_folder:
        yield place, "the cartridges are in a folder and in a pool", "remove `folder`, or `pool`"
    pools = [each.name for each in file.pools]
    if pool not in pools:
        hint = f"the pools are {', '.join(pools)}" if pools else "add `pools:`"
        yield place, f"there is no pool {pool!r}", hint


def _lus(file: ArrayFile) -> Iterator[Problem]:
    if not file.lus and file.tape_library is None:
        yield ("lus",), "there is no LU", "add one, or a `tape_library`"
    luns: set[int] = set()
    owners: dict[tuple[str, str], int] = {}
    pools = [pool.name for pool in file.pools]
    for i, lu in enumerate(file.lus):
        if lu.lun in luns:
            yield ("lus", i, "lun"), f"LUN {lu.lun} is given twice", "each LU needs a number of its own"
        luns.add(lu.lun)
        if lu.size % lu.block:
            yield ("lus", i, "size"), f"the size is not a multiple of the block length {lu.block}", "choose another"
        place = ""
        if isinstance(lu.store, FileStore):
            place = lu.store.path
        elif isinstance(lu.store, ThinStore):
            place = f"{lu.store.pool}/{volume_name(lu, lu.store)}"
            if lu.store.pool not in pools:
                hint = f"the pools are {', '.join(pools)}" if pools else "add `pools:`"
                yield ("lus", i, "store", "pool"), f"there is no pool {lu.store.pool!r}", hint
        if place:
            if (lu.store.kind, place) in owners:
                message = f"LUN {owners[lu.store.kind, place]} is stored in {place} as well"
                yield ("lus", i, "store"), message, "give each LU a store of its own"
            owners.setdefault((lu.store.kind, place), lu.lun)
        if _modelled(file) and lu.placement is None and lu.store.kind != "thin":
            yield ("lus", i), f"LUN {lu.lun} has no placement on the modelled drives", "add `placement: {group: 0}`"
