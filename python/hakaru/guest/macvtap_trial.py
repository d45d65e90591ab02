"""A program that creates a macvtap in namespaces of its own.

Run as `python -m hakaru.guest.macvtap_trial`. It is a separate process, because it changes its
namespaces. Exit status 0: the kernel has macvtap. Otherwise one line on stdout names the obstacle.
"""

from __future__ import annotations

import os
import sys

from pyroute2 import IPRoute, NetlinkError

from hakaru.system_calls import CLONE_NEWNET, CLONE_NEWUSER, unshare


def main() -> int:
    """Try, and return the exit status."""
    try:
        unshare(CLONE_NEWNET | (CLONE_NEWUSER if os.geteuid() else 0))
    except OSError as error:
        print(f"no namespace can be made to try macvtap: {error.strerror}")
        return 1
    with IPRoute() as links:
        try:
            links.link("add", ifname="under", kind="veth", peer="other")
            (under,) = links.link_lookup(ifname="under")
            links.link("add", ifname="over", kind="macvtap", link=under)
        except NetlinkError as error:
            print(f"the kernel cannot create a macvtap: {os.strerror(error.code)}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
