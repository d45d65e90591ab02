"""Commands that need no study: `doctor`, `analyse`, `schema`."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from hakaru.cli.options import Json
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.output import print_json

ANALYSE_EXAMPLES = "Example: hakaru analyse capture.pcapng --port 3260 --port 860"
SCHEMA_EXAMPLES = "Example: hakaru schema > study.schema.json"


def doctor(
    *,
    site: Annotated[
        Path | None, Parameter(metavar="FILE", help="Check the load hosts of this site file instead.")
    ] = None,
    json_: Json = False,
) -> int:
    """Check whether this machine can run labs, or whether the load hosts of a site can be used, and
    suggest a remedy for each problem.
    """
    from hakaru.doctor import check_load_hosts, diagnose
    from hakaru.run.site_file import load_site
    from hakaru.translation import label, shown

    findings = check_load_hosts(load_site(site)) if site else diagnose()
    if json_:
        print_json([{"name": f.name, "status": f.status, "what": f.message, "hint": f.hint} for f in findings])
    else:
        for finding in findings:
            print(f"{finding.status:<5} {finding.name}: {shown(finding.message)}")
            if finding.hint:
                print(f"      {label('hint')}{shown(finding.hint)}")
    return EnvironmentError_.exit_code if any(f.status == "fail" for f in findings) else 0


def analyse(
    capture: Annotated[
        Path,
        Parameter(
            name="CAPTURE",
            validator=validators.Path(exists=True, dir_okay=False),
            help="Capture file (pcap or pcapng).",
        ),
    ],
    /,
    *more: Annotated[
        Path,
        Parameter(
            name="MORE",
            validator=validators.Path(exists=True, dir_okay=False),
            help="Further parts of a rotated capture, in order.",
        ),
    ],
    port: Annotated[
        tuple[int, ...],
        Parameter(
            consume_multiple=False,
            metavar="PORT",
            validator=validators.Number(gte=1, lte=65535),
            help="TCP port that targets listen on. Repeat the option for further ports.",
        ),
    ] = (3260,),
    lang: Annotated[
        Literal["en", "ja"] | None, Parameter(name="--lang", help="Language: en, ja. Default: that of the locale.")
    ] = None,
    csv_: Annotated[bool, Parameter(name="--csv", negative="", help="Print CSV, one row per phase.")] = False,
    json_: Json = False,
) -> int:
    """Show how iSCSI commands spent their time, from a network capture of any equipment."""
    from hakaru import capture as captures
    from hakaru.wording import language_of_locale

    if csv_ and json_:
        raise UsageError("--csv and --json exclude each other", "choose one of them")
    analysed = captures.analyse((capture, *more), port, progress=sys.stderr.isatty())
    if json_:
        print_json(analysed)
    elif csv_:
        csv.writer(sys.stdout, lineterminator="\n").writerows(captures.csv_rows(analysed))
    else:
        captures.print_analysis(analysed, lang or language_of_locale())
    return 0


def schema(
    kind: Annotated[Literal["study", "array", "report"], Parameter(name="KIND", help="Kind of file.")] = "study", /
) -> int:
    """Print the JSON Schema of study files, array files or reports in JSON, for editors and
    checks.
    """
    if kind == "array":
        from hakaru.array.load import array_schema

        print_json(array_schema())
    elif kind == "report":
        from hakaru.analysis.report_model import report_schema

        print_json(report_schema())
    else:
        from hakaru.study import study_schema

        print_json(study_schema())
    return 0
