"""The file of a site: existing equipment to load instead of a lab. `load_site(path) -> Site`.

    format: 1
    name: our array
    lus:                     # VMs are assigned to these in turn, instead of the study's columns
      - portal: 192.0.2.10:3260
        target_name: iqn.2011-10.example.vendor:array
        lun: 0
        expendable: true     # all data on it may be lost; without this nothing is written
        role: destination                 # for backups alone: `source` or `destination`
    ports:                   # for studies of packets, instead of `lus`: a device between two
      left: {interface: eth2, address: 198.18.1.2}          # interfaces of this machine. Nothing is
      right: {interface: eth3, address: 198.18.2.2}         # sent on any other interface.
      loop: [eth4, eth5]                  # two interfaces joined by a cable: the tester's own limit
      # If a guest is the device, each port also has `function: "0000:03:00.0"`: that of an adapter
      # at the other end of the cable, which the guest gets.
    share:                   # for studies of files, instead of `lus`
      server: files.example  # and `port`, unless it is 445
      name: data
      folder: hakaru         # trees are built in it and deleted; it must be missing or empty
      user: {name: tester, secret_file: tester.secret}
      expendable: true
    load_hosts:              # machines that VMs and copies run on; default: this one
      - {name: kvm-1, ssh: tester@kvm-1.example, engine: /usr/local/bin/hakaru-engine}
      - {name: local}        # without `ssh`: this machine
    chap:                                 # for targets that require authentication
      name: vm
      secret_file: vm.secret              # the only line of a file; relative to this file
      target: {name: array, secret_file: array.secret}   # mutual: the target's proof

An LU or a share is written to only if the site declares it `expendable: true`. Otherwise a run is
refused if a point would write, and the engine is configured to refuse writes as well. Results from
a site have the origin `measured`.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.guest.function import ADDRESS
from hakaru.remote.host import HostSpec
from hakaru.study.document import read_document
from hakaru.study.load import validate
from hakaru.study.model import Part
from hakaru.study.part import Id
from hakaru.text import Form

HOST = "this-host"
"""Name of this machine as a node, unless the site names its load hosts."""

_PORTAL = Form(
    r"(\[[0-9a-fA-F:.]+\]|[^\s\[\]:/@]+):[0-9]{1,5}",
    "address:port, for example 192.0.2.10:3260; IPv6 as [address]:port",
    280,
)
_MAC = Form(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", "an Ethernet address in lower case, for example 02:00:00:00:00:01")
_FILE_NAME = r"[^\\/:*?\"<>|]+"
_FOLDER = Form(f"{_FILE_NAME}(/{_FILE_NAME})*", "a folder of the share, for example a/b", 200)
_FUNCTION = Form(ADDRESS, 'the address of a PCI function, for example "0000:03:00.0"')
GUEST_PREFIX = 24
"""Prefix length of the networks between a site's ports and a guest that routes."""
Interface = Annotated[str, Form(r"[^\s/]{1,15}", "the name of an interface of this machine, for example eth2")]


class SiteLu(Part):
    """An existing LU."""

    portal: Annotated[str, _PORTAL] = Field(description="address:port; IPv6 as [address]:port")
    target_name: Annotated[str, Form(r"\S+", "a name without spaces, such as iqn.2026-01.example:array", 223)]
    lun: int = Field(ge=0, le=255)
    expendable: bool = Field(default=False, description="all data on it may be lost")
    role: Literal["source", "destination"] | None = Field(default=None, description="use of the LU in backups")


class SiteUser(Part):
    """A CHAP name, and the file with its secret. Site files contain no secrets, because users share
    them.
    """

    name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    secret_file: str = Field(min_length=1, description="file whose only line is the secret, 12 to 255 bytes")

    def user(self) -> contract.ChapUser:
        """Return the configuration of the engine, which reads the file."""
        return contract.ChapUser(name=self.name, secret=contract.SecretFile(path=self.secret_file))


