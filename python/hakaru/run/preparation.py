"""The checks of a run before anything is changed: of the expanded study, the lab or site, and the
run to resume, if any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru.errors import UsageError
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.run.devices import refusals
from hakaru.run.options import Options, expand_options
from hakaru.run.preflight import check_machine
from hakaru.run.resumable import check_resumable
from hakaru.run.site import check_hosts, check_writes
from hakaru.run.site_file import Site
from hakaru.store import RunReader, check_note, find_run
from hakaru.study import Expanded, Loaded
from hakaru.study.model import JUDGING_PARTS


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start."""

    loaded: Loaded
    expanded: Expanded
    options: Options
    lab: LabPlan | None
    site: Site | None
    allow_writes: bool
    resumed: Path | None
    folder: Path
    command: list[str]
    earlier_lab: Mapping[str, Any] = field(default_factory=dict)
    """lab.json of the resumed run; empty: none."""
    note: str = ""
    """Note of the run; empty: none, or that of the resumed run."""
    impossible: frozenset[str] = frozenset()
    """Points whose guests this machine cannot run. The run marks them, and measures the others."""


def prepare(
    loaded: Loaded,
    options: Options,
    *,
    folder: Path,
    site: Site | None,
    resume: str | None,
    command: list[str],
    note: str = "",
) -> Prepared:
    """Expand the study and perform every check that needs no lab. Writes nothing."""
    resumed = find_run(resume, folder) if resume else None
    run = RunReader(resumed).read("run.json") if resumed else None
    if run is not None:
        options = _options_of(run, options)
    expanded = expand_options(loaded, options)
    if site is None:
        _check_lab(expanded)
    prepared = Prepared(
        loaded=loaded,
        expanded=expanded,
        options=options,
        lab=None if site else plan_lab(expanded.study.lab),
        site=site,
        allow_writes=check_writes(site, expanded) if site else True,
        resumed=resumed,
        folder=resumed.parent if resumed else folder,
        command=command,
        earlier_lab=_lab_of(resumed),
        note=check_note(note),
        impossible=frozenset(refusals(expanded, site=site)),
    )
    if resumed is not None and run is not None:
        _check_same(resumed, run, prepared)
    done = RunReader(resumed).done() if resumed is not None else set()
    check_machine(expanded, prepared.lab, prepared.folder, prepared.impossible, done)
    if site is not None:
        check_hosts(site)
    return prepared


def _lab_of(resumed: Path | None) -> dict[str, Any]:
    """lab.json of the resumed run; empty if it was interrupted before it had a lab."""
    if resumed is None or not (resumed / "lab.json").is_file():
        return {}
    described: dict[str, Any] = RunReader(resumed).read("lab.json")
    return described


def _check_lab(expanded: Expanded) -> None:
    """Refuse points whose device is existing equipment, which no lab has."""
    for point in expanded.points:
        device = expanded.at(point).lab.device
        if device is not None and device.forwards == "equipment":
            raise UsageError(
                f"the device of point {point.id} is existing equipment",
                "name the interfaces in front of it in a site file under `ports`, and give it with --site",
            )


def options_of(resume: str, folder: Path, given: Options) -> Options:
    """Return the options of the run to resume. Raises UsageError if others were given, or there is
    no such run.
    """
    return _options_of(RunReader(find_run(resume, folder)).read("run.json"), given)


def _options_of(run: dict[str, Any], given: Options) -> Options:
    """Return the resumed run's own options. Those on the command line must not differ from them."""
    options = Options.of_run(run)
    if given not in (Options(), options):
        raise UsageError(
            "--quick, --seed, --repetitions and --only cannot differ from those of the run to resume",
            "leave them out when you use --resume",
        )
    return options


def _check_same(directory: Path, run: dict[str, Any], prepared: Prepared) -> None:
    check_resumable(directory, run)
    recorded = RunReader(directory).read("study.json")
    same = _measured(recorded) == _measured(prepared.expanded.describe(prepared.loaded.tables))
    if not same or run["site"] != (prepared.site and prepared.site.model_dump(mode="json")):
        raise UsageError(
            f"the study or site has changed after {directory.name} was started",
            f"{directory / 'study.yaml'} is the original study; start a new run for the changed one",
        )


def _measured(described: dict[str, Any]) -> dict[str, Any]:
    """The contents of study.json without the parts that affect no measured value. These may change
    before a run is resumed; the run keeps those that it started with.
    """
    return {name: part for name, part in described.items() if name not in JUDGING_PARTS}
