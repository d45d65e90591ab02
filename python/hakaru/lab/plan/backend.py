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
    """A feature of links. `is_used_by` is true for a link that needs it; `kernel` is the reason why
    the kernel backend lacks it.
    """

    field: str
    is_used_by: Callable[[LinkSpec], bool]
    kernel: str


@dataclass(frozen=True)
class SwitchFeature:
    """A feature of switches, with the fields of `LinkFeature`."""

    field: str
    is_used_by: Callable[[SwitchSpec], bool]
    kernel: str


LINK_FEATURES = (
    LinkFeature("pause", lambda link: link.pause, "a bridge sends no pause frames"),
    LinkFeature(
        "discipline",
        lambda link: link.discipline != "tail_drop",
        "its token bucket has tail drop only, and would mark or drop entire super-frames",
    ),
    LinkFeature("jitter", lambda link: link.jitter is not None, "netem's jitter puts frames out of order"),
    LinkFeature(
        "loss",
        lambda link: link.loss is not None and link.loss.burst_frames is not None,
        "netem loses entire super-frames, so that bursts would have another length",
    ),
    LinkFeature(
        "reorder", lambda link: link.reorder is not None, "netem sends frames early instead of holding them back"
    ),
)
SWITCH_FEATURES = (
    SwitchFeature(
        "forwarding",
        lambda switch: switch.forwarding == "cut_through",
        "a bridge forwards a frame after it has arrived completely",
    ),
    SwitchFeature("shared_buffer", lambda switch: switch.shared_buffer is not None, "each port's queue is its own"),
)


def backend_of(spec: LabSpec) -> Backend:
    """The backend of a lab whose study names none."""
    return spec.backend or ("kernel" if spec.links is None else "fabric")


def check_backend(spec: LabSpec, backend: Backend) -> None:
    """Refuse a lab that the backend cannot build. Raises ImpossibleLabError."""
    check_time("spin", spec.spin, ("spin",), SPIN_MAX_NS)
    if backend == "fabric":
        return
    if spec.vlans is not None:
        raise _refused("vlans", ("vlans",), "each of its bridges is a single network")
    if spec.guests is not None:
        raise _refused("guests", ("guests",), "the token bucket of a bridge's port would drop frames of the guests")
    if spec.spin:
        raise _refused("spin", ("spin",), "it does not poll for frames")
    for name, switch in (spec.switches or {}).items():
        for switch_feature in SWITCH_FEATURES:
            if switch_feature.is_used_by(switch):
                field = switch_feature.field
                raise _refused(f"switches.{name}.{field}", ("switches", name, field), switch_feature.kernel)
    for name, link in (spec.links or {}).items():
        for link_feature in LINK_FEATURES:
            if link_feature.is_used_by(link):
                field = link_feature.field
                raise _refused(f"links.{name}.{field}", ("links", name, field), link_feature.kernel)


def _refused(field: str, path: Path_, reason: str) -> ImpossibleLabError:
    return ImpossibleLabError(f"the kernel backend cannot do {field}: {reason}", "use `backend: fabric`", path)
