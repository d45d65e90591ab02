"""From an array file and what was done online to the engine's configuration. Pure."""

from __future__ import annotations

from hakaru.array.load import Loaded
from hakaru.array.model import MS_NS, FileStore, Lu
from hakaru.array.state import RESERVATIONS, Online
from hakaru.engine import contract
from hakaru.run.configure import engine_model, seed_of


def array_config(loaded: Loaded, online: Online) -> contract.ArrayConfig:
    """The array as it is to be served."""
    file = loaded.file
    return contract.ArrayConfig(
        target_name=file.target_name,
        portals=list(file.portals),
        lus=[_lu(loaded, lu) for lu in file.lus],
        state_directory=str(loaded.state / RESERVATIONS),
        model=contract.NoModel() if file.model is None else engine_model(file.model),
        seed=seed_of(file.target_name),
        sample_interval_ms=file.sample_interval // MS_NS,
        sessions_max=file.sessions,
        spin_us=file.spin // 1000,
    )


def _lu(loaded: Loaded, lu: Lu) -> contract.LuConfig:
    place = None
    if lu.placement is not None:
        place = contract.Placement(group=lu.placement.group, offset_bytes=lu.placement.offset)
    return contract.LuConfig(
        lun=lu.lun,
        size_bytes=lu.size,
        block_bytes=lu.block,
        store=_store(loaded, lu),
        placement=place,
        read_only=lu.read_only,
        thin=lu.thin,
        removable=lu.removable,
        sanitize=lu.sanitize,
    )


def _store(loaded: Loaded, lu: Lu) -> contract.Store:
    if isinstance(lu.store, FileStore):
        return contract.FileStore(path=str(loaded.resolve(lu.store.path)), direct=lu.store.direct)
    return contract.MemoryStore()
