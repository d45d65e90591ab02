"""The chain of a file server in the guest of a node, for one repetition.

    chain = await GuestChain.build(guest, plan, array)   LU → … → the share, and Samba if planned
    …                                                    the load
    await chain.watch()                                  … which must not fill the pool
    record = await chain.extend(disk_bytes, lu_bytes)    … and meanwhile all layers become larger
    record = await chain.examine(rewritten_bytes)        bytes by layer, TRIM, compaction, the end
    error = await chain.find_cause()                     after a failure: the layer that caused it

`array` is the session of the array's engine, whose counters are read at each stage. Errors of
layers are a GuestError that names the layer, those of the array itself an ArrayLostError.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Self, TypeVar

from hakaru.engine import contract
from hakaru.engine.session import EngineSession
from hakaru.errors import GuestError, HakaruError, LostError
from hakaru.fileserver import compaction, extension, space
from hakaru.fileserver.chain import Chain
from hakaru.fileserver.chain_spec import ChainPlan
from hakaru.fileserver.layers import ArrayCounters, array_counters
from hakaru.guest.machine import Guest
from hakaru.units import format_size

_POLL_S = 1.0
# Drives of a slow model need minutes for a large cache.
_EMPTY_POLLS, _EMPTY_POLL_S = 600, 0.5
# For a guest whose disks do not respond.
_CAUSE_S = 60.0
_HINT_MAX = 800
_REQUEST_BYTES = 1 << 20
"""Largest write of a guest. One that needs more than is free is refused; smaller ones are not."""

Result = TypeVar("Result")


class ArrayLostError(LostError):
    """The array below a chain has ended, or does not respond. No other point can be measured."""


class GuestChain:
    """A chain that has been built. Created by `build`."""

    def __init__(self, plan: ChainPlan, chain: Chain, array: EngineSession) -> None:
        self.plan = plan
        self.chain = chain
        self._array = array
        self._stages: dict[str, dict[str, int | None]] = {}
        self._described: dict[str, Any] = {}
        self._page_bytes = 0
        self._extended_bytes = 0

    @classmethod
    async def build(cls, guest: Guest, plan: ChainPlan, array: EngineSession) -> Self:
        """Build all layers, ask each for its bytes, and start Samba if planned."""
        # The pool may be full before the last layer is built.
        return await _unless_full(plan, array, cls._build(guest, plan, array))

    @classmethod
    async def _build(cls, guest: Guest, plan: ChainPlan, array: EngineSession) -> Self:
        # The boot may have left messages of disks.
        await guest.run("dmesg -c >/dev/null")
        built = await Chain.build(
            guest,
            plan.spec,
            plan.portal,
            plan.target_name,
            initiator_name=f"iqn.2011-10.example.hakaru:{plan.node}",
            lun=plan.lun,
        )
        chain = cls(plan, built, array)
        await chain._take("created")
        if plan.server is not None:
            await chain.chain.serve(plan.server)
        chain._described = await chain.chain.describe()
        return chain

    async def examine(self, rewritten_bytes: int) -> dict[str, Any]:
        """Ask the layers for their bytes: after the load, after its files were deleted, after TRIM
        of each file system, and after compaction of a dynamic disk. Then take the chain down, and
        return the record.

        `rewritten_bytes`: written by the load over files that existed.

        Raises GuestError if a layer has reported an error.
        """
        return await _unless_full(self.plan, self._array, self._examine(rewritten_bytes))

    async def empty_caches(self) -> None:
        """Empty the caches of the guest's kernel, and then that of the array. The array keeps what
        its drives lack, and writes it to them once it is idle.

        Raises GuestError if that takes too long, ArrayLostError if the array is lost.
        """
        await self.chain.empty_caches()
        for _ in range(_EMPTY_POLLS):
            try:
                emptied = await self._array.manage(contract.EmptyCacheAction())
            except HakaruError as error:
                raise ArrayLostError(error.message, error.hint) from error
            if emptied["write_pending_bytes"] == 0:
                return
            await asyncio.sleep(_EMPTY_POLL_S)
        raise GuestError(
            f"the cache of {self.plan.array} still has {format_size(int(emptied['write_pending_bytes']))} that its "
            f"drives lack after {_EMPTY_POLLS * _EMPTY_POLL_S:g} s",
            "use faster drives or a smaller cache in `lu.model`, or a shorter `destage_idle_ms`",
        )

    async def watch(self) -> None:
        """Wait until the pool is full, and raise GuestError. Return if the array is lost. To be
        cancelled once the load has ended.
        """
        with contextlib.suppress(ArrayLostError):
            while True:
                await _check_space(self.plan, self._array)
                await asyncio.sleep(_POLL_S)

    async def extend(self, disk_bytes: int, lu_bytes: int) -> dict[str, Any]:
        """Extend the virtual disk to `disk_bytes`, the LU to `lu_bytes`, and the file systems on
        both, while the load uses them. Returns the record of `extension.extend`.
        """
        disk = self.chain.spec.disk
        larger = disk.model_copy(update={"size": disk_bytes})
        record = await extension.extend(self.chain, larger, _PlannedLu(self.plan, self._array), lu_bytes)
        self._extended_bytes += disk_bytes - disk.size
        return record

    async def _examine(self, rewritten_bytes: int) -> dict[str, Any]:
        await self.chain.write_back()
        written_back_ns = time.monotonic_ns()
        await _check_space(self.plan, self._array)
        if (found := await self.chain.check()) != "":
            raise self._damaged(found)
        await self._take("loaded")
        await self.chain.delete_files()
        await self._take("deleted")
        await self.chain.trim_guest()
        await self._take("guest_trimmed")
        await self.chain.trim_host()
        await self._take("host_trimmed")
        spec = self.chain.spec
        if spec.disk.subformat == "dynamic" and await self._has_room_for_copy():
            await self._compact()
        await self.chain.close()
        known = (self._stages, spec, self._page_bytes, rewritten_bytes, self._extended_bytes)
        return {
            **self._described,
            "array": self.plan.array,
            "written_back_ns": written_back_ns,
            "page_bytes": self._page_bytes,
            "rewritten_bytes": rewritten_bytes,
            "stages": self._stages,
            "growths": [growth.to_json() for growth in space.growths(*known)],
            "compactions": [each.to_json() for each in space.compactions(self._stages, spec, self._page_bytes)],
            "disagreement": space.disagreement(*known),
        }

    async def _has_room_for_copy(self) -> bool:
        """Whether the host's file system and the pool have space for a second image."""
        pool = await _read_pool(self.plan, self._array)
        free = min(int(pool["free_bytes"]), await compaction.free_bytes(self.chain))
        needed = space.compaction_bytes(self._stages, self.chain.spec.disk)
        return free >= needed + _reserve_bytes(pool)

    async def _compact(self) -> None:
        await self.chain.stop_serving()
        await compaction.compact(self.chain)
        await self.chain.trim_host()
        await self._take("compacted")

    async def find_cause(self) -> GuestError | None:
        """Return the error of the layer that made a load fail; None if all of them work."""
        try:
            await _check_space(self.plan, self._array)
        except GuestError as error:
            return error
        except ArrayLostError:
            # Its own error is the cause.
            return None
        try:
            found = await asyncio.wait_for(self.chain.check(), _CAUSE_S)
        except LostError as error:
            return GuestError(error.message, error.hint)
        except (HakaruError, TimeoutError):
            return None
        return self._damaged(found) if found else None

    async def _take(self, stage: str) -> None:
        self._stages[stage] = (await self.chain.layers(self._read_counters)).describe()

    async def _read_counters(self) -> ArrayCounters:
        status = await self._array.manage(contract.StatusAction())
        counters = array_counters(status, self.plan.pool, self.plan.volume)
        self._page_bytes = counters.page_bytes
        return counters

    def _damaged(self, found: str) -> GuestError:
        lines = [line.strip() for line in found.splitlines() if line.strip()]
        disk = self.plan.spec.disk
        return GuestError(
            f"the {disk.format} disk of guest {self.plan.node} or a file system on it is damaged: {lines[0]}",
            f"all messages of the guest's kernel and of qemu-img: {' / '.join(lines)[:_HINT_MAX]}",
        )


