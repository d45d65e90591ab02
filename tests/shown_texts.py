"""Texts that commands show, as templates, read from the source of hakaru.

A text begins in a call that shows it: the message and the hint of an error, a finding of the
doctor, a phase of a run. It is followed through f-strings, conditions, `join`, names and functions
of the same module or of a module that is imported by name. Each value in it becomes `{0}`, `{1}`, …

    f"the lab has {len(names)} arrays"            the lab has {0} arrays
    f"{n} run{'' if n == 1 else 's'} removed"     {0} run removed; {0} runs removed

A value that is itself built of words is one more template, because it is translated on its own.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "hakaru"

CALLS: dict[str, tuple[int | str, ...]] = {
    "Finding": (2, 3),
    "Refusal": (0, 1),
    "PlaceError": (1, 2),
    "PydanticCustomError": (1, "hint"),
    "Explained": (2, 3),
    "Problem": (1, 2),
    "error": (1, 2),  # of a study's document
    "phase": (1,),
    "print_error": (0, 1),
    "print_text": (0,),
    "shown": (0,),
    "Accelerator": (1,),
    "lost_error": (0,),
    "environment_error": (1,),
    "Rates": (0,),
    "did_you_mean": (2,),
    "_parse": (2,),
    "_stderr_hint": (0,),
    "Form": (1,),
    "LinkFeature": (2,),
    "SwitchFeature": (2,),
    "check_unique": (1,),
    "refusal": (2, 3),
}
"""Function → its arguments that are shown, by position or name."""

COMPLETED = {"lost_error": ("{0} ", ""), "environment_error": ("", " {0}: {1}")}
"""Function → what it adds before and after its argument."""

COMPOSED = (
    # study/explain.py
    "should be {0}",
    "should be text",
    "should be fields",
    "needs fields, for example {0}",
    "this lab cannot be built: {0}",
    # Values beside each other, which a message alone does not separate
    "choose from {0}, or none; separate several with commas",
    "choose from {0}; separate several with commas",
    "no factor {0}: neither {1} nor one of the study's variables",
    "no factor {0}: not one of the study's variables",
    "forbidden: {0} (kernel.io_uring_disabled is {1})",
    "QEMU {0}, accelerator {1} ({2})",
    "Linux {0} detects losses only by RACK on connections with SACK",
    "this machine carries {0} Mbit/s of the {1} needed on the path {2} (link {3}; {4} backend, best of {5})",
    "{0} of {1} repetitions are kept: {2}",
    # array/render.py
    *("read-only", "write-through"),
    *("size", "mapped", "store", "reads/s", "writes/s", "MB/s rd", "MB/s wr", "pool", "capacity", "used", "free"),
    *("filled", "promised", "groups", "volume", "own", "quota", "part", "busy", "queue"),
    # run/plan_place.py, cli/study.py
    *("topology:", "expectations:"),
    *(f"{{0}} % {what}" for what in ("duplicated", "corrupted", "reordered")),
    # run/plan.py
    *(f"{{0}} ({form} form), {{1}} warm-up + {{2}} measured each" for form in ("quick", "full")),
    "{0} (quick form)",
    "{0} (full form)",
    "{0} (quick form), {1}",
    "{0} (full form), {1}",
    "{0} for at most {1} repetitions",
    "{0} and further rounds of points that are not precise enough",
    "highest of {0} levels of {1} from {2} to {3} with {4}",
    "lowest of {0} levels of {1} from {2} to {3} with {4}",
    "{0} at most {1}",
    "{0} at least {1}",
    "{0} files, {1} on disk",
    "{0} files, {1} on a file server",
    "{0} files, {1} on a virtual disk",
    *(f"{{0}} {name}" for name in ("host", "hosts", "switch", "switches", "array", "arrays")),
    # cli/runs.py
    *(f"{status}, no results" for status in ("done", "interrupted", "failed", "killed", "unreadable")),
    # report/scorecard_page.py
    "warnings: {0}",
    "the study has changed after this run",
    # run/progress.py: the name of a phase
    *(
        f"{phase}: {{0}}{left}"
        for phase in ("lab", "check", "baseline", "analysis", "report")
        for left in (" ({1} left)", ", {1} left")
    ),
    # The end of a log that is empty
    "its console: empty",
    "its stderr: empty",
    "the end of its log: empty",
)
"""Templates of texts that the source puts together in a way that `shown_texts` does not follow."""

DEFECTS = ("search/", "analysis/rule_book/", "caveats.py")
"""Modules whose errors are defects of hakaru, which no command explains."""

ERRORS = re.compile(r"(Error_?|Breach|InvalidPoints|Interrupted)$")
ERRORS_WITHOUT_TEXT = {
    "AssertionError", "CalledProcessError", "GuestCommandError", "KeyError", "LevelError",
    "OSError", "PlaceError", "PydanticCustomError", "RuntimeError", "StepError", "TypeError",
}  # fmt: skip
"""Errors that are defects, are caught, or are shown by another call of this table."""

YIELDING = re.compile(
    r"study/(consistency|goal|port_groups|tables)|kinds/|fileserver/|array/consistency|lab/sandbox/entry"
)
"""Modules whose functions yield or return problems: (place, message, hint) or (message, hint)."""

Function = ast.FunctionDef | ast.AsyncFunctionDef

EVERY = ("*",)
WHOLE: dict[str, tuple[str, ...]] = {
    "array/check.py": EVERY,
    "array/render.py": EVERY,
    "doctor/checks.py": EVERY,
    "doctor/guests.py": EVERY,
    "guest/accelerator.py": EVERY,
    "guest/facts.py": ("_device_problem", "_macvtap_problem"),
    "lab/plan/backend.py": EVERY,
    "lab/plan/routing.py": EVERY,
    "live/lines.py": EVERY,
    "tune/run.py": ("_label",),
    "tune/table.py": ("print_tuning", "_trials", "_contributions"),
    "report/scorecard_page.py": (
        "together",
        "columns",
        "cells",
        "_run",
        "_warnings",
        "_change",
        "_figures",
        "_duration",
    ),
    "run/runner.py": ("drive", "_how_to_resume"),
    "run/publisher.py": ("open",),
    "run/plan_place.py": EVERY,
    "run/plan.py": ("lines", "_search_line", "link_rates", "lab_parts"),
    "run/progress.py": ("phase", "turn", "now", "result", "opened"),
    "suggest.py": ("did_you_mean", "listed"),
    "study/corrections.py": ("correction",),
    "cli/runs.py": ("list_", "prune", "_print"),
    "cli/start.py": ("init", "validate", "_size"),
}
"""Module → functions of which every text of several words is shown."""

CODE = re.compile(
    "|".join(
        (
            r"sudo |id: |lu-\{|Value error|Examples?: |abi <|\^",
            r"links\.\{0\}(\.\{1\})?$|switches\.\{0\}\.\{1\}$",
            r"report: \{|hakaru \{0\}$|\{0\} at \{1\} \{2\}$",
            r"\{0\}(: (should be )?\{1\})? \(found \{\d\}\)$",  # hakaru.translation splits it
        )
    )
)
"""Beginnings of templates that are no prose."""

METHODS = ("each", "text")
"""Methods of kinds whose results are shown."""


def shown_texts(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Return every template that needs a translation → the places where it is shown."""
    found: dict[str, list[str]] = {template: ["run/"] for template in COMPOSED}
    for path in sorted(package.rglob("*.py")):
        if str(path.relative_to(package)).startswith(DEFECTS):
            continue
        module = _module(path)
        for node, around in module.shown():
            for text in module.templates(node, module.function_of(node)):
                template = _completed(text, *around)
                if has_words(template):
                    found.setdefault(template, []).append(f"{path.relative_to(package)}:{node.lineno}")
    return found


