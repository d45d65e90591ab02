"""Choice of the accelerator: a KVM that is absent, broken or unusable has a named reason. No guest
is booted.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hakaru.errors import EnvironmentError_, LostError
from hakaru.guest import accelerator
from hakaru.guest.accelerator import device_problem, find_accelerator, known_accelerator
from hakaru.guest.image import Image
from hakaru.guest.machine import Guest
from hakaru.guest.recipe import RECIPES
from hakaru.guest.requirements import Accelerator

IMAGE = Image(Path("/kernel"), Path("/initramfs"), RECIPES["cloud"], "6.1", ())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hakaru" / "accelerator.json"


def test_absent_device_is_named(tmp_path: Path) -> None:
    assert device_problem(tmp_path / "kvm") == f"this machine has no {tmp_path / 'kvm'}"


def test_file_that_is_no_kvm_device_is_named(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.touch()
    problem = device_problem(device)
    assert problem is not None and problem.startswith(f"{device} is not a KVM device: ")
    assert asyncio.run(find_accelerator(IMAGE, device=device)) == Accelerator("tcg", problem)
    with pytest.raises(EnvironmentError_, match="is not a KVM device"):
        asyncio.run(find_accelerator(IMAGE, "kvm", device=device))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every file")
def test_device_that_the_user_may_not_open_is_named(tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.touch(0)
    assert "Permission denied" in str(device_problem(device))


def test_broken_kvm_is_tried_once_and_then_remembered(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    tries = []

    async def boot(spec: object, chosen: Accelerator, **_: object) -> Guest:
        tries.append(chosen.kind)
        raise LostError("guest kvm-probe (kvm) did not print `Linux version` within 10 s")

    monkeypatch.setattr(Guest, "boot", boot)
    monkeypatch.setattr(accelerator, "device_problem", lambda device: None)
    assert known_accelerator() == Accelerator("kvm", "no guest has been booted on KVM yet")
    first, second = (asyncio.run(find_accelerator(IMAGE)) for _ in range(2))
    assert first == second == known_accelerator()
    assert first.kind == "tcg" and "boots no guest: guest kvm-probe (kvm) did not print" in first.reason
    assert tries == ["kvm"]
    # The verdict of another machine, or of an earlier start of this one, does not count.
    cache.write_text(cache.read_text().replace('"boot": "', '"boot": "x'))
    asyncio.run(find_accelerator(IMAGE))
    assert tries == ["kvm", "kvm"]


def test_damaged_cache_is_ignored(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(accelerator, "device_problem", lambda device: None)
    cache.parent.mkdir()
    cache.write_text("{")
    assert known_accelerator().reason == "no guest has been booted on KVM yet"
