"""Analysis of iSCSI captures of any equipment: `hakaru analyse`.

`analyse` has the engine read the files, `findings` turns the result into sentences, `table` prints
it, and `csv` writes it as rows. Sentences and column titles are in both languages, from the
catalogues.
"""

from hakaru.capture.analyse import analyse
from hakaru.capture.csv import csv_rows
from hakaru.capture.findings import findings
from hakaru.capture.table import print_analysis

__all__ = ["analyse", "csv_rows", "findings", "print_analysis"]
