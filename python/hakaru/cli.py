"""The command line. `main` is the whole of it: commands parse, call one part of hakaru each, and print.

Data goes to stdout, everything else to stderr; an error is `error: …` and `hint: …`, and the exit code is its class's
(`hakaru.errors`). Heavy parts are imported by the command that needs them, so that `--help` and `plan` stay quick and
the sandbox is entered before anything starts threads.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from hakaru import __version__
from hakaru.array.commands import app as array_app
from hakaru.errors import EnvironmentError_, ExpectationBreach, HakaruError, InvalidPoints, UsageError
from hakaru.tune.commands import tune

app = App(
    name="hakaru",
    version=__version__,
    help="Builds a lab of VMs, networks and iSCSI storage, loads it, finds the limit, and writes the report.",
    help_epilogue="Exit codes: 0 done; 1 defect; 2 usage or study file; 3 this machine; 4 an expectation was breached; "
    "5 some points are invalid; 6 wrong data was read; 7 an engine was lost; 130/143 interrupted.",
    help_flags=["--help", "-h"],
    version_flags=["--version"],
    result_action="return_value",
)
app.command(array_app)
app.command(tune)

Quick = Annotated[bool, Parameter(negative=(), help="The study's quick form.")]
Seed = Annotated[int | None, Parameter(help="Instead of the study's seed.")]
Repetitions = Annotated[int | None, Parameter(help="Instead of the study's number, 1 to 100.")]
Only = Annotated[
    tuple[str, ...], Parameter(consume_multiple=False, negative=(), help="Keep points with these levels: vms=1,7")
]
Out = Annotated[Path | None, Parameter(help="Folder of runs. Default: $HAKARU_RUNS, else ./runs.")]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="JSON on stdout.")]


@app.command
def doctor(*, json_: Json = False) -> int:
    """Say what this machine lacks, and what to do about it."""
    from hakaru.doctor import diagnose

    findings = diagnose()
    if json_:
        print_json([{"name": f.name, "status": f.status, "what": f.what, "hint": f.hint} for f in findings])
    else:
        for finding in findings:
            print(f"{finding.status:<5} {finding.name}: {finding.what}")
            if finding.hint:
                print(f"      hint: {finding.hint}")
    return EnvironmentError_.exit_code if any(f.status == "fail" for f in findings) else 0


@app.command
def studies(*, json_: Json = False) -> int:
    """List the studies that can be run by name."""
    from hakaru.study import load, study_paths

    listed = [(name, path, load(str(path)).study.title) for name, path in sorted(study_paths().items())]
    if json_:
        print_json([{"id": name, "title": title.model_dump(), "path": str(path)} for name, path, title in listed])
    else:
        for name, path, title in listed:
            print(f"{name:<20} {title.en}  ({path})")
    return 0


@app.command
def analyse(
    *captures: Path,
    port: Annotated[
        tuple[int, ...], Parameter(consume_multiple=False, negative=(), help="Where targets listen. Default: 3260.")
    ] = (3260,),
    json_: Json = False,
) -> int:
    """Say where the time of iSCSI commands went, from a capture (pcap or pcapng) of anybody's equipment.

    Parameters
    ----------
    captures
        The file; several are the parts of one capture that was rotated.
    """
    from hakaru import capture

    if not captures:
        raise UsageError("no capture is named", "hakaru analyse capture.pcapng")
    found = capture.analyse(captures, port, progress=sys.stderr.isatty())
    if json_:
        print_json(found)
    else:
        print("\n".join(capture.lines(found)))
    return 0


@app.command
def plan(
    study: str,
    /,
    *,
    quick: Quick = False,
    seed: Seed = None,
    repetitions: Repetitions = None,
    only: Only = (),
    json_: Json = False,
) -> int:
    """Show what a run would do: points, order, minutes, disk, memory. Asks nothing, touches nothing.

    Parameters
    ----------
    study
        Id of a study, its folder or its file.
    """
    from hakaru.lab.plan import plan_lab
    from hakaru.run import plan as planned
    from hakaru.run.options import Options, expand_options
    from hakaru.study import load

    loaded = load(study)
    expanded = expand_options(loaded, Options(quick, seed, check_repetitions(repetitions), parse_only(only)))
    lab = plan_lab(expanded.study.lab)
    if json_:
        print_json(planned.describe(expanded, lab))
    else:
        print("\n".join(planned.lines(expanded, lab)))
    return 0


@app.command
def run(
    study: str,
    /,
    *,
    quick: Quick = False,
    seed: Seed = None,
    repetitions: Repetitions = None,
    only: Only = (),
    out: Out = None,
    resume: Annotated[str | None, Parameter(help="Go on with this run: a name, a path or `latest`.")] = None,
    site: Annotated[Path | None, Parameter(help="Use the equipment that this file names instead of a lab.")] = None,
    json_: Annotated[bool, Parameter(name="--json", negative=(), help="Events as JSON lines on stdout.")] = False,
    quiet: Annotated[bool, Parameter(negative=(), help="No progress on stderr.")] = False,
    report: Annotated[str, Parameter(help="html, pdf; several with commas; or none.")] = "html,pdf",
) -> int:
    """Run a study: build its lab, load it point by point, analyse, report. Ends with a table and the report's path.

    Parameters
    ----------
    study
        Id of a study, its folder or its file.
    """
    from hakaru.study import load

    loaded = load(study)
    only_levels, repetitions = parse_only(only), check_repetitions(repetitions)
    formats = parse_formats(report)
    if site is None:
        from hakaru.lab import sandbox

        sandbox.enter()  # outside the sandbox this does not return: the same command starts again inside
    from hakaru.run import runner
    from hakaru.run.options import Options
    from hakaru.run.progress import watchers
    from hakaru.run.site import load_site
    from hakaru.store import runs_folder

    prepared = runner.prepare(
        loaded,
        Options(quick, seed, repetitions, only_levels),
        folder=runs_folder(out),
        site=load_site(site) if site else None,
        resume=resume,
        command=["hakaru", *sys.argv[1:]],
    )
    watch = watchers(json_lines=json_, quiet=quiet, colour="NO_COLOR" not in os.environ)
    try:
        directory = runner.execute(prepared, watch)
        summary, reports = finish(directory, watch, formats)
    finally:
        watch.close()
    if not json_:
        from hakaru.run.table import print_summary

        print_summary(summary, reports)
    judge(summary)
    return 0


def finish(directory: Path, watch: Any, formats: list[str]) -> tuple[dict[str, Any], list[Path]]:
    """Analysis of a finished run, and its report."""
    from hakaru.analysis import summarise
    from hakaru.run.plan import REPORT_S

    watch.phase("analysis", "intervals, limits, findings", REPORT_S)
    summary = summarise(directory)
    for point in summary["points"]:
        watch.event("point", **point)
    watch.event("findings", findings=summary["findings"], expectations=summary["expectations"])
    if formats:
        watch.phase("report", " and ".join(formats), REPORT_S)
    reports = render_each(directory, formats, ["en", "ja"], summary) if formats else []
    watch.event("done", run=str(directory), reports=[str(path) for path in reports], valid=summary["valid"])
    return summary, reports


def render_each(directory: Path, formats: list[str], langs: list[str], summary: dict[str, Any]) -> list[Path]:
    """A report per language, each in a process of its own: drawing and typesetting take seconds."""
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from multiprocessing import get_context

    from hakaru.report import render

    one = partial(render, directory, formats, summary=summary)
    with ProcessPoolExecutor(len(langs), mp_context=get_context("spawn")) as pool:
        return [path for paths in pool.map(one, [[lang] for lang in langs]) for path in paths]


def judge(summary: dict[str, Any]) -> None:
    """Raise what a run's numbers ask for: invalid points first, since they breach expectations by themselves."""
    invalid = [p["point"] for p in summary["points"] if not p["valid"]]
    if invalid:
        raise InvalidPoints(
            f"{len(invalid)} of {len(summary['points'])} points are invalid: {', '.join(invalid)}",
            "their caveats in the report say why and what to do",
        )
    breached = [e for e in summary["expectations"] if e["held"] is False]
    if breached:
        raise ExpectationBreach(
            "; ".join(f"not so: {e['text']}: {e['found']}" for e in breached),
            "the report shows each expectation beside what was found",
        )


