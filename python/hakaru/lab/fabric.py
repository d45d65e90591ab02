"""A lab whose switches and links are the `fabric` engine's: all of them in one namespace, each node cabled to it.

    kvm-1 eth0 ───── kvm-1 ┐ namespace `fabric`:            ┌ vtl ───── eth0 vtl
                           ├ hakaru-engine (core ══ edge) ──┤
    primary eth0 ─ primary ┘                                └

A veth pair is the cable; its far end, named as the link, is an interface that the engine reads and writes. Trunks exist
only inside the engine. Veth hands super-frames over as they are and cuts none; the engine counts each as the frames
that it stands for.

**Node → switch.** The node sends through a token bucket (`shape`), so that it waits as for its interface. Inside the
fabric the direction has the node's rate (`send_rate`, else the link's), so that frames stand exactly as far apart as
such an interface sends them, and a queue that never drops: what the bucket let pass early waits there.

**Switch → node.** Rate, queue and discipline of the link: what the study asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.engine import contract
from hakaru.lab.actions import CreateNamespace, CreateVeth, Setting, SetUp, Structure
from hakaru.lab.namespaces import SYSCTLS, node_end
from hakaru.lab.parts import TAIL_DROP, Line, Link, Trunk
from hakaru.lab.shape import plan_fabric_shape
from hakaru.lab.topology import Topology

FABRIC = "fabric"
# Of a node's interface: the fabric never drops there, it only leaves in the cable what comes beyond.
NODE_TO_SWITCH_QUEUE_BYTES = 16 * 1024**2
# While links are checked: what a window of a connection can fill at once.
CHECK_QUEUE_BYTES = 64 * 1024**2


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
            yield plan_fabric_shape(link.node, link.interface, link.sends_bits_per_s, link.mtu)


def plan_fabric(
    topology: Topology, *, spin_us: int, seed: int, sample_interval_ms: int, checking: bool = False
) -> contract.FabricEngineConfig:
    """What the engine in the fabric's namespace is told.

    `checking`: the same rates, delays and ways, but room for all and nothing lost, marked, paused or shaken: so that a
    check of the links measures them and not what TCP makes of them.
    """
    switches = [
        contract.SwitchConfig(
            name=switch.name,
            forwarding=switch.forwarding,
            shared_buffer=None
            if switch.shared_bytes is None or checking
            else contract.SharedBuffer(bytes=switch.shared_bytes, alpha=switch.alpha),
        )
        for switch in topology.switches
    ]
    links = [_node_link(link, checking) for link in topology.links]
    links += [_trunk(trunk, checking) for trunk in topology.trunks]
    return contract.FabricEngineConfig(
        fabric=contract.FabricConfig(switches=switches, links=links, seed=seed),
        sample_interval_ms=sample_interval_ms,
        spin_us=spin_us,
    )


def _node_link(link: Link, checking: bool) -> contract.LinkConfig:
    to_switch = _direction(
        link.sends_bits_per_s,
        link.line,
        contract.Queue(bytes=NODE_TO_SWITCH_QUEUE_BYTES, discipline=TAIL_DROP),
        link.pause,
        checking,
    )
    # A node stops nobody: it takes what comes.
    to_node = _direction(link.rate_bits_per_s, link.line, _queue(link), False, checking)
    node, switch = contract.InterfaceEnd(name=link.port), contract.SwitchEnd(name=link.switch)
    if link.node_first:
        return contract.LinkConfig(
            name=link.name, a=node, b=switch, mtu_bytes=link.mtu, a_to_b=to_switch, b_to_a=to_node
        )
    return contract.LinkConfig(name=link.name, a=switch, b=node, mtu_bytes=link.mtu, a_to_b=to_node, b_to_a=to_switch)


def _trunk(trunk: Trunk, checking: bool) -> contract.LinkConfig:
    way = _direction(trunk.rate_bits_per_s, trunk.line, _queue(trunk), trunk.pause, checking)
    return contract.LinkConfig(
        name=trunk.name,
        a=contract.SwitchEnd(name=trunk.a),
        b=contract.SwitchEnd(name=trunk.b),
        mtu_bytes=trunk.mtu,
        a_to_b=way,
        b_to_a=way,
    )


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
