"""The array file: target, portals, pools, LUs, access.

Field by field this is `array.yaml`; `hakaru schema array` prints it as JSON Schema, and
`docs/reference/array.md` explains the cost of each field. Sizes and durations are text with a unit
(`hakaru.units`). Unknown fields are refused. `hakaru.array.consistency` checks conditions between
fields; `hakaru.array.load` adds places in the file to errors.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hakaru.engine.contract import Model, TapeGeneration
from hakaru.study.model import Part, Placement
from hakaru.study.port_groups import GROUPS_MAX, PortGroup
from hakaru.study.storage import CAPS_MAX, Cap, SharesSpec
from hakaru.study.tape import SLOTS_MAX, Barcode
from hakaru.text import Form
from hakaru.units import Duration, Size

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
MS_NS = 1_000_000
SECOND_NS = 1_000_000_000

# A path as the operator writes it; relative paths start at the array file's folder.
PathText = Annotated[
    str, StringConstraints(min_length=1), Form(r"[^\x00-\x1f\x7f]+", "a path without control characters", 4000)
]
TargetName = Annotated[
    str,
    Form(
        r"(iqn\.[0-9]{4}-[0-9]{2}\.|eui\.|naa\.)[a-z0-9.:-]+",
        "an iSCSI name in lower case, for example iqn.2026-01.org.example:array",
        223,
    ),
]
# No host names, so that a file's meaning does not depend on a resolver.
AddressPort = Annotated[
    str,
    Form(
        r"(\[[0-9a-fA-F:.]+\]|[0-9.]+):[0-9]{1,5}",
        "an IP address and port, for example 127.0.0.1:3260; names are not looked up",
        80,
    ),
]

# As in `hakaru_pool::name_is_valid`: safe in a file name, a label and a terminal.
NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
Name = Annotated[
    str, Form(NAME_PATTERN, "a name of up to 64 letters, digits, `.`, `_` and `-` that does not begin with `.` or `-`")
]


# Names of INQUIRY, which pads them with spaces.
Vendor = Annotated[
    str, Form(r"[!-~]([ -~]*[!-~])?", "a name of printable ASCII characters without spaces at its ends", 8)
]
Product = Annotated[
    str, Form(r"[!-~]([ -~]*[!-~])?", "a name of printable ASCII characters without spaces at its ends", 16)
]


class MemoryStore(Part):
    """Sparse memory. Its contents are lost when the array stops."""

    kind: Literal["memory"]


class FileStore(Part):
    """A sparse file, or a block device."""

    kind: Literal["file"]
    path: PathText = Field(description="a file, created if absent, or a block device; relative to the array file")
    adopt: bool = Field(
        default=False,
        description="use an existing file that is neither empty nor exactly as long as the LU, or a block device",
    )
    direct: bool = Field(
        default=False,
        description="bypass the page cache (O_DIRECT); `block` must then be a multiple of the device's block length",
    )


class ThinStore(Part):
    """A volume of a pool. It takes space when it is written, and frees it when it is unmapped."""

    kind: Literal["thin"]
    pool: Name = Field(description="one of `pools`")
    volume: Name | None = Field(default=None, description="name of the volume in the pool; default: lu-LUN")
    quota: Size | None = Field(
        default=None, ge=64 << 10, description="largest space that it may take; default: no limit"
    )


Store = Annotated[MemoryStore | FileStore | ThinStore, Field(discriminator="kind")]


class Group(Part):
    """A RAID group of a pool: a sparse file. Pages are allocated from the pool's groups in turn."""

    name: Name
    size: Size = Field(
        ge=128 << 10, le=256 * TIB, description="size of the group; ignored if the pool already has the group"
    )
    placement: Placement | None = Field(default=None, description="needed when the model has drives")


