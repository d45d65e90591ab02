"""Features of the two backends, as data. The fabric has all of them, the kernel some.

`check_backend(spec)` refuses a lab that asks the kernel backend for more, naming the field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hakaru.lab.model import LabSpec, LinkSpec, SwitchSpec
from hakaru.lab.plan.limits import SPIN_MAX_NS, Backend, check_time
from hakaru.lab.plan.refusal import ImpossibleLabError, Path_


@dataclass(frozen=True)
class LinkFeature:
    """Something a link may be asked for. `kernel` says why the kernel backend has it not."""

    field: str
    asked: Callable[[LinkSpec], bool]
    kernel: str


@dataclass(frozen=True)
class SwitchFeature:
    """Something a switch may be asked for."""

    field: str
    asked: Callable[[SwitchSpec], bool]
    kernel: str


LINK_FEATURES = (
    LinkFeature("pause", lambda link: link.pause, "a bridge sends no pause frames"),
    LinkFeature(
        "discipline",
        lambda link: link.discipline != "tail_drop",
        "its token bucket has tail drop only, and would mark or drop super-frames whole",
    ),
    LinkFeature("jitter", lambda link: link.jitter is not None, "netem's jitter puts frames out of order"),
    LinkFeature(
        "loss",
        lambda link: link.loss is not None and link.loss.burst_frames is not None,
        "netem loses super-frames whole, so that bursts have another length than asked",
    ),
    LinkFeature("reorder", lambda link: link.reorder is not None, "netem sends ahead instead of holding back"),
)
SWITCH_FEATURES = (
    SwitchFeature(
        "forwarding",
        lambda switch: switch.forwarding == "cut_through",
        "a bridge forwards a frame that has come wholly",
    ),
    SwitchFeature("shared_buffer", lambda switch: switch.shared_buffer is not None, "each port's queue is its own"),
)


def backend_of(spec: LabSpec) -> Backend:
    """The backend of a lab whose study names none."""
    return spec.backend or ("kernel" if spec.links is None else "fabric")


def check_backend(spec: LabSpec, backend: Backend) -> None:
    """Refuse what the backend cannot do. Raises ImpossibleLabError."""
    check_time("spin", spec.spin, ("spin",), SPIN_MAX_NS)
    if backend == "fabric":
        return
    if spec.vlans is not None:
        raise _refused("vlans", ("vlans",), "its bridges are one network each")
    if spec.spin:
        raise _refused("spin", ("spin",), "it has nothing that looks for frames")
    for name, switch in (spec.switches or {}).items():
        for of_switch in SWITCH_FEATURES:
            if of_switch.asked(switch):
                place = ("switches", name, of_switch.field)
                raise _refused(f"switches.{name}.{of_switch.field}", place, of_switch.kernel)
    for name, link in (spec.links or {}).items():
        for of_link in LINK_FEATURES:
            if of_link.asked(link):
                raise _refused(f"links.{name}.{of_link.field}", ("links", name, of_link.field), of_link.kernel)


def _refused(field: str, path: Path_, why: str) -> ImpossibleLabError:
    return ImpossibleLabError(f"the kernel backend cannot do {field}: {why}", "use `backend: fabric`", path)
