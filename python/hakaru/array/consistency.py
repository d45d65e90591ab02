"""What no single field of an array file can tell: doubled names, sizes that do not fit, addresses. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from hakaru.array.model import ArrayFile, FileStore

Path_ = tuple[str | int, ...]
Problem = tuple[Path_, str, str]
"""Where in the file, what is wrong, what would do."""

EXTERNAL_HINT = "use 127.0.0.1 or [::1], or say `allow_external: true`"
PORT_MAX = 65_535


def problems(file: ArrayFile) -> list[Problem]:
    """All of them, in the order of the file."""
    return [*_addresses(file), *_lus(file)]


def split_address(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """`127.0.0.1:3260`, `[::1]:3260` → address and port. Raises ValueError with what is wrong."""
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
            yield ("portals", i), f"{portal} stands there twice", "leave one out"
        seen.add(portal)
    if file.metrics is not None:
        yield from _address(("metrics",), file.metrics, file.allow_external)


def _address(path: Path_, text: str, allow_external: bool) -> Iterator[Problem]:
    try:
        host, _ = split_address(text)
    except ValueError as e:
        yield path, str(e), "for instance 127.0.0.1:3260 or [::1]:3260"
        return
    if not (host.is_loopback or allow_external):
        yield path, f"{text} can be reached from outside this machine", EXTERNAL_HINT


def _lus(file: ArrayFile) -> Iterator[Problem]:
    luns: set[int] = set()
    paths: dict[str, int] = {}
    for i, lu in enumerate(file.lus):
        if lu.lun in luns:
            yield ("lus", i, "lun"), f"LUN {lu.lun} is given twice", "each LU needs a number of its own"
        luns.add(lu.lun)
        if lu.size % lu.block:
            yield ("lus", i, "size"), f"the size is not a multiple of the block length {lu.block}", "choose another"
        if isinstance(lu.store, FileStore):
            if lu.store.path in paths:
                what = f"LUN {paths[lu.store.path]} is kept in {lu.store.path} as well"
                yield ("lus", i, "store", "path"), what, "give each LU a file of its own"
            paths.setdefault(lu.store.path, lu.lun)
        if file.model is not None and file.model.kind != "none" and lu.placement is None:
            yield ("lus", i), f"LUN {lu.lun} has no placement on the modelled drives", "add `placement: {group: 0}`"
