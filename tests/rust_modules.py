"""Graph of imports between the source files of a Rust crate, from its `use` lines and paths.

A path counts as an import of the file that defines the item, also through a re-export
(`pub use task::Task;`). `mod` lines are not imports. Test modules are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.test_layering import rust_code, use_tree

Module = tuple[str, ...]
"""A module's path in its crate; the root is `()`."""

_USE = re.compile(r"(?P<public>\bpub(?:\([a-z ]+\))?\s+)?\buse\s+(?P<tree>[^;]+);")
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
_MOD = re.compile(r"\bmod\s+(\w+)\s*;")


@dataclass
class Source:
    """A module in its own file."""

    path: Path
    code: str
    uses: list[Module] = field(default_factory=list)
    """Paths that the file names, absolute in the crate."""
    exports: dict[str, Module] = field(default_factory=dict)
    """Names that the file re-exports, and where they lead."""
    globs: list[Module] = field(default_factory=list)
    """Modules re-exported as a whole."""


def sources_of(crate: Path) -> dict[Module, Source]:
    """Return the modules of a crate by path, without its test modules."""
    sources: dict[Module, Source] = {}
    src = crate / "src"
    root = src / "lib.rs" if (src / "lib.rs").is_file() else src / "main.rs"
    waiting: list[tuple[Module, Path]] = [((), root)]
    while waiting:
        module, path = waiting.pop()
        code, _ = rust_code(path.read_text())
        sources[module] = Source(path, code)
        folder = path.parent if path.stem in ("lib", "main", "mod") else path.with_suffix("")
        for name in _MOD.findall(code):
            for child in (folder / f"{name}.rs", folder / name / "mod.rs"):
                if child.is_file():
                    waiting.append(((*module, name), child))
    return sources


def absolute(module: Module, path: str) -> Module | None:
    """Return a path written in `module` as an absolute path, or None if it leaves the crate."""
    first, *rest = path.replace("r#", "").split("::")
    if first == "crate":
        return tuple(rest)
    if first == "self":
        return (*module, *rest)
    if first != "super":
        return None
    base = module[:-1]
    while rest and rest[0] == "super":
        base, rest = base[:-1], rest[1:]
    return (*base, *rest)


def import_graph(crate: Path) -> dict[Module, set[Module]]:
    """Return module → the modules whose items it names."""
    sources = sources_of(crate)
    for module, source in sources.items():
        children = {m[-1] for m in sources if m[:-1] == module and m}
        for use in _USE.finditer(source.code):
            for raw in use_tree(use["tree"]):
                _add_use(module, source, children, use["tree"], raw, public=bool(use["public"]))
        for path in _PATH.findall(_USE.sub("", source.code)):
            if (target := absolute(module, path)) is not None:
                source.uses.append(target)
        bare = re.compile(rf"(?<![\w:])({'|'.join(children)})::(\w+)") if children else None
        if bare is not None:
            source.uses += [(*module, child, item) for child, item in bare.findall(_USE.sub("", source.code))]
    graph: dict[Module, set[Module]] = {}
    for module, source in sources.items():
        homes = {_home(sources, target) for target in source.uses}
        graph[module] = {home for home in homes if home is not None and home != module}
    return graph


def _add_use(module: Module, source: Source, children: set[str], tree: str, raw: str, *, public: bool) -> None:
    path = raw if raw.split("::")[0] not in children else f"self::{raw}"
    target = absolute(module, path.removesuffix("::self"))
    if target is None:
        return
    if public and target[-1] == "*":
        source.globs.append(target[:-1])
    elif public:
        renamed = re.search(rf"\b{re.escape(target[-1])}\s+as\s+(\w+)", tree)
        source.exports[renamed[1] if renamed else target[-1]] = target
    else:
        source.uses.append(target)


def _home(sources: dict[Module, Source], target: Module, depth: int = 0) -> Module | None:
    """Return the module that defines the item `target`, following re-exports."""
    module: Module = ()
    for at, name in enumerate(target):
        source = sources[module]
        if (*module, name) in sources:
            module = (*module, name)
            continue
        if name in source.exports and depth < 20:
            return _home(sources, (*source.exports[name], *target[at + 1 :]), depth + 1)
        for glob in source.globs:
            home = _home(sources, (*glob, name), depth + 1)
            if home is not None and re.search(rf"\b{re.escape(name)}\b", sources[home].code):
                return home
        return module
    return module


def cycles(graph: dict[Module, set[Module]]) -> list[list[Module]]:
    """Return groups of modules that import each other in a circle (strongly connected)."""
    index: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    groups: list[list[Module]] = []

    def visit(module: Module) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph.get(module, ())):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                groups.append(sorted(group))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return groups
