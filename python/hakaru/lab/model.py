"""What a study says about its lab: the `lab:` block of study.yaml.

    lab:
      hosts: 2                  # or names: [esx1, esx2]
      paths: 1                  # each host and the array has one link to the switch per path
      mtu: 1500
      host_link:  {rate: 1 Gbit/s, queue: 2 MiB}
      array_link: {rate: 1 Gbit/s, queue: 2 MiB}

Shape and units only; whether such a lab can be is decided by `plan.plan_lab`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from hakaru.units import Rate, Size


class LinkSpec(BaseModel):
    """A link between a node and the switch, alike in both directions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rate: Rate | None = Field(
        default=None,
        description="Bits per second on the wire, Ethernet framing included; default: as fast as the machine.",
    )
    queue: Size = Field(
        default=2 * 1024**2,
        description="Bytes of frames that wait in the switch before the link; what comes beyond is dropped. "
        "Default 2 MiB: what one busy port gets of a storage switch's shared buffer. "
        "A node's own end waits as Linux does, 1000 frames.",
    )


class LabSpec(BaseModel):
    """Hosts, one switch, an array host and the links between them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: int | tuple[str, ...] = Field(
        default=1, description="How many hosts (named host-1, host-2, …), or their names."
    )
    array: str | None = Field(default="array", description="Name of the node that the array runs on.")
    switch: str = Field(default="switch", description="Name of the switch.")
    paths: int = Field(
        default=1, description="Separate paths, each with a subnet and a link of every node of its own. 1 to 8."
    )
    mtu: int = Field(default=1500, description="Largest IP packet in bytes, 576 to 9216, alike everywhere.")
    host_link: LinkSpec = Field(default=LinkSpec(), description="Each host's link to the switch.")
    array_link: LinkSpec = Field(default=LinkSpec(), description="The array's link to the switch, one per path.")
    network: str = Field(default="10.77.0.0/16", description="IPv4 network whose addresses the lab uses.")
