"""Published numbers in study files: every inconsistency is refused with its place and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru.errors import UsageError
from hakaru.study import load, model, study_paths
from hakaru.study.references import TableReference
from hakaru.study.tables import cells_of

from tests.study.copying import COPYING, PUBLISHED
from tests.study.shipped import shipped

TABLE = "  - kind: table\n"
SINGLE = """\
  - kind: KIND
    publication: paper
    id: one
    name: {en: One, ja: 一}
    metric: mib_per_s
"""


def loaded(folder: Path, text: str, table: str = PUBLISHED) -> None:
    (folder / "study.yaml").write_text(text)
    (folder / "published.csv").write_text(table)
    load(str(folder / "study.yaml"))


def with_row(kind: str, fields: str, text: str = COPYING) -> str:
    """Return the study with a further reference of a kind."""
    row = SINGLE.replace("KIND", kind) + "".join(f"    {line}\n" for line in fields.splitlines())
    return text.replace("reference:\n", f"reference:\n{row}", 1)


def refused(folder: Path, text: str, message: str, hint: str, table: str = PUBLISHED) -> None:
    with pytest.raises(UsageError) as e:
        loaded(folder, text, table)
    assert message in e.value.message, e.value.message
    assert hint in e.value.hint, e.value.hint
    place = e.value.message.removeprefix(str(folder / "study.yaml")).split(":")
    assert place[1].isdigit() and place[2].isdigit()


def test_rows_of_a_table_can_be_selected(tmp_path: Path) -> None:
    loaded(tmp_path, COPYING.replace("combine: sum", "select: {vm: vm2_1}"))
    study = load(str(tmp_path / "study.yaml"))
    (reference,) = study.study.reference
    assert isinstance(reference, TableReference)
    assert cells_of(reference, study.tables["published"], "mb_per_s") == [("plain", [5.31]), ("fast", [16.56])]


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("publication: paper", "publication: papr", "reference[0].publication: no publication 'papr'", "'paper'"),
        ("    publication: paper\n", "", "publication: missing", "add `publication:` here"),
        ("kind: table", "kind: tabel", "there is no 'tabel' here", "did you mean 'table'?"),
        ("where: {buffer: null}", "where: {}", "5 points with case fast match; exactly one is needed", "`null`"),
        ("where: {buffer: null}", "where: {bufer: null}", "reference[0].where.bufer: no factor 'bufer'", "'buffer'"),
        ("levels: {plain: 1,", "levels: {plan: 1,", "reference[0].levels.plan: no point has case plan", "'plain'"),
        ("levels: {plain: 1,", "levels: {plain: 3,", "levels.plain: published has no pattern 3", "published has 1"),
        ("    combine: sum\n", "", "published has 2 rows for case plain", "combine: sum"),
        ("metrics: {mib_per_s: mb_per_s}", "metrics: {mib_per_s: mb_per_s, path_percent: mb_per_s}",
         "reference[0] already compares mb_per_s at plain", "keep one"),
        ("combine: sum", "select: {vn: vm2_1}", "published has no column 'vn'", "its columns are"),
        ("combine: sum", "select: {vm: vm2_2}", "levels.fast: published has no pattern 2", "published has 1"),
        ("combine: sum", "combine: sum\n    calibrated: {mib_per_s: [checked]}",
         "calibrated.mib_per_s[0]: no row of the scorecard has case checked", "the rows have plain, fast"),
        ("combine: sum", "combine: sum\n    calibrated: {path_percent: all}",
         "calibrated.path_percent: 'path_percent' is not one of the table's `metrics`", "mib_per_s"),
        ("combine: sum", "combine: sum\n    by_definition: [mb_per_sec]", "by_definition[0]: 'mb_per_sec'",
         "mib_per_s"),
        ("combine: sum", "combine: sum\n    by_definition: [mib_per_s]\n    calibrated: {mib_per_s: all}",
         "is also listed under `by_definition`", "one of the two"),
    ],
)  # fmt: skip
def test_inconsistent_table_is_refused(tmp_path: Path, old: str, new: str, message: str, hint: str) -> None:
    assert COPYING.count(old) == 1, old
    refused(tmp_path, COPYING.replace(old, new), message, hint)


@pytest.mark.parametrize(
    ("kind", "fields", "message", "hint"),
    [
        ("value", "where: {case: fast}\npublished: 1", "5 points match; exactly one is needed", "`null` selects"),
        ("value", "where: {case: slow}\npublished: 1", "where.case: no point has case slow", "valid here"),
        ("value", "published: many", "published: should be a number (found 'many')", ""),
        ("ratio", "of: {case: plain}\nto: {case: fast}\npublished: 1", "reference[0].to: 5 points match", "`null`"),
        ("ratio", "of: {case: plain}\nto: {case: checked}\npublished: 0", "should be more than 0", ""),
        (
            "difference",
            "of: {case: plain}\nto: {case: fast}\npublished: -1",
            "reference[0].to: 5 points match",
            "`null`",
        ),
        ("peak", "over: streams\npublished: 1", "points with streams 1 match", "`null` selects"),
        ("peak", "over: stream\npublished: 1", "reference[0].over: no factor 'stream'", "'streams'"),
        ("extreme", "which: best\npublished: 1", "which: input should be 'highest' or 'lowest'", ""),
        ("reaches", "over: case\nwhere: {buffer: null}\nat_least: 1\npublished: 1", "is not a number", "numeric"),
        ("ranking", "over: case\nwhere: {buffer: null}\npublished: [plain, fst]", "no point has case fst", "'fast'"),
        ("ranking", "over: case\nwhere: {buffer: null}\npublished: [plain, plain]", "plain is given twice", ""),
        ("value", "where: {case: plain}\npublished: 1\nlevel: 2", "reference[0].level: unknown field", ""),
    ],
)
def test_inconsistent_single_number_is_refused(tmp_path: Path, kind: str, fields: str, message: str, hint: str) -> None:
    refused(tmp_path, with_row(kind, fields), message, hint)


def test_id_of_a_row_is_unique(tmp_path: Path) -> None:
    once = with_row("value", "where: {case: plain}\npublished: 1")
    twice = with_row("value", "where: {case: checked}\npublished: 1", once)
    refused(tmp_path, twice, "reference[1].id: reference[0] has the same id", "another id")


@pytest.mark.parametrize(
    ("expect", "message", "hint"),
    [
        ("{kind: reference, id: none-such, percent: 5}", "expect[0].id: no row 'none-such'", "under `reference`"),
        ("{kind: reference, table: publised, metric: mib_per_s, percent: 5}", "no reference 'publised'", "'published'"),
        ("{kind: reference, table: published, metric: mib_per, percent: 5}", "no metric 'mib_per'", "did you mean"),
        ("{kind: reference, table: published, metric: timeouts, percent: 5}",
         "published is not compared with 'timeouts'", "it has mib_per_s"),
        ("{kind: reference, table: published, metric: mib_per_s, where: {streams: 1}, percent: 5}",
         "expect[0].where: no row of published has these levels", "its rows have case, buffer null"),
        ("{kind: reference, table: published, percent: 5}", "give `table` and `metric`, or the `id` of a row", ""),
        ("{kind: reference, id: one, metric: mib_per_s, percent: 5}", "give either `id`, or `table` and `metric`", ""),
    ],
)  # fmt: skip
def test_expectation_names_rows_that_exist(tmp_path: Path, expect: str, message: str, hint: str) -> None:
    refused(tmp_path, COPYING.replace("expect:\n", f"expect:\n  - {expect}\n"), message, hint)


def test_every_kind_of_single_number_is_accepted(tmp_path: Path) -> None:
    text = COPYING
    rows = {
        "value": "where: {case: plain}\npublished: 1",
        "ratio": "of: {case: plain}\nto: {case: checked}\npublished: 2\ncalibrated: true",
        "difference": "of: {case: plain}\nto: {case: checked}\npublished: -2",
        "peak": "over: buffer\nwhere: {streams: 1}\npublished: 64 KiB",
        "extreme": "which: lowest\npublished: 0\nby_definition: true",
        "reaches": "over: streams\nwhere: {buffer: 64 KiB}\nat_least: 3\npublished: 2",
        "ranking": "over: case\nwhere: {buffer: null}\npublished: [fast, plain]\nnote: Why.",
    }
    for kind, fields in rows.items():
        text = with_row(kind, fields, text).replace("id: one", f"id: {kind}")
    loaded(tmp_path, text)


@pytest.mark.parametrize("name", sorted(study_paths()))
def test_shipped_study_cites_what_it_compares_with(name: str) -> None:
    study = shipped(name).study
    assert {r.publication for r in study.reference} == set(study.publications)
    assert all(isinstance(r, TableReference) or r.name.en != r.name.ja for r in study.reference)


def test_every_field_of_a_study_either_is_measured_or_judges_or_sets_the_scope() -> None:
    parts = [*model.MEASURED_PARTS, *model.JUDGING_PARTS, *model.SCOPE_PARTS]
    assert sorted(parts) == sorted(model.Study.model_fields)


SWEEP = "metric: mib_per_s, over: streams"


@pytest.mark.parametrize(
    ("expect", "message", "hint"),
    [
        (
            "{kind: peak, metric: mib_per_s, over: case, low: 1, high: 2}",
            "expect[0].over: the level plain of case is not a number",
            "levels are numbers",
        ),
        (
            f"{{kind: peak, {SWEEP}, low: 1, high: 2}}",
            "expect[0].where: 2 points with streams 1 match; exactly one is needed",
            "distinguishes",
        ),
        (
            f"{{kind: below_peak, {SWEEP}, at: 2, low_percent: 0, high_percent: 9}}",
            "expect[0].where: 2 points with streams 1 match; exactly one is needed",
            "distinguishes",
        ),
        (
            f"{{kind: peak, {SWEEP}, low: 1, high: 2, where: {{buffer: null}}}}",
            "expect[0].where: no point with a level of streams matches",
            "hakaru plan",
        ),
        (
            f"{{kind: peak, {SWEEP}, low: 1, high: 2, where: {{buffer: 64 KiB, streams: 1}}}}",
            "expect[0].where: only one level of streams matches",
            "out of `where`",
        ),
        (
            f"{{kind: peak, {SWEEP}, low: 5, high: 8, where: {{buffer: 64 KiB}}}}",
            "expect[0].low: no point has streams from 5 to 8",
            "have the levels 1, 2",
        ),
        (
            f"{{kind: below_peak, {SWEEP}, at: 4, low_percent: 0, high_percent: 9, where: {{buffer: 64 KiB}}}}",
            "expect[0].at: no point has streams 4",
            "have the levels 1, 2",
        ),
    ],
)
def test_expectation_of_a_peak_needs_one_sweep(tmp_path: Path, expect: str, message: str, hint: str) -> None:
    text = COPYING.replace("measure:", "  - {case: [plain], buffer: [128 KiB], streams: [4]}\nmeasure:", 1)
    refused(tmp_path, text.replace("expect:\n", f"expect:\n  - {expect}\n"), message, hint)


def test_expectation_of_a_peak_may_be_about_any_numeric_factor(tmp_path: Path) -> None:
    expect = f"{{kind: peak, {SWEEP}, low: 2, high: 2, where: {{case: fast, buffer: 64 KiB}}}}"
    loaded(tmp_path, COPYING.replace("expect:\n", f"expect:\n  - {expect}\n"))
