"""Runs one suite of `iscsi-test-cu` and reads every test's verdict from its output."""

from __future__ import annotations

import enum
import re
import subprocess
from dataclasses import dataclass

from tests.peers.array import need

SUITE_TIMEOUT_S = 240


class Kind(enum.Enum):
    """Outcome of a test, from best to worst."""

    PASSED = "passed"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """Outcome of a test, with the reason if it did not pass."""

    kind: Kind
    why: str = ""


def list_tests() -> dict[str, list[str]]:
    """Return the names of all tests by suite, in the program's order. The program's other families
    are selections of these.
    """
    output = subprocess.run([_program(), "--list"], capture_output=True, text=True, check=True).stdout
    tests: dict[str, list[str]] = {}
    for line in output.split():
        match line.split("."):
            case ["ALL", suite]:
                tests[suite] = []
            case ["ALL", suite, test]:
                tests[suite].append(test)
    return tests


def run_suite(selection: str, tests: list[str], urls: list[str]) -> dict[str, Verdict]:
    """Run a selection; return verdicts by test name. `selection`: a suite, or one of its tests
    (`Suite.Test`). `tests`: names of the selected tests.

    Destroys the data on the LU. A second URL is another path to it.
    """
    command = [_program(), "--dataloss", "--allow-sanitize", "--verbose", f"--test=ALL.{selection}", *urls]
    try:
        # The order of stderr relative to stdout is not defined.
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=SUITE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(tests, Verdict(Kind.FAILED, f"{selection} did not end within {SUITE_TIMEOUT_S} s"))
    verdicts = read_verdicts(done.stdout)
    unknown = Verdict(Kind.FAILED, f"the suite ended without a verdict (exit status {done.returncode})")
    return {test: verdicts.get(test, unknown) for test in tests}


def read_verdicts(printed: str) -> dict[str, Verdict]:
    """Return verdicts by test name. Raises AssertionError if CUnit's count of failures differs."""
    tests, _, summary = printed.partition("Run Summary")
    parts = re.split(r"^  Test: (\S+) \.\.\.", tests, flags=re.M)
    verdicts = {name: _verdict(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}
    counted = re.search(r"^\s*tests\s+\d+\s+\d+\s+\d+\s+(\d+)", summary, flags=re.M)
    if counted is not None:
        failed = sum(verdict.kind is Kind.FAILED for verdict in verdicts.values())
        assert failed == int(counted[1]), f"CUnit counts {counted[1]} failures, here are {failed}:\n{printed}"
    return verdicts


def _verdict(body: str) -> Verdict:
    # CUnit prints its verdict at the start of a line, or directly after the test's name.
    word = re.search(r"(?:\A|^)\s*(passed|FAILED)", body, flags=re.M)
    skipped = re.findall(r"\[SKIPPED\]\s*(.*)", body)
    failed = re.findall(r"\[FAILED\]\s*(.*)", body)
    if word is None or word[1] == "FAILED":
        asserted = re.findall(r"^\s+1\. (.*)", body, flags=re.M)
        return Verdict(Kind.FAILED, " | ".join([*failed[:1], *asserted]) or "the test ended without a verdict")
    return Verdict(Kind.SKIPPED, skipped[0]) if skipped else Verdict(Kind.PASSED)


def _program() -> str:
    return need("iscsi-test-cu", "libiscsi-bin")
