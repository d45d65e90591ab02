"""The `lab:` block of study.yaml, in one of two forms.

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

With VLANs, see `model_vlan`: `vlan: storage` at a link makes its port an access port, `vlans:
[storage, servers]` a trunk.

Shape and units only; `plan_lab` decides whether such a lab can exist.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from hakaru.lab.model.link import LinkSpec, StarLinkSpec, SwitchSpec
from hakaru.lab.model.tcp import TcpSpec
from hakaru.lab.model.vlan import VlanSpec
from hakaru.units import Duration

STAR_FIELDS = ("array", "switch", "paths", "host_link", "array_link")
LINK_FIELDS = ("arrays", "switches", "vlans", "links")


class LabSpec(BaseModel):
    """Hosts, switches, arrays and the links between them; as a star, or link by link."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: int | tuple[str, ...] = Field(
        default=1, description="How many hosts (named host-1, host-2, …), or their names."
    )
    array: str | None = Field(default="array", description="Star: name of the node that the array runs on.")
    switch: str = Field(default="switch", description="Star: name of the switch.")
    paths: int = Field(
        default=1, description="Star: separate paths, each with a subnet and a link of every node of its own. 1 to 8."
    )
    mtu: int = Field(default=1500, description="Largest IP packet in bytes, 576 to 9216, alike everywhere.")
    host_link: StarLinkSpec = Field(default=StarLinkSpec(), description="Star: each host's link to the switch.")
    array_link: StarLinkSpec = Field(
        default=StarLinkSpec(), description="Star: the array's link to the switch, one per path."
    )
    network: str = Field(default="10.77.0.0/16", description="IPv4 network whose addresses the lab uses.")
    backend: Literal["fabric", "kernel"] | None = Field(
        default=None,
        description="What switches and links are made of: hakaru's `fabric`, frame by frame, or the kernel's bridge "
        "and queueing disciplines. Default: fabric with `links`, kernel for a star.",
    )
    arrays: tuple[str, ...] | None = Field(default=None, description="Link by link: nodes that arrays run on.")
    switches: dict[str, SwitchSpec] | None = Field(default=None, description="Link by link: the switches.")
    links: dict[str, LinkSpec] | None = Field(default=None, description="Link by link: the links.")
    vlans: dict[str, VlanSpec] | None = Field(
        default=None, description="Link by link: VLANs, by name. Then every link says which it is in or carries."
    )
    tcp: TcpSpec = Field(default=TcpSpec(), description="TCP of every node.")
    spin: Duration = Field(
        default=0,
        description="How long the fabric polls for the next frame before it sleeps, up to 1 s; more exact, for a core.",
    )

    @model_serializer(mode="wrap")
    def _without_what_was_not_asked(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Serialise the fields of the lab's form, and any other field that differs from its
        default.
        """
        data: dict[str, Any] = dump(self)
        defaults = {**dict.fromkeys(("backend", *LINK_FIELDS)), "tcp": TcpSpec(), "spin": 0}
        hidden = {name for name, default in defaults.items() if getattr(self, name) == default}
        if self.links is not None:
            hidden |= set(STAR_FIELDS)
        return {name: value for name, value in data.items() if name not in hidden}
