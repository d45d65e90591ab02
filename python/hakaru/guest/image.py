"""Image that a guest boots: a stock Debian kernel, and an initramfs of stock Debian programs and
`init.sh`.

    find_image("cloud") -> Image     from the cache, built if it is missing (a minute, most of it
                                     for apt's download)

An image lies in `$XDG_CACHE_HOME/hakaru/guest` (`~/.cache/…`), in a folder named after its recipe
(`hakaru.guest.recipe`) and a hash of all that determines it. Another recipe gives another image.
Within one recipe the packages stay as downloaded until the folder is deleted. The folder appears
atomically, so that several processes may build it at the same time. A build deletes images unused
for a month.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hakaru.errors import EnvironmentError_
from hakaru.guest import cpio, packages
from hakaru.guest.libraries import find_libraries, run_from
from hakaru.guest.recipe import FILES, LINKS, MODULES, RECIPES, Recipe, RecipeName

_UNUSED_S_MAX = 30 * 24 * 3600.0
_SCRIPTS = {"init": "init.sh", "usr/bin/hakaru-port": "port.sh"}
"""Path in the image → our own script."""


@dataclass(frozen=True)
class Image:
    """Files of an image, for QEMU."""

    kernel: Path
    initramfs: Path
    recipe: Recipe
    kernel_version: str
    """Kernel version as reported by `uname -r`."""
    packages: tuple[str, ...]
    """`name_version_architecture` of each package in the image."""

    def version(self, package: str) -> str:
        """Return the version of a package without its epoch: `4.17.12+dfsg-0+deb12u1`. Raises
        KeyError if the image was made without it.
        """
        versions = dict(name.split("_")[:2] for name in self.packages)
        # apt writes the colon of an epoch as `%3a` in the name of a file.
        return versions[package].rpartition("%3a")[2]


def cache_folder() -> Path:
    """Return the folder of all images, which may be missing."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakaru" / "guest"


@contextmanager
def cache_errors() -> Iterator[None]:
    """Name the folder of the images in errors about files in it. Raises EnvironmentError_."""
    try:
        yield
    except OSError as error:
        raise EnvironmentError_(
            f"the image of a guest cannot be kept in {cache_folder()}: {error.strerror or error}",
            "make space in this folder, or name another one with XDG_CACHE_HOME",
        ) from error


@cache_errors()
def find_image(name: RecipeName = "cloud") -> Image:
    """Return the image of a recipe, from the cache or newly built.

    Raises EnvironmentError_ if it cannot be built: no Debian, another processor, no package mirror,
    no space.
    """
    return _cached_image(name)


def _cached_image(name: RecipeName) -> Image:
    recipe, cache = RECIPES[name], cache_folder()
    folder = cache / f"{name}-{_identity(recipe)}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as scratch:
            built = _make(recipe, Path(scratch))
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
        recipe=recipe,
        kernel_version=(folder / "version").read_text().strip(),
        packages=tuple((folder / "packages").read_text().split()),
    )


def _delete_unused(cache: Path) -> None:
    for folder in cache.iterdir():
        if folder.stat().st_mtime < time.time() - _UNUSED_S_MAX:
            shutil.rmtree(folder, ignore_errors=True)


def _identity(recipe: Recipe) -> str:
    """Return a hash of everything that determines an image, except the packages' versions."""
    names = (*_SCRIPTS.values(), "recipe.py", "packages.py", "cpio.py", "libraries.py")
    sources = [Path(__file__), *(Path(__file__).with_name(name) for name in names)]
    content = [repr(recipe).encode(), *(source.read_bytes() for source in sources)]
    return hashlib.sha256(b"\0".join(content)).hexdigest()[:16]


