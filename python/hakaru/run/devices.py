"""Guests that a run needs, as devices or for its load: their images, and what this machine lacks
for them.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.guest.recipe import RecipeName
from hakaru.guest.requirements import Facts, Refusal
from hakaru.lab.model.machine import MachineSpec
from hakaru.study import Expanded, Point


def _guests(expanded: Expanded) -> Iterator[tuple[Point, MachineSpec]]:
    for point in expanded.points:
        lab = expanded.at(point).lab
        if lab.device is not None and lab.device.forwards == "guest":
            yield point, lab.device.guest
        if lab.load_guest is not None:
            yield point, lab.load_guest


def images_of(expanded: Expanded) -> list[RecipeName]:
    """Images of all guests, each once."""
    return list(dict.fromkeys(guest.recipe for _, guest in _guests(expanded)))


def fetch_images(expanded: Expanded) -> None:
    """Build the images that are missing. They are downloaded, so this needs the machine's network,
    which a sandbox lacks. Raises EnvironmentError_.
    """
    names = images_of(expanded)
    if names:
        from hakaru.guest.image import find_image

        for name in names:
            find_image(name)


def facts_here() -> Facts:
    """Properties of this machine, as far as they are known without booting a guest."""
    from hakaru.guest.accelerator import known_accelerator
    from hakaru.guest.facts import collect_facts

    return collect_facts(known_accelerator())


def refusals(expanded: Expanded, facts: Facts | None = None) -> dict[str, Refusal]:
    """Point → the reason why its guest cannot run here. `facts`: None: those of this machine."""
    guests = list(_guests(expanded))
    if not guests:
        return {}
    facts = facts or facts_here()
    found = {point.id: guest.refusal(facts) for point, guest in guests}
    return {name: refusal for name, refusal in found.items() if refusal is not None}
