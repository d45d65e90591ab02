"""Rules of ARCHITECTURE.md: core crates do not use the operating system, engines do not depend on
each other, and studies, analysis and searches only transform data. Each check is also tested with a
planted violation.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = (
    "units",
    "stats",
    "wire",
    "contract",
    "drive",
    "tape",
    "send-queue",
    "scsi-device",
    "iscsi-target",
    "iscsi-session",
    "load",
    "pool",
    "store",
    "throttle",
    "fabric",
    "backup",
    "packets",
    "smb",
    "files",
    "watch",
    "dissect",
    "world",
)
ENGINES = ("drive", "iscsi-target", "load", "pool", "fabric", "backup", "packets", "files", "watch", "dissect")

# Paths that a core crate must not use. Addresses of `std::net` are data, and `std::time::Duration`
# is a number.
FORBIDDEN_PATHS = re.compile(
    r"std::(fs|thread|env|process|os)\b"
    r"|std::net::(?!(IpAddr|Ipv4Addr|Ipv6Addr|SocketAddr|SocketAddrV4|SocketAddrV6|AddrParseError)$)"
    r"|std::time::(Instant|SystemTime|UNIX_EPOCH)\b"
    r"|std::io::(stdin|stdout|stderr|Stdin|Stdout|Stderr)\b"
    r"|std::(net|time)(::self|::\*)?$|std::io::\*|std::\*"
    r"|io::(stdin|stdout|stderr)$"
    r"|(tokio|mio|nix|libc|rustix|socket2|io_uring|memmap2|getrandom|hakaru_runtime)(::|$)"
    r"|rand::(rng|random|thread_rng|rngs::(OsRng|SysRng|ThreadRng))\b"
)
FORBIDDEN_WORDS = re.compile(r"\bunsafe\b|\bextern\s+\"|\bthread_local!|\be?print(ln)?!|\bdbg!|\bstatic\s+mut\b")
FORBIDDEN_CRATES = {
    "async-std", "errno", "getrandom", "hakaru-runtime", "io-uring", "libc", "linux-raw-sys", "memmap2", "mio", "nix",
    "polling", "rustix", "smol", "socket2", "tokio",
}  # fmt: skip

# redb has a backend for files that needs libc. The pool uses its own backend and names no other one
# (see the test above).
LINKED_NEVERTHELESS = {crate: {"libc"} for crate in ("pool", "store", "world")}

# One alternative per kind of text that is not code. A lifetime does not count as a character
# literal.
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^']+|[^'\\])'""", re.DOTALL
)
TEST_ITEM = re.compile(
    r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([a-z]+\))?\s+)?(?:mod\s+(\w+)\s*;|[^{;]*[{;])"
)


def rust_code(source: str) -> tuple[str, list[str]]:
    """Return `source` without comments, literals and test items, and the names of its test modules
    in their own files.
    """
    code = NOT_CODE.sub(lambda match: "\n" * match.group().count("\n") + '""', source)
    test_files = []
    while item := TEST_ITEM.search(code):
        end = item.end()
        if name := item.group(1):
            test_files.append(name)
        elif code[end - 1] == "{":
            depth = 1
            while depth and end < len(code):
                depth += {"{": 1, "}": -1}.get(code[end], 0)
                end += 1
        code = code[: item.start()] + "\n" * code[item.start() : end].count("\n") + code[end:]
    return code, test_files


def use_tree(tree: str) -> Iterator[str]:
    """Yield every path of a tree such as `a::{b, c::{d, e as f}}`."""
    prefix, brace, rest = tree.partition("{")
    if not brace:
        yield re.sub(r"\s+as\s+\w+|\s+", "", tree)
        return
    part, depth = "", 0
    for character in rest[: rest.rindex("}")] + ",":
        if character == "," and depth == 0:
            if part.strip():
                yield from use_tree(prefix + part.strip())
            part = ""
        else:
            depth += {"{": 1, "}": -1}.get(character, 0)
            part += character


def rust_violations(folder: Path) -> list[str]:
    """Return the forbidden names in the sources of a core crate as `file:line: name`."""
    violations = []
    root = (folder / "src" / "lib.rs").read_text()
    if "#![forbid(unsafe_code)]" not in rust_code(root)[0]:
        violations.append(f"{folder.name}/src/lib.rs:1: no #![forbid(unsafe_code)]")
    sources = {path: rust_code(path.read_text()) for path in sorted((folder / "src").rglob("*.rs"))}
    tests = {
        beside / name
        for path, (_, names) in sources.items()
        for name in names
        for beside in ([path.parent] if path.stem in ("lib", "mod", "main") else [path.with_suffix("")])
    }
    for path, (code, _) in sources.items():
        if any(test in (path.with_suffix(""), *path.parents) for test in tests):
            continue

        def where(at: int, path: Path = path, code: str = code) -> str:
            return f"{path.relative_to(folder.parent)}:{code.count(chr(10), 0, at) + 1}"

        for use in re.finditer(r"\buse\s+([^;]+);", code):
            violations += [f"{where(use.start())}: {p}" for p in use_tree(use.group(1)) if FORBIDDEN_PATHS.match(p)]
        # Full paths outside `use`, such as a::b::c.
        rest = re.sub(r"\buse\s+[^;]+;", lambda u: "\n" * u.group().count("\n"), code)
        for path_ in re.finditer(r"\b\w+(?:::\w+)+", rest):
            if FORBIDDEN_PATHS.match(path_.group()):
                violations.append(f"{where(path_.start())}: {path_.group()}")
        violations += [f"{where(word.start())}: {word.group()}" for word in FORBIDDEN_WORDS.finditer(code)]
    return violations


def dependencies(crate: str) -> set[str]:
    """Return the names of the crates that are linked into this one, without dependencies of its
    build, its tests and its macros.
    """
    tree = ["cargo", "tree", "--package", f"hakaru-{crate}", "--edges", "normal,no-proc-macro", "--prefix", "none"]
    lines = subprocess.run(tree, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[0] for line in lines if line}


def test_architecture_names_the_core_crates_that_are_checked_here() -> None:
    named = re.search(r"^1\. Core crates \(`([a-z\s-]+)`\)", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert named
    assert tuple(named.group(1).split()) == CORE


@pytest.mark.parametrize("crate", CORE)
def test_core_crate_names_no_operating_system(crate: str) -> None:
    assert rust_violations(ROOT / "crates" / crate) == []


@pytest.mark.parametrize("crate", CORE)
def test_core_crate_does_not_depend_on_operating_system_crates(crate: str) -> None:
    assert dependencies(crate) & FORBIDDEN_CRATES == LINKED_NEVERTHELESS.get(crate, set())


@pytest.mark.parametrize("crate", ENGINES)
def test_engines_do_not_depend_on_each_other(crate: str) -> None:
    others = {f"hakaru-{other}" for other in ENGINES if other != crate}
    assert dependencies(crate) & others == set()


def test_dependency_tree_contains_linked_crates_but_not_test_crates() -> None:
    assert {"rustix", "hakaru-units"} <= dependencies("runtime")
    assert "proptest" not in dependencies("wire"), "tests are not linked"


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        ("use std::fs;", "std::fs"),
        ("use std::{collections::BTreeMap, time::{Duration, Instant}};", "std::time::Instant"),
        ("use std::{fs as files, fmt};", "std::fs"),
        ("fn f() { let _ = std::env::var(name); }", "std::env::var"),
        ("fn f() {\n    std::thread::sleep(d);\n}", "std::thread::sleep"),
        ("use std::net::TcpStream;", "std::net::TcpStream"),
        ("use std::net::{SocketAddr, UdpSocket};", "std::net::UdpSocket"),
        ("use std::net;", "std::net"),
        ("use std::time;", "std::time"),
        ("use std::time::{self, Duration};", "std::time::self"),
        ("use std::*;", "std::*"),
        ("fn f() { io::stdin() }", "io::stdin"),
        ("use rustix::fd::OwnedFd;", "rustix::fd::OwnedFd"),
        ("use libc;", "libc"),
        ("fn f() { unsafe { g() } }", "unsafe"),
        ('fn f() { println!("x"); }', "println!"),
        ("fn f() { let r = rand::rng(); }", "rand::rng"),
        ("#[cfg(test)]\nmod tests { fn t() {} }\nuse std::fs;", "std::fs"),
    ],
)
def test_planted_violation_is_found(tmp_path: Path, code: str, forbidden: str) -> None:
    crate = planted(tmp_path, code)
    violations = rust_violations(crate)
    assert [v.partition(": ")[2] for v in violations] == [forbidden]