@app.command
def report(
    run_: Annotated[str, Parameter(name="RUN")],
    /,
    *,
    format_: Annotated[str, Parameter(name="--format", help="html, pdf, json; several with commas.")] = "html,pdf",
    lang: Annotated[str, Parameter(help="en, ja; several with commas.")] = "en,ja",
    out: Annotated[Path | None, Parameter(help="Folder for the files. Default: RUN/report.")] = None,
) -> int:
    """Make the report of a run again. Prints the paths; `--format json` alone prints the report itself.

    Parameters
    ----------
    run_
        Name of a run, its path, or `latest`.
    """
    from hakaru.store import find_run, runs_folder

    directory = find_run(run_, runs_folder())
    formats = [part.strip() for part in format_.split(",") if part.strip()]
    if formats == ["json"] and out is None:
        from hakaru.analysis import summarise

        print_json(summarise(directory))
        return 0
    from hakaru.report import render

    for path in render(directory, formats, [part.strip() for part in lang.split(",") if part.strip()], out):
        print(path)
    return 0


@app.command
def query(
    sql: str,
    /,
    *,
    out: Out = None,
    json_: Annotated[bool, Parameter(name="--json", negative=(), help="Rows as JSON lines.")] = False,
    csv_: Annotated[bool, Parameter(name="--csv", negative=(), help="Rows as CSV.")] = False,
) -> int:
    """Ask the runs in SQL (DuckDB). Views: runs, points, repetitions, metrics, samples, histograms, tcp.

    Parameters
    ----------
    sql
        For instance: SELECT point, metric, mean FROM metrics WHERE metric = 'iops'
    """
    from hakaru.store import runs_folder
    from hakaru.store.query import query as ask

    answer = ask(sql, runs_folder(out))
    if json_:
        for row in answer.rows:
            print(json.dumps(dict(zip(answer.columns, row, strict=True)), ensure_ascii=False, default=str))
    elif csv_:
        writer = csv.writer(sys.stdout)
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    else:
        from hakaru.run.table import print_rows

        print_rows(answer.columns, answer.rows)
    return 0


