"""Configurations of the engines for a point."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
from hakaru.engine import contract
from hakaru.kinds.vms.configure import initiator_configs, lab_units
from hakaru.lab.plan import plan_lab
from hakaru.run.configure import array_configs, is_loopback, seed_of
from hakaru.study import expand
from hakaru.study.model import Factors

from tests.study.shipped import shipped

STUDY = shipped("vm-sweep").study
LAB = plan_lab(STUDY.lab)
EXPANDED = expand(STUDY)


def vms_of(vms: int, repetition: int = 1, pattern: str = "random-32k") -> list[contract.Vm]:
    turn = next(
        r
        for r in EXPANDED.repetitions
        if r.point.factors == {"pattern": pattern, "paths": 1, "vms": vms} and r.repetition == repetition
    )
    configs = initiator_configs(EXPANDED, turn, LAB.host_names, lab_units(STUDY, LAB.portals()))
    return sorted((vm for config in configs.values() for vm in config.vms), key=lambda vm: vm.name)


@pytest.mark.parametrize("vms", [1, 4, 7, 16])
def test_every_vm_has_a_region_of_its_own_inside_its_lu(vms: int) -> None:
    configured = vms_of(vms)
    assert all(vm.region.length_bytes == 64 << 30 for vm in configured)
    assert len(configured) == len({vm.name for vm in configured}) == vms
    for lu in STUDY.storage["array"].lus:
        regions = sorted(
            (vm.region.offset_bytes, vm.region.length_bytes)
            for vm in configured
            if isinstance(vm.destination, contract.IscsiDestination) and vm.destination.lun == lu.lun
        )
        assert all(offset + length <= following for (offset, length), (following, _) in pairwise(regions))
        assert all(offset + length <= lu.size for offset, length in regions)


def test_vms_are_distributed_evenly_to_hosts_and_lus() -> None:
    turn = next(r for r in EXPANDED.repetitions if r.point.factors["vms"] == 14)
    configs = initiator_configs(EXPANDED, turn, LAB.host_names, lab_units(STUDY, LAB.portals()))
    assert sorted(len(c.vms) for c in configs.values()) == [3, 3, 4, 4]
    luns = [vm.destination.lun for c in configs.values() for vm in c.vms if vm.destination.kind == "iscsi"]
    assert luns.count(0) == luns.count(1) == 7


def test_host_without_a_vm_has_no_initiator() -> None:
    turn = next(r for r in EXPANDED.repetitions if r.point.factors["vms"] == 1)
    assert list(initiator_configs(EXPANDED, turn, LAB.host_names, lab_units(STUDY, LAB.portals()))) == ["host-1"]


def test_seeds_differ_by_vm_and_repetition_and_are_reproducible() -> None:
    first, second = vms_of(16, repetition=1), vms_of(16, repetition=2)
    assert len({vm.seed for vm in (*first, *second)}) == 32
    assert [vm.seed for vm in first] == [vm.seed for vm in vms_of(16, repetition=1)]
    assert all(0 <= vm.seed < 2**53 for vm in first)
    assert seed_of(1, "p01-1") != seed_of(11, "p0-1")


def test_array_has_the_studys_pools_and_their_thin_lus() -> None:
    expanded = expand(shipped("noisy-neighbour").study)
    turn = next(r for r in expanded.repetitions if r.point.factors == {"resource": "pool", "neighbour": "alone"})
    (config,) = array_configs(expanded, turn, plan_lab(expanded.study.lab)).values()
    assert [(pool.name, pool.page_bytes, len(pool.groups)) for pool in config.pools] == [
        ("shared", 1 << 20, 2),
        ("own", 1 << 20, 1),
    ]
    assert len({pool.directory for pool in config.pools}) == 2
    assert config.pools[1].groups[0].placement == contract.Placement(group=2, offset_bytes=0)
    thin = [lu.store for lu in config.lus if isinstance(lu.store, contract.ThinStore)]
    assert [(store.pool, store.volume) for store in thin] == [("shared", "lu-0"), ("shared", "lu-1"), ("own", "lu-2")]
    assert all(lu.placement is None for lu in config.lus)


def test_array_has_the_studys_lus_and_model() -> None:
    (config,) = array_configs(EXPANDED, EXPANDED.repetitions[0], LAB).values()
    assert config.model == contract.PresetModel(kind="preset", name="jdsf-2011")
    assert [(lu.lun, lu.size_bytes) for lu in config.lus] == [(lu.lun, lu.size) for lu in STUDY.storage["array"].lus]
    assert config.portals == list(LAB.portals())


def test_queue_depth_of_a_factor_replaces_the_patterns() -> None:
    block = Factors.model_validate({"queue_depth": [1], "vms": [2], "pattern": ["random-32k"]})
    expanded = expand(STUDY.model_copy(update={"factors": [block]}))
    units = lab_units(expanded.study, LAB.portals())
    configs = initiator_configs(expanded, expanded.repetitions[0], LAB.host_names, units)
    assert {vm.load for c in configs.values() for vm in c.vms} == {contract.ClosedLoad(queue_depth=1)}


def test_array_model_with_cache_and_flash_drives_matches_the_contract() -> None:
    model = {
        "kind": "array",
        "controller": {"command_us": 60.0, "data_us_per_mib": 500.0},
        "cache": {"size_bytes": 1 << 30, "hit_us": 30.0, "write": "back", "nonvolatile": False},
        "groups": [
            {
                "raid": "raid5",
                "drives": 5,
                "stripe_unit_bytes": 65536,
                "drive": {"kind": "preset", "name": "nvme-ssd-2000"},
            }
        ],
    }
    dumped = contract.ArrayModel.model_validate(model).model_dump(mode="json")
    schema = json.loads((Path(__file__).resolve().parents[2] / "schema" / "contract.schema.json").read_text())
    model_schema = {"$ref": "#/definitions/Model", "definitions": schema["definitions"]}
    jsonschema.validate(dumped, model_schema)
    dumped["cache"]["hit"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(dumped, model_schema)


@pytest.mark.parametrize(("kind", "apart"), [("open", True), ("open", False), ("closed", True)])
def test_open_loads_on_storage_elsewhere_have_real_time_priority(kind: str, apart: bool) -> None:
    changed = json.loads(STUDY.model_dump_json(by_alias=True))
    pacing = {"kind": "open", "rate_per_s": 100, "arrivals": "poisson", "in_flight_max": 64}
    if kind == "open":
        changed["load"]["patterns"]["random-32k"]["load"] = pacing
    expanded = expand(type(STUDY).model_validate(changed))
    turn = next(turn for turn in expanded.repetitions if turn.point.factors["pattern"] == "random-32k")
    units = lab_units(expanded.study, LAB.portals())
    configs = initiator_configs(expanded, turn, LAB.host_names, units, apart=apart)
    assert {config.real_time for config in configs.values()} == {kind == "open" and apart}


def test_loopback_portals_are_told_from_others() -> None:
    assert all(is_loopback(portal) for portal in ("127.0.0.1:3260", "127.9.9.9:1", "[::1]:3260", "localhost:3260"))
    assert not any(is_loopback(portal) for portal in ("192.0.2.1:3260", "[2001:db8::1]:3260", "array:3260"))
