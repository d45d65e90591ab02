"""The `lab:` block of study.yaml, in one of three forms.

A star: every host and one array on one switch.

    lab:
      hosts: 2                  # or names: [esx1, esx2]
      paths: 1                  # each host and the array has one link to the switch per path
      mtu: 1500
      host_link:  {rate: 1 Gbit/s, queue: 2 MiB}
      array_link: {rate: 1 Gbit/s, queue: 2 MiB}

Link by link: any tree of switches.

    lab:
      hosts: [kvm-1]
      arrays: [primary, vtl]
      switches:
        core: {forwarding: cut_through}
        edge: {}
      links:
        kvm-1:   {between: [kvm-1, core], rate: 10 Gbit/s}
        primary: {between: [primary, core], rate: 10 Gbit/s}
        uplink:  {between: [core, edge], rate: 10 Gbit/s}
        vtl:     {between: [vtl, edge], rate: 1 Gbit/s, queue: 64 KiB}

The guests of a host have interfaces of their own behind the host's link:

    guests:
      kvm-1: {names: [vm01, vm02], nic_rate: 1 Gbit/s}

With VLANs (see `hakaru.lab.model.vlan`), `vlan: storage` on a link makes its switch port an access
port, and `vlans: [storage, servers]` makes the link a trunk.

Guests in the place of the hosts, or of the nodes under `guests`: the load runs on their kernel.

    load_guest: {nic: {model: virtio-net}, cpus: 2}

A device under test, between two ports of a tester:

    lab:
      hosts: [tester]
      device: {name: router, forwards: routing}

Shape and units only; `plan_lab` decides whether such a lab can exist.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from hakaru.lab.model.device import DeviceSpec
from hakaru.lab.model.guest import GuestsSpec
from hakaru.lab.model.link import LinkSpec, StarLinkSpec, SwitchSpec
from hakaru.lab.model.machine import LoadGuestSpec
from hakaru.lab.model.tcp import TcpSpec
from hakaru.lab.model.vlan import VlanSpec
from hakaru.units import Duration

STAR_FIELDS = ("array", "switch", "paths", "host_link", "array_link")
LINK_FIELDS = ("arrays", "switches", "vlans", "guests", "links")


class LabSpec(BaseModel):
    """Hosts, switches, arrays and the links between them; as a star, or link by link."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: int | tuple[str, ...] = Field(
        default=1, description="Number of hosts (named host-1, host-2, …), or a list of their names."
    )
    array: str | None = Field(default="array", description="Star: name of the node that the array runs on.")
    switch: str = Field(default="switch", description="Star: name of the switch.")
    paths: int = Field(
        default=1,
        description="Star: number of separate paths, 1 to 8. Each path has its own subnet and one link per node.",
    )
    mtu: int = Field(default=1500, description="Largest IP packet on every link, in bytes, 576 to 9216.")
    host_link: StarLinkSpec = Field(default=StarLinkSpec(), description="Star: each host's link to the switch.")
    array_link: StarLinkSpec = Field(
        default=StarLinkSpec(), description="Star: the array's link to the switch, one per path."
    )
    network: str = Field(default="10.77.0.0/16", description="IPv4 network that the lab takes its addresses from.")
    backend: Literal["fabric", "kernel"] | None = Field(
        default=None,
        description="Implementation of switches and links: `fabric` is hakaru's own and forwards frame by frame; "
        "`kernel` uses Linux bridges and queueing disciplines. Default: `fabric` with `links`, `kernel` for a star.",
    )
    arrays: tuple[str, ...] | None = Field(
        default=None, description="Link by link: names of the nodes that arrays run on."
    )
    switches: dict[str, SwitchSpec] | None = Field(default=None, description="Link by link: the switches, by name.")
    links: dict[str, LinkSpec] | None = Field(default=None, description="Link by link: the links, by name.")
    vlans: dict[str, VlanSpec] | None = Field(
        default=None,
        description="Link by link: VLANs, by name. If given, every link names the VLAN that it is in, or the VLANs "
        "that it carries.",
    )
    guests: dict[str, GuestsSpec] | None = Field(
        default=None,
        description="Link by link: guests, by the name of their host. If given, the load runs in the guests, and not "
        "on the hosts.",
    )
    device: DeviceSpec | None = Field(
        default=None,
        description="The device under test, between two ports of the only host, which is the tester. Such a lab has "
        "no array, switches or links of its own.",
    )
    load_guest: LoadGuestSpec | None = Field(
        default=None,
        description="A virtual machine with a stock Linux kernel that takes the place of each node with load: it has "
        "the node's links and addresses, and the load runs in it. Default: the load runs in the node itself.",
    )
    tcp: TcpSpec = Field(default=TcpSpec(), description="TCP settings of every node.")
    spin: Duration = Field(
        default=0,
        description="Time that the fabric polls for the next frame before it sleeps, up to 1 s. Polling makes timing "
        "more exact and costs a CPU core.",
    )

    @model_serializer(mode="wrap")
    def _omit_unset_fields(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Serialise the fields of the lab's form, and any other field that differs from its
        default.
        """
        data: dict[str, Any] = dump(self)
        defaults = {**dict.fromkeys(("backend", "device", "load_guest", *LINK_FIELDS)), "tcp": TcpSpec(), "spin": 0}
        hidden = {name for name, default in defaults.items() if getattr(self, name) == default}
        if self.links is not None or self.device is not None:
            hidden |= set(STAR_FIELDS)
        return {name: value for name, value in data.items() if name not in hidden}
