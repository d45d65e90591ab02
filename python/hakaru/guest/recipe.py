"""Recipes of guest images: the Debian packages of a kernel and its programs, and what an image
takes from them.

`RECIPES` is the one table. A new recipe is one entry in it. Names of NIC drivers are listed in
`hakaru.guest.nic`; a recipe states which of them its kernel has. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

RecipeName = Literal["adapters", "cloud", "file-server", "generic", "tape-programs"]

USERLAND = (
    *("busybox-static", "dash", "coreutils", "kmod", "util-linux", "mount", "ethtool", "iproute2"),
    *("open-iscsi", "dmsetup", "e2fsprogs", "xfsprogs", "fio"),
)
# All other programs, including process 1, are busybox. Scripts run in dash, because busybox's shell
# would prefer its own programs.
PROGRAMS = (
    *("dash", "dd", "head", "seq", "sha256sum"),
    *("kmod", "mount", "umount", "lsblk", "blkdiscard", "blockdev", "fstrim", "ethtool", "ip"),
    *("iscsid", "iscsiadm", "iscsistart", "iscsi-iname", "dmsetup"),
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
# Loaded when the guest boots, with their dependencies. Drivers of NICs are loaded only for the NICs
# that a guest has.
MODULES = ("virtio_pci", "virtio_console", "pvpanic_pci", "sd_mod", "iscsi_tcp", "crc32c_intel")
# Available for loading on demand.
MORE_MODULES = (
    *("ext4", "xfs", "sg", "dm_multipath", "crc32c_generic", "libcrc32c", "af_packet", "8021q", "bridge"),
    *("tcp_bbr", "dm_round_robin", "dm_queue_length"),
)
# Modules of perl that Amanda's amtapetype loads, and their libraries. `5.??` is a link to `5.??.?`.
_LIB = "usr/lib/x86_64-linux-gnu"
_COMPILED = ("Data/Dumper", "Encode", "I18N/Langinfo", "Storable", "mro")
_AMANDA = ("Config", "Debug", "Device", "Header", "MainLoop", "Util", "Xfer", "XferServer")
_AMANDA_ONLY_PERL = ("BigIntCompat", "Config/FoldingHash", "Constants", "Message", "Process")
PERL_LIBRARIES = (
    *(f"{_LIB}/perl-base/auto/{name}/*.so" for name in ("Fcntl", "List/Util", "POSIX")),
    *(f"{_LIB}/perl/5.??/auto/{name}/*.so" for name in _COMPILED),
    *(f"{_LIB}/amanda/perl/auto/Amanda/{name}/*.so" for name in _AMANDA),
)
PERL_MODULES = (
    f"{_LIB}/perl-base/**/*.pm",
    *(f"{_LIB}/perl/5.??/{name}.pm" for name in (*_COMPILED, "Encode/**/*")),
    *(f"{_LIB}/amanda/perl/Amanda/{name}.pm" for name in (*_AMANDA, *_AMANDA_ONLY_PERL)),
    *(f"usr/share/perl/5.??/{name}.pm" for name in ("JSON/**/*", "Math/BigInt", "Math/BigInt/*")),
    *(f"usr/share/perl5/{name}.pm" for name in ("JSON", "Encode/Locale")),
)


@dataclass(frozen=True)
class Recipe:
    """Content of an image."""

    name: RecipeName
    kernel: str
    """Package of the kernel."""
    drivers: tuple[str, ...]
    """Modules of the NIC drivers that the kernel has."""
    adapters: tuple[str, ...] = ()
    """Modules of the drivers of adapters whose functions a guest may get."""
    extra_modules: tuple[str, ...] = ()
    """Modules in addition to MORE_MODULES."""
    extra_packages: tuple[str, ...] = ()
    """Packages in addition to USERLAND."""
    extra_programs: tuple[str, ...] = ()
    """Programs in addition to PROGRAMS."""
    plugins: tuple[str, ...] = ()
    """Libraries that programs load by themselves: patterns below the root."""
    extra_files: tuple[str, ...] = ()
    """Scripts and other files in addition to FILES: patterns below the root."""
    of_labs: bool = True
    """Whether labs can use it. Other ones are for tests."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages to download, without their dependencies."""
        return (self.kernel, *USERLAND, *self.extra_packages)

    @property
    def programs(self) -> tuple[str, ...]:
        """All programs that the image has besides busybox."""
        return (*PROGRAMS, *self.extra_programs)

    @property
    def modules(self) -> tuple[str, ...]:
        """All modules that the image has, without their dependencies."""
        return (*MODULES, *MORE_MODULES, *self.drivers, *self.adapters, *self.extra_modules)


