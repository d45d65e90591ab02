"""Commands for writing a study: `init`, `validate`."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from hakaru.cli.options import Json
from hakaru.cli.study import Study
from hakaru.errors import UsageError
from hakaru.output import print_error, print_json, print_text

if TYPE_CHECKING:
    from hakaru.study import Expanded

INIT_EXAMPLES = "Examples: hakaru init; hakaru init copy my-backup"
VALIDATE_EXAMPLES = "Example: hakaru validate ./my-study"

ID_LINE = "id: my-study"
"""Line of every template that gets the name of the folder."""


def init(
    kind: Annotated[
        str | None,
        Parameter(name="KIND", help="Kind of study. Default: the last in the list of kinds with a template."),
    ] = None,
    folder: Annotated[Path, Parameter(name="FOLDER", help="Folder to create; its name becomes the study's ID.")] = Path(
        "my-study"
    ),
    /,
    *,
    lang: Annotated[
        Literal["en", "ja"] | None,
        Parameter(name="--lang", help="Language of the comments: en, ja. Default: that of the locale."),
    ] = None,
) -> int:
    """Write a commented study that runs in one minute, and its schema for editors. Prints the path
    of the study.
    """
    from hakaru import kind as kinds
    from hakaru.study import study_schema
    from hakaru.suggest import did_you_mean
    from hakaru.wording import language_of_locale

    templates = {
        name: path
        for name, each in kinds.of_studies().items()
        if (path := each.template(lang or language_of_locale()) or each.template("en")) is not None
    }
    kind = kind or max(templates, default="")
    if kind not in templates:
        raise UsageError(f"no kind of study named {kind!r} has a template", did_you_mean(kind, templates))
    name = folder.resolve().name
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,63}", name):
        hint = "use lower-case letters, digits and hyphens, and begin with a letter or digit"
        raise UsageError(f"{name!r} cannot be the ID of a study", hint)
    path = folder / "study.yaml"
    if path.exists():
        raise UsageError(f"{path} exists", f"choose another folder: `hakaru init {kind} FOLDER`")
    text = templates[kind].read_text(encoding="utf-8").replace(ID_LINE, f'id: "{name}"', 1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        schema = json.dumps(study_schema(), ensure_ascii=False, indent=1)
        (folder / "study.schema.json").write_text(f"{schema}\n", encoding="utf-8")
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}", "choose a folder that can be written") from e
    print(path)
    named = shlex.quote(str(folder) if "/" in str(folder) else f"./{folder}")
    print_text(f"next: hakaru validate {named}; hakaru run {named}", to_stderr=True)
    return 0


def validate(study: Study, /, *, json_: Json = False) -> int:
    """Check a study without a lab, and print every error with its place and a hint. Prints the
    number of points if the study is valid.
    """
    from hakaru.study import expand, faults_of, load

    path, faults = faults_of(study)
    if json_:
        print_json({"path": str(path), "valid": not faults, "errors": [vars(fault) for fault in faults]})
    for fault in [] if json_ else faults:
        print_error(f"{path}:{fault.line}:{fault.column}: {fault.message}", fault.hint)
    if faults:
        return UsageError.exit_code
    if not json_:
        loaded = load(study).study
        forms = {"full": expand(loaded), "quick": expand(loaded, quick=True) if loaded.quick else None}
        sizes = [f"{_size(form)} ({name} form)" for name, form in forms.items() if form is not None]
        print_text(f"{path}: valid; {', '.join(sizes)}")
    return 0


def _size(form: Expanded) -> str:
    """`6 points x 3 repetitions`; of a study with a goal, `2 searches over 64 points`."""
    searches = len(form.searches)
    if searches:
        return f"{searches} search{'es' if searches > 1 else ''} over {len(form.points)} points"
    return f"{len(form.points)} points x {form.measure.repetitions} repetitions"
