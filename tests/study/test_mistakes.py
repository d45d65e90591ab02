"""Mistakes of new users, each with the correction that the error message must contain.

The first ones are those of a user who wrote studies from the documentation alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hakaru import kind
from hakaru.errors import UsageError
from hakaru.study import load


def template(name: str) -> str:
    path = kind.named(name).template("en")
    assert path is not None
    return path.read_text()


VMS, COPY = template("vms"), template("copy")
LINK = "rate: 100 Mbit/s,"
PATTERN = "kind: closed, queue_depth: 8"
FACTORS = "factors:" + VMS.partition("factors:")[2].partition("measure:")[0]

MISTAKES = [
    # Quantities
    (VMS, "time: 2 s", "time: 500 ms", "should be at least 1 s (found '500 ms')"),
    (VMS, "time: 2 s", "time: 2", "`2 ms` or `2 s`"),
    (VMS, "time: 2 s", "time: 2 sec", "did you mean `2 s`?"),
    (VMS, "host_link: {rate: 1 Gbit/s}", "host_link: {rate: 1 Gbps}", "did you mean `1 Gbit/s`?"),
    (VMS, "host_link: {rate: 1 Gbit/s}", "host_link: {rate: 1000}", "`1000 Mbit/s`"),
    (VMS, "size: 8 KiB", "size: 8k", "did you mean `8 kB` or `8 KiB`?"),
    (VMS, "size: 8 KiB", "size: 8 KB", "did you mean `8 kB` or `8 KiB`?"),
    (VMS, "size: 8 KiB", "size: 8192", "`8192 B`"),
    (VMS, "image: 4 GiB", "image: -4 GiB", "cannot be negative"),
    (COPY, "queue: 120 KiB", "queue: 10 GB", "to 256 MiB"),
    (COPY, LINK, f"{LINK} delay: 5,", "`5 ms` or `5 s`"),
    # Parts with fields
    (COPY, LINK, f"{LINK} loss: 1%,", "{percent: 1}"),
    (COPY, LINK, f"{LINK} loss: 2 %,", "{percent: 2}"),
    (COPY, LINK, f"{LINK} jitter: 1 ms,", "{uniform: 1 ms}"),
    (COPY, LINK, f"{LINK} reorder: 1 %,", "{percent: 1, by: "),
    (COPY, "queue: 120 KiB", "queue: 120 KiB, red: true", "did you mean 'discipline'?"),
    (COPY, LINK, f"{LINK} rtt: 5 ms,", "did you mean 'delay'?"),
    (COPY, LINK, f"{LINK} bandwidth: 5 ms,", "did you mean 'rate'?"),
    (VMS, "time: 2 s", "time: 0", "should be at least 1 s (found 0)"),
    (VMS, FACTORS, "factors:\n", "the key has no value"),
    # Names
    (VMS, "metric: latency_ms_p99", "metric: p99", "did you mean 'latency_ms_p99'?"),
    (VMS, "metric: latency_ms_p99", "metric: latency", "did you mean 'latency_ms_p99'?"),
    (VMS, "kind: bound", "kind: limit", "did you mean 'limiter'?"),
    (VMS, "at_most: 500", "max: 500", "did you mean 'at_most'?"),
    (VMS, "name: jdsf-2011", "name: jdsf2011", "did you mean 'jdsf-2011'?"),
    (VMS, "  kind: vms", "  kind: vm", "did you mean 'vms'?"),
    (VMS, "load:\n", "laod:\n", "did you mean 'load'?"),
    (VMS, "measure:", "mesure:", "did you mean 'measure'?"),
    (VMS, "  hosts: 2", "  host: 2", "did you mean 'hosts'?"),
    (VMS, "repetitions: 3", "repeat: 3", "did you mean 'repetitions'?"),
    (VMS, PATTERN, "kind: closed, depth: 8", "did you mean 'queue_depth'?"),
    (VMS, PATTERN, "kind: closed, iodepth: 8", "did you mean 'queue_depth'?"),
    (VMS, PATTERN, "kind: open, rate: 100", "did you mean 'rate_per_s'?"),
    (VMS, PATTERN, "kind: close, queue_depth: 8", "did you mean 'closed'?"),
    (VMS, "origin: emulated", "origin: simulated", "did you mean 'emulated'?"),
    (VMS, "id: my-study", "id: My Study", "use lower-case letters, digits and hyphens"),
    (VMS, "target_name: iqn.2011-10.example.hakaru:array", "target_name: array", "`iqn.2026-01.example:array`"),
    (VMS, "array:\n  target", "arrays:\n  target", "or `array:` if there is only one"),
    (VMS, "title: My first study of VMs\n", "", "add `title:` here"),
    # Levels and places
    (VMS, "where: {vms: 1}", "where: {vms: 3}", "valid here: 1, 4, 8"),
    (VMS, "where: {vms: 1}", "where: {pattern: oltp, vms: 1}", "did you mean 'oltp-8k'?"),
    (VMS, "pattern: [oltp-8k]", "pattern: [oltp]", "did you mean 'oltp-8k'?"),
    (VMS, "vms: [1, 4, 8]", "vm: [1, 4, 8]", "did you mean 'vms'?"),
    (VMS, "vms: [1, 4, 8]", "vms: [1, 4, 80]", "there is room for 16"),
    (VMS, "vms: [1, 4, 8]", "vms: [1, 4, 4]", "leave one out"),
    (VMS, "columns: [[0]]", "columns: [[1]]", "its LUs are [0]"),
    (COPY, "between: [kvm, core]", "between: [kvm, cor]", "the lab has kvm, primary, backup, core"),
    # Forms of values
    (VMS, "vms: [1, 4, 8]", "vms: 1-8", "`[1, 2, …, 8]`"),
    (VMS, "vms: [1, 4, 8]", "vms: 4", "`[4]`"),
    (VMS, "columns: [[0]]", "columns: [0]", "`[0]`"),
    (COPY, "between: [kvm, core]", "between: kvm-core", "`[kvm, core]`"),
    (VMS, "at_most: 500", "at_most: 500 ms", "write the number without a unit: `500`"),
    (VMS, "read_percent: 70", "read_percent: 70 %", "write the number without a unit: `70`"),
    (VMS, "read_percent: 70", "read_percent: 0.7", "write percent: `70`"),
    (VMS, "read_percent: 70", "read_percent: 170", "should be at most 100"),
    (VMS, "hosts: 2", "hosts: two", "should be a whole number or a list"),
    (VMS, "repetitions: 3", "repetitions: 0", "should be at least 1"),
    (VMS, "repetitions: 3", "repetitions: .nan", "repetitions"),
    (VMS, "repetitions: 3", "repetitions: .inf", "repetitions"),
    (VMS, "size: 64 GiB", "size: 64 GiB, store: file", "'memory'"),
    # YAML
    (VMS, "  hosts: 2\n", "  hosts: 2\n  hosts: 3\n", "it is first on line "),
    (VMS, "  hosts: 2\n", "\thosts: 2\n", "indent with spaces, not with tabs"),
]

DIALECT_OF_THE_PARSER = ("Spec", "dictionary", "tuple", "pydantic", "unable to parse", "input tag", "pattern '^")


@pytest.mark.parametrize(
    ("study", "right", "wrong", "correction"), MISTAKES, ids=[wrong for _, _, wrong, _ in MISTAKES]
)
def test_message_contains_the_correction(study: str, right: str, wrong: str, correction: str, tmp_path: Path) -> None:
    assert study.count(right) >= 1
    path = tmp_path / "study.yaml"
    path.write_text(study.replace(right, wrong, 1))
    with pytest.raises(UsageError) as error:
        load(str(path))
    message, hint = error.value.message, error.value.hint
    assert correction in f"{message}\n{hint}", f"{message}\n{hint}"
    # The place is that of the mistake, and one mistake is one message, in the words of the user.
    assert len(message.splitlines()) == 1, message
    assert message.startswith(f"{path}:")
    assert not [word for word in DIALECT_OF_THE_PARSER if word in message + hint]
    assert "hakaru schema" not in hint


def test_the_templates_themselves_are_valid(tmp_path: Path) -> None:
    for text in (VMS, COPY):
        path = tmp_path / "study.yaml"
        path.write_text(text)
        load(str(path))