RECIPES: Mapping[RecipeName, Recipe] = {
    recipe.name: recipe
    for recipe in (
        # Debian's kernel for clouds: small, and without drivers of real hardware.
        Recipe("cloud", "linux-image-cloud-amd64", ("virtio_net", "vmxnet3")),
        # The same kernel as a file server on virtual disks (`hakaru.fileserver`). Samba and its
        # libraries are larger than all the rest, so the other images do without.
        Recipe(
            "file-server",
            "linux-image-cloud-amd64",
            ("virtio_net", "vmxnet3"),
            extra_modules=("nbd", "btrfs"),
            extra_packages=("samba", "samba-common-bin", "qemu-utils", "btrfs-progs"),
            extra_programs=(
                *("smbd", "pdbedit", "qemu-img", "qemu-nbd", "df", "stat", "mkfs.btrfs"),
                # They make a mounted file system larger.
                *("resize2fs", "xfs_growfs", "btrfs"),
            ),
        ),
        # Debian's kernel for everything else: NICs that QEMU emulates, functions of adapters, ALUA
        # of dm-multipath, and tape libraries.
        Recipe(
            "generic",
            "linux-image-amd64",
            ("virtio_net", "vmxnet3", "e1000", "e1000e", "igb", "igbvf", "8139cp"),
            # Whole adapters and virtual functions of Intel, NVIDIA and Broadcom.
            adapters=(
                *("e1000e", "igb", "igbvf", "ixgbe", "ixgbevf", "i40e", "iavf", "ice"),
                *("mlx4_en", "mlx5_core", "bnxt_en"),
            ),
            extra_modules=("scsi_dh_alua", "st", "ch"),
            extra_packages=("mt-st", "mtx", "sg3-utils", "tar", "multipath-tools"),
            extra_programs=(
                *("mt-st", "mtx", "sg_inq", "sg_logs", "sg_read_attr", "sg_read_block_limits", "tar"),
                *("loaderinfo", "scsitape", "tapeinfo", "sg_opcodes", "sg_persist", "sg_raw", "sg_vpd"),
                "multipathd",
            ),
            plugins=("usr/lib/multipath/*.so",),
        ),
        # Backup programs that test a tape library. Only tests need them.
        Recipe(
            "tape-programs",
            "linux-image-amd64",
            ("virtio_net",),
            extra_modules=("st", "ch"),
            extra_packages=(
                *("mt-st", "mtx", "sqlite3"),
                *("bacula-sd", "bacula-fd", "bacula-director", "bacula-director-sqlite3", "bacula-console"),
                # The last one is missing among the dependencies of Amanda's packages.
                *("amanda-server", "libencode-locale-perl"),
            ),
            extra_programs=(
                *("mt-st", "mtx", "sqlite3"),
                *("btape", "bacula-sd", "bacula-fd", "bacula-dir", "bconsole"),
                *("perl", "amtapetype"),
            ),
            plugins=PERL_LIBRARIES,
            extra_files=(
                *PERL_MODULES,
                *("etc/bacula/scripts/mtx-changer", "etc/bacula/scripts/mtx-changer.conf"),
                "usr/share/bacula-director/make_sqlite3_tables",
            ),
            of_labs=False,
        ),
        # A machine that has adapters, an IOMMU and KVM, all of them emulated, and the files of this
        # machine. Only tests need it.
        Recipe(
            "adapters",
            "linux-image-amd64",
            ("virtio_net", "e1000e", "igb"),
            extra_modules=("vfio_pci", "vfio_iommu_type1", "kvm_amd", "9p", "9pnet_virtio", "overlay"),
            of_labs=False,
        ),
    )
}
