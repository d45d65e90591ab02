"""VLANs of a lab and the switches that route between them. Shape only; `plan_lab` decides whether
they can exist.

vlans:
  storage: {id: 10, subnet: 10.77.10.0/24}
  servers: {id: 20}
switches:
  core: {router: {interfaces: [storage, servers]}}
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class VlanSpec(BaseModel):
    """A VLAN (IEEE 802.1Q) with its IPv4 subnet. Links and routers refer to it by its name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: int = Field(ge=2, le=4094, description="VLAN ID, 2 to 4094. VLAN 1 is that of untagged frames on a trunk.")
    subnet: str | None = Field(
        default=None, description="IPv4 subnet of the VLAN, for example 10.77.10.0/24. Default: a part of `network`."
    )


class RouterSpec(BaseModel):
    """Makes a switch route IPv4 between VLANs, super-frames and single frames alike, at the speed
    of its links.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    interfaces: tuple[str, ...] | dict[str, str] = Field(
        min_length=1,
        max_length=256,
        description="VLANs that the switch routes between: a list of names, or a mapping of names to the switch's "
        "addresses. Default address: the last free one of the subnet.",
    )
    routes: dict[str, str] = Field(
        default={},
        max_length=4096,
        description="Static routes: destination network → address of the next router, in a VLAN that both are in. "
        "Subnets of `interfaces` need no route. The longest matching prefix applies.",
    )

    @property
    def addresses(self) -> dict[str, str | None]:
        """VLAN → the switch's address in it; None: a free one is chosen."""
        return dict(self.interfaces) if isinstance(self.interfaces, dict) else dict.fromkeys(self.interfaces)
