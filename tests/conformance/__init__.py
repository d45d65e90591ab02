"""How much of SCSI and iSCSI the array speaks as `iscsi-test-cu` (libiscsi) wants it: a table,
suite by suite.

CUnit counts a skipped test as passed. Here every test's own lines are read, and a skip is a skip.

`configurations` says what is run on what, `suites` runs one suite and reads its verdicts, `table`
merges and prints. `python -m tests.conformance` prints the table of the array, with `--peer tgt`
that of tgt.
"""