class _PlannedLu:
    """The LU of a chain, at its array."""

    def __init__(self, plan: ChainPlan, array: EngineSession) -> None:
        self._plan, self._array = plan, array

    async def size(self) -> int:
        status = await self._manage(contract.StatusAction())
        volumes = next(pool["volumes"] for pool in status["pools"] if pool["name"] == self._plan.pool)
        return next(int(volume["size_bytes"]) for volume in volumes if volume["name"] == self._plan.volume)

    async def resize(self, size: int) -> None:
        action = contract.ResizeAction(pool=self._plan.pool, volume=self._plan.volume, size_bytes=size)
        await self._manage(action)

    async def _manage(self, action: contract.ManageAction) -> dict[str, Any]:
        try:
            return await self._array.manage(action)
        except LostError as error:
            raise ArrayLostError(error.message, error.hint) from error


async def _unless_full(plan: ChainPlan, array: EngineSession, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of `work`. Raises GuestError once the pool is full, because file systems
    may then wait for space without an end, and ArrayLostError if the array is lost meanwhile.
    """
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=_POLL_S))[0]:
            await _check_space(plan, array)
        await _check_space(plan, array)
        return await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _check_space(plan: ChainPlan, array: EngineSession) -> None:
    """Raise GuestError if the pool has no space for a write, ArrayLostError without an array."""
    pool = await _read_pool(plan, array)
    if pool["free_bytes"] < _reserve_bytes(pool):
        raise GuestError(
            f"pool {plan.pool} of {plan.array}, which the disk of guest {plan.node} is on, is full: "
            f"{format_size(pool['used_bytes'])} of {format_size(pool['capacity_bytes'])}",
            "make `lu.pool` of the chain larger, or the trees smaller",
        )


async def _read_pool(plan: ChainPlan, array: EngineSession) -> dict[str, Any]:
    """Return the status of the pool. Raises ArrayLostError without an array."""
    try:
        status = await array.manage(contract.StatusAction())
    except HakaruError as error:
        raise ArrayLostError(error.message, error.hint) from error
    pool: dict[str, Any] = next(pool for pool in status["pools"] if pool["name"] == plan.pool)
    return pool


def _reserve_bytes(pool: Mapping[str, Any]) -> int:
    """Free space below which a pool counts as full."""
    return max(2 * int(pool["page_bytes"]), _REQUEST_BYTES)