@pytest.mark.parametrize(
    "code",
    [
        "use std::time::Duration;",
        "use std::net::{IpAddr, SocketAddr};",
        "fn f(a: &str) -> bool { a.parse::<std::net::SocketAddr>().is_ok() }",
        "// std::fs and unsafe are only mentioned",
        'const A: &str = "use std::fs; unsafe";',
        "/* std::thread */ fn f<'a>(x: &'a str) -> char { 'u' }",
        "#[cfg(test)]\nmod tests {\n    use std::fs;\n    fn t() { if true { println!() } }\n}",
    ],
)
def test_harmless_code_is_not_a_violation(tmp_path: Path, code: str) -> None:
    assert rust_violations(planted(tmp_path, code)) == []


def test_missing_forbid_is_found_and_test_files_are_ignored(tmp_path: Path) -> None:
    crate = planted(tmp_path, "mod a;")
    (crate / "src" / "a.rs").write_text("#[cfg(test)]\nmod tests;")
    (crate / "src" / "a").mkdir()
    (crate / "src" / "a" / "tests.rs").write_text("use std::fs;")
    assert rust_violations(crate) == []
    (crate / "src" / "lib.rs").write_text("mod a;")
    assert rust_violations(crate) == ["planted/src/lib.rs:1: no #![forbid(unsafe_code)]"]


