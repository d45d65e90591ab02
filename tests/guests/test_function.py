"""Functions of adapters: what is read from sysfs, and the reasons why a guest cannot get one."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hakaru.guest.function import Function, function_refusal, has_iommu, offered_functions, read_function
from hakaru.guest.nic import NicModel

ADAPTER, VIRTUAL, DISK, BRIDGE = "0000:03:00.0", "0000:03:10.0", "0000:04:00.0", "0000:00:1c.0"
NETWORK_CLASS, DISK_CLASS, BRIDGE_CLASS = "0x020000", "0x010802", "0x060400"


@dataclass(frozen=True)
class Machine:
    """The files of a machine, of which tests make what they need."""

    sysfs: Path
    dev: Path

    def add(self, address: str, device_class: str, *, driver: str = "", group: str = "", physical: str = "") -> None:
        folder = self.sysfs / "bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "class").write_text(f"{device_class}\n")
        if driver:
            place = self.sysfs / "bus/pci/drivers" / driver
            place.mkdir(parents=True, exist_ok=True)
            (folder / "driver").symlink_to(place)
        if physical:
            (folder / "physfn").symlink_to(folder.parent / physical)
        if group:
            members = self.sysfs / "kernel/iommu_groups" / group / "devices"
            members.mkdir(parents=True, exist_ok=True)
            (members / address).symlink_to(folder)
            (folder / "iommu_group").symlink_to(members.parent)
            node = self.dev / "vfio" / group
            node.parent.mkdir(exist_ok=True)
            node.touch()

    def read(self, address: str) -> Function:
        return read_function(address, sysfs=self.sysfs, dev=self.dev)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "sys/kernel/iommu_groups").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    return Machine(tmp_path / "sys", tmp_path / "dev")


def test_virtual_function_of_an_adapter_can_be_given(machine: Machine) -> None:
    assert not has_iommu(sysfs=machine.sysfs)
    machine.add(ADAPTER, NETWORK_CLASS, driver="igb", group="11")
    machine.add(VIRTUAL, NETWORK_CLASS, driver="vfio-pci", group="12", physical=ADAPTER)
    function = machine.read(VIRTUAL)
    assert function == Function(VIRTUAL, physical=ADAPTER, group="12")
    assert function_refusal(function, "sr-iov") is None and function_refusal(function, "vfio") is None
    assert has_iommu(sysfs=machine.sysfs)
    assert [each.address for each in offered_functions(sysfs=machine.sysfs, dev=machine.dev)] == [VIRTUAL]


def test_bridge_and_unbound_function_of_the_group_do_not_matter(machine: Machine) -> None:
    machine.add(BRIDGE, BRIDGE_CLASS, driver="pcieport", group="11")
    machine.add("0000:03:00.1", NETWORK_CLASS, group="11")
    machine.add(ADAPTER, NETWORK_CLASS, driver="vfio-pci", group="11")
    assert machine.read(ADAPTER).held == ()


def test_group_with_a_function_that_the_machine_uses_cannot_be_given(machine: Machine) -> None:
    machine.add(ADAPTER, NETWORK_CLASS, driver="vfio-pci", group="11")
    machine.add(DISK, DISK_CLASS, driver="nvme", group="11")
    refusal = function_refusal(machine.read(ADAPTER), "vfio")
    assert refusal is not None and f"also has {DISK}, which this machine uses" in refusal.reason


def test_device_file_that_the_user_may_not_open_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.add(ADAPTER, NETWORK_CLASS, driver="vfio-pci", group="11")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refusal = function_refusal(machine.read(ADAPTER), "vfio")
    assert refusal is not None and refusal.reason == f"this user may not open {machine.dev}/vfio/11"
    (machine.dev / "vfio/11").unlink()
    refusal = function_refusal(machine.read(ADAPTER), "vfio")
    assert refusal is not None and refusal.reason == f"this machine has no {machine.dev}/vfio/11"


GOOD = Function(ADAPTER, group="11")


@pytest.mark.parametrize(
    ("function", "model", "reason", "hint"),
    [
        (Function(ADAPTER, exists=False), "vfio", "has no PCI function 0000:03:00.0", "lspci"),
        (replace(GOOD, base_class=1), "vfio", "is no network adapter", "lspci"),
        (GOOD, "sr-iov", "not a virtual function", "sriov_numvfs"),
        (replace(GOOD, group=""), "vfio", "no IOMMU", "VT-d"),
        (
            replace(GOOD, driver="igb"),
            "vfio",
            "bound to the driver igb, not to vfio-pci",
            "driverctl set-override 0000:03:00.0 vfio-pci",
        ),
        (replace(GOOD, driver=""), "vfio", "bound to the driver -", "driverctl"),
    ],
)
def test_reason_and_remedy_are_named(function: Function, model: NicModel, reason: str, hint: str) -> None:
    refusal = function_refusal(function, model)
    assert refusal is not None and reason in refusal.reason and hint in refusal.hint, refusal


def test_missing_function_is_read_as_missing(machine: Machine) -> None:
    assert not machine.read(ADAPTER).exists
    assert offered_functions(sysfs=machine.sysfs, dev=machine.dev) == []
