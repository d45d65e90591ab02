"""What an array file says: target, portals, pools, LUs, access.

Field by field this is `array.yaml`; `hakaru schema array` prints it as JSON Schema, `docs/reference/array.md` says what
each costs. Sizes and durations are text with a unit (`hakaru.units`). Unknown fields are refused. What needs several
fields is in `hakaru.array.consistency`; where things stand in the file is added by `hakaru.array.load`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hakaru.study.model import ArrayModel, Id, Part, Placement
from hakaru.units import Duration, Size

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
MS_NS = 1_000_000

# A path as the operator writes it; relative ones count from the array file's folder.
PathText = Annotated[str, StringConstraints(min_length=1, max_length=4000, pattern=r"^[^\x00-\x1f\x7f]+$")]
TargetName = Annotated[
    str, StringConstraints(pattern=r"^(iqn\.[0-9]{4}-[0-9]{2}\.|eui\.|naa\.)[a-z0-9.:-]+$", max_length=223)
]
# What a socket is bound to: no host names, so that a file means the same whatever a resolver says.
AddressPort = Annotated[str, StringConstraints(pattern=r"^(\[[0-9a-fA-F:.]+\]|[0-9.]+):[0-9]{1,5}$", max_length=80)]


class MemoryStore(Part):
    """Sparse memory: gone when the array stops."""

    kind: Literal["memory"]


class FileStore(Part):
    """A sparse file, or a block device."""

    kind: Literal["file"]
    path: PathText = Field(description="a file, made if absent, or a block device; relative to the array file")
    direct: bool = Field(
        default=False, description="past the page cache (O_DIRECT); `block` is then a multiple of the device's block"
    )


Store = Annotated[MemoryStore | FileStore, Field(discriminator="kind")]


class Lu(Part):
    """A logical unit."""

    lun: int = Field(ge=0, le=255, description="logical unit number")
    size: Size = Field(ge=512, le=64 * TIB, description="capacity that initiators see, a multiple of `block`")
    block: Literal[512, 4096] = Field(default=512, description="logical block length in bytes")
    store: Store = Field(description="where its bytes are")
    placement: Placement | None = Field(default=None, description="needed when the model has drives")
    read_only: bool = Field(default=False, description="writes are refused with WRITE PROTECTED")
    thin: bool = Field(
        default=False, description="initiators are told that unmapped blocks give space back (LBPME, UNMAP)"
    )
    removable: bool = Field(default=False, description="the medium can be ejected and loaded (START STOP UNIT)")
    sanitize: bool = Field(default=False, description="SANITIZE may overwrite the whole LU")


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
    lus: list[Lu] = Field(min_length=1, max_length=256)
    model: ArrayModel | None = Field(
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


__all__ = ["AddressPort", "ArrayFile", "FileStore", "Id", "Lu", "MemoryStore", "Store"]
