"""Guests that a run needs, as devices or for its load: their images, and points whose guest or
device this machine cannot run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hakaru.caveats import Caveat
from hakaru.guest.function import read_function
from hakaru.guest.recipe import RecipeName
from hakaru.guest.refusal import Refusal
from hakaru.guest.requirements import Facts
from hakaru.lab.model.machine import MachineSpec
from hakaru.study import Expanded, Point

if TYPE_CHECKING:
    from hakaru.run.site_file import Site


def _guests(expanded: Expanded, site: Site | None) -> Iterator[tuple[Point, MachineSpec]]:
    """Points with their guests. A site has no guests but devices with functions of adapters."""
    for point in expanded.points:
        lab = expanded.at(point).lab
        device = lab.device if lab.device is not None and lab.device.forwards == "guest" else None
        if device is not None and (site is None or device.guest.nic.traits.backend == "function"):
            yield point, device.guest
        if lab.load_guest is not None and site is None:
            yield point, lab.load_guest


def images_of(expanded: Expanded, facts: Facts | None = None, site: Site | None = None) -> list[RecipeName]:
    """Images of all guests that can run here, each once. `facts`, `site`: as for `refusals`."""
    guests = list(_guests(expanded, site))
    refused = refusals(expanded, facts, site) if guests else {}
    return list(dict.fromkeys(guest.recipe for point, guest in guests if point.id not in refused))


def fetch_images(expanded: Expanded, site: Site | None = None) -> None:
    """Build the images that are missing. They are downloaded, so this needs the machine's network,
    which a sandbox lacks. Raises EnvironmentError_.
    """
    names = images_of(expanded, site=site)
    if names:
        from hakaru.guest.image import find_image

        for name in names:
            find_image(name)


def facts_here() -> Facts:
    """Properties of this machine, as far as they are known without booting a guest."""
    from hakaru.guest.accelerator import known_accelerator
    from hakaru.guest.facts import collect_facts

    return collect_facts(known_accelerator())


def refusals(expanded: Expanded, facts: Facts | None = None, site: Site | None = None) -> dict[str, Refusal]:
    """Point → the reason why its guest or its device cannot run here. `facts`: None: those of this
    machine. `site`: None: a lab is built.
    """
    found = _of_programs(expanded)
    guests = list(_guests(expanded, site))
    if guests:
        facts = facts or facts_here()
        names = site.ports.functions if site is not None and site.ports is not None else []
        functions = [read_function(name) for name in names]
        outcomes = ((point.id, guest.refusal(facts, functions)) for point, guest in guests)
        found |= {name: refusal for name, refusal in outcomes if refusal is not None}
    return found


def device_caveats(device: Mapping[str, Any] | None) -> list[Caveat]:
    """Caveats of a guest that is the device, from its record; none for other devices."""
    if device is None or device["accelerator"] != "tcg":
        return []
    return [Caveat("cpu_emulated", {"reason": device["accelerator_reason"]})]


def _of_programs(expanded: Expanded) -> dict[str, Refusal]:
    """Points whose device or load needs an XDP program, if this user may not load it."""
    if os.geteuid() == 0:
        return {}
    reason = "only root may load an XDP program"
    device_refusal = Refusal(reason, "run as root, or choose another device: `forwards: bridge`")
    load_refusal = Refusal(reason, "run as root, or use `receive: auto` in `load`")
    found = {}
    for point in expanded.points:
        study = expanded.at(point)
        if study.lab.device is not None and study.lab.device.forwards == "xdp":
            found[point.id] = device_refusal
        elif study.load.loads_program:
            found[point.id] = load_refusal
    return found