def planted(folder: Path, code: str) -> Path:
    """Write a crate with `code`."""
    crate = folder / "planted"
    (crate / "src").mkdir(parents=True)
    (crate / "src" / "lib.rs").write_text(f"#![forbid(unsafe_code)]\n{code}\n")
    return crate


# Modules that studies, analysis and searches must not import, and calls that are forbidden
# everywhere in Python.
PURE_PACKAGES = ("study", "analysis", "search")
IMPURE_MODULES = {
    "asyncio", "ctypes", "http", "importlib", "marshal", "multiprocessing", "pickle", "pyroute2", "shelve", "shutil",
    "signal", "socket", "ssl", "subprocess", "threading", "urllib",
}  # fmt: skip
FORBIDDEN_CALLS = {"eval", "exec", "os.system", "os.popen", "pickle.load", "pickle.loads", "subprocess.getoutput"}


def dotted(node: ast.expr) -> str:
    """Return the dotted name of an attribute or a name, or an empty string."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def python_violations(source: str, name: str, *, pure: bool) -> list[str]:
    """Return uses of shells and of evaluated text, and in pure packages also of processes, sockets
    and threads.
    """
    violations = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names] if pure else []
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module] if pure else []
            names += [f"{module}.{alias.name}" for alias in node.names]
        else:
            names = [dotted(node.func)]
            if any(k.arg == "shell" and not is_false(k.value) for k in node.keywords):
                violations.append(f"{name}:{node.lineno}: shell")
        for path in names:
            impure = pure and not isinstance(node, ast.Call) and path.partition(".")[0] in IMPURE_MODULES
            if impure or path in FORBIDDEN_CALLS:
                violations.append(f"{name}:{node.lineno}: {path}")
    return violations


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_python_runs_no_shell_and_pure_packages_import_no_impure_module() -> None:
    package = ROOT / "python" / "hakaru"
    violations = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        violations += python_violations(path.read_text(), str(name), pure=name.parts[0] in PURE_PACKAGES)
    assert violations == []


@pytest.mark.parametrize(
    ("source", "forbidden"),
    [
        ("import socket", "socket"),
        ("from subprocess import run", "subprocess"),
        ("def f():\n    import urllib.request", "urllib.request"),
        ("import os\nos.system(x)", "os.system"),
        ("from os import system", "os.system"),
        ("run(x, shell=True)", "shell"),
        ("run(x, shell=flag)", "shell"),
        ("eval(x)", "eval"),
    ],
)
def test_planted_python_violation_is_found(source: str, forbidden: str) -> None:
    assert forbidden in [v.partition(": ")[2] for v in python_violations(source, "planted", pure=True)]


def test_impure_modules_are_allowed_outside_of_pure_packages() -> None:
    assert python_violations("import subprocess\nsubprocess.run(x, shell=False)", "lab/planted", pure=False) == []


KINDS_OF_STUDIES = ("vms", "copy")


def names_of_kinds(folder: Path) -> list[str]:
    """Return places outside `kinds/` that name a kind of study in a string or an import."""
    places = []
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if inside.parts[0] == "kinds":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(name == "hakaru.kinds" or name.startswith("hakaru.kinds.") for name in imported):
                places.append(f"{inside}:{node.lineno}: imports a kind")
            if isinstance(node, ast.Constant) and node.value in KINDS_OF_STUDIES:
                places.append(f"{inside}:{node.lineno}: names {node.value!r}")
    return places


def test_no_module_outside_of_kinds_names_a_kind() -> None:
    assert names_of_kinds(ROOT / "python" / "hakaru") == []


@pytest.mark.parametrize(
    "planted",
    [
        "from hakaru.kinds.vms import KIND",
        "import hakaru.kinds.copy.load",
        "def f(study):\n    return study.kind == 'copy'",
        "KINDS = ('vms',)",
    ],
)
@pytest.mark.parametrize("package", ["run", "analysis", "report"])
def test_module_that_names_a_kind_is_found(tmp_path: Path, package: str, planted: str) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "planted.py").write_text(planted)
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds" / "own.py").write_text(planted)
    (place,) = names_of_kinds(tmp_path)
    assert place.startswith(f"{package}/planted.py:")


def missing_capabilities(folder: Path) -> list[str]:
    """Return places that raise NotImplementedError. A capability that some classes lack is an
    object of its own, which they do not return.
    """
    return [
        f"{path.relative_to(folder)}:{node.lineno}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id == "NotImplementedError"
    ]


def test_no_method_exists_only_to_refuse() -> None:
    assert missing_capabilities(ROOT / "python" / "hakaru") == []


def test_method_that_exists_only_to_refuse_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("class A:\n    def f(self):\n        raise NotImplementedError('x')\n")
    assert missing_capabilities(tmp_path) == ["planted.py:3"]
