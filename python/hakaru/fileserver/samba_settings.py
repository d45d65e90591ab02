"""Description of a file server, and the configuration of Samba that follows from it. Pure.

`SambaSettings` has the settings that change what is measured. All of them are in the configuration,
whether they have Samba's default or not, so a record of a run is complete. Defaults are those of
Samba 4.17 (smb.conf(5)).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hakaru.units import Size, format_size

Protocol = Literal["SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11"]
_PROTOCOLS: tuple[Protocol, ...] = ("SMB2_10", "SMB3_00", "SMB3_02", "SMB3_11")

# MS-SMB2 3.3.5.4 demands at least 64 KiB; Samba allows no more than 8 MiB.
_TRANSFER_MIN_BYTES, _TRANSFER_MAX_BYTES = 64 << 10, 8 << 20
_SHARE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_USER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
# Sections of smb.conf with a meaning of their own.
_SECTIONS = ("global", "homes", "printers", "ipc", "print")
# Samba replaces `%u` in a path; a backslash at the end of a line continues it.
_PATH_REFUSED = re.compile(r"[%\\\x00-\x1f\x7f]")


class SambaSettings(BaseModel):
    """Settings of a server that affect its speed or what survives a crash."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    strict_sync: bool = Field(
        default=True, description="Whether FLUSH of a client waits for the disk. False: acknowledged at once."
    )
    sync_always: bool = Field(default=False, description="Whether every write waits for the disk. Needs `strict_sync`.")
    read_max: Size = Field(default=8 << 20, description="Largest READ, 64 KiB to 8 MiB.")
    write_max: Size = Field(default=8 << 20, description="Largest WRITE, 64 KiB to 8 MiB.")
    transact_max: Size = Field(default=8 << 20, description="Largest QUERY_DIRECTORY, QUERY_INFO and SET_INFO.")
    credits_max: int = Field(default=8192, ge=1, le=65_535, description="Credits that a client may hold.")
    signing: Literal["default", "off", "required"] = Field(
        default="default", description="`default`: if the client asks for it; `off` of Samba means the same for SMB 2."
    )
    encryption: Literal["default", "off", "required"] = Field(default="default", description="Encryption of SMB 3.")
    multi_channel: bool = Field(default=True, description="Several connections per session.")
    sendfile: bool = Field(default=False, description="Zero-copy READ of unsigned sessions.")
    asynchronous_io: bool = Field(default=True, description="Whether READ and WRITE run in threads.")
    leases: bool = Field(default=True, description="Whether clients may cache (oplocks and leases).")
    dos_attributes: bool = Field(default=True, description="Whether an extended attribute is written per file.")
    protocol_min: Protocol = Field(default="SMB2_10", description="Oldest dialect.")
    protocol_max: Protocol = Field(default="SMB3_11", description="Newest dialect.")

    @field_validator("read_max", "write_max", "transact_max")
    @classmethod
    def _check_transfer(cls, size: int) -> int:
        if not _TRANSFER_MIN_BYTES <= size <= _TRANSFER_MAX_BYTES:
            raise ValueError(f"{format_size(size)} is not between 64 KiB and 8 MiB, the limits of Samba")
        return size

    @model_validator(mode="after")
    def _check_combinations(self) -> SambaSettings:
        if self.sync_always and not self.strict_sync:
            raise ValueError("Samba ignores `sync_always` without `strict_sync`; set `strict_sync: true`")
        if _PROTOCOLS.index(self.protocol_min) > _PROTOCOLS.index(self.protocol_max):
            raise ValueError(f"`protocol_min` {self.protocol_min} is newer than `protocol_max` {self.protocol_max}")
        if self.encryption == "required" and self.protocol_max == "SMB2_10":
            raise ValueError("SMB 2.1 has no encryption; raise `protocol_max` or remove `encryption: required`")
        return self

    def parameters(self) -> dict[str, str]:
        """Return the parameters of smb.conf, all of them, also those with Samba's default."""
        signing = {"default": "default", "off": "disabled", "required": "required"}
        return {
            "strict sync": _yes(self.strict_sync),
            "sync always": _yes(self.sync_always),
            "smb2 max read": str(self.read_max),
            "smb2 max write": str(self.write_max),
            "smb2 max trans": str(self.transact_max),
            "smb2 max credits": str(self.credits_max),
            "server signing": signing[self.signing],
            "server smb encrypt": self.encryption,
            "server multi channel support": _yes(self.multi_channel),
            "use sendfile": _yes(self.sendfile),
            "aio read size": str(int(self.asynchronous_io)),
            "aio write size": str(int(self.asynchronous_io)),
            "oplocks": _yes(self.leases),
            "smb2 leases": _yes(self.leases),
            "store dos attributes": _yes(self.dos_attributes),
            "server min protocol": self.protocol_min,
            "server max protocol": self.protocol_max,
        }


