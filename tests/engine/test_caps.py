"""Caps of the array with real sessions: rates within 2 % of the caps, counters, and accesses that
wait when their session ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import UsageError

from tests.peers.array import MIB, TARGET_NAME, Engine, array, lu

pytestmark = pytest.mark.alone

Counters = dict[str, dict[str, float]]
Rates = dict[str, dict[str, float]]

NAMES = "iqn.2026-01.org.hakaru"
RATE_ERROR = 0.02
MEASURE_S = 4.0
OUTSTANDING = 64


def vm(portal: str, name: str, lun: int, *, size_bytes: int = 4096, read_percent: int = 50) -> dict[str, Any]:
    """Return a VM on the first 16 MiB of an LU. It has so many requests outstanding that some wait
    at the cap even if the machine is busy for a moment.
    """
    return {
        "name": name,
        "destination": {
            "kind": "iscsi",
            "portal": portal,
            "target_name": TARGET_NAME,
            "lun": lun,
            "initiator_name": f"{NAMES}:{name}",
        },
        "region": {"offset_bytes": 0, "length_bytes": 16 * MIB},
        "pattern": {"sizes": [{"bytes": size_bytes}], "read_percent": read_percent, "random_percent": 100},
        "load": {"kind": "closed", "queue_depth": OUTSTANDING},
        "seed": 1,
    }


def measured(vms: list[dict[str, Any]], groups: list[str]) -> Rates:
    """Run the VMs; return the rates per second of every group over the measuring phase."""
    config = {"engine": "initiator", "vms": vms, "groups": groups, "warmup_s": 1.0, "measure_s": MEASURE_S}
    engine = Engine(config | {"sample_interval_ms": 500})
    try:
        engine.send({"type": "start", "at_ns": 0})
        samples: list[dict[str, Any]] = []
        phases: dict[str, int] = {}
        for event in engine.events():
            if event["type"] == "sample":
                samples.append(event)
            if event["type"] == "phase":
                phases[event["phase"]] = event["at_ns"]
            if event["type"] == "result":
                break
        begin, end = (next(s for s in samples if s["at_ns"] == phases[name]) for name in ("measure", "drain"))
    finally:
        engine.close()
    seconds = (end["at_ns"] - begin["at_ns"]) / 1e9

    def rates(entity: str) -> dict[str, float]:
        grown = {n: v - begin["counters"][entity][n] for n, v in end["counters"][entity].items()}
        accesses, octets = grown["reads"] + grown["writes"], grown["read_bytes"] + grown["write_bytes"]
        return {"iops": accesses / seconds, "bytes_per_s": octets / seconds}

    return {name: rates(f"vms/{name}") for name in groups}


def test_cap_of_an_lu_holds_its_rate_of_accesses() -> None:
    """Caps of three LUs at the same time, beside an LU without one. So many VMs use the fastest cap
    that its waiting accesses last for an eighth of a second.
    """
    iops, vms = {1: 50, 2: 500, 3: 2000}, {1: 1, 2: 1, 3: 4}
    caps = [{"name": f"lu-{lun}", "lun": lun, "iops": rate} for lun, rate in iops.items()]
    names = ["free", *(f"capped-{lun}" for lun in iops)]
    with array(*(lu(lun, 64 * MIB) for lun in range(4)), caps=caps) as a:
        loads = [
            vm(a.portal, f"{name}-{number}", lun) | {"group": lun}
            for lun, name in enumerate(names)
            for number in range(vms.get(lun, 1))
        ]
        rates = measured(loads, names)
        counters = a.engine.counters()
    for lun, rate in iops.items():
        outstanding = OUTSTANDING * vms[lun]
        assert rates[f"capped-{lun}"]["iops"] == pytest.approx(rate, rel=RATE_ERROR)
        assert rates["free"]["iops"] > rates[f"capped-{lun}"]["iops"]
        cap, of_lu = counters[f"cap/lu-{lun}"], counters[f"lu/{lun}"]
        assert cap["accesses"] == of_lu["reads"] + of_lu["writes"]
        assert cap["bytes"] == of_lu["read_bytes"] + of_lu["write_bytes"]
        # So many are outstanding at any time that an access waits for most of the others.
        assert cap["delayed"] > 0.5 * cap["accesses"]
        assert outstanding / 2 < cap["wait_ns"] / cap["accesses"] / 1e9 * rate < outstanding
        assert cap["waiting_now"] == 0


BYTE_CAPS = {4096: 4_000_000, 65536: 4_000_000, 1 << 20: 64_000_000}
"""Size of an access → bytes per second."""


def capped_by_bytes() -> Rates:
    """Rates of three LUs with accesses of one size each, and a cap of bytes each."""
    lus = [lu(lun, 64 * MIB) for lun in range(len(BYTE_CAPS))]
    limits = [{"name": f"b-{lun}", "lun": lun, "bytes_per_s": rate} for lun, rate in enumerate(BYTE_CAPS.values())]
    names = [f"a-{size_bytes}" for size_bytes in BYTE_CAPS]
    with array(*lus, caps=limits) as a:
        vms = [
            vm(a.portal, name, lun, size_bytes=size_bytes) | {"group": lun}
            for lun, (name, size_bytes) in enumerate(zip(names, BYTE_CAPS, strict=True))
        ]
        return measured(vms, names)


def capped_by_initiator() -> Rates:
    """Rates of three initiators with a cap each: accesses, over two LUs and over one, and bytes."""
    caps = [
        {"name": "a", "initiator_name": f"{NAMES}:a", "iops": 400},
        {"name": "b", "initiator_name": f"{NAMES}:b", "iops": 100},
        {"name": "c", "initiator_name": f"{NAMES}:c", "bytes_per_s": 4_000_000},
    ]
    with array(lu(0, 64 * MIB), lu(1, 64 * MIB), caps=caps) as a:
        also = vm(a.portal, "also", 1)
        also["destination"]["initiator_name"] = f"{NAMES}:a"
        vms = [
            vm(a.portal, "a", 0) | {"group": 0},
            vm(a.portal, "b", 0) | {"group": 1},
            also | {"group": 0},
            vm(a.portal, "c", 0) | {"group": 2},
        ]
        return measured(vms, ["a", "b", "c"])


@pytest.fixture(scope="module")
def found() -> dict[Callable[[], Rates], Rates]:
    """Rates of two arrays at the same time, which leave the processors idle most of the time."""
    with ThreadPoolExecutor() as threads:
        begun = {each: threads.submit(each) for each in (capped_by_bytes, capped_by_initiator)}
        return {each: future.result() for each, future in begun.items()}


def test_cap_of_bytes_holds_its_rate_for_small_and_large_accesses(found: dict[Callable[[], Rates], Rates]) -> None:
    for size_bytes, rate in BYTE_CAPS.items():
        # A count over the phase is off by at most one access at each end. So many pass that this
        # error is much smaller than that of the cap.
        assert 2 * size_bytes / (rate * MEASURE_S) < RATE_ERROR / 2
        measured_rate = found[capped_by_bytes][f"a-{size_bytes}"]["bytes_per_s"]
        assert measured_rate == pytest.approx(rate, rel=RATE_ERROR), size_bytes


def test_cap_of_an_initiator_holds_for_each_of_its_lus_together(found: dict[Callable[[], Rates], Rates]) -> None:
    rates = found[capped_by_initiator]
    assert rates["a"]["iops"] == pytest.approx(400, rel=RATE_ERROR)
    assert rates["b"]["iops"] == pytest.approx(100, rel=RATE_ERROR)
    assert rates["c"]["bytes_per_s"] == pytest.approx(4e6, rel=RATE_ERROR)


def test_accesses_that_wait_end_with_their_session_and_take_no_token() -> None:
    # One access passes in 100 seconds, so all others wait when the initiator is killed.
    caps = [{"name": "slow", "initiator_name": f"{NAMES}:a", "bytes_per_s": 4096, "burst_ms": 0}]
    with array(lu(0, 64 * MIB), caps=caps, sample_interval_ms=100) as a:
        config = {
            "engine": "initiator",
            "vms": [vm(a.portal, "a", 0, size_bytes=409_600, read_percent=0)],
            "warmup_s": 0.0,
            "measure_s": 60.0,
        }
        engine = Engine(config)
        try:
            engine.send({"type": "start", "at_ns": 0})
            until(a.engine, lambda c: c["cap/slow"]["waiting_now"] == OUTSTANDING)
        finally:
            engine.close()
        counters = until(a.engine, lambda c: c["cap/slow"]["waiting_now"] == 0)
        assert counters["cap/slow"]["accesses"] == 1
        assert counters["sessions"]["write_buffer_bytes_now"] == 0
        begun = time.monotonic()
        a.engine.stop()
        assert time.monotonic() - begun < 5


def until(engine: Engine, is_so: Callable[[Counters], bool]) -> Counters:
    """Return the counters of the first sample for which `is_so` holds."""
    for _ in range(100):
        counters = engine.counters()
        if is_so(counters):
            return counters
    raise AssertionError(counters)


@pytest.mark.parametrize(
    ("cap", "message"),
    [
        ({"name": "a"}, 'caps: "a": no rate'),
        ({"name": "", "iops": 1}, "is not valid"),
        ({"name": "a", "iops": 0}, "iops is 0; it must be 1 to 10000000"),
        ({"name": "a", "bytes_per_s": 1}, "bytes_per_s is 1; it must be 4096 to 1000000000000"),
        ({"name": "a", "iops": 1, "burst_ms": 60_001}, "burst_ms is 60001; it must be 0 to 60000"),
    ],
)
def test_impossible_cap_is_refused_by_name(cap: dict[str, Any], message: str) -> None:
    config = contract.ArrayConfig(
        target_name=TARGET_NAME,
        portals=["127.0.0.1:0"],
        lus=[contract.LuConfig(lun=0, size_bytes=MIB, store=contract.MemoryStore())],
        model=contract.NoModel(kind="none"),
        caps=[contract.CapConfig.model_validate(cap)],
    )

    async def work() -> None:
        async with await EngineProcess.spawn("storage", config) as engine:
            await engine.ready()

    with pytest.raises(UsageError, match=message):
        asyncio.run(work())