def _make(recipe: Recipe, scratch: Path) -> Path:
    if (machine := packages.architecture()) != "amd64":
        raise EnvironmentError_(f"guests need amd64; this machine is {machine}", "use an x86-64 machine")
    root, built = scratch / "root", scratch / "made"
    downloaded = packages.fetch(recipe.packages, scratch / "apt")
    packages.unpack(downloaded, root)
    built.mkdir()
    kernels = list((root / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise EnvironmentError_(f"the packages contain {len(kernels)} kernels instead of one", "")
    version = kernels[0].name.removeprefix("vmlinuz-")
    with (built / "initramfs").open("wb") as stream:
        archive = cpio.Writer(stream)
        _lay_out(archive)
        _add_programs(archive, root, recipe.programs, _matches(root, recipe.plugins))
        _add_files(archive, root, {root / name for name in FILES} | _matches(root, recipe.extra_files))
        _add_modules(archive, root, version, recipe.modules)
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
    for name, source in _SCRIPTS.items():
        script = Path(__file__).with_name(source).read_text().replace("@MODULES@", " ".join(MODULES))
        archive.add_file(name, script.encode(), executable=True)
    # iscsid looks up the user of its clients and accepts commands from root by name.
    archive.add_file("etc/passwd", b"root:x:0:0:root:/root:/usr/bin/sh\n", executable=False)
    archive.add_file("etc/group", b"root:x:0:\n", executable=False)


def _matches(root: Path, patterns: Iterable[str]) -> set[Path]:
    """Return the files below `root` that match the patterns, at least one of each."""
    found = {pattern: {path for path in root.glob(pattern) if path.is_file()} for pattern in patterns}
    for pattern, paths in found.items():
        if not paths:
            raise EnvironmentError_(f"no package contains {pattern}", "")
    return set[Path]().union(*found.values())


def _add_programs(archive: cpio.Writer, root: Path, programs: Iterable[str], plugins: Set[Path]) -> None:
    """Add every program to usr/bin, and at their packages' paths the plugins and all libraries that
    they are linked with.
    """
    libraries = set(plugins).union(*(find_libraries(root, plugin) for plugin in plugins))
    for program in ("busybox", *programs):
        path = _find(root, (f"usr/sbin/{program}", f"usr/bin/{program}"))
        archive.add_file(f"usr/bin/{program}", path, executable=True)
        # busybox is linked statically, and a script's interpreter is a program of its own.
        if program != "busybox" and not path.read_bytes().startswith(b"#!"):
            libraries |= find_libraries(root, path)
    for name, target in LINKS.items():
        archive.add_link(f"usr/bin/{name}", target)
    for path in sorted(libraries):
        archive.add_file(str(path.relative_to(root)), path, executable=True)


def _add_files(archive: cpio.Writer, root: Path, paths: Iterable[Path]) -> None:
    """Add files at their packages' paths, scripts as executable ones."""
    for path in sorted(paths):
        archive.add_file(str(path.relative_to(root)), path, executable=os.access(path, os.X_OK))


def _find(root: Path, names: Iterable[str]) -> Path:
    for name in names:
        if (root / name).exists():
            return root / name
    raise EnvironmentError_(f"no package contains {' or '.join(names)}", "")


def _add_modules(archive: cpio.Writer, root: Path, version: str, names: Iterable[str]) -> None:
    """Add the modules with their dependencies, and the index that modprobe reads."""
    folder = root / "usr/lib/modules" / version
    needs = _dependencies(root, version)
    by_name = {Path(path).name.split(".")[0].replace("-", "_"): path for path in needs}
    builtin = {Path(line).stem.replace("-", "_") for line in (folder / "modules.builtin").read_text().split()}
    required: set[str] = set()
    for name in names:
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
    folders = [root / "usr/lib/x86_64-linux-gnu"]
    done = run_from(root, folders, [depmod, "--basedir", root, version])
    if done.returncode != 0:
        raise EnvironmentError_(f"depmod failed: {done.stderr.strip()}", "")
    lines = (root / "usr/lib/modules" / version / "modules.dep").read_text().splitlines()
    return {path: needs.split() for path, _, needs in (line.partition(":") for line in lines)}