class Pool(Part):
    """Storage that is given to thin LUs page by page."""

    name: Name
    directory: PathText | None = Field(
        default=None,
        description="directory of metadata and data, created if absent; default: pools/NAME in the state directory",
    )
    page: Size = Field(
        default=256 << 10,
        ge=64 << 10,
        le=16 * MIB,
        description="unit of allocation, a power of two; fixed when the pool is created",
    )
    soft_threshold_percent: int = Field(
        default=70, ge=1, le=100, description="used share at which initiators get a unit attention (06h/38h/07h)"
    )
    hold_when_full: Duration = Field(
        default=0,
        ge=0,
        le=3600 * SECOND_NS,
        multiple_of=SECOND_NS,
        description="time that a write waits for space before it is refused; 0 s: it is refused at once",
    )
    direct: bool = Field(default=False, description="data bypasses the page cache (O_DIRECT)")
    groups: list[Group] = Field(
        min_length=1,
        max_length=256,
        description="groups created with the pool; a group that is added here later is created at the next start",
    )


class Lu(Part):
    """A logical unit."""

    lun: int = Field(ge=0, le=255, description="logical unit number")
    size: Size = Field(ge=512, le=64 * TIB, description="capacity that initiators see, a multiple of `block`")
    block: Literal[512, 4096] = Field(default=512, description="logical block length in bytes")
    store: Store = Field(description="store of the data: memory, a file or device, or a volume of a pool")
    placement: Placement | None = Field(
        default=None, description="needed when the model has drives, except for thin LUs: their pool's groups have one"
    )
    read_only: bool = Field(default=False, description="writes are refused with WRITE PROTECTED")
    thin: bool = Field(
        default=False,
        description="report that unmapped blocks free space (LBPME, UNMAP); always true with a thin store",
    )
    removable: bool = Field(default=False, description="the medium can be ejected and loaded (START STOP UNIT)")
    sanitize: bool = Field(default=False, description="SANITIZE may overwrite the entire LU")
    explicit_alua: bool = Field(
        default=False, description="initiators may set the ALUA states of portals (SET TARGET PORT GROUPS)"
    )


class TapeDrive(Part):
    """A tape drive, which is a logical unit."""

    lun: int = Field(ge=0, le=255, description="logical unit number")
    generation: TapeGeneration = Field(
        default="lto5", description="name that initiators see, and the cartridges that the drive reads and writes"
    )
    vendor: Vendor | None = Field(default=None, description="vendor that INQUIRY reports; default: HAKARU")
    product: Product | None = Field(
        default=None, description="product that INQUIRY reports; default: TAPE and the generation"
    )


class Cartridge(Part):
    """A cartridge. Without a `folder` or a `pool`, it is empty when the array starts."""

    barcode: Barcode = Field(description="text on its label")
    slot: int | None = Field(
        default=None, ge=1, le=SLOTS_MAX, description="slot in which it starts; default: the first free one"
    )
    write_protected: bool | None = Field(
        default=None,
        description="writes are refused with WRITE PROTECTED; default: as a cartridge that exists has it, else no",
    )
    generation: TapeGeneration | None = Field(
        default=None,
        description=(
            "generation, which determines the drives that read and write it; default: as a cartridge that exists has"
            " it, else that of each drive that it is in"
        ),
    )


class TapeTimes(Part):
    """Times of tape drives, each as its generation has them."""

    compression: float = Field(
        default=1.0,
        ge=1,
        le=100,
        description="bytes of initiators for each byte on the tape, which multiply rates and capacity",
    )


class TapeLibrary(Part):
    """A medium changer with drives, slots and cartridges."""

    lun: int = Field(ge=0, le=255, description="logical unit number of the medium changer")
    vendor: Vendor | None = Field(
        default=None, description="vendor that INQUIRY of the changer reports; default: HAKARU"
    )
    product: Product | None = Field(
        default=None, description="product that INQUIRY of the changer reports; default: TAPE LIBRARY"
    )
    drives: list[TapeDrive] = Field(min_length=1, max_length=64)
    slots: int = Field(ge=1, le=SLOTS_MAX, description="number of storage slots")
    import_export: int = Field(default=0, ge=0, le=255, description="number of import and export slots")
    folder: PathText | None = Field(
        default=None, description="folder of the cartridges' files, created if absent; default: they are in memory"
    )
    pool: Name | None = Field(
        default=None, description="one of `pools`, of which each cartridge is a volume; default: they are in memory"
    )
    cartridges: list[Cartridge] = Field(default=[], max_length=10_000, description="at most one for each slot")
    capacity: Size = Field(
        ge=MIB,
        le=16 * TIB,
        multiple_of=512,
        description="capacity of each new cartridge on the tape, a multiple of 512 bytes",
    )
    early_warning: Size = Field(
        default=32 * MIB, ge=0, le=TIB, description="space left on the tape at which writes report early warning"
    )
    times: TapeTimes | None = Field(
        default=None, description="motions of the drives take time; default: as fast as the machine"
    )


