"""Findings about guests, printed by `hakaru doctor`: QEMU, its accelerator, and every model of NIC.

No guest is booted. A machine without guests is `ok`: a run marks the points that need one, and
measures the others.
"""

from __future__ import annotations

from hakaru.doctor.finding import Finding
from hakaru.guest.accelerator import known_accelerator
from hakaru.guest.facts import collect_facts
from hakaru.guest.nic import MODELS, Nic, NicModel
from hakaru.guest.recipe import RECIPES
from hakaru.guest.requirements import Facts, Refusal, requirements


def check_guests() -> list[Finding]:
    """Check QEMU and its accelerator, and list the models of NICs with the images that have their
    drivers, or the reason why they cannot be used.
    """
    facts = collect_facts(known_accelerator())
    if facts.qemu is None:
        return [Finding("guests", "ok", "qemu-system-x86_64 is not installed; points with guests cannot be measured")]
    version = ".".join(map(str, facts.qemu))
    reason = f" ({facts.accelerator.reason})" if facts.accelerator.reason else ""
    return [
        Finding("guests", "ok", f"QEMU {version}, accelerator {facts.accelerator.kind}{reason}"),
        *(Finding(f"guest nic {model}", "ok", describe(model, facts)) for model in MODELS),
    ]


def describe(model: NicModel, facts: Facts) -> str:
    """Return the images with which a model can be used, or why none can."""
    recipes = (recipe for recipe in RECIPES.values() if recipe.of_labs)
    outcomes = {recipe.name: requirements(Nic(model=model), recipe, facts) for recipe in recipes}
    usable = [name for name, refusal in outcomes.items() if refusal is None]
    if usable:
        images = " or ".join(usable)
        nic = Nic(model=model, queues=2)
        several = requirements(nic, RECIPES[usable[0]], facts) if nic.traits.queues_max > 1 else None
        if several:
            return f"usable with guest image {images}, with one pair of queues: {several.reason}"
        return f"usable with guest image {images}"
    # The last recipe has the most drivers, so its refusal is the one that matters.
    refusal: Refusal | None = list(outcomes.values())[-1]
    assert refusal is not None
    return f"not usable: {refusal.reason}; {refusal.hint}"
