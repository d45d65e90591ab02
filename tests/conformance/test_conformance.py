"""All tests of `iscsi-test-cu`, and the reading of its verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.configurations import our_array, run_all
from tests.conformance.suites import Kind, Verdict, read_verdicts
from tests.conformance.table import merge, render

PRINTED = """

Suite: Sample
  Test: Plain ...passed
  Test: Talks ...    [FAILED] a line about a unit attention that was expected
passed
  Test: Skips ...    [SKIPPED] LUN is not removable. Skipping test.
passed
  Test: Fails ...    [FAILED] READ10 successful but should have failed
FAILED
    1. test_sample.c:44  - CU_ASSERT_EQUAL(ret,0)

Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      4      4      3      1        0
             asserts     17     17     16      1      n/a
"""


def test_skip_is_distinguished_from_a_pass() -> None:
    verdicts = read_verdicts(PRINTED)
    assert {name: verdict.kind for name, verdict in verdicts.items()} == {
        "Plain": Kind.PASSED,
        "Talks": Kind.PASSED,
        "Skips": Kind.SKIPPED,
        "Fails": Kind.FAILED,
    }
    assert verdicts["Skips"].why == "LUN is not removable. Skipping test."
    assert "test_sample.c:44" in verdicts["Fails"].why


def test_count_that_differs_from_the_programs_own_is_an_error() -> None:
    with pytest.raises(AssertionError, match="CUnit counts 2"):
        read_verdicts(PRINTED.replace("3      1        0", "2      2        0"))


def test_one_failure_outweighs_every_pass_and_one_pass_every_skip() -> None:
    passed, skipped, failed = Verdict(Kind.PASSED), Verdict(Kind.SKIPPED, "s"), Verdict(Kind.FAILED, "f")
    assert merge({"a": skipped, "b": passed}).kind is Kind.PASSED
    assert merge({"a": passed, "b": failed}) == Verdict(Kind.FAILED, "b: f")
    assert merge({"a": skipped}) == Verdict(Kind.SKIPPED, "a: s")
    assert merge({}).kind is Kind.FAILED
    assert not render({("S", "t"): {"a": skipped}})[1]
    assert render({("S", "t"): {"a": skipped, "b": passed}})[1]


def test_the_array_passes_every_test_of_iscsi_test_cu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, complete = render(run_all(our_array, tmp_path))
    with capsys.disabled():
        print(f"\n{table}")
    assert complete, table