class ChapUser(Part):
    """A CHAP name, and the file with its secret."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
    secret_file: PathText = Field(description="file whose only line is the secret, 12 to 255 bytes; mode 0600")


class LuAccess(Part):
    """An LU that a rule makes visible."""

    lun: int = Field(ge=0, le=255)
    read_only: bool = Field(default=False, description="writes are refused with WRITE PROTECTED")


class Rule(Part):
    """Admits initiators that match every field."""

    initiator_name: Annotated[str, StringConstraints(min_length=1, max_length=223)] | None = Field(
        default=None, description="iSCSI name of the initiator; default: any"
    )
    address: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F:.]+(/[0-9]{1,3})?$")] | None = Field(
        default=None, description="source of the connection: an address or a prefix such as 10.1.0.0/16; default: any"
    )
    user: str | None = Field(
        default=None, description="one of `users`, as which it authenticated; default: any user, or none"
    )
    lus: list[LuAccess] | None = Field(
        default=None, max_length=256, description="LUs that the initiator sees; default: all, writable"
    )


class Access(Part):
    """Initiators that may log in, and the LUs that each sees."""

    users: list[ChapUser] = Field(
        default=[], max_length=1000, description="users of CHAP; without rules, each has access to every LU"
    )
    target: ChapUser | None = Field(
        default=None, description="credentials of the array (mutual CHAP); its secret must differ from that of any user"
    )
    algorithms: list[Literal["sha3_256", "sha256", "sha1", "md5"]] = Field(
        default=["sha3_256", "sha256"],
        min_length=1,
        description="algorithms of CHAP, best first; sha1 and md5 are broken",
    )
    rules: list[Rule] | None = Field(
        default=None,
        max_length=1000,
        description="initiators that may log in; default: no restriction; an empty list refuses all",
    )


class ArrayFile(Part):
    """An array file."""

    format: Literal[1]
    target_name: TargetName = Field(description="iSCSI name (RFC 7143 section 4.2.7)")
    portals: list[AddressPort] = Field(
        default=["127.0.0.1:3260"],
        min_length=1,
        max_length=16,
        description="address:port to listen on; IPv6 as [address]:port; port 0 lets the system choose",
    )
    port_groups: list[PortGroup] = Field(
        default=[],
        max_length=GROUPS_MAX,
        description="portals that share an access state (ALUA); default: each portal is a group of its own",
    )
    allow_external: bool = Field(
        default=False, description="permit portals and metrics at addresses that other machines can reach"
    )
    state: PathText | None = Field(
        default=None,
        description="state directory, created if absent; default: the array file's name with .state instead of .yaml",
    )
    access: Access = Field(
        default=Access(),
        description="initiators that may log in, and the LUs that each sees; default: every initiator, all LUs",
    )
    pools: list[Pool] = Field(default=[], max_length=16, description="thin-provisioned pools")
    lus: list[Lu] = Field(max_length=256, description="disks, at least one unless there is a tape library")
    tape_library: TapeLibrary | None = Field(default=None, description="tape library; default: none")
    model: Model | None = Field(
        default=None, description="timing model; default: as fast as the machine ({kind: none})"
    )
    caps: list[Cap] = Field(
        default=[], max_length=CAPS_MAX, description="caps on rates; an access passes every one that applies to it"
    )
    shares: SharesSpec | None = Field(
        default=None, description="shares of the accesses in flight, behind the caps; default: no limit of them"
    )
    sample_interval: Duration = Field(
        default=1000 * MS_NS, ge=100 * MS_NS, le=60_000 * MS_NS, description="interval between samples of the counters"
    )
    sessions: int = Field(default=16_384, ge=1, le=20_000, description="largest number of concurrent sessions")
    spin: Duration = Field(
        default=0,
        ge=0,
        le=MS_NS,
        description="time to poll for the next event before sleeping; costs a core under load",
    )
    metrics: AddressPort | None = Field(
        default=None, description="address:port of /metrics for Prometheus; default: not served"
    )
