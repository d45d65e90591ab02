"""`python -m tests.conformance [--peer tgt]`: the table on stdout; exit status 1 if a test was
skipped or failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.conformance.configurations import our_array, run_all, tgt_array
from tests.conformance.table import render


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("--peer", choices=["tgt"], help="another maker's target instead of the array")
    server = tgt_array if parser.parse_args().peer == "tgt" else our_array
    with tempfile.TemporaryDirectory() as folder:
        table, complete = render(run_all(server, Path(folder)))
    print(table)
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
