"""Fuzz study files: mutate the shipped studies, and check that loading yields a study or a
`UsageError`.

    study_files.py [SECONDS [SEED]]      default 30 s, seed 1; exit 1 on the first finding, which
                                         is stored in fuzz/artifacts

Two kinds of mutation alternate. Mutations of the text insert tokens, repeat lines and change bytes.
Mutations of the data replace, remove or repeat a value in the tree, which reaches the checks behind
the parser. An error must also state its place (`file:line:column`), and no file may take more than
a second of CPU.
"""

from __future__ import annotations

import copy
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from hakaru.errors import UsageError
from hakaru.study import Study, expand, load, study_paths
from hakaru.study.consistency import problems
from hakaru.study.document import Document, parse_document
from hakaru.study.load import validate

ARTIFACTS = Path(__file__).parent / "artifacts" / "study_files"
CPU_S_MAX = 1.0
DATA_PER_TEXT = 20

# fmt: off
TOKENS = [
    "&a", "*a", "!!python/object/apply:os.system", "!x", "<<:", "-", "?", ":", "|", ">", "[", "]", "{", "}", "#", "%",
    "@", "`", "'", '"', ",", "\\", "---", "\t", "\0", "\ufeff", "\u2028", "\n", "  ", "&a [*a]", "[" * 40, "{a: " * 40,
    "x" * 5000, "null", "~", "true", "yes", "0", "-1", "0x", "0o7", "1e400", ".inf", ".nan", "9" * 5000, "1_000",
    "12:30", "2020-01-01", "../../etc/passwd", "/dev/zero", "0 B", "-4 KiB", "1 EiB", "1e3 s", "10 Gbit/s",
]
# fmt: on
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    10**30,
    0.1,
    float("inf"),
    float("nan"),
    "",
    "x",
    "0",
    "-1 s",
    "1 KiB",
    "é\u2028",
    [],
]
VALUES += [{}, [[]], {"kind": "x"}, ["x"] * 300, "../x", "/etc/passwd", "a" * 300, "x\x00y".replace("\x00", "\\0")]

Path_ = tuple[str | int, ...]


def mutate_text(text: str, rng: random.Random) -> bytes:
    """Return `text` with one to eight changes."""
    words = re.findall(r"\S+", text)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(5):
            case 0:
                text = text[:at] + rng.choice(TOKENS) + text[at:]
            case 1:
                text = text[:at] + text[at + rng.randint(1, 40) :]
            case 2:
                lines = text.splitlines(keepends=True)
                line = rng.randrange(len(lines)) if lines else 0
                lines[line:line] = lines[line : line + rng.randint(1, 3)]
                text = "".join(lines)
            case 3:
                old = rng.choice(words)
                text = text.replace(old, rng.choice([*words, *TOKENS]), 1)
            case _:
                text = re.sub(
                    r"\d+", lambda _: rng.choice(["0", "-1", "7", "1e9", "99999999999"]), text, count=rng.randint(1, 3)
                )
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    if raw and rng.random() < 0.1:
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw)


def paths(data: Any, path: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of every part of `data`, except `data` itself."""
    children: Iterator[tuple[str | int, Any]] | enumerate[Any] = iter(())
    if isinstance(data, dict):
        children = iter(data.items())
    elif isinstance(data, list):
        children = enumerate(data)
    for key, value in children:
        yield (*path, key)
        yield from paths(value, (*path, key))


def mutate_data(data: Any, rng: random.Random) -> Any:
    """Return `data` with one to four parts replaced, removed, renamed or repeated."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        places = list(paths(data))
        if not places:
            break
        *parents, last = rng.choice(places)
        parent = data
        for part in parents:
            parent = parent[part]
        match rng.randrange(10):
            case 0:
                del parent[last]
            case 1 if isinstance(parent, dict):
                parent[rng.choice([str(rng.choice(places)[-1]), "x", ""])] = parent.pop(last)
            case 2 if isinstance(parent, list):
                parent.extend([copy.deepcopy(parent[int(last)])] * rng.randint(1, 50))
            case 3:
                parent[last] = copy.deepcopy(part_at(data, rng.choice(places)))
            case 4:
                parent[last] = copy.deepcopy(rng.choice(VALUES))
            case _:
                parent[last] = nearby(parent[last], rng)
    return data


def nearby(value: Any, rng: random.Random) -> Any:
    """Return a value that is probably valid in the place of `value`, so that later checks are
    reached.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([0, 1, 2, 3, 16, 64, 1000, value + 1, value - 1, value * 2, value / 2, -value])
    if isinstance(value, str):
        return re.sub(r"\d+", lambda _: rng.choice(["0", "1", "3", "16", "100", "65536"]), value, count=1)
    if isinstance(value, list):
        return rng.sample(value, rng.randint(0, len(value)))
    return value


def part_at(data: Any, path: Path_) -> Any:
    """Return the part of `data` at `path`, or `None` if the path no longer exists."""
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def check_file(path: Path) -> None:
    """Load a file as `hakaru run` does."""
    study = load(str(path)).study
    for quick in (False, True):
        expand(study, quick=quick)


def check_data(data: Any) -> None:
    """Run the checks behind the parser. Parsing takes nine tenths of the time, and mutations of the
    text cover it.
    """
    document = Document("study.yaml", data)
    study = validate(document, Study)
    if contradictions := problems(study):
        raise document.error(document.place_of(contradictions[0][0]), contradictions[0][1])
    for quick in (False, True):
        expand(study, quick=quick)


def finding_of(check: Callable[[], None]) -> str | None:
    """Run `check` on an input. Return the finding, or `None` if the input was handled correctly."""
    began = time.process_time()
    try:
        check()
    except UsageError as e:
        if not re.match(r"\S+(:\d+:\d+)?: ", e.message):
            return f"the error states no place: {e.message}"
    except Exception:
        return traceback.format_exc()
    used = time.process_time() - began
    return f"took {used:.2f} s of CPU" if used > CPU_S_MAX else None


def main(seconds: float, seed: int) -> int:
    """Check mutated studies for `seconds`, and return the exit code."""
    rng = random.Random(seed)
    sources = [path.read_bytes() for path in study_paths().values()]
    if not sources:
        print("error: no shipped studies were found to mutate", file=sys.stderr)
        return 3
    documents = [parse_document(source, "study.yaml").data for source in sources]
    # The first check also imports modules, which takes a second of its own. So the limit of CPU
    # applies to the inputs after it.
    for document in documents:
        check_data(document)
    until = time.monotonic() + seconds
    inputs = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        while time.monotonic() < until:
            inputs += 1
            index = rng.randrange(len(sources))
            if inputs % DATA_PER_TEXT:
                data = mutate_data(documents[index], rng)
                finding, content = finding_of(partial(check_data, data)), repr(data).encode()
            else:
                content = mutate_text(sources[index].decode(), rng)
                path.write_bytes(content)
                finding = finding_of(partial(check_file, path))
            if finding:
                ARTIFACTS.mkdir(parents=True, exist_ok=True)
                file = ARTIFACTS / f"finding-{seed}-{inputs}"
                file.write_bytes(content)
                print(
                    f"{finding}\nerror: finding after {inputs} inputs\nhint: see the input in {file}", file=sys.stderr
                )
                return 1
    print(f"study_files: {inputs} inputs in {seconds:g} s, no finding")
    return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(float(arguments[0]) if arguments else 30.0, int(arguments[1]) if len(arguments) > 1 else 1))
