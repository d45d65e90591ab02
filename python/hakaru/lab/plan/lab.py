"""Planning of a lab: the `lab:` block of a study becomes nodes, links, addresses and the actions
that build them. Pure.

    plan_lab(spec) -> LabPlan                            refuses a lab that cannot be built, with
                                                         the place in the `lab:` block
    fabric_config(plan, seed=…, sample_interval_ms=…)    for the engine in `plan.fabric_node`
    checking_plan(plan)                                  the same lab while its links are checked
    check_adjustable(current, wanted)                    refuses a plan that a built lab cannot
                                                         change to

`star`, `linked` and `device` turn the three forms into a topology; `kernel` and `fabric` plan its
parts on each backend; `shape` plans token buckets, and `tcp` the settings of TCP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from hakaru.engine import contract
from hakaru.lab.model import LINK_FIELDS, LabSpec, LoadGuestSpec
from hakaru.lab.plan import fabric, kernel
from hakaru.lab.plan.actions import Action, Impair, SetRoute, SetSysctl, Setting, Shape, Structure
from hakaru.lab.plan.backend import backend_of, check_backend
from hakaru.lab.plan.device import Device, backend_of_device, device_settings, device_structure, plan_device
from hakaru.lab.plan.limits import Backend
from hakaru.lab.plan.linked import linked
from hakaru.lab.plan.namespaces import mtu_settings, node_settings
from hakaru.lab.plan.parts import Line, Link, Node, Switch, Trunk, Vlan
from hakaru.lab.plan.refusal import ImpossibleLabError
from hakaru.lab.plan.routing import routed_ways
from hakaru.lab.plan.star import star
from hakaru.lab.plan.tcp import TCP_TODAY, TcpPlan, plan_tcp
from hakaru.lab.plan.topology import Topology, Way, ways

_LINKS, _TRUNKS = TypeAdapter(tuple[Link, ...]), TypeAdapter(tuple[Trunk, ...])
_DEVICE: TypeAdapter[Device | None] = TypeAdapter(Device | None)
_LOAD_GUEST: TypeAdapter[LoadGuestSpec | None] = TypeAdapter(LoadGuestSpec | None)
_SWITCHES, _VLANS, _TCP = TypeAdapter(tuple[Switch, ...]), TypeAdapter(tuple[Vlan, ...]), TypeAdapter(TcpPlan)


@dataclass(frozen=True)
class LabPlan:
    """A lab that can be built: its parts, and the actions that build it, in order."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    trunks: tuple[Trunk, ...] = ()
    switches: tuple[Switch, ...] = ()
    backend: Backend = "kernel"
    is_star: bool = True
    tcp: TcpPlan = TCP_TODAY
    spin_us: int = 0
    structure: tuple[Structure, ...] = ()
    settings: tuple[Setting, ...] = ()
    vlans: tuple[Vlan, ...] = ()
    device: Device | None = None
    """The device under test; None in a lab of hosts and arrays."""
    load_guest: LoadGuestSpec | None = None
    """The guest that takes the place of each node with load; None: the load runs in the node."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """All actions that build the lab, in order."""
        return (*self.structure, *self.settings)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names of the hosts, in the study's order."""
        return tuple(node.name for node in self.nodes if node.kind == "host")

    @property
    def guest_names(self) -> tuple[str, ...]:
        """Names of the guests, in the study's order."""
        return tuple(node.name for node in self.nodes if node.kind == "guest")

    @property
    def loading_names(self) -> tuple[str, ...]:
        """Names of the nodes that the load runs on: the guests, or in a lab without guests the
        hosts.
        """
        return self.guest_names or self.host_names

    @property
    def array_names(self) -> tuple[str, ...]:
        """Names of the nodes that arrays run on, in the study's order."""
        return tuple(node.name for node in self.nodes if node.kind == "array")

    @property
    def array_name(self) -> str:
        """Name of the node that the (first) array runs on."""
        return self.array_names[0]

    @property
    def fabric_node(self) -> str | None:
        """The namespace that the fabric engine runs in; None with the kernel backend."""
        return fabric.FABRIC if self.backend == "fabric" else None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Nodes that can run engines: hosts and guests, then switches or the fabric, then
        arrays.
        """
        between = tuple(node.name for node in self.nodes if node.kind == "switch")
        if self.fabric_node is not None:
            between = (self.fabric_node,)
        return (*self.host_names, *self.guest_names, *between, *self.array_names)

    def links_at(self, node: str) -> tuple[Link, ...]:
        """Links of nodes with an end at a node or switch. A host or an array has one per path."""
        return tuple(link for link in self.links if node in (link.node, link.switch))

    def addresses(self, node: str) -> tuple[str, ...]:
        """Addresses of a host or an array, one per path."""
        return tuple(link.address for link in self.links if link.node == node)

    def portals(self, array: str | None = None, port: int = 3260) -> tuple[str, ...]:
        """`address:port` of an array (default: the first), one per path."""
        return tuple(f"{address}:{port}" for address in self.addresses(array or self.array_name))

    def ways(self, source: str, destination: str) -> tuple[Way, ...]:
        """Every path between two nodes: one per subnet that both are in or, with VLANs, those that
        `routing` finds.
        """
        if self.vlans:
            return routed_ways(self.topology, source, destination)
        return ways(self.links, self.trunks, source, destination)

    @property
    def topology(self) -> Topology:
        """Nodes, links, trunks, switches and VLANs."""
        return Topology(self.nodes, self.links, self.trunks, self.switches, self.vlans)

    def reachable_addresses(self, host: str) -> frozenset[str]:
        """Addresses of arrays that a host can reach."""
        ends = (way.destination for array in self.array_names for way in self.ways(host, array))
        return frozenset(end.address for end in ends)

    def describe(self) -> dict[str, Any]:
        """Return the lab as plain data, for lab.json. A star on the kernel backend consists of
        nodes and links alone.
        """
        described: dict[str, Any] = {
            "nodes": [asdict(node) for node in self.nodes],
            "links": [_described(link, _LINKS) for link in self.links],
            **({"load_guest": self.load_guest.model_dump(mode="json")} if self.load_guest else {}),
        }
        if self.is_star and self.backend == "kernel" and self.tcp == TCP_TODAY:
            return described
        return described | {
            "is_star": self.is_star,
            "trunks": [_described(trunk, _TRUNKS) for trunk in self.trunks],
            "switches": _SWITCHES.dump_python(self.switches, mode="json"),
            "spin_us": self.spin_us,
            "fabric_node": self.fabric_node,
            "tcp_plan": _TCP.dump_python(self.tcp, mode="json"),
            **({"vlans": _VLANS.dump_python(self.vlans, mode="json")} if self.vlans else {}),
            **({"device": _DEVICE.dump_python(self.device, mode="json")} if self.device else {}),
        }

    @classmethod
    def from_description(cls, lab: Mapping[str, Any]) -> LabPlan:
        """Restore the plan of a lab from its lab.json, to draw or list it. Without actions, it
        cannot be built.

        Raises KeyError or ValueError if `lab` does not describe a lab.
        """
        return cls(
            tuple(Node(node["name"], node["kind"]) for node in lab["nodes"]),
            _LINKS.validate_python(lab["links"]),
            _TRUNKS.validate_python(lab.get("trunks", ())),
            _SWITCHES.validate_python(lab.get("switches", ())),
            "fabric" if lab.get("fabric_node") else "kernel",
            lab.get("is_star", True),
            _TCP.validate_python(lab.get("tcp_plan", {})),
            lab.get("spin_us", 0),
            vlans=_VLANS.validate_python(lab.get("vlans", ())),
            device=_DEVICE.validate_python(lab.get("device")),
            load_guest=_LOAD_GUEST.validate_python(lab.get("load_guest")),
        )


class _Key:
    """A spec as a key of a cache, because a spec with links has no hash."""

    def __init__(self, spec: LabSpec) -> None:
        self.spec = spec
        # A plan also depends on which fields are given.
        self.given = spec.model_dump_json(exclude_unset=True)

    def __hash__(self) -> int:
        return hash(self.given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and (other.given, other.spec) == (self.given, self.spec)


def plan_lab(spec: LabSpec) -> LabPlan:
    """Plan a lab. Raises ImpossibleLabError (a UsageError), which says what to change, if it cannot
    be built.
    """
    return _plan(_Key(spec))


# The checks of each point of a study ask for the plan of its lab several times, and most points
# change nothing in the lab.
@lru_cache(maxsize=64)
def _plan(key: _Key) -> LabPlan:
    spec = key.spec
    if spec.device is not None:
        if spec.load_guest is not None:
            raise ImpossibleLabError(
                "a lab with a device under test has no load in guests", "leave out `load_guest`", ("load_guest",)
            )
        return _plan_device_lab(spec)
    backend = backend_of(spec)
    is_star = spec.links is None
    for field in LINK_FIELDS:
        if is_star and getattr(spec, field) is not None:
            raise ImpossibleLabError(f"`{field}` is given, but no `links`", "list the links", (field,))
    check_backend(spec, backend)
    topology = star(spec, backend) if is_star else linked(spec, backend)
    if backend == "fabric" and fabric.FABRIC in {node.name for node in topology.nodes}:
        raise ImpossibleLabError(
            f"the name {fabric.FABRIC!r} is reserved for the node that switches run in", "choose another name"
        )
    tcp = plan_tcp(spec.tcp, spec.mtu, star=is_star)
    structure: tuple[Structure, ...]
    settings: tuple[Setting, ...]
    if backend == "fabric":
        structure = tuple(fabric.fabric_structure(topology))
        settings = (
            *mtu_settings(topology, fabric.FABRIC, None),
            *node_settings(topology, tcp),
            *fabric.fabric_settings(topology),
        )
    else:
        structure = tuple(kernel.kernel_structure(topology))
        settings = (
            *mtu_settings(topology, None, kernel.BRIDGE),
            *node_settings(topology, tcp),
            *kernel.kernel_settings(topology, star=is_star),
        )
    return LabPlan(
        topology.nodes,
        topology.links,
        topology.trunks,
        topology.switches,
        backend,
        is_star,
        tcp,
        spec.spin // 1000,
        structure,
        settings,
        topology.vlans,
        load_guest=spec.load_guest,
    )


def _plan_device_lab(spec: LabSpec) -> LabPlan:
    """Plan a lab with a device under test."""
    device, topology = plan_device(spec)
    return LabPlan(
        topology.nodes,
        topology.links,
        (),
        topology.switches,
        backend_of_device(device.forwards),
        is_star=False,
        structure=tuple(device_structure(device, spec.mtu)),
        settings=tuple(device_settings(device, spec.mtu)),
        device=device,
    )


def _described(link: Link | Trunk, adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """A link as plain data, without fields that have their defaults."""
    (described,) = adapter.dump_python((link,), mode="json")
    return {field.name: described[field.name] for field in fields(link) if getattr(link, field.name) != field.default}


def fabric_config(
    plan: LabPlan, *, seed: int, sample_interval_ms: int, checking: bool = False
) -> contract.FabricEngineConfig:
    """Configuration of the fabric engine of a plan; see `fabric.plan_fabric`."""
    assert plan.fabric_node is not None, "the kernel backend has no fabric"
    return fabric.plan_fabric(
        plan.topology,
        spin_us=plan.spin_us,
        seed=seed,
        sample_interval_ms=sample_interval_ms,
        checking=checking,
    )


def checking_plan(plan: LabPlan) -> LabPlan:
    """The same lab while its links are checked (see `hakaru.lab.check`): with the kernel's own TCP,
    large buffers and no loss.
    """
    settings: list[Setting] = []
    ends = (*plan.host_names, *plan.guest_names, *plan.array_names)
    for setting in plan.settings:
        match setting:
            case SetSysctl():
                continue
            case SetRoute():
                settings.append(
                    replace(setting, congestion_control=(), initial_window=None, initial_receive_window=None)
                )
            case Shape() if setting.node not in ends:
                settings.append(replace(setting, queue_bytes=max(setting.queue_bytes, fabric.CHECK_QUEUE_BYTES)))
            case Impair():
                settings.append(replace(setting, line=Line(delay_us=setting.line.delay_us)))
            case _:
                settings.append(setting)
    for node in ends:
        for name in ("tcp_rmem", "tcp_wmem"):
            settings.append(SetSysctl(node, f"net/ipv4/{name}", f"4096 131072 {fabric.CHECK_QUEUE_BYTES}"))
    return replace(plan, settings=tuple(settings))


def check_adjustable(current: LabPlan, wanted: LabPlan) -> None:
    """Check that a lab of the plan `current` can change to `wanted`. Raises ImpossibleLabError for
    other nodes, cables or addresses. A lab with a device is built anew for another device.
    """
    if current.device is not None and wanted.device is not None:
        return
    if current.backend != wanted.backend:
        message = f"it is built on the {current.backend} backend, which cannot change to {wanted.backend} during a run"
    elif current.nodes != wanted.nodes:
        message = "its nodes cannot change during a run"
    elif current.structure != wanted.structure:
        message = "its links and addresses cannot change during a run"
    else:
        return
    raise ImpossibleLabError(message, "make two studies; only rates, queues, MTU, TCP and similar settings can change")
