"""Conformance of the array with SCSI and iSCSI by `iscsi-test-cu` (libiscsi), as a table by suite.

CUnit counts a skipped test as passed. These tests read the output of every test and count a skip as
a skip.

`configurations` selects the suites for each configuration, `suites` runs one suite and reads its
verdicts, `table` merges and prints them. `python -m tests.conformance` prints the table of the
array, with `--peer tgt` that of tgt.
"""
