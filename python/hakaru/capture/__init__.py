"""Captures of iSCSI traffic, whoever's equipment it is: `hakaru analyse`.

`analyse` has the engine read the files; `findings` puts what came out in sentences; `table` prints both.
"""

from hakaru.capture.analyse import analyse
from hakaru.capture.findings import findings
from hakaru.capture.table import lines

__all__ = ["analyse", "findings", "lines"]
