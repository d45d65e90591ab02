"""The star: hosts, one switch, an array. Every path is a subnet with a link of each node; all share
the switch.

host-1 eth0 ───── host-1.0 ┐
                           ├ switch ┤ array.0 ───── eth0 array
host-2 eth0 ───── host-2.0 ┘
"""

from __future__ import annotations

from hakaru.lab.model import LabSpec, StarLinkSpec
from hakaru.lab.plan.addresses import plan_subnets
from hakaru.lab.plan.limits import (
    PATHS_MAX,
    SWITCH_PORTS_MAX,
    Backend,
    check_mtu,
    check_name,
    check_queue,
    check_rate,
    check_unique,
    host_names,
)
from hakaru.lab.plan.parts import Link, Node, Switch
from hakaru.lab.plan.refusal import ImpossibleLabError
from hakaru.lab.plan.topology import Topology


def star(spec: LabSpec, backend: Backend) -> Topology:
    """The topology of a star. Raises ImpossibleLabError."""
    hosts = host_names(spec.hosts)
    array = spec.array
    if array is None:
        raise ImpossibleLabError("it has no array", "name one: `array: array`", ("array",))
    for name in (*hosts, array, spec.switch):
        check_name(name, "a node")
    check_unique([*hosts, array, spec.switch], "give every host, the array and the switch its own")
    _check_limits(spec, len(hosts))
    for field, link in (("host_link", spec.host_link), ("array_link", spec.array_link)):
        check_rate(f"{field}.rate", link.rate, backend, (field, "rate"))
        check_queue(f"{field}.queue", link.queue, spec.mtu, backend, (field, "queue"))
    subnets = plan_subnets(spec.network, spec.paths, len(hosts) + 1)
    links = tuple(
        _link(spec, node, link_spec, path, str(subnets[path][place]), subnets[path].prefixlen)
        for place, (node, link_spec) in enumerate(
            [(array, spec.array_link), *((host, spec.host_link) for host in hosts)], start=1
        )
        for path in range(spec.paths)
    )
    nodes = (*(Node(name, "host") for name in hosts), Node(spec.switch, "switch"), Node(array, "array"))
    return Topology(nodes, links, (), (Switch(spec.switch),))


def _check_limits(spec: LabSpec, hosts: int) -> None:
    if not 1 <= spec.paths <= PATHS_MAX:
        raise ImpossibleLabError(f"{spec.paths} paths; there can be 1 to {PATHS_MAX}", "change `paths`", ("paths",))
    check_mtu(spec.mtu)
    ports = (hosts + 1) * spec.paths
    if ports > SWITCH_PORTS_MAX:
        raise ImpossibleLabError(
            f"{ports} links; the switch has {SWITCH_PORTS_MAX} ports", "use fewer hosts or paths", ("hosts",)
        )


def _link(spec: LabSpec, node: str, link_spec: StarLinkSpec, path: int, address: str, prefix_length: int) -> Link:
    return Link(
        name=f"{node}.{path}",
        node=node,
        interface=f"eth{path}",
        switch=spec.switch,
        port=f"{node}.{path}",
        path=path,
        address=address,
        prefix_length=prefix_length,
        rate_bits_per_s=link_spec.rate,
        queue_bytes=link_spec.queue,
        mtu=spec.mtu,
    )