@app.command
def schema(of: Annotated[Literal["study", "array"], Parameter(help="Which files.")] = "study", /) -> int:
    """Print the JSON Schema of study or array files, for editors."""
    if of == "array":
        from hakaru.array.load import array_schema

        print_json(array_schema())
    else:
        from hakaru.study import study_schema

        print_json(study_schema())
    return 0


def parse_only(given: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """`("vms=1,7",)` → `(("vms", ("1", "7")),)`."""
    parsed = []
    for one in given:
        name, separator, levels = one.partition("=")
        if not (name and separator and levels):
            raise UsageError(f"--only {one}: not FACTOR=LEVEL", "for instance --only vms=1,7 --only pattern=random-32k")
        parsed.append((name.strip(), tuple(level.strip() for level in levels.split(","))))
    if len({name for name, _ in parsed}) < len(parsed):
        raise UsageError("--only names a factor twice", "give its levels together: --only vms=1,7")
    return tuple(parsed)


def parse_formats(given: str) -> list[str]:
    """`"html,pdf"` → `["html", "pdf"]`, `"none"` → `[]`."""
    formats = [] if given == "none" else [part.strip() for part in given.split(",") if part.strip()]
    unknown = [one for one in formats if one not in ("html", "pdf", "json")]
    if unknown:
        raise UsageError(f"no {unknown[0]!r} report", "choose of html, pdf, json; or none")
    return formats


def check_repetitions(repetitions: int | None) -> int | None:
    """Within the bounds that a study file has."""
    from hakaru.study.model import REPETITIONS_MAX

    if repetitions is not None and not 1 <= repetitions <= REPETITIONS_MAX:
        raise UsageError(f"--repetitions {repetitions}", f"choose 1 to {REPETITIONS_MAX}")
    return repetitions


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False))


def complain(message: str, hint: str) -> None:
    """An error as every error is shown."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    try:
        code = app(argv, exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return int(code or 0)
    except HakaruError as e:
        complain(e.message, e.hint)
        return e.exit_code
    except CycloptsError as e:
        complain(str(e), "`hakaru --help` lists the commands, `hakaru COMMAND --help` what one takes")
        return UsageError.exit_code
    except KeyboardInterrupt:
        complain("interrupted", "")
        return 130
    except BrokenPipeError:
        # Whoever read our output (`head`) has gone: nothing to say, and nobody to say it to at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as e:
        traceback.print_exc()
        complain(f"internal: {type(e).__name__}: {e}", "this is a defect of hakaru; please report the lines above")
        return 1


if __name__ == "__main__":
    sys.exit(main())
