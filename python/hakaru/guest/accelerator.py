"""Choice between KVM and TCG: KVM if a guest really boots on it, because the existence of /dev/kvm
proves nothing.

    accelerator = await find_accelerator(image)      2 s with working KVM, at most 25 s with a
                                                     broken one; then kept for the day

The result is kept in `~/.cache/hakaru/accelerator.json` until the next start of this machine, at
most a day, because each process would otherwise wait for a broken KVM.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path

from hakaru.errors import EnvironmentError_, LostError
from hakaru.guest.emulator import PROGRAM
from hakaru.guest.image import Image, cache_folder
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.requirements import Accelerator, AcceleratorKind

DEVICE = Path("/dev/kvm")
# A guest boots on KVM in 2 s. Beyond this it is no faster than TCG.
PROBE_TIMEOUT_S = 15.0
# linux/kvm.h: the version of the interface has been 12 since 2007.
_KVM_GET_API_VERSION, _KVM_API_VERSION = 0xAE00, 12
_KEPT_S = 24 * 3600.0
_NOT_TRIED = "no guest has been booted on KVM yet"


async def find_accelerator(
    image: Image, requested: AcceleratorKind | None = None, *, device: Path = DEVICE
) -> Accelerator:
    """Return the accelerator for guests. None: KVM if it works, else TCG with the reason.

    Raises EnvironmentError_ with the reason if KVM is requested and does not work.
    """
    if requested == "tcg":
        return Accelerator("tcg", "it was requested")
    problem = device_problem(device)
    if problem is None:
        problem = _read_verdict(device)
    if problem is None:
        problem = await _boot_problem(image)
        _keep_verdict(device, problem)
    if not problem:
        return Accelerator("kvm")
    if requested == "kvm":
        raise EnvironmentError_(problem, "let guests run on TCG, or use a machine with working KVM")
    return Accelerator("tcg", problem)


def known_accelerator(*, device: Path = DEVICE) -> Accelerator:
    """Return the accelerator as far as it is known without booting a guest."""
    if (problem := device_problem(device)) is not None:
        return Accelerator("tcg", problem)
    problem = _read_verdict(device)
    if problem is None:
        return Accelerator("kvm", _NOT_TRIED)
    return Accelerator("tcg", problem) if problem else Accelerator("kvm")


def device_problem(device: Path) -> str | None:
    """Return the reason why KVM's device cannot be used; None if it answers."""
    if not device.exists():
        return f"this machine has no {device}"
    try:
        descriptor = os.open(device, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return f"{device} cannot be opened: {error.strerror}"
    try:
        version = fcntl.ioctl(descriptor, _KVM_GET_API_VERSION)
    except OSError as error:
        return f"{device} is not a KVM device: {error.strerror}"
    finally:
        os.close(descriptor)
    if version != _KVM_API_VERSION:
        return f"{device} has version {version} of KVM's interface instead of {_KVM_API_VERSION}"
    return None


async def _boot_problem(image: Image) -> str:
    """Boot a guest on KVM; return the reason why it does not, or an empty text."""
    spec = GuestSpec("kvm-probe", image, cpus=1, host_network=False)
    try:
        async with await Guest.boot(spec, Accelerator("kvm"), boot_timeout_s=PROBE_TIMEOUT_S):
            return ""
    except LostError as error:
        return f"this machine's KVM boots no guest: {error.message}"
    except EnvironmentError_ as error:
        return f"QEMU does not start with KVM: {error.message}"


def _verdict_file() -> Path:
    return cache_folder().with_name("accelerator.json")


def _identity(device: Path) -> dict[str, str]:
    """Return the properties of this machine for which a verdict holds."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return {"boot": boot, "device": str(device), "user": str(os.geteuid()), "program": PROGRAM}


def _read_verdict(device: Path) -> str | None:
    try:
        kept = json.loads(_verdict_file().read_text())
        if kept["for"] == _identity(device) and 0 <= time.time() - float(kept["at"]) < _KEPT_S:
            return str(kept["problem"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _keep_verdict(device: Path, problem: str) -> None:
    file = _verdict_file()
    written = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(json.dumps({"for": _identity(device), "at": time.time(), "problem": problem}))
        written.replace(file)
    except OSError:
        # Without a cache, the next process tries again.
        written.unlink(missing_ok=True)
