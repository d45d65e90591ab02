"""VLANs of a lab and the switches that route between them. Shape; `plan_lab` decides whether they
can exist.

vlans:
  storage: {id: 10, subnet: 10.77.10.0/24}
  servers: {id: 20}
switches:
  core: {router: {interfaces: [storage, servers]}}
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class VlanSpec(BaseModel):
    """A VLAN (IEEE 802.1Q) with its IPv4 subnet. Its name is what links and routers call it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: int = Field(ge=2, le=4094, description="VLAN id, 2 to 4094: 1 is what untagged frames of a trunk are in.")
    subnet: str | None = Field(
        default=None, description="Its IPv4 subnet, for example 10.77.10.0/24. Default: a part of `network`."
    )


class RouterSpec(BaseModel):
    """Makes a switch route IPv4 between VLANs, super-frames and single frames alike, at the speed
    of its links.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    interfaces: tuple[str, ...] | dict[str, str] = Field(
        min_length=1,
        max_length=256,
        description="VLANs that it routes between: names, or names with its address in each. Default of an address: "
        "the last of the subnet that is free.",
    )
    routes: dict[str, str] = Field(
        default={},
        max_length=4096,
        description="Static routes: destination network → address of the next router, in a VLAN that both are in. "
        "Subnets of `interfaces` need none; the longest prefix counts.",
    )

    @property
    def addresses(self) -> dict[str, str | None]:
        """VLAN → its address there; None: whatever is free."""
        return dict(self.interfaces) if isinstance(self.interfaces, dict) else dict.fromkeys(self.interfaces)
