"""A lab of the kernel's own parts: a namespace with a bridge per switch, veth cables, token
buckets, netem.

    host-1 eth0 ───── host-1.0 ┐                  ┌ uplink ───── uplink ┐
                               ├ br0 (a switch) ──┤                     ├ br0 (another)
    host-2 eth0 ───── host-2.0 ┘

Both ends of a link with a rate send through a token bucket, see `shape`. Delay and loss are
emulated by netem, which a frame passes before the bucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hakaru.lab.plan.actions import CreateBridge, CreateNamespace, CreateVeth, Impair, Setting, SetUp, Structure
from hakaru.lab.plan.namespaces import SYSCTLS, node_end
from hakaru.lab.plan.parts import Line, Link, Trunk
from hakaru.lab.plan.shape import ETHERNET_HEADER_BYTES, NODE_QUEUE_BYTES, node_queue_bytes, plan_shape
from hakaru.lab.plan.topology import Topology

BRIDGE = "br0"


def kernel_structure(topology: Topology) -> Iterator[Structure]:
    """Namespaces, bridges, cables, addresses."""
    for node in topology.nodes:
        yield CreateNamespace(node.name, SYSCTLS)
    for switch in topology.switches:
        yield CreateBridge(switch.name, BRIDGE)
    for link in topology.links:
        yield CreateVeth(link.switch, link.port, BRIDGE, link.node, link.interface)
        yield from node_end(link)
        yield SetUp(link.switch, link.port)
    for trunk in topology.trunks:
        yield CreateVeth(trunk.a, trunk.name, BRIDGE, trunk.b, trunk.name, BRIDGE)
        yield SetUp(trunk.a, trunk.name)
        yield SetUp(trunk.b, trunk.name)


def kernel_settings(topology: Topology, *, star: bool) -> Iterator[Setting]:
    """Delay and rate of every interface. Nodes of a star queue 1000 frames, other nodes 1000
    packets as Linux counts them.
    """
    for link in topology.links:
        ends = [(link.node, link.interface, link.sends_bits_per_s), (link.switch, link.port, link.rate_bits_per_s)]
        for node, interface, rate in ends:
            yield from _impair(node, interface, link.line, link)
            if rate is not None:
                queue = link.queue_bytes
                if node == link.node:
                    queue = node_queue_bytes(link.mtu) if star else NODE_QUEUE_BYTES
                shape = plan_shape(node, interface, rate, link.mtu, queue, link.queue_bytes)
                yield replace(shape, after_netem=link.line != Line())
    for trunk in topology.trunks:
        for node in trunk.ends:
            yield from _impair(node, trunk.name, trunk.line, trunk)
            if trunk.rate_bits_per_s is not None:
                shape = plan_shape(node, trunk.name, trunk.rate_bits_per_s, trunk.mtu, trunk.queue_bytes)
                yield replace(shape, after_netem=trunk.line != Line())


def _impair(node: str, interface: str, line: Line, link: Link | Trunk) -> Iterator[Impair]:
    if line == Line():
        return
    # Room for all frames in flight, even small ones, at the link's rate (unlimited: 10 Gbit/s).
    rate = link.rate_bits_per_s or 10_000_000_000
    frames_in_flight = rate / 8 * line.delay_us / 1e6 / (64 + ETHERNET_HEADER_BYTES)
    yield Impair(node, interface, line, 1000 + int(frames_in_flight))
