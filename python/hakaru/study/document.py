"""A YAML document as plain data, with the place of each part in the file.

The text is untrusted: nothing in it is executed, and nothing outside it is read. Before any value
is built, the nodes of the event stream are counted, so that a file of a few lines cannot grow into
gigabytes (aliases of aliases) or exhaust the stack. Called by `hakaru.study.load` for studies,
`hakaru.run.site_file` for sites, `hakaru.array.load` for arrays. Independent of the meaning of the
data.

Refused, each with `file:line:column`: more than 1 MiB, nesting deeper than 32, more than 20 000
nodes (an alias counts as the nodes that it refers to), tags (`!x`), duplicate keys, keys that are
not text, several documents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, Event, NodeEvent, ScalarEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.resolver import Resolver

from hakaru.errors import UsageError

SIZE_MAX = 1 << 20
DEPTH_MAX = 32
NODES_MAX = 20_000

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """A place in the file: 1-based line and column."""

    line: int
    column: int


@dataclass
class Document:
    """Plain data (dict, list, str, int, float, bool, None) and the places of its parts."""

    name: str
    data: Any
    values: dict[Path_, Place] = field(default_factory=dict)
    keys: dict[Path_, Place] = field(default_factory=dict)

    def error(self, place: Place, message: str, hint: str = "") -> UsageError:
        """Return a UsageError with a place in the file."""
        return UsageError(f"{self.name}:{place.line}:{place.column}: {message}", hint)

    def place_of(self, path: Path_, *, key: bool = False) -> Place:
        """Place of the value (or the key) at `path`, else of the nearest part that encloses it."""
        if key and path in self.keys:
            return self.keys[path]
        while path not in self.values and path:
            path = path[:-1]
        return self.values.get(path, Place(1, 1))


def read_document(path: Path, name: str | None = None) -> Document:
    """Read `path`. Every error is a `UsageError` that begins with `name` (default: the path) and a
    place.
    """
    name = name or str(path)
    try:
        with path.open("rb") as file:
            raw = file.read(SIZE_MAX + 1)
    except OSError as e:
        raise UsageError(f"{name}: {e.strerror or e}", "check the path and the permissions of the file") from e
    return parse_document(raw, name)


def parse_document(raw: bytes, name: str) -> Document:
    """Parse the YAML 1.2 document in `raw`. Raises UsageError."""
    document = Document(name, None)
    if len(raw) > SIZE_MAX:
        raise document.error(
            Place(1, 1), f"the file is larger than {SIZE_MAX >> 10} KiB", "it is meant to be a small text file"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        before = raw[: e.start]
        place = Place(before.count(b"\n") + 1, e.start - before.rfind(b"\n"))
        raise document.error(place, "the file is not UTF-8 text", "save it as UTF-8") from e
    try:
        root = _composed(_counted(document, text))
        if root is None:
            raise document.error(Place(1, 1), "the file is empty", "`hakaru schema` prints the valid fields and values")
        document.data = _build(document, root, ())
    except MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
        message = " ".join(str(p) for p in (e.context, e.problem) if p)
        hint = "indent with spaces, not with tabs" if r"'\t'" in message else "see https://yaml.org/spec/1.2.2/"
        raise document.error(place, f"not valid YAML: {message}", hint) from e
    except YAMLError as e:  # characters that YAML forbids carry an offset instead of a mark
        offset = min(getattr(e, "position", 0), len(text))
        before_text = text[:offset]
        place = Place(before_text.count("\n") + 1, offset - before_text.rfind("\n"))
        raise document.error(place, f"not valid YAML: {getattr(e, 'reason', e)}") from e
    return document


class _Events:
    """Takes the place of a parser for events that are known. Parsing is most of the work, so it is
    done once.
    """

    def __init__(self, events: list[Event]) -> None:
        self._events, self._next = events, 0

    def check_event(self, *kinds: type[Event]) -> bool:
        return isinstance(self._events[self._next], kinds)

    def peek_event(self) -> Event:
        return self._events[self._next]

    def get_event(self) -> Event:
        self._next += 1
        return self._events[self._next - 1]


def _composed(events: list[Event]) -> Node | None:
    """Return the root of the nodes of a document; None for an empty one."""
    loader = SimpleNamespace(_parser=_Events(events), _resolver=Resolver(), _composer=None, max_depth=None)
    root: Node | None = Composer(loader).get_single_node()
    return root


def _counted(document: Document, text: str) -> list[Event]:
    """Return the events of a text. Refuses excessive depth, excessive size and tags, in events of
    which an alias is still a single one.
    """
    events: list[Event] = []
    size_of: dict[str, int] = {}  # nodes that an anchor refers to; absent while it is still open
    open_: list[tuple[str | None, int]] = []  # anchor of each open collection, nodes seen before it
    total = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        events.append(event)
        place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, AliasEvent):
            if event.anchor not in size_of:
                raise document.error(
                    place, f"alias *{event.anchor} has no anchor before it", "put the anchor before its aliases"
                )
            total += size_of[event.anchor]
        elif isinstance(event, NodeEvent):
            tag = getattr(event, "tag", None)
            if tag is not None:
                raise document.error(place, f"tags are not allowed ({tag})", "leave the tag out")
            total += 1
            if isinstance(event, CollectionStartEvent):
                open_.append((event.anchor, total - 1))
            elif isinstance(event, ScalarEvent) and event.anchor:
                size_of[event.anchor] = 1
        elif isinstance(event, CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                size_of[anchor] = total - before
        if len(open_) > DEPTH_MAX:
            raise document.error(place, f"nested deeper than {DEPTH_MAX}", "flatten it")
        if total > NODES_MAX:
            raise document.error(place, f"more than {NODES_MAX} values, including those that aliases refer to")
    return events


def _build(document: Document, node: Node, path: Path_) -> Any:
    document.values[path] = Place(node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, ScalarNode):
        return _scalar(document, node, path)
    if isinstance(node, SequenceNode):
        return [_build(document, item, (*path, i)) for i, item in enumerate(node.value)]
    assert isinstance(node, MappingNode)
    data: dict[str, Any] = {}
    for key_node, value_node in node.value:
        place = Place(key_node.start_mark.line + 1, key_node.start_mark.column + 1)
        if not isinstance(key_node, ScalarNode):
            raise document.error(place, "a key must be text")
        key = key_node.value
        if key in data:
            first = document.keys[(*path, key)]
            hint = f"it is first on line {first.line}; keep one"
            raise document.error(place, f"{dotted((*path, key))}: duplicate key", hint)
        document.keys[(*path, key)] = place
        data[key] = _build(document, value_node, (*path, key))
    return data


def _scalar(document: Document, node: ScalarNode, path: Path_) -> Any:
    """Convert a scalar by its tag in YAML 1.2's core schema. Other scalars (dates) stay text."""
    kind = (node.tag or "").rpartition(":")[2]
    text: str = node.value
    try:
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind == "int" and "_" not in text and ":" not in text:
            return int(text, 0) if text.lstrip("+-")[:2] in ("0x", "0o") else int(text)
        if kind == "float" and "_" not in text and ":" not in text:
            return _float(text)
    except ValueError as e:  # more digits than Python converts, or a resolver wider than the core schema
        raise document.error(document.values[path], f"{dotted(path)}: not a number: {text[:40]}") from e
    return text


def _float(text: str) -> float:
    low = text.lower()
    if low in (".nan",):
        return math.nan
    if low.endswith(".inf"):
        return -math.inf if low.startswith("-") else math.inf
    return float(text)


def dotted(path: Path_) -> str:
    """`('vms', 0, 'size')` as `vms[0].size`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text or "the file"
