"""Commands about studies: `studies`, `plan`, `run`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hakaru.cli.finish import finish, judge, note_missing_pdf
from hakaru.cli.live import check_terminal, full_screen
from hakaru.cli.options import Json, JsonLines, Only, Quick, Quiet, Repetitions, ReportsOrDefault, RunsFolder, Seed
from hakaru.output import print_json, print_text

PLAN_EXAMPLES = "Examples: hakaru plan vm-sweep --quick --only vms=1,7; hakaru plan ./my-study --site site.yaml"
RUN_EXAMPLES = """\
Examples: hakaru run vm-sweep --quick;
hakaru run ./my-study --only vms=1,7 --only pattern=random-32k --report html;
hakaru run vm-sweep --resume latest"""

SiteFile = Annotated[
    Path | None, Parameter(metavar="FILE", help="Load the equipment in this site file instead of a lab.")
]
Study = Annotated[str, Parameter(name="STUDY", help="The study's ID, its folder or its file.")]


def studies(*, json_: Json = False) -> int:
    """List the studies that can be named by their ID."""
    from hakaru.study import study_paths, title_of
    from hakaru.wording import language_of_locale

    listed = [(name, path, title_of(path)) for name, path in sorted(study_paths().items())]
    if json_:
        print_json([{"id": name, "title": title.model_dump(), "path": str(path)} for name, path, title in listed])
    else:
        for name, path, title in listed:
            print(f"{name:<20} {getattr(title, language_of_locale())}  ({path})")
    return 0


def plan(
    study: Study,
    /,
    *,
    quick: Quick = False,
    seed: Seed = None,
    repetitions: Repetitions = None,
    only: Only = (),
    site: SiteFile = None,
    json_: Json = False,
) -> int:
    """Show the plan of a run: points, order, minutes, disk, memory, topology, expectations. Changes
    nothing, and does not contact the equipment of a site.
    """
    from hakaru.lab.plan import plan_lab
    from hakaru.run import plan as planned
    from hakaru.run.devices import refusals
    from hakaru.run.options import Options, expand_options
    from hakaru.run.site import check_writes
    from hakaru.run.site_file import load_site
    from hakaru.study import load
    from hakaru.wording import language_of_locale

    loaded = load(study)
    expanded = expand_options(loaded, Options(quick, seed, repetitions, only))
    equipment = load_site(site) if site else None
    if equipment is not None:
        check_writes(equipment, expanded)
    lab = None if equipment else plan_lab(expanded.study.lab)
    refused = refusals(expanded, site=equipment)
    if json_:
        print_json(planned.describe(expanded, lab, refused, equipment))
        return 0
    language = language_of_locale()
    for line in planned.lines(expanded, lab, refused, language, equipment):
        print_text(line)
    if expanded.study.expect:
        from hakaru.analysis.expectation_words import expected

        print_text("expectations:")
        for sentence in expected(language, loaded):
            print(f"  {sentence}")
    return 0


def run(
    study: Study,
    /,
    *,
    quick: Quick = False,
    seed: Seed = None,
    repetitions: Repetitions = None,
    only: Only = (),
    out: RunsFolder = None,
    resume: Annotated[
        str | None, Parameter(metavar="RUN", help="Continue an interrupted run: its name, its path, or `latest`.")
    ] = None,
    site: SiteFile = None,
    strict: Annotated[
        bool, Parameter(help="End with exit code 8 if an expectation of the study cannot be judged.")
    ] = False,
    note: Annotated[str | None, Parameter(metavar="TEXT", help="A note, which `hakaru runs` shows.")] = None,
    json_: JsonLines = False,
    quiet: Quiet = False,
    live: Annotated[
        bool, Parameter(help="Show the full-screen view of `hakaru attach` instead of the line of progress.")
    ] = False,
    report: ReportsOrDefault = None,
) -> int:
    """Run a study: build its lab, load it point by point, analyse the results, write the report.

    Prints a table of the points, and the paths of the reports.
    """
    from hakaru.report import check_packages
    from hakaru.study import load

    check_packages(report)
    if live:
        check_terminal(alone=not (json_ or quiet))
    from hakaru.lab import sandbox
    from hakaru.run.devices import fetch_images
    from hakaru.run.options import Options, expand_options

    loaded = load(study)
    equipment = None
    if site is not None:
        from hakaru.run.site_file import load_site

        equipment = load_site(site)
    if sandbox.current() is None:
        # The modules imported so far are imported again inside, so these are few.
        options = Options(quick, seed, repetitions, only)
        if resume is not None:
            from hakaru.run.preparation import options_of
            from hakaru.store import runs_folder

            options = options_of(resume, runs_folder(out), options)
        fetch_images(expand_options(loaded, options), equipment)
    if equipment is None:
        sandbox.enter()  # outside the sandbox this does not return: the command is restarted inside
    from hakaru.run import preparation, runner
    from hakaru.run.progress import watchers
    from hakaru.store import runs_folder

    prepared = preparation.prepare(
        loaded,
        Options(quick, seed, repetitions, only),
        folder=runs_folder(out),
        site=equipment,
        resume=resume,
        command=["hakaru", *sys.argv[1:]],
        note=note or "",
    )
    view = full_screen() if live else None
    watch = watchers(json_lines=json_, quiet=quiet, colour="NO_COLOR" not in os.environ, view=view)
    try:
        directory = runner.execute(prepared, watch)
        summary, reports = finish(directory, watch, report)
    finally:
        watch.close()
    if report is None:
        note_missing_pdf(reports)
    if not json_:
        from hakaru.report.points_table import print_summary
        from hakaru.wording import language_of_locale

        print_summary(summary, reports, language_of_locale())
    judge(summary, strict=strict)
    return 0
