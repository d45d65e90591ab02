"""The command line. `main` runs one command and returns the exit code.

Data goes to stdout, everything else to stderr. An error is printed as `error: …` and `hint: …`, and
the exit code is that of its class (`hakaru.errors`). A command parses its options, calls one part
of hakaru, and prints. Each command imports the heavy parts that it needs, so that `--help` and
`plan` stay quick and the sandbox is entered before threads start.

    options      types of options that several commands share, with their converters and validators
    start        init, validate
    study        studies, plan, run
    results      report, query
    live         attach, web
    tools        doctor, analyse, schema
    shells       completion, man
    help         `--help` in Japanese
    tune, array, files, scorecard, compare, runs, docs  the commands of the same names
    finish       analysis, report and verdict of an ended run
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Group
from rich.console import Console

from hakaru import __version__
from hakaru.cli import results, shells, start, study, tools
from hakaru.cli.array import app as array_app
from hakaru.cli.compare import EXAMPLES as COMPARE_EXAMPLES
from hakaru.cli.compare import compare
from hakaru.cli.docs import EXAMPLES as DOCS_EXAMPLES
from hakaru.cli.docs import docs
from hakaru.cli.files import app as files_app
from hakaru.cli.help import localised
from hakaru.cli.live import ATTACH_EXAMPLES, WEB_EXAMPLES, attach, web
from hakaru.cli.options import DEFAULTS
from hakaru.cli.runs import app as runs_app
from hakaru.cli.scorecard import EXAMPLES as SCORECARD_EXAMPLES
from hakaru.cli.scorecard import scorecard
from hakaru.cli.tune import EXAMPLES as TUNE_EXAMPLES
from hakaru.cli.tune import tune
from hakaru.errors import HakaruError, UsageError
from hakaru.output import print_error

app = App(
    name="hakaru",
    version=__version__,
    help="Build a lab of VMs, networks and iSCSI storage, load it, find the bottleneck, and write the report.",
    help_epilogue="Exit codes: 0 done; 1 internal error; 2 usage or study file; 3 this machine; 4 an expectation is "
    "not met; 5 some points are invalid; 6 wrong data was read; 7 an engine was lost; 8 not judged "
    "(--strict); 130/143 interrupted.",
    help_flags=["--help", "-h"],
    version_flags=["--version", "-V"],
    result_action="return_value",
    group_parameters=Group("Options"),
    default_parameter=DEFAULTS,
)
app.command(tools.doctor, help_epilogue="Example: hakaru doctor")
app.command(start.init, help_epilogue=start.INIT_EXAMPLES)
app.command(start.validate, help_epilogue=start.VALIDATE_EXAMPLES)
app.command(study.studies, help_epilogue="Example: hakaru studies --json")
app.command(study.plan, help_epilogue=study.PLAN_EXAMPLES)
app.command(study.run, help_epilogue=study.RUN_EXAMPLES)
app.command(attach, help_epilogue=ATTACH_EXAMPLES)
app.command(web, help_epilogue=WEB_EXAMPLES)
app.command(results.report, help_epilogue=results.REPORT_EXAMPLES)
app.command(results.query, help_epilogue=results.QUERY_EXAMPLES)
app.command(runs_app)
app.command(compare, help_epilogue=COMPARE_EXAMPLES)
app.command(scorecard, help_epilogue=SCORECARD_EXAMPLES)
app.command(tune, help_epilogue=TUNE_EXAMPLES)
app.command(tools.analyse, help_epilogue=tools.ANALYSE_EXAMPLES)
app.command(array_app)
app.command(files_app)
app.command(docs, help_epilogue=DOCS_EXAMPLES)
app.command(tools.schema, help_epilogue=tools.SCHEMA_EXAMPLES)
shells.register(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `argv`: arguments without the program's name;
    default: those of `sys.argv`.
    """
    try:
        with localised(app):
            # The application would keep its first console, and with it the width of that moment.
            code = app(argv, console=Console(), exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return int(code or 0)
    except HakaruError as error:
        print_error(error.message, error.hint)
        return error.exit_code
    except CycloptsError as error:
        command = " ".join(["hakaru", *(error.command_chain or ())])
        print_error(str(error), f"`{command} --help` lists the arguments and options")
        return UsageError.exit_code
    except KeyboardInterrupt:
        print_error("interrupted", "")
        return 130
    except BrokenPipeError:
        # The reader of stdout (such as `head`) closed the pipe. Stdout is replaced, because Python
        # would report the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        traceback.print_exc()
        print_error(f"internal: {type(error).__name__}: {error}", "this is a defect; please report the lines above")
        return 1
