"""The place of a planned run in words: the topology of a lab, or the equipment of a site."""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.engine import contract
from hakaru.lab.plan import LabPlan
from hakaru.lab.plan.parts import Line, Link, Trunk
from hakaru.run.site_file import HOST, Site
from hakaru.units import format_rate


def topology(lab: LabPlan) -> list[str]:
    """Each link between a node and a switch or between switches, with its rate and its impairments.
    Nodes with equal links to a switch share a line: `host-1, host-2 - switch: 1 Gbit/s`.
    """
    nodes: dict[tuple[str, str], list[str]] = {}
    for link in lab.links:
        if not link.inside:
            named = nodes.setdefault((link.switch, _properties(link)), [])
            named += [link.node] if link.node not in named else []
    ends = [(f"{', '.join(names)} - {switch}", how) for (switch, how), names in nodes.items()]
    ends += [(f"{trunk.a} - {trunk.b}", _properties(trunk)) for trunk in lab.trunks]
    return [f"  {names}: {how}" for names, how in ends]


def equipment(site: Site) -> list[str]:
    """The equipment of a site that a run loads, and where the load comes from."""
    parts = []
    for lu in site.lus:
        use = "its data may be overwritten" if lu.expendable else "read only"
        parts.append(f"LU {lu.lun} of {lu.target_name} at {lu.portal}, {use}")
    if site.share is not None:
        share = site.share
        use = "files may be created there" if share.expendable else "read only"
        parts.append(f"folder {share.folder} of share {share.name} at {share.server}:{share.port}, {use}")
    if site.ports is not None:
        parts.append(f"interfaces {', '.join(site.ports.interfaces)}")
        if site.ports.functions:
            parts.append(f"PCI functions {', '.join(site.ports.functions)}, which the guest gets")
    hosts = ["this machine" if name == HOST else name for name in site.host_names]
    return [f"site: {site.name!r}", *(f"  {part}" for part in parts), f"load from: {', '.join(hosts)}"]


def _properties(link: Link | Trunk) -> str:
    rate = format_rate(link.rate_bits_per_s) if link.rate_bits_per_s else "as fast as the machine"
    return ", ".join([rate, *_impairments(link.line)])


def _impairments(line: Line) -> Iterator[str]:
    """Delay, loss and other impairments of a line, each of both directions."""
    if line.delay_us:
        yield f"delay {line.delay_us / 1e3:g} ms"
    if line.jitter.kind != "none":
        yield f"jitter ({line.jitter.kind})"
    if isinstance(line.loss, contract.RandomLoss):
        yield f"loss {line.loss.percent:g} %"
    elif isinstance(line.loss, contract.BurstLoss):
        yield "loss in bursts"
    for percent, what in (
        (line.duplicate_percent, "duplicated"),
        (line.corrupt_percent, "corrupted"),
        (line.reorder_percent, "reordered"),
    ):
        if percent:
            yield f"{percent:g} % {what}"
