"""The place of a run: its lab, built and checked, or its site.

`open_place` is the default of `hakaru.run.runner.Run`, which implements `Notes`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from hakaru.caveats import Caveat
from hakaru.lab.build import Lab
from hakaru.lab.check import CheckedLab
from hakaru.lab.plan import LabPlan
from hakaru.remote.host import open_hosts
from hakaru.run import kind
from hakaru.run import plan as planned
from hakaru.run.place import LabPlace, Place
from hakaru.run.preparation import Prepared
from hakaru.run.site import SitePlace
from hakaru.run.site_file import Site


class Notes(Protocol):
    """Remarks about a place, for the display and the run directory."""

    def phase(self, name: str, detail: str) -> None:
        """A phase of the run begins: `lab`, `check` or `baseline`."""
        ...

    def caveat(self, caveat: Caveat) -> None:
        """The whole run has a caveat."""
        ...

    def lab(self, description: dict[str, Any]) -> None:
        """The contents of lab.json have changed."""
        ...


OpenPlace = Callable[[Prepared, Notes], AbstractAsyncContextManager[Place]]


@contextlib.asynccontextmanager
async def open_place(prepared: Prepared, notes: Notes) -> AsyncIterator[Place]:
    """Yield the lab, built and checked, or the site. Raises EnvironmentError_ and others if that
    fails.
    """
    if prepared.site is not None or prepared.lab is None:
        assert prepared.site is not None
        async with _open_site(prepared, prepared.site, notes) as place:
            yield place
    else:
        async with _open_lab(prepared, prepared.lab, notes) as place:
            yield place


@contextlib.asynccontextmanager
async def _open_site(prepared: Prepared, site: Site, notes: Notes) -> AsyncIterator[Place]:
    notes.caveat(Caveat("link_unchecked"))
    if not prepared.allow_writes:
        notes.caveat(Caveat("not_expendable"))
    async with open_hosts(site.hosts) as hosts:
        place = SitePlace(site, hosts, allow_writes=prepared.allow_writes)
        notes.lab(place.describe())
        yield place


@contextlib.asynccontextmanager
async def _open_lab(prepared: Prepared, plan: LabPlan, notes: Notes) -> AsyncIterator[Place]:
    expanded, part = prepared.expanded, kind.of(prepared.expanded.study)
    notes.phase("lab", planned.lab_parts(plan))
    async with Lab(plan) as lab:
        notes.phase("check", "measuring every link")
        checked = CheckedLab(lab, prepared.earlier_lab)
        for caveat in await checked.check_links():
            notes.caveat(caveat)
        if part.baseline(plan):
            notes.phase("baseline", "plain TCP between hosts and arrays")
            await checked.measure_baselines(seed=expanded.seed)
        engines = planned.estimate(expanded, plan).engines
        cpus = len(os.sched_getaffinity(0))
        if engines > cpus and part.notes_shared_cpus:
            notes.caveat(Caveat("cpu_shared", {"engines": engines, "cpus": cpus}))
        notes.lab(checked.describe())
        try:
            yield LabPlace(checked, expanded.study.origin)
        finally:
            # By now every TCP configuration that the points ask for has been in use.
            notes.lab(checked.describe())
