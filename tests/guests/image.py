"""Image that a guest boots: a stock Debian kernel, and an initramfs of stock Debian programs and
`init.sh`.

    find_image() -> Image     from the cache, built if it is missing (a minute, most of it for apt's
                              download)

The image lies in `$XDG_CACHE_HOME/hakaru/guest` (`~/.cache/…`), in a folder named after its recipe:
this module, its lists and `init.sh`. Another recipe gives another image. Within one recipe the
packages stay as downloaded until the folder is deleted. The folder appears atomically, so that
several processes may build it at the same time. A build deletes images unused for a month.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hakaru.errors import EnvironmentError_

from tests.guests import cpio, packages

PACKAGES = (
    "linux-image-cloud-amd64",
    "busybox-static",
    "dash",
    "coreutils",
    "kmod",
    "open-iscsi",
    "util-linux",
    "mount",
    "e2fsprogs",
    "xfsprogs",
    "fio",
)
# All other programs, including process 1, are busybox. Scripts run in dash, because busybox's shell
# would prefer its own programs.
PROGRAMS = (
    *("dash", "dd", "head", "seq", "sha256sum"),
    *("kmod", "mount", "umount", "lsblk", "blkdiscard", "blockdev", "fstrim"),
    *("iscsid", "iscsiadm", "iscsistart", "iscsi-iname"),
    *("mkfs.ext4", "e2fsck", "mkfs.xfs", "xfs_repair", "fio"),
)
FILES = ("etc/iscsi/iscsid.conf", "etc/mke2fs.conf")
# Names under which the kernel and programs call others, above all modprobe, which loads crc32c for
# iscsi_tcp's digests.
LINKS = {
    "sh": "dash",
    "modprobe": "kmod",
    "lsmod": "kmod",
    "insmod": "kmod",
    "fsck.ext4": "e2fsck",
    "mke2fs": "mkfs.ext4",
}
# Loaded when the guest boots, with their dependencies.
MODULES = ("virtio_pci", "virtio_net", "virtio_console", "sd_mod", "iscsi_tcp", "crc32c_intel")
# Available for loading on demand.
MORE_MODULES = ("ext4", "xfs", "sg", "dm_multipath", "crc32c_generic", "libcrc32c")

ADDRESS = "10.0.2.15/24"
"""Address of the guest in the network that QEMU creates."""

_UNUSED_S_MAX = 30 * 24 * 3600.0
_LOADER = "lib64/ld-linux-x86-64.so.2"


@dataclass(frozen=True)
class Image:
    """Files of an image, for QEMU."""

    kernel: Path
    initramfs: Path
    kernel_version: str
    """Kernel version as reported by `uname -r`."""
    packages: tuple[str, ...]
    """`name_version_architecture` of each package in the image."""


def find_image() -> Image:
    """Return the image of this recipe, from the cache or newly built.

    Raises EnvironmentError_ if it cannot be built: no Debian, another processor, no package mirror.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakaru" / "guest"
    folder = cache / _recipe()
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as scratch:
            built = _make(Path(scratch))
            try:
                built.rename(folder)
            except OSError:
                # Another process has built the same image meanwhile.
                if not folder.is_dir():
                    raise
        _delete_unused(cache)
    # Records the time of the last use.
    os.utime(folder)
    return Image(
        kernel=folder / "kernel",
        initramfs=folder / "initramfs",
        kernel_version=(folder / "version").read_text().strip(),
        packages=tuple((folder / "packages").read_text().split()),
    )


def _delete_unused(cache: Path) -> None:
    for folder in cache.iterdir():
        if folder.stat().st_mtime < time.time() - _UNUSED_S_MAX:
            shutil.rmtree(folder, ignore_errors=True)


