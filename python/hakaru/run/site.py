"""A site: equipment that is there already, instead of a lab. First step: iSCSI LUs driven from this host.

    format: 1
    name: our array
    lus:                                  # VMs are dealt to these in turn, instead of the study's columns
      - portal: 192.0.2.10:3260
        target_name: iqn.2011-10.example.vendor:array
        lun: 0
        expendable: true                  # all data on it may be lost; without this nothing is written

Nothing is written to an LU unless the site says `expendable: true` for it: the run is refused if a point would write,
and where none would, the engine is told to refuse writes as well. Numbers from a site have the origin `measured`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import UsageError
from hakaru.run.configure import Unit
from hakaru.study import Expanded, Repetition
from hakaru.study.document import read_document
from hakaru.study.load import validate
from hakaru.study.model import Part

HOST = "this-host"
_PORTAL = r"^(\[[0-9a-fA-F:.]+\]|[^\s\[\]:/@]+):[0-9]{1,5}$"


class SiteLu(Part):
    """An LU that exists."""

    portal: Annotated[str, StringConstraints(pattern=_PORTAL, max_length=280)] = Field(
        description="address:port; IPv6 as [address]:port"
    )
    target_name: Annotated[str, StringConstraints(min_length=1, max_length=223, pattern=r"^\S+$")]
    lun: int = Field(ge=0, le=255)
    expendable: bool = Field(default=False, description="all data on it may be lost")


class Site(Part):
    """A site file."""

    format: Literal[1]
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    lus: list[SiteLu] = Field(min_length=1, max_length=256)


def load_site(path: Path) -> Site:
    """The site in a file; every error names file:line:column."""
    return validate(read_document(path), Site)


def check_writes(site: Site, expanded: Expanded) -> bool:
    """Whether writes are allowed; raises `UsageError` if a point writes to what is not expendable."""
    kept = [lu for lu in site.lus if not lu.expendable]
    if not kept:
        return True
    patterns = expanded.study.patterns
    writing = sorted(
        {p.factors["pattern"] for p in expanded.points if patterns[p.factors["pattern"]].read_percent < 100}
    )
    if writing:
        lu = kept[0]
        raise UsageError(
            f"nothing was written: pattern {writing[0]} writes, and site {site.name!r} does not say that "
            f"LU {lu.lun} of {lu.target_name} at {lu.portal} is expendable",
            "if all data on it may be lost, add `expendable: true` to it; "
            "else choose patterns that only read (`read_percent: 100`), for instance with --only pattern=NAME",
        )
    return False


class SitePlace:
    """This host in front of a site's LUs."""

    def __init__(self, site: Site, *, allow_writes: bool) -> None:
        self.site = site
        self.origin = "measured"
        self.hosts: Sequence[str] = (HOST,)
        self.nodes: Sequence[str] = (HOST,)
        self.array: str | None = None
        self.allow_writes = allow_writes

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """An engine on this host, in its own network."""
        return await EngineProcess.spawn(node, config)

    def array_config(self, expanded: Expanded, turn: Repetition) -> contract.ArrayConfig:
        """A site's array is not ours to configure."""
        raise AssertionError("a site has no array of ours")

    def units(self, expanded: Expanded) -> list[list[Unit]]:
        """Every LU of the site is a column; whether the images fit, the engine sees when it asks for the capacity."""
        return [[Unit((lu.portal,), lu.target_name, lu.lun, None)] for lu in self.site.lus]

    def describe(self) -> dict[str, Any]:
        """For lab.json: what was driven, and that nothing of it was built or checked by us."""
        return {
            "nodes": [{"name": HOST, "kind": "host"}],
            "links": [],
            "checks": [],
            "sandbox": None,
            "backend": {"site": self.site.model_dump(mode="json")},
        }
