"""The conditions of a run as tables: its lab, the checks of its links, and its machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hakaru.report import calibrated, environment, lab_variants, link_checks
from hakaru.report.blocks import Column, Row, Table
from hakaru.report.lab import describe_lab
from hakaru.study import Study
from hakaru.wording import say

Json = dict[str, Any]
Clean = Callable[[object], str]


def of_lab(lab: Json, study: Study, summary: Json, clean: Clean, language: str) -> Json:
    """The drawing of the lab, and tables about it: `tables`, `baselines`, `checks`."""
    described = describe_lab(lab, clean, language)
    factors = {point["point"]: point["factors"] for point in summary["points"]}
    return {
        "drawing": described["drawing"],
        "tables": list(_tables(described, study, clean, language)),
        "baselines": list(_baselines(described, language)),
        "checks": [_checks(group, language) for group in link_checks.groups(summary["links"], factors, language)],
    }


def of_machine(run: Json, machine: Json, language: str) -> Table:
    """The run, its versions and the machine."""
    return _pairs(say(language, "environment.caption"), environment.rows(run, machine, language))


def _tables(described: Json, study: Study, clean: Clean, language: str) -> Iterator[Table]:
    variants = [(clean(name), clean(changes)) for name, changes in lab_variants.rows(study, language)]
    if described["drawing"] and variants:
        yield _pairs(say(language, "lab.variants"), variants)
    vlan = ["VLAN"] if described["vlans"] else []
    if described["links"]:
        ends = [say(language, f"lab.{name}") for name in ("link", "node", "other_end", "address")]
        yield _text(say(language, "lab.caption"), [*ends, *vlan, say(language, "lab.rate")], described["links"])
    if described["vlans"]:
        names = [say(language, f"lab.{name}") for name in ("vlan.name", "subnet", "router")]
        yield _text(say(language, "lab.vlans"), ["VLAN", *names], described["vlans"])
    if about := described["about"]:
        chosen = calibrated.rows(study, described["is_site"], language)
        about = [*about, *((clean(name), clean(value)) for name, value in chosen)]
        yield _pairs(say(language, "lab.site" if described["is_site"] else "lab.backend"), about)
    for tcp in described["tcp"]:
        settings = [("lab.tcp.control", "control"), ("lab.tcp.set", "settings"), ("lab.tcp.remains", "remains")]
        rows = [(say(language, name), tcp[key]) for name, key in settings if tcp[key]]
        yield _pairs(say(language, "lab.tcp", {"stack": tcp["stack"]}), rows)


def _baselines(described: Json, language: str) -> Iterator[Table]:
    names = ("path", "tool", "forward", "again_segments", "back", "again_segments")
    if described["baselines"]:
        titles = [say(language, f"table.{name}") for name in names]
        yield _text(say(language, "lab.baselines"), titles, described["baselines"])


def _checks(group: Json, language: str) -> Table:
    titles = [say(language, f"table.{name}") for name in ("path", "asked", "measured", "reverse", "rtt")]
    rows = [[row[name] for name in ("path", "asked", "measured", "reverse", "rtt")] for row in group["rows"]]
    states = ["lossy" if row["off"] else "" for row in group["rows"]]
    return _text(group["heading"] or say(language, "links.caption"), titles, rows, states)


def _pairs(caption: str, rows: Sequence[tuple[str, str]]) -> Table:
    return Table(caption, [], [Row([name, value]) for name, value in rows], "pairs")


def _text(caption: str, titles: Sequence[str], rows: Sequence[Sequence[str]], states: Sequence[str] = ()) -> Table:
    """A table of words, whose first column names the rows."""
    columns = [Column(title, "words", header=i == 0) for i, title in enumerate(titles)]
    lines = [Row(row, state) for row, state in zip(rows, states or [""] * len(rows), strict=True)]
    return Table(caption, columns, lines, "text")
