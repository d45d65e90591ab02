"""`multipath:` of a study of VMs: use of several paths by every VM. Pure.

    load:
      paths_per_vm: 2
      multipath: {policy: least_queue_depth, nop_interval: 5 s, nop_timeout: 5 s, recovery: 5 s}

A path that becomes silent is lost after `nop_interval` and `nop_timeout`; after `recovery`, its
commands are repeated on other paths. Defaults are those of the engine, which a test checks; its
timers are those of open-iscsi and of dm-multipath on top of it. With the kernel of a guest as
initiator, dm-multipath joins the paths (`kernel`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from hakaru.engine import contract
from hakaru.guest.multipath import Manager
from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration

SHORTEST_NS, LONGEST_NS = SECOND_NS // 20, 3600 * SECOND_NS


def _timer(default_s: float, least_ns: int, description: str) -> Any:
    return Field(default=int(default_s * SECOND_NS), ge=least_ns, le=LONGEST_NS, description=description)


class Multipath(Part):
    """Choice of a path for each command, and timers of the paths."""

    policy: Literal["round_robin", "least_queue_depth", "failover"] = Field(
        default="round_robin",
        description="choice among the usable paths, those to optimized ports first: in turn, the one with the fewest "
        "outstanding commands, or the first one",
    )
    manager: Manager = Field(
        default="table",
        description="with `initiator: kernel`, what joins the paths in the guest. `table`: a table of the device "
        "mapper, and a script that puts returned paths back to use. `multipathd`: multipath-tools with priorities by "
        "ALUA, which need `image: generic` in `lab.load_guest`",
    )
    nop_interval: Duration = _timer(5, SHORTEST_NS, "time without an answer after which the target is pinged")
    nop_timeout: Duration = _timer(
        5, SHORTEST_NS, "time limit of a ping, after which the path is lost unless other data arrived"
    )
    recovery: Duration = _timer(
        5, 0, "time for which the commands of a lost path wait for it before they are repeated on others"
    )
    login_timeout: Duration = _timer(5, SHORTEST_NS, "time limit of a connection attempt and of a login")
    retry: Duration = _timer(1, SHORTEST_NS, "interval between attempts to log in again over a lost path")
    check: Duration = _timer(5, SHORTEST_NS, "interval between checks of the ports' access states (ALUA)")
    failback: Duration = _timer(0, 0, "time for which a path that has returned is not used yet")
    no_path: Duration = _timer(30, 0, "time without a usable path that ends the load")
    stale: Duration = _timer(
        5, 0, "longest time for which writes of a lost path may still take effect; later writes to their blocks wait"
    )

    @property
    def failover_ns(self) -> int:
        """Time from the last answer over a path that becomes silent until its commands move."""
        return int(self.nop_interval + self.nop_timeout + self.recovery)

    def config(self) -> contract.Multipath:
        """The timers as the engine takes them."""
        names = [name for name in type(self).model_fields if name not in ("policy", "manager")]
        seconds = {f"{name}_s": getattr(self, name) / SECOND_NS for name in names}
        return contract.Multipath(policy=self.policy, **seconds)


def chosen_portals(portals: Sequence[str], turn: int, paths_per_vm: int | None) -> tuple[str, ...]:
    """The portals of a VM's paths, the first one first: it begins with portal `turn` mod portals,
    so that VMs with one path, or with the policy `failover`, are spread over the portals.
    """
    first = turn % len(portals)
    count = 1 if paths_per_vm is None else paths_per_vm
    return tuple(portals[(first + path) % len(portals)] for path in range(count))


def problems(
    *, paths_per_vm: int | None, sessions: int, shares_sessions: bool, initiator: str, transport: str, manager: str
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Place below `load`, message and hint of each setting that several paths rule out."""
    if paths_per_vm is None:
        return
    place = ("paths_per_vm",)
    if shares_sessions:
        yield place, "the VMs share the sessions of their hosts", "use a hypervisor without `host`, or leave it out"
    if sessions > 1:
        yield place, f"each VM has {sessions} sessions over one path", "leave out `iscsi.initiator.sessions`"
    if initiator == "hakaru" and manager != Multipath().manager:
        message = "the initiator of hakaru directs its paths itself"
        yield ("multipath", "manager"), message, "leave it out at this point, or use `initiator: kernel`"
    if transport == "stream":
        yield place, "plain streams have no paths", "use `transport: iscsi`, or leave it out"
