"""A site in the place of a lab: this host in front of iSCSI LUs that exist, and what may be done to
them.

Nothing is written to an LU unless the site says `expendable: true` for it: the run is refused if a
point would write, and where none would, the engine is told to refuse writes as well. Numbers from a
site have the origin `measured`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hakaru.caveats import Caveat
from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import UsageError
from hakaru.run import kind
from hakaru.run.kind import Engines
from hakaru.run.site_file import Site, SiteLu
from hakaru.study import Expanded, Repetition

HOST = "this-host"


def check_writes(site: Site, expanded: Expanded) -> bool:
    """Whether writes are allowed; raises `UsageError` if a point writes to what is not
    expendable.
    """
    _check_captures(expanded)
    return kind.of(expanded.study).check_site(expanded, site)


def _check_captures(expanded: Expanded) -> None:
    """Engines of a site are on this host."""
    watch = expanded.study.watch
    if watch is not None and watch.capture is not None and watch.capture.at != "hosts":
        raise UsageError(
            f"nothing was written: the study captures at {watch.capture.at}, and a site's arrays are other machines",
            "let `watch.capture.at` be `hosts`",
        )


def refusal(site: Site, lu: SiteLu, why: str, otherwise: str) -> UsageError:
    return UsageError(
        f"nothing was written: {why}, and site {site.name!r} does not say that "
        f"LU {lu.lun} of {lu.target_name} at {lu.portal} is expendable",
        "; ".join(part for part in ("if all data on it may be lost, add `expendable: true` to it", otherwise) if part),
    )


class SitePlace:
    """This host in front of a site's LUs."""

    def __init__(self, site: Site, *, allow_writes: bool) -> None:
        self.site = site
        self.origin = "measured"
        self.nodes: Sequence[str] = (HOST,)
        self.allow_writes = allow_writes

    def is_known(self, expanded: Expanded, turn: Repetition) -> bool:
        """Nothing of a site is ours to check."""
        return True

    async def take_on(self, expanded: Expanded, turn: Repetition) -> list[Caveat]:
        """A site is as it is."""
        return []

    async def start(self, node: str, config: contract.EngineConfig) -> EngineProcess:
        """An engine on this host, in its own network."""
        return await EngineProcess.spawn(node, config)

    def fabrics(self, expanded: Expanded, turn: Repetition) -> dict[str, contract.FabricEngineConfig]:
        """A site's network is not ours."""
        return {}

    def servers(self, expanded: Expanded, turn: Repetition) -> Engines:
        """A site's arrays are not ours to start."""
        return {}

    def loads(self, expanded: Expanded, turn: Repetition) -> Engines:
        """The whole load on this host; whether images fit, engines see when they ask for the
        capacity.
        """
        return kind.of(expanded.study).site_loads(expanded, turn, self.site, allow_writes=self.allow_writes)

    def describe(self) -> dict[str, Any]:
        """For lab.json: the equipment that was loaded. Nothing of it was built or checked by
        hakaru.
        """
        return {
            "nodes": [{"name": HOST, "kind": "host"}],
            "links": [],
            "checks": [],
            "sandbox": None,
            "site": self.site.model_dump(mode="json"),
        }
