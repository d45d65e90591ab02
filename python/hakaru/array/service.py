"""An array that is being served, and the requests of its operators.

A restart must find every change of an operator, even after a crash. A change affects both the state
directory and the pool, so its order matters. The record is written before the engine is asked, such
that it is correct if the engine carries out the order and this process then dies (a size, a group,
a deleted LU). A copy, to which nothing refers yet, is created first and then recorded. If the
engine refuses, the record is restored. There is one change at a time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from hakaru.array import protocol, render
from hakaru.array.configure import ServedLu, online_lu, served_lus, volume_of
from hakaru.array.consistency import tape_luns
from hakaru.array.load import Loaded, load_array
from hakaru.array.rates import rates
from hakaru.array.state import Online, OnlineGroup, OnlineLu, State
from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError, LostError, UsageError
from hakaru.study.port_groups import group_of
from hakaru.units import format_size

LUNS = range(256)
# Warnings printed per sample, so that many faulty peers cannot fill the journal.
WARNINGS_MAX = 10


class Service:
    """Answers requests (`answer`), watches the engine (`watch`), returns the newest counters
    (`newest`).
    """

    def __init__(self, loaded: Loaded, state: State, engine: EngineProcess, ready: contract.Ready) -> None:
        self.loaded, self.state, self.engine, self.ready_values = loaded, state, engine, ready.found
        self.metrics_url: str | None = None
        self._lus = {lu.config.lun: lu for lu in served_lus(loaded, state.online)}
        self._changing = asyncio.Lock()
        self._since = time.monotonic()
        self._newest: contract.Sample | None = None
        self._before: contract.Sample | None = None

    def newest(self) -> contract.Sample | None:
        """The last sample; safe to call from another thread."""
        return self._newest

    async def watch(self) -> None:
        """Store samples and report errors of peers. Raises when the engine ends."""
        async for event in self.engine.events():
            if isinstance(event, contract.Sample):
                self._before, self._newest = self._newest, event
                self._warn()

    def _warn(self) -> None:
        """Print non-fatal errors of the engine after the last sample, such as a peer that violated
        the protocol.
        """
        complaints = self.engine.complaints
        for complaint in list(complaints)[:WARNINGS_MAX]:
            hint = f" ({complaint.hint})" if complaint.hint else ""
            print(f"warning: {render.printable(complaint.message + hint)}", file=sys.stderr, flush=True)
        if len(complaints) > WARNINGS_MAX:
            print(f"warning: … and {len(complaints) - WARNINGS_MAX} more", file=sys.stderr, flush=True)
        complaints.clear()

    async def answer(self, request: protocol.Request) -> dict[str, Any]:
        """Carry out a request and return the value of its reply."""
        if isinstance(request, protocol.Status):
            return await self.status()
        async with self._changing:
            match request:
                case protocol.Grow():
                    return await self._grow(request)
                case protocol.Create():
                    return await self._create(request)
                case protocol.Snapshot():
                    return await self._snapshot(request)
                case protocol.Clone():
                    return await self._clone(request)
                case protocol.Resize():
                    return await self._resize(request)
                case protocol.Delete():
                    return await self._delete(request)
                case protocol.SetPortState():
                    return await self._set_port_state(request)

    async def status(self) -> dict[str, Any]:
        """Return the current state, for programs; `render.print_status` prints it as text."""
        managed = await self.engine.manage(contract.StatusAction())
        sample = self._newest
        return {
            **self.about(),
            "ports": managed["portals"],
            "pools": managed["pools"],
            "counters": {} if sample is None else sample.counters,
            "rates": {} if sample is None else rates(self._before, sample),
        }

    def about(self) -> dict[str, Any]:
        """Facts that do not change while the array is served."""
        return {
            "target_name": self.loaded.file.target_name,
            "portals": self.ready_values["portals"],
            "pid": os.getpid(),
            "engine": {
                "pid": self.engine.pid,
                "version": self.engine.version,
                "io_backend": self.ready_values["io_backend"],
            },
            "uptime_s": time.monotonic() - self._since,
            "file": str(self.loaded.path.resolve()),
            "state": str(self.state.directory),
            "metrics": self.metrics_url,
            "lus": [_describe(lu) for _, lu in sorted(self._lus.items())],
        }

    async def _grow(self, request: protocol.Grow) -> dict[str, Any]:
        place = None
        if request.drives is not None:
            place = contract.Placement(group=request.drives, offset_bytes=request.offset_bytes)
        group = contract.GroupConfig(name=request.group, size_bytes=request.size_bytes, placement=place)
        recorded = OnlineGroup(
            pool=request.pool,
            name=request.group,
            size_bytes=request.size_bytes,
            placement=None if place is None else place.model_dump(),
        )
        online = self._changed(groups=[*self.state.online.groups, recorded])
        return await self._recorded(online, contract.GrowAction(pool=request.pool, group=group))

    async def _create(self, request: protocol.Create) -> dict[str, Any]:
        pool, _, volume = request.volume.partition("/")
        if volume in await self._volumes(pool):
            raise UsageError(f"pool {pool} has a volume {volume} already", "choose another name")
        new_lu = OnlineLu(
            lun=self._free_lun(request.lun),
            pool=pool,
            volume=volume,
            size_bytes=request.size_bytes,
            block_bytes=request.block_bytes,
            quota_bytes=request.quota_bytes,
        )
        return await self._serve(new_lu)

    async def _snapshot(self, request: protocol.Snapshot) -> dict[str, Any]:
        pool, volume = self._volume(request.of)
        lun = None if request.lun is None else self._free_lun(request.lun)
        action = contract.SnapshotAction(pool=pool, volume=volume, name=request.name)
        if lun is None:
            name, length = f"{pool}/{request.name}", self._block_bytes(pool, volume)
            await self._recorded(self._changed(blocks={**self.state.online.blocks, name: length}), action)
            return {"volume": name, "lun": None}
        await self.engine.manage(action)
        return await self._serve(await self._copied(pool, volume, request.name, lun, read_only=True))

    async def _clone(self, request: protocol.Clone) -> dict[str, Any]:
        pool, volume = self._volume(request.of)
        lun, quota = self._free_lun(request.lun), request.quota_bytes
        action = contract.CloneAction(pool=pool, volume=volume, name=request.name, quota_bytes=quota)
        await self.engine.manage(action)
        return await self._serve(await self._copied(pool, volume, request.name, lun, quota_bytes=quota))

    async def _copied(self, pool: str, source: str, name: str, lun: int, **more: Any) -> OnlineLu:
        """Return the LU of a copy, with the size of the copy and the block length of the LU that it
        was copied from.
        """
        size_bytes = (await self._volumes(pool))[name]["size_bytes"]
        length = self._block_bytes(pool, source)
        return OnlineLu(lun=lun, pool=pool, volume=name, size_bytes=size_bytes, block_bytes=length, **more)

    def _block_bytes(self, pool: str, volume: str) -> int:
        """Block length of the LU of a volume, or of the LU that it is a snapshot of."""
        served = self._served_lus(pool, volume)
        return served[0].config.block_bytes if served else self.state.online.blocks.get(f"{pool}/{volume}", 512)

    async def _serve(self, new_lu: OnlineLu) -> dict[str, Any]:
        online = self._changed(lus=[*self.state.online.lus, new_lu])
        config = online_lu(new_lu)
        await self._recorded(online, contract.CreateAction(lu=config))
        self._lus[new_lu.lun] = ServedLu(config, False)
        return {"volume": f"{new_lu.pool}/{new_lu.volume}", "lun": new_lu.lun}

    async def _resize(self, request: protocol.Resize) -> dict[str, Any]:
        pool, volume = self._volume(request.volume)
        current = (await self._volumes(pool)).get(volume)
        if current is not None and request.size_bytes < current["size_bytes"]:
            message = f"{pool}/{volume} has {format_size(current['size_bytes'])}, and a volume cannot be made smaller"
            raise UsageError(message, "data beyond the new end would be lost; create a new volume and copy")
        online = self.state.online
        served = self._served_lus(pool, volume)
        if any(lu.declared for lu in served):
            online = self._changed(sizes={**online.sizes, f"{pool}/{volume}": request.size_bytes})
        elif served:
            grown = {"size_bytes": request.size_bytes}
            lus = [lu.model_copy(update=grown) if (lu.pool, lu.volume) == (pool, volume) else lu for lu in online.lus]
            online = self._changed(lus=lus)
        action = contract.ResizeAction(pool=pool, volume=volume, size_bytes=request.size_bytes)
        await self._recorded(online, action)
        for lu in served:
            config = lu.config.model_copy(update={"size_bytes": request.size_bytes})
            self._lus[config.lun] = ServedLu(config, lu.declared)
        return {"volume": f"{pool}/{volume}", "size_bytes": request.size_bytes}

    async def _delete(self, request: protocol.Delete) -> dict[str, Any]:
        pool, _, volume = request.volume.partition("/")
        # The current file counts, so that an operator who removes an LU from it need not restart
        # first.
        loaded = load_array(self.loaded.path)
        for lu in served_lus(loaded, Online()):
            if volume_of(lu.config.store) == request.volume:
                raise UsageError(
                    f"{request.volume} is LU {lu.config.lun} of {loaded.path}, and would exist again, empty, "
                    "after the next start",
                    "remove the LU from the file first; nothing was deleted",
                )
        luns = [lu.config.lun for lu in self._served_lus(pool, volume)]
        online = self._changed(
            lus=[lu for lu in self.state.online.lus if (lu.pool, lu.volume) != (pool, volume)],
            sizes={name: size for name, size in self.state.online.sizes.items() if name != request.volume},
            blocks={name: length for name, length in self.state.online.blocks.items() if name != request.volume},
        )
        await self._recorded(online, contract.DeleteAction(pool=pool, volume=volume))
        for lun in luns:
            del self._lus[lun]
        return {"volume": request.volume, "luns": luns}

    async def _set_port_state(self, request: protocol.SetPortState) -> dict[str, Any]:
        portals = self.ready_values["portals"]
        if request.portal >= len(portals):
            raise UsageError(f"there is no portal {request.portal}", "they count from 0, in the order of the file")
        action = contract.SetPortStateAction(
            portal=request.portal, state=request.state, transition_ms=request.transition_ms
        )
        await self.engine.manage(action)
        members = group_of(self.loaded.file.port_groups, request.portal)
        return {
            "portal": portals[request.portal],
            "portals": [portals[member] for member in members],
            "state": request.state,
            "transition_ms": request.transition_ms,
        }

    async def _recorded(self, online: Online, action: contract.ManageAction) -> dict[str, Any]:
        """Record `online` for restarts and carry out `action`, or neither."""
        previous = self.state.online
        self.state.keep(online)
        try:
            return await self.engine.manage(action)
        except LostError:
            # The outcome is unknown. The record is correct, or is corrected at the next start, in
            # either case.
            raise
        except HakaruError:
            self.state.keep(previous)
            raise

    def _changed(self, **parts: Any) -> Online:
        return self.state.online.model_copy(update=parts)

    def _served_lus(self, pool: str, volume: str) -> list[ServedLu]:
        """Served LUs of a volume."""
        return [lu for lu in self._lus.values() if volume_of(lu.config.store) == f"{pool}/{volume}"]

    def _volume(self, of: str) -> tuple[str, str]:
        """Pool and volume of `POOL/VOLUME` or of a LUN."""
        pool, slash, volume = of.partition("/")
        if slash:
            return pool, volume
        lu = self._lus.get(int(of))
        if lu is None:
            raise UsageError(f"there is no LU {of}", f"the LUNs are {', '.join(map(str, sorted(self._lus)))}")
        store = lu.config.store
        if not isinstance(store, contract.ThinStore):
            raise UsageError(f"LU {of} is stored in {_place_of(store)}", "only volumes of a pool support this")
        return store.pool, store.volume

    async def _volumes(self, pool: str) -> dict[str, dict[str, Any]]:
        """The volumes of a pool by name. Raises UsageError if there is no such pool."""
        for status in (await self.engine.manage(contract.StatusAction()))["pools"]:
            if status["name"] == pool:
                return {volume["name"]: volume for volume in status["volumes"]}
        raise UsageError(f"there is no pool {pool!r}", "`hakaru array status` lists the pools")

    def _free_lun(self, lun: int | None) -> int:
        """Check that `lun` is free, or choose the lowest free LUN."""
        library = self.loaded.file.tape_library
        used = {*self._lus, *([] if library is None else tape_luns(library))}
        if lun is None:
            free = next((number for number in LUNS if number not in used), None)
            if free is None:
                raise UsageError("all 256 LUNs are in use", "delete an LU first")
            return free
        if lun in used:
            raise UsageError(f"LUN {lun} is in use", "`hakaru array status` lists the LUNs in use")
        return lun


def _place_of(store: contract.Store) -> str:
    """Place of an LU's data for people: a volume, a path, or `memory`."""
    return volume_of(store) or (store.path if isinstance(store, contract.FileStore) else "memory")


def _describe(lu: ServedLu) -> dict[str, Any]:
    """Return an LU for `status`. `thin` is as SCSI reports it: always true for a volume."""
    store = lu.config.store
    thin = lu.config.thin or isinstance(store, contract.ThinStore)
    return {
        **lu.config.model_dump(exclude={"store"}),
        "thin": thin,
        "store": _place_of(store),
        "declared": lu.declared,
    }
