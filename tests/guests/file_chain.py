"""Program of the tests: `hakaru` with a chain whose qcow2 image is damaged while it is in use. Its
arguments are those of `hakaru`.
"""

from __future__ import annotations

import sys

from hakaru.cli import main
from hakaru.fileserver.chain import IMAGE_PATH, Chain

# The first cluster is the header. The tables of references and of clusters follow it.
DAMAGE = f"dd if=/dev/zero of={IMAGE_PATH} bs=64k seek=1 count=2 conv=notrunc,fsync 2>/dev/null"

_check = Chain.check


async def damage_and_check(chain: Chain) -> str:
    """Overwrite tables of a qcow2 image, then check as before."""
    if chain.spec.disk.format == "qcow2":
        await chain.guest.run(DAMAGE)
    return await _check(chain)


if __name__ == "__main__":
    Chain.check = damage_and_check  # type: ignore[method-assign]
    sys.exit(main())