def has_words(template: str) -> bool:
    """Whether a template has two words, or one beside a value or code in backticks."""
    if CODE.match(template):
        return False
    text = re.sub(r"`[^`]*`", "`", template)
    words = re.findall(r"(?<![-\w/.$])[A-Za-z]{2,}(?![\w/=])", re.sub(r"{\d}", " 0 ", text))
    return len(words) > 1 or (len(words) == 1 and words[0].islower() and bool(re.search(r"\{0}|`", text)))


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


class _Module:
    """One file, with the names that its texts refer to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = _parsed(path)
        self.name = str(path.relative_to(PACKAGE))
        self.functions = {node.name: node for node in ast.walk(self.tree) if isinstance(node, Function)}
        self._owners: dict[int, Function] = {}
        for function in self.functions_in_order():
            for node in ast.walk(function):
                self._owners[id(node)] = function

    def functions_in_order(self) -> Iterator[Function]:
        """Outer functions before inner ones, so that a node belongs to the innermost."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node

    def function_of(self, node: ast.AST) -> Function | None:
        return self._owners.get(id(node))

    def shown(self) -> Iterator[tuple[ast.expr, tuple[str, str]]]:
        """Expressions that a command shows, each with what is added before and after it."""
        plain = ("", "")
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                around = COMPLETED.get(_name_of(node), plain)
                yield from ((each, around) for each in _arguments(node))
            elif isinstance(node, ast.Yield | ast.Return | ast.Assign) and YIELDING.search(self.name):
                if isinstance(node.value, ast.Tuple) and len(node.value.elts) in (2, 3):
                    yield from ((each, plain) for each in node.value.elts[-2:])
            elif isinstance(node, ast.Tuple) and len(node.elts) == 3 and isinstance(node.elts[0], ast.Tuple):
                yield from ((each, plain) for each in node.elts[1:])
            elif isinstance(node, Function):
                whole = WHOLE.get(self.name, ())
                if node.name in whole or whole == EVERY:
                    yield from ((each, plain) for each in _texts(node))
                elif node.name in METHODS and "kinds/" in self.name:
                    yield from ((r.value, plain) for r in ast.walk(node) if isinstance(r, ast.Return) and r.value)

    def templates(self, node: ast.expr, function: Function | None, seen: frozenset[str] = frozenset()) -> Iterator[str]:
        """The templates of an expression, and those of the values in it."""
        follow = functools.partial(self.templates, function=function, seen=seen)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield _escaped(node.value)
        elif isinstance(node, ast.JoinedStr | ast.BinOp):
            if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add):
                return
            parts = list(_parts(node))
            yield from _variants(parts)
            for part in parts:
                if not isinstance(part, str) and _choices(part) is None:
                    yield from (text for text in follow(part) if has_words(text))
        elif isinstance(node, ast.IfExp):
            yield from itertools.chain(follow(node.body), follow(node.orelse))
        elif isinstance(node, ast.BoolOp):
            yield from itertools.chain.from_iterable(map(follow, node.values))
        elif isinstance(node, ast.GeneratorExp | ast.ListComp):
            yield from follow(node.elt)
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield from itertools.chain.from_iterable(map(follow, node.elts))
        elif isinstance(node, ast.Dict):
            yield from itertools.chain.from_iterable(map(follow, node.values))
        elif isinstance(node, ast.Subscript | ast.Starred):
            yield from follow(node.value)
        elif isinstance(node, ast.Name):
            yield from self._named(node.id, function, seen)
        elif isinstance(node, ast.Call):
            yield from self._called(node, function, seen)

    def _named(self, name: str, function: Function | None, seen: frozenset[str]) -> Iterator[str]:
        key = f"{self.name}:{function.name if function else ''}:{name}"
        if key in seen:
            return
        inside: ast.AST = function if function is not None else self.tree
        assigned = list(_assigned(name, inside))
        if not assigned and function is not None:
            yield from self._named(name, None, seen | {key})
            return
        for value in assigned:
            yield from self.templates(value, function, seen | {key})
        if not assigned:
            other = self._imported(name)
            if other is not None:
                yield from other._named(name, None, seen | {key})

    def _called(self, node: ast.Call, function: Function | None, seen: frozenset[str]) -> Iterator[str]:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "get", "setdefault", "format"):
            for each in (*node.args, node.func.value):
                if not isinstance(each, ast.Constant):
                    yield from self.templates(each, function, seen)
            return
        name = _name_of(node)
        key = f"{self.name}:{name}()"
        if key in seen:
            return
        module: _Module | None = self
        if name not in self.functions:
            module = self._imported(name)
        if module is not None and name in module.functions:
            called = module.functions[name]
            for each in ast.walk(called):
                if isinstance(each, ast.Return) and each.value is not None and module.function_of(each) is called:
                    yield from module.templates(each.value, called, seen | {key})

    def _imported(self, name: str) -> _Module | None:
        """The module of hakaru that `name` is imported from."""
        for node in ast.walk(self.tree):
            if not (isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hakaru")):
                continue
            if any((alias.asname or alias.name) == name for alias in node.names):
                path = PACKAGE.parent / (node.module.replace(".", "/") + ".py")
                return _module(path) if path.is_file() else None
        return None


@functools.cache
def _module(path: Path) -> _Module:
    return _Module(path)


def all_texts(package: Path = PACKAGE) -> set[str]:
    """Return every text in the source as templates, whether it is shown or not."""
    found: set[str] = set()
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(_parsed(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(_escaped(node.value))
            elif isinstance(node, ast.JoinedStr):
                found.update(_variants(_parts(node)))
    return found


def _name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _completed(template: str, before: str, after: str) -> str:
    """A template with more values before and after it, numbered anew."""
    if not before and not after:
        return template
    count = itertools.count()
    return re.sub(r"(?<!{){\d}(?!})", lambda _: f"{{{next(count)}}}", before + template + after)


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    name = _name_of(call)
    places = CALLS.get(name)
    if places is None and ERRORS.search(name) and name not in ERRORS_WITHOUT_TEXT:
        places = (0, 1, "message", "hint")
    for place in places or ():
        if isinstance(place, int) and place < len(call.args):
            yield call.args[place]
        yield from (keyword.value for keyword in call.keywords if keyword.arg == place)
    for keyword in call.keywords if name == "PydanticCustomError" else ():
        yield keyword.value
    if name == "PydanticCustomError" and len(call.args) > 2 and isinstance(call.args[2], ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in call.args[2].keys]
        yield from (value for key, value in zip(keys, call.args[2].values, strict=True) if key == "hint")


def _texts(function: Function) -> Iterator[ast.expr]:
    """Every text in a function, besides its docstring and the parts of f-strings."""
    inner: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inner.add(id(node.value))
        if isinstance(node, ast.JoinedStr | ast.BinOp):
            inner |= {id(each) for each in ast.walk(node) if each is not node}
    for node in ast.walk(function.args):
        inner.add(id(node))
    for node in ast.walk(function):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (text or isinstance(node, ast.JoinedStr)) and id(node) not in inner:
            assert isinstance(node, ast.expr)
            yield node


def _assigned(name: str, inside: ast.AST) -> Iterator[ast.expr]:
    """Values that are assigned to `name`, also by unpacking."""
    nodes: Iterable[ast.AST] = ast.walk(inside) if isinstance(inside, Function) else ast.iter_child_nodes(inside)
    for node in nodes:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.NamedExpr | ast.comprehension):
            targets = [node.target]
        value = getattr(node, "iter", None) or getattr(node, "value", None)
        for target in targets if value is not None else ():
            if isinstance(target, ast.Name) and target.id == name:
                yield value
            elif isinstance(target, ast.Tuple):
                for i, element in enumerate(target.elts):
                    if not (isinstance(element, ast.Name) and element.id == name):
                        continue
                    if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                        yield value.elts[i]
                    elif isinstance(value, ast.IfExp):
                        for side in (value.body, value.orelse):
                            if isinstance(side, ast.Tuple):
                                yield side.elts[i]
                    elif isinstance(value, ast.Call | ast.Subscript | ast.Name | ast.Dict):
                        yield value


def _parts(node: ast.expr) -> Iterator[str | ast.expr]:
    """Literal text and values of a text, in order."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield _escaped(node.value)
    elif isinstance(node, ast.JoinedStr):
        for value in node.values:
            yield from _parts(value)
    elif isinstance(node, ast.FormattedValue):
        yield node.value
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _parts(node.left)
        yield from _parts(node.right)
    else:
        yield node


def _choices(part: ast.expr) -> list[str] | None:
    """The texts of a condition between constants, which become variants of the template."""
    if not isinstance(part, ast.IfExp):
        return None
    sides = (part.body, part.orelse)
    texts = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
    return [_escaped(text) for text in texts] if len(texts) == 2 else None


def _variants(parts: Iterable[str | ast.expr]) -> Iterator[str]:
    """Templates for every choice between constants; values are numbered."""
    options: list[list[str]] = []
    count = 0
    for part in parts:
        if isinstance(part, str):
            options.append([part])
            continue
        choices = _choices(part)
        if choices is None:
            choices = [f"{{{count}}}"]
            count += 1
        options.append(choices)
    for chosen in itertools.product(*options):
        yield "".join(chosen)


def _escaped(text: str) -> str:
    """A text as a template. Fields of texts for `str.format` are values."""
    if re.search(r"{(name|version|bound|ms:.0f)}", text):
        count = itertools.count()
        return re.sub(r"{(name|version|bound|ms:.0f)}", lambda _: f"{{{next(count)}}}", text)
    return text.replace("{", "{{").replace("}", "}}")