class Share(BaseModel):
    """A directory that clients can access."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="Name of the share.")
    path: str = Field(description="The directory, absolute.")
    read_only: bool = Field(default=False, description="Whether writes are refused.")
    guests: bool = Field(
        default=False, description="Whether sessions of unknown users are accepted, as the first user."
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if _SHARE_NAME.fullmatch(name) is None or name.lower() in _SECTIONS:
            raise ValueError(
                f"{name!r} cannot be the name of a share: 1 to 80 letters, digits, `.`, `_`, `-`, and not "
                + ", ".join(_SECTIONS)
            )
        return name

    @field_validator("path")
    @classmethod
    def _check_path(cls, path: str) -> str:
        if not path.startswith("/") or path != path.strip() or _PATH_REFUSED.search(path):
            raise ValueError(f"{path!r} must be absolute, without `%`, `\\` and control characters")
        return path


@dataclass(frozen=True)
class User:
    """A user of the server."""

    name: str
    password: str

    def __post_init__(self) -> None:
        if _USER_NAME.fullmatch(self.name) is None or self.name in ("root", "nobody"):
            raise ValueError(f"{self.name!r} cannot be a user: up to 31 lower-case letters, digits, `_`, `-`")
        if not self.password or "\n" in self.password:
            raise ValueError(f"user {self.name} needs a password of one line")


@dataclass(frozen=True)
class FileServer:
    """A server: its name, its shares, its users."""

    name: str
    shares: tuple[Share, ...]
    users: tuple[User, ...]
    settings: SambaSettings = field(default_factory=SambaSettings)

    def __post_init__(self) -> None:
        for kind, names in (("share", [s.name.lower() for s in self.shares]), ("user", [u.name for u in self.users])):
            if not names:
                raise ValueError(f"file server {self.name} has no {kind}")
            if len(names) != len(set(names)):
                raise ValueError(f"file server {self.name} has two {kind}s of the same name")

    def describe(self) -> dict[str, Any]:
        """Return the description for the record of a run, without passwords."""
        return {
            "name": self.name,
            "shares": [share.model_dump() for share in self.shares],
            "users": [user.name for user in self.users],
            "parameters": self.settings.parameters(),
        }


def configuration(server: FileServer, folder: str) -> str:
    """Return smb.conf of a server whose own files are all below `folder`, in FOLDERS."""
    values = {
        "server role": "standalone server",
        "passdb backend": f"smbpasswd:{folder}/private/smbpasswd",
        "guest account": "nobody",
        # A wrong password of a known user is refused in both cases.
        "map to guest": "Bad User" if any(share.guests for share in server.shares) else "Never",
        "disable netbios": "yes",
        "smb ports": "445",
        "disable spoolss": "yes",
        "load printers": "no",
        "printing": "bsd",
        "printcap name": "/dev/null",
        "rpc start on demand helpers": "no",
        "private dir": f"{folder}/private",
        "state directory": f"{folder}/state",
        "cache directory": f"{folder}/cache",
        "lock directory": f"{folder}/lock",
        "pid directory": f"{folder}/pid",
        "ncalrpc dir": f"{folder}/ncalrpc",
        "logging": "file",
        "log file": f"{folder}/log",
        "max log size": "1000",
        **server.settings.parameters(),
    }
    lines = ["[global]", *_lines(values)]
    for share in server.shares:
        lines += [f"[{share.name}]"]
        lines += _lines(
            {
                "path": share.path,
                "read only": _yes(share.read_only),
                "guest ok": _yes(share.guests),
                # All sessions write files as one user of the operating system.
                "force user": server.users[0].name,
            }
        )
    return "\n".join(lines) + "\n"


FOLDERS = ("private", "state", "cache", "lock", "pid", "ncalrpc")
"""Folders below the `folder` of `configuration`."""


def passwd(users: Sequence[User], uid: int) -> str:
    """Return /etc/passwd with the users. All have the same number in the operating system."""
    lines = ["root:x:0:0:root:/:/bin/sh", "nobody:x:65534:65534:nobody:/:/bin/sh"]
    return "\n".join([*lines, *(f"{user.name}:x:{uid}:{uid}::/:/bin/sh" for user in users)]) + "\n"


def group(gid: int) -> str:
    """Return /etc/group."""
    return f"root:x:0:\nnogroup:x:65534:\nhakaru:x:{gid}:\n"


def _lines(values: dict[str, str]) -> list[str]:
    return [f"    {name} = {value}" for name, value in values.items()]


def _yes(value: bool) -> str:
    return "yes" if value else "no"
