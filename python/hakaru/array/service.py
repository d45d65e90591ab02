"""An array that is being served, and what it does for operators.

A restart must find every change of an operator, whatever happens in between: the state directory
and the pool are two places, so the order matters. Before the engine is asked, the record says what
would be right if the engine did it and we died (a size, a group, an LU that is gone); a copy that
nothing names yet is made first and recorded then. A refusal puts the record back. One change at a
time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from hakaru.array import protocol, render
from hakaru.array.configure import ServedLu, online_lu, served_lus, volume_of
from hakaru.array.load import Loaded, load_array
from hakaru.array.rates import rates
from hakaru.array.state import Online, OnlineGroup, OnlineLu, State
from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError, LostError, UsageError
from hakaru.units import format_size

LUNS = range(256)
# Between two samples; a storm of broken peers must not fill the journal.
WARNINGS_MAX = 10


class Service:
    """Answers requests (`answer`), watches the engine (`watch`), returns the newest counters
    (`newest`).
    """

    def __init__(self, loaded: Loaded, state: State, engine: EngineProcess, ready: contract.Ready) -> None:
        self.loaded, self.state, self.engine, self.found = loaded, state, engine, ready.found
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
        """Take samples as they come, and report errors of peers; until the engine ends, which
        raises.
        """
        async for event in self.engine.events():
            if isinstance(event, contract.Sample):
                self._before, self._newest = self._newest, event
                self._warn()

    def _warn(self) -> None:
        """Print what the engine survived after the last sample, such as a peer that broke the
        protocol.
        """
        complaints = self.engine.complaints
        for complaint in list(complaints)[:WARNINGS_MAX]:
            hint = f" ({complaint.hint})" if complaint.hint else ""
            print(f"warning: {render.printable(complaint.message + hint)}", file=sys.stderr, flush=True)
        if len(complaints) > WARNINGS_MAX:
            print(f"warning: … and {len(complaints) - WARNINGS_MAX} more", file=sys.stderr, flush=True)
        complaints.clear()

    async def answer(self, request: protocol.Request) -> dict[str, Any]:
        """Do what a request asks."""
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
        """Everything that is known now, for programs; `render.print_status` makes it readable."""
        managed = await self.engine.manage(contract.StatusAction())
        now = self._newest
        return {
            **self.about(),
            "ports": managed["portals"],
            "pools": managed["pools"],
            "counters": {} if now is None else now.counters,
            "rates": {} if now is None else rates(self._before, now),
        }

    def about(self) -> dict[str, Any]:
        """Facts that do not change while the array is served."""
        return {
            "target_name": self.loaded.file.target_name,
            "portals": self.found["portals"],
            "pid": os.getpid(),
            "engine": {"pid": self.engine.pid, "version": self.engine.version, "io_backend": self.found["io_backend"]},
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
        made = OnlineLu(
            lun=self._free_lun(request.lun),
            pool=pool,
            volume=volume,
            size_bytes=request.size_bytes,
            block_bytes=request.block_bytes,
            quota_bytes=request.quota_bytes,
        )
        return await self._serve(made)

    async def _snapshot(self, request: protocol.Snapshot) -> dict[str, Any]:
        pool, volume = self._volume(request.of)
        lun = None if request.lun is None else self._free_lun(request.lun)
        await self.engine.manage(contract.SnapshotAction(pool=pool, volume=volume, name=request.name))
        if lun is None:
            return {"volume": f"{pool}/{request.name}", "lun": None}
        return await self._serve(await self._copied(pool, volume, request.name, lun, read_only=True))

    async def _clone(self, request: protocol.Clone) -> dict[str, Any]:
        pool, volume = self._volume(request.of)
        lun, quota = self._free_lun(request.lun), request.quota_bytes
        action = contract.CloneAction(pool=pool, volume=volume, name=request.name, quota_bytes=quota)
        await self.engine.manage(action)
        return await self._serve(await self._copied(pool, volume, request.name, lun, quota_bytes=quota))

    async def _copied(self, pool: str, of: str, name: str, lun: int, **more: Any) -> OnlineLu:
        """The LU of a copy: as large as it is, with the blocks of the LU that it was copied
        from.
        """
        blocks = [lu.config.block_bytes for lu in self._shown(pool, of)]
        size_bytes = (await self._volumes(pool))[name]["size_bytes"]
        return OnlineLu(
            lun=lun, pool=pool, volume=name, size_bytes=size_bytes, block_bytes=blocks[0] if blocks else 512, **more
        )

    async def _serve(self, made: OnlineLu) -> dict[str, Any]:
        online = self._changed(lus=[*self.state.online.lus, made])
        config = online_lu(made)
        await self._recorded(online, contract.CreateAction(lu=config))
        self._lus[made.lun] = ServedLu(config, False)
        return {"volume": f"{made.pool}/{made.volume}", "lun": made.lun}

    async def _resize(self, request: protocol.Resize) -> dict[str, Any]:
        pool, volume = self._volume(request.volume)
        has = (await self._volumes(pool)).get(volume)
        if has is not None and request.size_bytes < has["size_bytes"]:
            message = f"{pool}/{volume} has {format_size(has['size_bytes'])}, and nothing is ever made smaller"
            raise UsageError(message, "what initiators keep beyond the end would be lost; make a new one and copy")
        online = self.state.online
        shown = self._shown(pool, volume)
        if any(lu.declared for lu in shown):
            online = self._changed(sizes={**online.sizes, f"{pool}/{volume}": request.size_bytes})
        elif shown:
            grown = {"size_bytes": request.size_bytes}
            is_it = [(lu, (lu.pool, lu.volume) == (pool, volume)) for lu in online.lus]
            online = self._changed(lus=[one.model_copy(update=grown) if it else one for one, it in is_it])
        action = contract.ResizeAction(pool=pool, volume=volume, size_bytes=request.size_bytes)
        await self._recorded(online, action)
        for lu in shown:
            config = lu.config.model_copy(update={"size_bytes": request.size_bytes})
            self._lus[config.lun] = ServedLu(config, lu.declared)
        return {"volume": f"{pool}/{volume}", "size_bytes": request.size_bytes}

    async def _delete(self, request: protocol.Delete) -> dict[str, Any]:
        pool, _, volume = request.volume.partition("/")
        # As the file is now: who edits it to give an LU up need not restart first.
        now = load_array(self.loaded.path)
        for lu in served_lus(now, Online()):
            if volume_of(lu.config.store) == request.volume:
                raise UsageError(
                    f"{request.volume} is LU {lu.config.lun} of {now.path}: it would come back empty at the next start",
                    "take it out of the file first; nothing was deleted",
                )
        luns = [lu.config.lun for lu in self._shown(pool, volume)]
        online = self._changed(
            lus=[lu for lu in self.state.online.lus if (lu.pool, lu.volume) != (pool, volume)],
            sizes={name: size for name, size in self.state.online.sizes.items() if name != request.volume},
        )
        await self._recorded(online, contract.DeleteAction(pool=pool, volume=volume))
        for lun in luns:
            del self._lus[lun]
        return {"volume": request.volume, "luns": luns}

    async def _set_port_state(self, request: protocol.SetPortState) -> dict[str, Any]:
        if request.portal >= len(self.found["portals"]):
            raise UsageError(f"there is no portal {request.portal}", "they count from 0, in the order of the file")
        await self.engine.manage(contract.SetPortStateAction(portal=request.portal, state=request.state))
        return {"portal": self.found["portals"][request.portal], "state": request.state}

    async def _recorded(self, online: Online, action: contract.ManageAction) -> dict[str, Any]:
        """`action` done and `online` what a restart finds, or neither."""
        before = self.state.online
        self.state.keep(online)
        try:
            return await self.engine.manage(action)
        except LostError:
            # Whether it was done is unknown: the record is written so that it is right, or made
            # right, either way.
            raise
        except HakaruError:
            self.state.keep(before)
            raise

    def _changed(self, **parts: Any) -> Online:
        return self.state.online.model_copy(update=parts)

    def _shown(self, pool: str, volume: str) -> list[ServedLu]:
        """The LUs that are a volume."""
        return [lu for lu in self._lus.values() if volume_of(lu.config.store) == f"{pool}/{volume}"]

    def _volume(self, of: str) -> tuple[str, str]:
        """Pool and volume of `POOL/VOLUME` or of a LUN."""
        pool, slash, volume = of.partition("/")
        if slash:
            return pool, volume
        lu = self._lus.get(int(of))
        if lu is None:
            raise UsageError(f"there is no LU {of}", f"there are {', '.join(map(str, sorted(self._lus)))}")
        store = lu.config.store
        if not isinstance(store, contract.ThinStore):
            raise UsageError(f"LU {of} is kept in {_where(store)}", "only volumes of a pool can do that")
        return store.pool, store.volume

    async def _volumes(self, pool: str) -> dict[str, dict[str, Any]]:
        """The volumes of a pool by name."""
        for one in (await self.engine.manage(contract.StatusAction()))["pools"]:
            if one["name"] == pool:
                return {volume["name"]: volume for volume in one["volumes"]}
        raise UsageError(f"there is no pool {pool!r}", "`hakaru array status` lists them")

    def _free_lun(self, asked: int | None) -> int:
        if asked is None:
            free = next((lun for lun in LUNS if lun not in self._lus), None)
            if free is None:
                raise UsageError("all 256 LUNs are taken", "delete an LU first")
            return free
        if asked in self._lus:
            raise UsageError(f"LUN {asked} is taken", "`hakaru array status` lists those that are")
        return asked


def _where(store: contract.Store) -> str:
    """For people: a volume, a path, or `memory`."""
    return volume_of(store) or (store.path if isinstance(store, contract.FileStore) else "memory")


def _describe(lu: ServedLu) -> dict[str, Any]:
    """An LU for `status`; `thin` as SCSI reports it, which is always so for a volume of a pool."""
    store = lu.config.store
    thin = lu.config.thin or isinstance(store, contract.ThinStore)
    return {
        **lu.config.model_dump(exclude={"store"}),
        "thin": thin,
        "store": _where(store),
        "declared": lu.declared,
    }
