"""The `lab:` block of study.yaml: shape and units. Whether such a lab can exist is decided by
`hakaru.lab.plan`.
"""

from hakaru.lab.model.device import DeviceSpec
from hakaru.lab.model.guest import GuestsSpec
from hakaru.lab.model.lab import LINK_FIELDS, STAR_FIELDS, LabSpec
from hakaru.lab.model.link import LinkSpec, StarLinkSpec, SwitchSpec
from hakaru.lab.model.machine import LoadGuestSpec
from hakaru.lab.model.tcp import TcpSpec
from hakaru.lab.model.vlan import VlanSpec

__all__ = [
    "LINK_FIELDS",
    "STAR_FIELDS",
    "DeviceSpec",
    "GuestsSpec",
    "LabSpec",
    "LinkSpec",
    "LoadGuestSpec",
    "StarLinkSpec",
    "SwitchSpec",
    "TcpSpec",
    "VlanSpec",
]
