"""No two source files of a Rust crate import each other, directly or in a circle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rust_modules import cycles, import_graph

CRATES = sorted((Path(__file__).resolve().parents[1] / "crates").iterdir())


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_files_of_a_crate_import_each_other_in_one_direction(crate: Path) -> None:
    circles = [["::".join(module) or "lib.rs" for module in group] for group in cycles(import_graph(crate))]
    assert circles == []


@pytest.mark.parametrize(
    ("files", "circle"),
    [
        ({"lib.rs": "mod a;\nmod b;", "a.rs": "use crate::b::B;", "b.rs": "use crate::a::A;"}, [("a",), ("b",)]),
        (
            {"lib.rs": "mod a;", "a/mod.rs": "mod c;\nuse c::C;\nstruct A;", "a/c.rs": "use super::A;"},
            [("a",), ("a", "c")],
        ),
        ({"lib.rs": "mod a;\nuse a::A;\nstruct R;", "a.rs": "fn f(_: crate::R) {}"}, [(), ("a",)]),
        ({"lib.rs": "mod a;\nstruct R;\nfn f() { a::g() }", "a.rs": "use super::R;"}, [(), ("a",)]),
        (
            {
                "lib.rs": "mod a;\nmod b;\npub use a::A;\npub use b::*;",
                "a.rs": "use crate::B;\npub struct A;",
                "b.rs": "use crate::A;\npub struct B;",
            },
            [("a",), ("b",)],
        ),
    ],
)
def test_planted_cycle_is_found(tmp_path: Path, files: dict[str, str], circle: list[tuple[str, ...]]) -> None:
    assert cycles(import_graph(planted(tmp_path, files))) == [circle]


@pytest.mark.parametrize(
    "files",
    [
        {"lib.rs": "mod a;\nmod b;\npub use a::A;", "a.rs": "pub struct A;", "b.rs": "use crate::A;"},
        {"lib.rs": "mod a;\nmod b;", "a.rs": "use crate::b::B;", "b.rs": "// use crate::a::A;\npub struct B;"},
        {"lib.rs": "mod a;", "a.rs": "pub struct A;\n#[cfg(test)]\nmod tests {\n    use super::A;\n}"},
        {"lib.rs": "mod a;\npub use a::A;", "a/mod.rs": "mod c;\npub use c::A;", "a/c.rs": "pub struct A;"},
    ],
)
def test_imports_in_one_direction_are_not_a_cycle(tmp_path: Path, files: dict[str, str]) -> None:
    assert cycles(import_graph(planted(tmp_path, files))) == []


def planted(folder: Path, files: dict[str, str]) -> Path:
    """Write a crate with these source files."""
    for name, code in files.items():
        path = folder / "planted" / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    return folder / "planted"
