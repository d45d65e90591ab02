"""A lab whose switches and links the `fabric` engine emulates, in one namespace to which each node
is cabled.

    kvm-1 eth0 ───── kvm-1 ┐ namespace `fabric`:            ┌ vtl ───── eth0 vtl
                           ├ hakaru-engine (core ══ edge) ──┤
    primary eth0 ─ primary ┘                                └

A cable is a veth pair. Its far end, named after the link, is an interface that the engine reads and
writes. Trunks exist only inside the engine. Veth passes super-frames on without segmenting them;
the engine counts each as the frames that it represents.

**Node → switch.** The node sends through a token bucket (`shape`), so that it waits as for a real
interface. Inside the fabric this direction has the node's rate (`send_rate`, else the link's), so
that frames are spaced exactly as such an interface sends them. Its queue never drops: frames that
the bucket let pass early wait there.

**Switch → node.** Rate, queue and discipline are the link's, as the study defines them.

**A node on a trunk** has a cable for each of its VLANs into a switch of its own (`Switch.is_nic`),
which has the trunk to the study's switch. Its frames wait there, as those of other nodes do in
their ingress.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.engine import contract
from hakaru.lab.plan.actions import CreateNamespace, CreateVeth, Setting, SetUp, Structure
from hakaru.lab.plan.namespaces import SYSCTLS, node_end
from hakaru.lab.plan.parts import TAIL_DROP, Line, Link, Switch, Trunk
from hakaru.lab.plan.shape import plan_fabric_shape, untagged_share
from hakaru.lab.plan.topology import Topology

FABRIC = "fabric"
# Queue of the direction from a node. The fabric never drops there: further frames stay in the
# cable.
NODE_TO_SWITCH_QUEUE_BYTES = 16 * 1024**2
# Queue while links are checked: as much as the window of a connection can fill at once.
CHECK_QUEUE_BYTES = 64 * 1024**2
_NODE_QUEUE = contract.Queue(bytes=NODE_TO_SWITCH_QUEUE_BYTES, discipline=TAIL_DROP)


def fabric_structure(topology: Topology) -> Iterator[Structure]:
    """Namespaces of the nodes and of the fabric, cables, addresses."""
    for node in topology.nodes:
        if node.kind != "switch":
            yield CreateNamespace(node.name, SYSCTLS)
    yield CreateNamespace(FABRIC, SYSCTLS)
    for link in topology.links:
        yield CreateVeth(FABRIC, link.port, None, link.node, link.interface)
        yield from node_end(link)
        yield SetUp(FABRIC, link.port)


def fabric_settings(topology: Topology) -> Iterator[Setting]:
    """The token buckets of the nodes."""
    for link in topology.links:
        if link.sends_bits_per_s is not None:
            # The trunk that an interface inside a node sends to adds a tag to each frame.
            share = untagged_share(link.mtu) if link.inside else 1.0
            yield plan_fabric_shape(link.node, link.interface, link.sends_bits_per_s * share, link.mtu)


def plan_fabric(
    topology: Topology, *, spin_us: int, seed: int, sample_interval_ms: int, checking: bool = False
) -> contract.FabricEngineConfig:
    """The configuration of the engine in the fabric's namespace.

    `checking`: keep rates, delays and topology, but give queues room for everything, and lose,
    mark, pause and jitter no frame. A check then measures the links, not TCP's reaction to them.
    """
    switches = [
        contract.SwitchConfig(
            name=switch.name,
            forwarding=switch.forwarding,
            shared_buffer=None
            if switch.shared_bytes is None or checking
            else contract.SharedBuffer(bytes=switch.shared_bytes, alpha=switch.alpha),
            router=_router(switch, topology),
        )
        for switch in topology.switches
    ]
    links = [_node_link(link, checking) for link in topology.links]
    nics = {switch.name for switch in topology.switches if switch.is_nic}
    links += [_trunk(trunk, nics, checking) for trunk in topology.trunks]
    return contract.FabricEngineConfig(
        fabric=contract.FabricConfig(switches=switches, links=links, seed=seed),
        sample_interval_ms=sample_interval_ms,
        spin_us=spin_us,
    )


def _router(switch: Switch, topology: Topology) -> contract.RouterConfig | None:
    if not switch.interfaces:
        return None
    mtu = topology.links[0].mtu
    interfaces = [
        contract.RouterInterface(
            vlan=interface.vlan, address=interface.address, prefix_length=interface.prefix_length, mtu_bytes=mtu
        )
        for interface in switch.interfaces
    ]
    routes = [(*route.network.split("/"), route.via) for route in switch.routes]
    return contract.RouterConfig(
        interfaces=interfaces,
        routes=[
            contract.RouteConfig(destination=network, prefix_length=int(bits), via=via) for network, bits, via in routes
        ],
    )


def _node_link(link: Link, checking: bool) -> contract.LinkConfig:
    # Inside a node frames take no time, and its end of the trunk pauses it before a frame is lost.
    to_switch = _direction(
        None if link.inside else link.sends_bits_per_s, link.line, _NODE_QUEUE, link.pause or link.inside, checking
    )
    # A node sends no pause frames, because it accepts every frame.
    to_node = _direction(link.rate_bits_per_s, link.line, _queue(link), False, checking)
    node, switch = contract.InterfaceEnd(name=link.port), _access(link.switch, link.vlan)
    if link.node_first:
        return contract.LinkConfig(
            name=link.name, a=node, b=switch, mtu_bytes=link.mtu, a_to_b=to_switch, b_to_a=to_node
        )
    return contract.LinkConfig(name=link.name, a=switch, b=node, mtu_bytes=link.mtu, a_to_b=to_node, b_to_a=to_switch)


def _trunk(trunk: Trunk, nics: set[str], checking: bool) -> contract.LinkConfig:
    def direction(source: str, target: str) -> contract.Direction:
        # A node's end drops nothing. It does not pause a switch, because it accepts every frame.
        queue, pause = (_NODE_QUEUE if source in nics else _queue(trunk)), trunk.pause and target not in nics
        return _direction(trunk.rate_bits_per_s, trunk.line, queue, pause, checking)

    return contract.LinkConfig(
        name=trunk.name,
        a=_port(trunk, trunk.a),
        b=_port(trunk, trunk.b),
        mtu_bytes=trunk.mtu,
        a_to_b=direction(trunk.a, trunk.b),
        b_to_a=direction(trunk.b, trunk.a),
    )


def _port(trunk: Trunk, switch: str) -> contract.SwitchEnd:
    if trunk.vlans:
        return contract.SwitchEnd(name=switch, vlan=None, allowed=list(trunk.vlans))
    return _access(switch, trunk.vlan)


def _access(switch: str, vlan: int | None) -> contract.SwitchEnd:
    return contract.SwitchEnd(name=switch) if vlan is None else contract.SwitchEnd(name=switch, vlan=vlan)


def _queue(link: Link | Trunk) -> contract.Queue:
    return contract.Queue(bytes=link.queue_bytes, discipline=link.discipline)


def _direction(rate: int | None, line: Line, queue: contract.Queue, pause: bool, checking: bool) -> contract.Direction:
    if checking:
        room = contract.Queue(bytes=CHECK_QUEUE_BYTES, discipline=TAIL_DROP)
        return contract.Direction(rate_bits_per_s=rate, delay_us=line.delay_us, queue=room)
    return contract.Direction(
        rate_bits_per_s=rate,
        delay_us=line.delay_us,
        jitter=line.jitter,
        loss=line.loss,
        duplicate_percent=line.duplicate_percent,
        corrupt_percent=line.corrupt_percent,
        reorder_percent=line.reorder_percent,
        reorder_us=line.reorder_us,
        queue=queue,
        pause=pause,
    )
