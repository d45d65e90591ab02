"""The array file: target, portals, pools, LUs, access.

Field by field this is `array.yaml`; `hakaru schema array` prints it as JSON Schema,
`docs/reference/array.md` says what each costs. Sizes and durations are text with a unit
(`hakaru.units`). Unknown fields are refused. What needs several fields is in
`hakaru.array.consistency`; where things stand in the file is added by `hakaru.array.load`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hakaru.engine.contract import Model
from hakaru.study.model import Part, Placement
from hakaru.text import Form
from hakaru.units import Duration, Size

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
MS_NS = 1_000_000
SECOND_NS = 1_000_000_000

# A path as the operator writes it; relative ones count from the array file's folder.
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
# No host names, so that a file means the same whatever a resolver answers.
AddressPort = Annotated[
    str,
    Form(
        r"(\[[0-9a-fA-F:.]+\]|[0-9.]+):[0-9]{1,5}",
        "an IP address and port, for example 127.0.0.1:3260; names are not looked up",
        80,
    ),
]

# As `hakaru_pool::name_is_valid`: fit for a file name, a label, a terminal.
NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}"
Name = Annotated[
    str, Form(NAME_PATTERN, "a name of up to 64 letters, digits, `.`, `_` and `-` that begins with none of `.` and `-`")
]


class MemoryStore(Part):
    """Sparse memory: gone when the array stops."""

    kind: Literal["memory"]


class FileStore(Part):
    """A sparse file, or a block device."""

    kind: Literal["file"]
    path: PathText = Field(description="a file, made if absent, or a block device; relative to the array file")
    adopt: bool = Field(
        default=False,
        description="take an existing file that is neither empty nor exactly as long as the LU, or a block device",
    )
    direct: bool = Field(
        default=False, description="past the page cache (O_DIRECT); `block` is then a multiple of the device's block"
    )


class ThinStore(Part):
    """A volume of a pool: takes space when it is written, gives it back when it is unmapped."""

    kind: Literal["thin"]
    pool: Name = Field(description="one of `pools`")
    volume: Name | None = Field(default=None, description="its name in the pool; default: lu-LUN")
    quota: Size | None = Field(
        default=None, ge=64 << 10, description="most space that it may take; default: all there is"
    )


Store = Annotated[MemoryStore | FileStore | ThinStore, Field(discriminator="kind")]


class Group(Part):
    """A RAID group of a pool: a sparse file, to which pages are dealt in turn with the other
    groups.
    """

    name: Name
    size: Size = Field(ge=128 << 10, le=256 * TIB, description="not looked at once the pool has the group")
    placement: Placement | None = Field(default=None, description="needed when the model has drives")


class Pool(Part):
    """Storage that is given to thin LUs page by page."""

    name: Name
    directory: PathText | None = Field(
        default=None, description="of its metadata and data, made if absent; default: pools/NAME in the state directory"
    )
    page: Size = Field(
        default=256 << 10,
        ge=64 << 10,
        le=16 * MIB,
        description="taken and given back at once: a power of two; fixed when the pool is made",
    )
    soft_threshold_percent: int = Field(
        default=70, ge=1, le=100, description="used share at which initiators get a unit attention (06h/38h/07h)"
    )
    hold_when_full: Duration = Field(
        default=0,
        ge=0,
        le=3600 * SECOND_NS,
        multiple_of=SECOND_NS,
        description="how long a write is held where there is no space, before it is refused; 0 s: refused at once",
    )
    direct: bool = Field(default=False, description="data go past the page cache (O_DIRECT)")
    groups: list[Group] = Field(
        min_length=1, max_length=256, description="made with the pool; one added here later is added at the next start"
    )


class Lu(Part):
    """A logical unit."""

    lun: int = Field(ge=0, le=255, description="logical unit number")
    size: Size = Field(ge=512, le=64 * TIB, description="capacity that initiators see, a multiple of `block`")
    block: Literal[512, 4096] = Field(default=512, description="logical block length in bytes")
    store: Store = Field(description="where its bytes are")
    placement: Placement | None = Field(
        default=None, description="needed when the model has drives, except for thin LUs: their pool's groups have one"
    )
    read_only: bool = Field(default=False, description="writes are refused with WRITE PROTECTED")
    thin: bool = Field(
        default=False,
        description="report that unmapped blocks give space back (LBPME, UNMAP); always so with a thin store",
    )
    removable: bool = Field(default=False, description="the medium can be ejected and loaded (START STOP UNIT)")
    sanitize: bool = Field(default=False, description="SANITIZE may overwrite the whole LU")


class ChapUser(Part):
    """A CHAP name, and the file of its secret."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
    secret_file: PathText = Field(description="of which the secret, 12 to 255 bytes, is the only line; mode 0600")


class LuAccess(Part):
    """An LU that a rule shows."""

    lun: int = Field(ge=0, le=255)
    read_only: bool = Field(default=False, description="its writes are refused with WRITE PROTECTED")


class Rule(Part):
    """Admits initiators that match every field."""

    initiator_name: Annotated[str, StringConstraints(min_length=1, max_length=223)] | None = Field(
        default=None, description="iSCSI name of the initiator; default: any"
    )
    address: Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F:.]+(/[0-9]{1,3})?$")] | None = Field(
        default=None, description="where it connects from: an address or a prefix like 10.1.0.0/16; default: anywhere"
    )
    user: str | None = Field(default=None, description="one of `users`, which it proved to be; default: any, and none")
    lus: list[LuAccess] | None = Field(default=None, max_length=256, description="default: all, writable")


class Access(Part):
    """Initiators that may log in, and the LUs that each sees."""

    users: list[ChapUser] = Field(default=[], max_length=1000, description="with users and no rules: each, to every LU")
    target: ChapUser | None = Field(
        default=None, description="what the array proves itself with (mutual CHAP); its secret is no user's"
    )
    algorithms: list[Literal["sha3_256", "sha256", "sha1", "md5"]] = Field(
        default=["sha3_256", "sha256"], min_length=1, description="of CHAP, best first; sha1 and md5 are broken"
    )
    rules: list[Rule] | None = Field(
        default=None,
        max_length=1000,
        description="initiators that may log in; default: no list; an empty list refuses all",
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
    allow_external: bool = Field(
        default=False, description="portals and metrics may be at addresses that others than this machine reach"
    )
    state: PathText | None = Field(
        default=None,
        description="directory of what is kept, made if absent; default: the array file's name with .state for .yaml",
    )
    access: Access = Field(
        default=Access(),
        description="initiators that may log in, and the LUs that each sees; default: every initiator, all LUs",
    )
    pools: list[Pool] = Field(default=[], max_length=16, description="thin-provisioned pools")
    lus: list[Lu] = Field(min_length=1, max_length=256)
    model: Model | None = Field(
        default=None, description="how long requests take; default: as fast as the machine ({kind: none})"
    )
    sample_interval: Duration = Field(
        default=1000 * MS_NS, ge=100 * MS_NS, le=60_000 * MS_NS, description="how often counters are read"
    )
    sessions: int = Field(default=16_384, ge=1, le=20_000, description="sessions accepted at once")
    spin: Duration = Field(
        default=0,
        ge=0,
        le=MS_NS,
        description="after an event, look for the next one for this long before sleeping; costs a core under load",
    )
    metrics: AddressPort | None = Field(
        default=None, description="address:port of /metrics for Prometheus; default: none"
    )
