"""The lab of a run for the report, from `lab.json`: drawing, links, backend, TCP settings and
baselines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hakaru.lab.plan import LabPlan
from hakaru.report.fonts import FAMILY
from hakaru.report.lab_drawing import draw
from hakaru.units import format_rate, format_size
from hakaru.wording import has, number, say

Json = dict[str, Any]
REMAINS_NAMES = (
    "rack",
    "rate_reduction",
    "frto",
    "first_timeout",
    "byte_counting",
    "small_queues",
    "cubic",
    "microseconds",
)
REMAINS = tuple(f"lab.remains.{name}" for name in REMAINS_NAMES)


def describe_lab(lab: Json, clean: Callable[[object], str], language: str) -> Json:
    """Drawing, rows of links and VLANs, name-value pairs about the backend, TCP settings and
    baselines. Texts are made safe by `clean`.
    """
    links = [[clean(cell) for cell in row] for row in _links(lab, language)]
    rows = [*_site(lab, language), *_switches(lab, language), *_backend(lab, language)]
    about = [(clean(name), clean(value)) for name, value in rows]
    return {
        "drawing": draw_lab(lab, language),
        "is_site": bool(lab.get("site")),
        "links": links,
        "vlans": [[clean(cell) for cell in row] for row in _vlans(lab)],
        "about": about,
        "tcp": _tcp_settings(lab.get("tcp") or [], clean, language),
        "baselines": [_baseline(baseline, clean, language) for baseline in lab.get("baselines") or []],
    }


def _links(lab: Json, language: str) -> Iterator[list[str]]:
    """Name, ends, addresses and rate of every link, in labs with VLANs also the VLANs of its ports.
    The link of a node whose interfaces share it is one link.
    """
    node_addresses: dict[str, list[str]] = {}
    for link in lab.get("links") or []:
        if link.get("inside"):
            node_addresses.setdefault(str(link["switch"]), []).append(str(link["address"]))
        else:
            # The bridge of a guest is named HOST.INTERFACE.
            names = [str(link.get("node", "")), str(link.get("switch", "")).partition(".")[0]]
            ends = [str(link.get("name", "")), *names, str(link.get("address", ""))]
            yield [*ends, *_ports(lab, link, language), _rate(link, language)]
    for trunk in lab.get("trunks") or []:
        ends = [str(trunk.get("a", "")), str(trunk.get("b", ""))]
        # The end in a node is named NODE.INTERFACE.
        node_end = next((end for end in ends if end in node_addresses), "")
        other_ends = [end for end in ends if end != node_end]
        names = [node_end.partition(".")[0], *other_ends] if node_end else ends
        addresses = ", ".join(node_addresses.get(node_end, []))
        yield [str(trunk.get("name", "")), *names, addresses, *_ports(lab, trunk, language), _rate(trunk, language)]


def _ports(lab: Json, link: Json, language: str) -> list[str]:
    """The cell about VLANs; none in a lab without VLANs."""
    if not lab.get("vlans"):
        return []
    if link.get("vlans"):
        return [say(language, "lab.trunk", {"ids": ", ".join(map(str, link["vlans"]))})]
    return [say(language, "lab.access", {"id": str(link.get("vlan"))})]


def _vlans(lab: Json) -> Iterator[list[str]]:
    """Id, name and subnet of every VLAN, and its routers with their addresses."""
    for vlan in lab.get("vlans") or []:
        routers = [
            f"{switch['name']} {interface['address']}"
            for switch in lab.get("switches") or []
            for interface in switch.get("interfaces") or []
            if interface["vlan"] == vlan["id"]
        ]
        yield [str(vlan["id"]), str(vlan["name"]), str(vlan["subnet"]), ", ".join(routers) or "–"]


def _rate(link: Json, language: str) -> str:
    rate = link.get("rate_bits_per_s")
    return format_rate(int(rate)) if rate else say(language, "lab.unlimited")


def _site(lab: Json, language: str) -> Iterator[tuple[str, str]]:
    """Name, LUs, ports and share of the site that was used instead of a lab."""
    site = lab.get("site") or {}
    if site:
        yield say(language, "lab.site.name"), str(site.get("name", ""))
    for node in lab.get("nodes") or []:
        # Without `load_hosts`, the only one is this machine.
        if site.get("load_hosts") and "engine" in node:
            yield say(language, "lab.site.host", {"name": node["name"]}), _load_host(node, language)
    for lu in site.get("lus") or []:
        ends = {"target": lu["target_name"], "portal": lu["portal"]}
        yield f"LU {lu['lun']}", say(language, "lab.site.expendable" if lu["expendable"] else "lab.site.kept", ends)
    ports = site.get("ports") or {}
    for name in ("left", "right"):
        if name in ports:
            yield say(language, f"lab.site.port.{name}"), f"{ports[name]['interface']} ({ports[name]['address']})"
            if ports[name].get("function"):
                yield say(language, f"lab.site.function.{name}"), ports[name]["function"]
    if ports.get("loop"):
        yield say(language, "lab.site.port.loop"), " – ".join(ports["loop"])
    if share := site.get("share"):
        yield say(language, "lab.site.share"), f"//{share['server']}/{share['name']}/{share['folder']}"


def _load_host(node: Json, language: str) -> str:
    """Machine, engine and clock of a load host."""
    values = {"system": node["system"], "cpus": node["cpus"], "version": node["engine"]["version"]}
    clock = node.get("clock")
    if clock is None:
        return say(language, "lab.site.host.here", values)
    start = clock["start"]
    values |= {"destination": node["ssh"], "offset_ms": start["offset_ns"] / 1e6, "bound_ms": start["bound_ns"] / 1e6}
    parts = [say(language, "lab.site.host.there", values)]
    if clock.get("drift_ppm") is not None:
        drift = {"drift_ppm": clock["drift_ppm"], "bound_ppm": clock["drift_bound_ppm"]}
        parts.append(say(language, "lab.site.host.drift", drift))
    return say(language, "list.separator").join(parts)


def _switches(lab: Json, language: str) -> Iterator[tuple[str, str]]:
    for switch in lab.get("switches") or []:
        if switch.get("is_nic"):
            continue
        about = [_translated(language, f"lab.forwarding.{switch.get('forwarding')}", switch.get("forwarding"))]
        if switch.get("shared_bytes"):
            shared = {"size": format_size(int(switch["shared_bytes"])), "alpha": switch.get("alpha")}
            about.append(say(language, "lab.shared", shared))
        about += [f"{route['network']} → {route['via']}" for route in switch.get("routes") or []]
        yield (
            say(language, "lab.switch", {"name": str(switch.get("name"))}),
            say(language, "list.separator").join(about),
        )


def _backend(lab: Json, language: str) -> Iterator[tuple[str, str]]:
    """Backend, link check and congestion control of a lab that was built."""
    backend = lab.get("backend") or {}
    if not isinstance(backend, dict):
        yield say(language, "lab.built.links"), str(backend)
        return
    if backend.get("name"):
        yield say(language, "lab.built.links"), _translated(language, f"lab.backend.{backend['name']}", backend["name"])
    if lab.get("checked"):
        yield say(language, "lab.built.checked"), say(language, "lab.checked")
    if backend.get("tcp_congestion_control"):
        yield say(language, "lab.tcp.control"), str(backend["tcp_congestion_control"])


def _translated(language: str, message: str, name: object) -> str:
    """The words for a name of a closed list, or the name itself if it is unknown (a later version
    wrote it).
    """
    return say(language, message) if has(message) else str(name or "")


def _tcp_settings(settings: Sequence[Json], clean: Callable[[object], str], language: str) -> list[Json]:
    """The TCP configurations of the lab. What remains of today's TCP is stated with the first
    configuration for which it is the same.
    """
    rows, stated = [], set()
    for row in (_tcp(setting, clean, language) for setting in settings):
        rows.append(row | {"remains": "" if row["remains"] in stated else row["remains"]})
        stated.add(row["remains"])
    return rows


def _tcp(setting: Json, clean: Callable[[object], str], language: str) -> Json:
    """One TCP configuration of the lab: its age, its settings, and the properties that no setting
    reverts.
    """
    values = {**(setting.get("set") or {}), **(setting.get("found") or {})}
    control = [str(r["congestion_control"]) for r in setting.get("routes") or [] if r.get("congestion_control")]
    settings = [f"{name.rpartition('/')[2]} {value}" for name, value in values.items()]
    return {
        "stack": clean(setting.get("stack", "")),
        "control": clean(", ".join(dict.fromkeys(control))),
        "settings": clean(", ".join(settings)) or say(language, "lab.tcp.untouched"),
        "remains": clean("; ".join(_remains(text, language) for text in setting.get("remains") or [])),
    }


def _remains(text: object, language: str) -> str:
    """A property of today's TCP that no setting reverts, translated from the English of
    lab.json.
    """
    ids = {say("en", message): message for message in REMAINS}
    return say(language, ids[str(text)]) if str(text) in ids else str(text)


def _baseline(baseline: Json, clean: Callable[[object], str], language: str) -> list[str]:
    def rate(name: str) -> str:
        value = baseline.get(name)
        return f"{number(float(value) / 1e6, language)} Mbit/s" if value else "–"

    ends = f"{baseline.get('from', '')} – {baseline.get('to', '')}"
    retransmits = [baseline.get(f"{direction}_retransmits") for direction in ("forward", "back")]
    counts = [number(count, language) if isinstance(count, int) else "–" for count in retransmits]
    streams = say(language, "lab.streams", {"count": baseline.get("streams") or 1})
    tool = baseline.get("error") or f"{baseline.get('tool', '')}, {streams}"
    rates = [rate(f"{direction}_payload_bits_per_s") for direction in ("forward", "back")]
    return [clean(v) for v in (ends, tool, rates[0], counts[0], rates[1], counts[1])]


def plan_of(lab: Json) -> LabPlan | None:
    """The plan of the lab of a run, from its lab.json; None for a run on a site or an unreadable
    lab.json.
    """
    try:
        return LabPlan.from_description(lab)
    except (KeyError, TypeError, ValueError):  # a site, or a lab.json that was edited
        return None


def draw_lab(lab: dict[str, Any], language: str) -> str:
    """An `<svg>` element; empty for a run on a site."""
    plan = plan_of(lab)
    if plan is None or not plan.links or {node.kind for node in plan.nodes} - {"guest"} != {"host", "switch", "array"}:
        return ""
    drawn = draw(plan, language)
    return re.sub(r'font-family="[^"]*"', f'font-family="{FAMILY}"', drawn)