class SiteShareUser(Part):
    """The user of a session with a file server, and the file with the password."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    domain: Annotated[str, StringConstraints(max_length=255)] = ""
    secret_file: str = Field(min_length=1, description="file whose only line is the password")

    def user(self) -> contract.SmbPassword:
        """Return the configuration of the engine, which reads the file."""
        return contract.SmbPassword(
            name=self.name, domain=self.domain, password=contract.SecretFile(path=self.secret_file)
        )


class SiteShare(Part):
    """A share of an existing file server."""

    server: Annotated[str, Form(r"[^\s/@]+", "the name or the address of a server, without //", 255)] = Field(
        description="name or address of the server"
    )
    port: int = Field(default=445, ge=1, le=65535)
    name: Annotated[str, Form(_FILE_NAME, "the name of a share, without \\ and /", 80)]
    folder: Annotated[str, _FOLDER] = Field(
        default="hakaru",
        description="folder of the share in which trees are built. It must be missing or empty, or have the same trees",
    )
    user: SiteShareUser | None = Field(default=None, description="null: the guest account of the server")
    expendable: bool = Field(default=False, description="files may be created in the folder and deleted")


class SiteChap(SiteUser):
    """Credentials with which all VMs log in."""

    target: SiteUser | None = Field(default=None, description="credentials that targets must prove (mutual CHAP)")
    algorithms: list[contract.ChapAlgorithm] = Field(
        default=contract.STRONG,
        min_length=1,
        description="best first; sha1 and md5 are broken hashes",
    )

    def config(self) -> contract.ChapConfig:
        """Return the configuration of the engine."""
        target = self.target.user() if self.target else None
        return contract.ChapConfig(user=self.user(), target=target, algorithms=self.algorithms)


def _check_address(address: str) -> str:
    return str(IPv4Address(address))


class SitePort(Part):
    """An interface of this machine, at which the tester sends and receives."""

    interface: Interface
    address: Annotated[str, AfterValidator(_check_address)] = Field(
        description="address of the frames at this port; no interface has it"
    )
    device_mac: Annotated[str, _MAC] | None = Field(
        default=None, description="Ethernet address of the device's port, if it routes; null: it bridges"
    )
    function: Annotated[str, _FUNCTION] | None = Field(
        default=None,
        description="PCI function of an adapter at the other end of the cable, which a guest gets (`vfio`, `sr-iov`); "
        "null: the device is existing equipment",
    )

    @property
    def network(self) -> IPv4Network:
        """The network between this port and a guest that routes."""
        return IPv4Network(f"{self.address}/{GUEST_PREFIX}", strict=False)


class SitePorts(Part):
    """A device between two interfaces of this machine."""

    left: SitePort
    right: SitePort
    loop: list[Interface] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="two interfaces joined by a cable, which show the tester's own limit",
    )

    @property
    def interfaces(self) -> list[str]:
        """All interfaces that frames are sent on."""
        return [self.left.interface, self.right.interface, *(self.loop or ())]

    @property
    def functions(self) -> list[str]:
        """Functions of adapters that a guest gets, left and right; none if the device is existing
        equipment.
        """
        return [port.function for port in (self.left, self.right) if port.function is not None]

    @model_validator(mode="after")
    def _interfaces_are_distinct(self) -> SitePorts:
        if len(set(self.interfaces)) < len(self.interfaces):
            raise ValueError("an interface is named twice; each port needs its own")
        if (self.left.device_mac is None) != (self.right.device_mac is None):
            raise ValueError("`device_mac` is given for one port; give it for both, or for none")
        return self

    @model_validator(mode="after")
    def _functions_are_of_one_guest(self) -> SitePorts:
        if len(self.functions) == 1:
            raise ValueError("`function` is given for one port; give it for both, or for none")
        if self.functions and len(set(self.functions)) == 1:
            raise ValueError("a function is named twice; each port needs its own")
        if self.functions and self.left.device_mac is not None:
            raise ValueError("`device_mac` is given beside `function`; a guest reports its own addresses, so remove it")
        if self.functions and self.left.network == self.right.network:
            raise ValueError(f"both addresses are in {self.left.network}; a guest that routes needs two networks")
        return self


# A leading `-` would be an option of ssh. The path is not quoted, so that `~` works.
_DESTINATION = Form(
    r"(ssh://)?[A-Za-z0-9_\[][A-Za-z0-9_.@:\[\]%-]*", "a destination of ssh, for example tester@kvm-1.example", 280
)
_ENGINE = Form(
    r"[A-Za-z0-9_./~][A-Za-z0-9_./~+-]*", "a path without spaces, for example /usr/local/bin/hakaru-engine", 1000
)


class SiteHost(Part):
    """A machine that the load runs on."""

    name: Id = Field(description="name in results")
    ssh: Annotated[str, _DESTINATION] | None = Field(
        default=None, description="destination for `ssh`, a name of ~/.ssh/config or user@host; null: this machine"
    )
    engine: Annotated[str, _ENGINE] | None = Field(
        default=None, description="path of hakaru-engine on that machine; null: the one on the PATH of its login"
    )

    @model_validator(mode="after")
    def _has_an_engine_of_its_own(self) -> SiteHost:
        if self.ssh is None and self.engine is not None:
            raise ValueError("`engine` is given without `ssh`; this machine uses its own engine")
        return self

    def spec(self) -> HostSpec:
        """Return the machine."""
        return HostSpec(self.name, self.ssh, self.engine or "hakaru-engine")


class Site(Part):
    """A site file."""

    format: Literal[1]
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    lus: list[SiteLu] = Field(default=[], max_length=256)
    ports: SitePorts | None = None
    share: SiteShare | None = None
    chap: SiteChap | None = None
    load_hosts: list[SiteHost] | None = Field(
        default=None, min_length=1, max_length=64, description="machines that VMs and copies run on; null: this one"
    )

    @model_validator(mode="after")
    def _has_equipment(self) -> Site:
        if not self.lus and self.ports is None and self.share is None:
            raise ValueError("none of `lus`, `ports` and `share` is given")
        if self.load_hosts is not None and self.ports is not None:
            raise ValueError("`load_hosts` is given beside `ports`, which are interfaces of this machine")
        if self.load_hosts is not None and self.share is not None:
            raise ValueError("`load_hosts` is given beside `share`, whose tools run on this machine")
        if len(set(self.host_names)) < len(self.host_names):
            raise ValueError("two of the `load_hosts` have the same name")
        return self

    @property
    def hosts(self) -> list[HostSpec]:
        """Machines that the load runs on."""
        return [HostSpec(HOST)] if self.load_hosts is None else [host.spec() for host in self.load_hosts]

    @property
    def host_names(self) -> tuple[str, ...]:
        """Their names, which are the nodes of the run."""
        return tuple(host.name for host in self.hosts)

    def of_role(self, role: str) -> list[SiteLu]:
        """LUs that backups read from or write to."""
        return [lu for lu in self.lus if lu.role == role]


def load_site(path: Path) -> Site:
    """Load a site from a file. Every error names file:line:column. Checks that files of secrets
    exist, and makes their paths absolute.
    """
    site = validate(read_document(path), Site, "`hakaru docs sites` describes the fields")
    folder, chap, share = path.parent, site.chap, site.share
    if chap is not None:
        own = _secret(chap, folder, "CHAP user")
        target = chap.target and chap.target.model_copy(update=_secret(chap.target, folder, "CHAP user"))
        chap = chap.model_copy(update={**own, "target": target})
    if share is not None and share.user is not None:
        user = share.user.model_copy(update=_secret(share.user, folder, "user"))
        share = share.model_copy(update={"user": user})
    return site.model_copy(update={"chap": chap, "share": share})


def _secret(user: SiteUser | SiteShareUser, folder: Path, what: str) -> dict[str, str]:
    """The file of a secret with its absolute path."""
    secret = (folder / user.secret_file).resolve()
    if not secret.is_file():
        raise UsageError(
            f"{secret}: no such file for the secret of {what} {user.name!r}",
            "name a file whose only line is the secret",
        )
    return {"secret_file": str(secret)}