def _recipe() -> str:
    """Return a hash of everything that determines an image, except the packages' versions."""
    sources = [Path(__file__), *(Path(__file__).with_name(name) for name in ("init.sh", "packages.py", "cpio.py"))]
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def _make(scratch: Path) -> Path:
    if (machine := packages.architecture()) != "amd64":
        raise EnvironmentError_(f"guests need amd64; this machine is {machine}", "use an x86-64 machine")
    root, built = scratch / "root", scratch / "made"
    downloaded = packages.fetch(PACKAGES, scratch / "apt")
    packages.unpack(downloaded, root)
    built.mkdir()
    kernels = list((root / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise EnvironmentError_(f"the packages contain {len(kernels)} kernels instead of one", "")
    version = kernels[0].name.removeprefix("vmlinuz-")
    with (built / "initramfs").open("wb") as stream:
        archive = cpio.Writer(stream)
        _lay_out(archive)
        _add_programs(archive, root)
        _add_modules(archive, root, version)
        archive.close()
    kernels[0].rename(built / "kernel")
    (built / "version").write_text(version + "\n")
    (built / "packages").write_text("".join(f"{package.stem}\n" for package in downloaded))
    return built


def _lay_out(archive: cpio.Writer) -> None:
    """Add directories, links and our own files."""
    for name in ("proc", "sys", "dev", "run", "tmp", "mnt", "root", "var/lib/iscsi", "etc/iscsi", "usr/bin", "usr/lib"):
        archive.add_directory(name)
    for name, target in {"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}.items():
        archive.add_link(name, target)
    archive.add_link("usr/sbin", "bin")
    script = Path(__file__).with_name("init.sh").read_text()
    script = script.replace("@MODULES@", " ".join(MODULES)).replace("@ADDRESS@", ADDRESS)
    # iscsid looks up the user of its clients and accepts commands from root by name.
    archive.add_file("etc/passwd", b"root:x:0:0:root:/root:/usr/bin/sh\n", executable=False)
    archive.add_file("etc/group", b"root:x:0:\n", executable=False)
    archive.add_file("init", script.encode(), executable=True)


def _add_programs(archive: cpio.Writer, root: Path) -> None:
    """Add every program to usr/bin, and the libraries that they are linked with at their packages'
    paths.
    """
    libraries: set[Path] = set()
    for program in ("busybox", *PROGRAMS):
        path = _find(root, (f"usr/sbin/{program}", f"usr/bin/{program}"))
        archive.add_file(f"usr/bin/{program}", path, executable=True)
        if program != "busybox":
            libraries |= _libraries(root, path)
    for name, target in LINKS.items():
        archive.add_link(f"usr/bin/{name}", target)
    for path in sorted(libraries):
        archive.add_file(str(path.relative_to(root)), path, executable=True)
    for name in FILES:
        archive.add_file(name, root / name, executable=False)


def _find(root: Path, names: Iterable[str]) -> Path:
    for name in names:
        if (root / name).exists():
            return root / name
    raise EnvironmentError_(f"no package contains {' or '.join(names)}", "")


def _libraries(root: Path, program: Path) -> set[Path]:
    """Return the libraries of a program below `root`, under the names that the guest's loader will
    request.
    """
    loader = _find(root, [f"usr/{_LOADER}"])
    # The loader would look up the RUNPATH of some libraries on the host, so all folders are listed.
    folders = sorted({path.parent for path in (root / "usr/lib").rglob("lib*.so.*")}, key=str)
    command: list[str | Path] = [loader, "--library-path", ":".join(map(str, folders)), "--list", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentError_(f"{program.name} lacks a library: {(done.stdout + done.stderr).strip()}", "")
    libraries = {loader}
    for line in done.stdout.splitlines():
        _, arrow, path = line.partition(" => ")
        if arrow and (library := Path(path.rpartition(" (")[0])) != loader:
            if not library.is_relative_to(root):
                if library.name == loader.name:
                    continue
                raise EnvironmentError_(f"{program.name} needs {library}, which no package of the guest has", "")
            libraries.add(library)
    return libraries


def _add_modules(archive: cpio.Writer, root: Path, version: str) -> None:
    """Add the modules with their dependencies, and the index that modprobe reads."""
    folder = root / "usr/lib/modules" / version
    needs = _dependencies(root, version)
    by_name = {Path(path).name.split(".")[0].replace("-", "_"): path for path in needs}
    builtin = {Path(line).stem.replace("-", "_") for line in (folder / "modules.builtin").read_text().split()}
    required: set[str] = set()
    for name in (*MODULES, *MORE_MODULES):
        if name in by_name:
            path = by_name[name]
            required |= {path, *needs[path]}
        elif name not in builtin:
            raise EnvironmentError_(f"kernel {version} has no module {name}", "")
    target = f"usr/lib/modules/{version}"
    for path in sorted(required):
        archive.add_file(f"{target}/{path}", folder / path, executable=False)
    for source in sorted(folder.glob("modules.*")):
        if source.is_file():
            archive.add_file(f"{target}/{source.name}", source, executable=False)


def _dependencies(root: Path, version: str) -> dict[str, list[str]]:
    """Return modules.dep of the packages' own depmod: path of each module → paths of all its
    dependencies.
    """
    kmod = _find(root, ["usr/bin/kmod"])
    depmod = kmod.with_name("depmod")
    if not depmod.exists():
        depmod.symlink_to("kmod")
    folders = f"{root}/usr/lib/x86_64-linux-gnu"
    command: list[str | Path] = [root / "usr" / _LOADER, "--library-path", folders, depmod, "--basedir", root, version]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentError_(f"depmod failed: {done.stderr.strip()}", "")
    lines = (root / "usr/lib/modules" / version / "modules.dep").read_text().splitlines()
    return {path: needs.split() for path, _, needs in (line.partition(":") for line in lines)}
