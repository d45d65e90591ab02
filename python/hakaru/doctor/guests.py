"""Findings about guests, printed by `hakaru doctor`: QEMU, its accelerator, and every model of NIC.

No guest is booted. A machine without guests is `ok`: a run marks the points that need one, and
measures the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from hakaru.doctor.finding import Finding
from hakaru.guest.accelerator import known_accelerator
from hakaru.guest.facts import collect_facts
from hakaru.guest.function import DRIVER, Function, has_iommu, offered_functions
from hakaru.guest.nic import MODELS, Nic, NicModel
from hakaru.guest.recipe import RECIPES
from hakaru.guest.refusal import Refusal
from hakaru.guest.requirements import Facts, requirements


def check_guests() -> list[Finding]:
    """Check QEMU and its accelerator, and list the models of NICs with the images that have their
    drivers, or the reason why they cannot be used.
    """
    facts, functions = collect_facts(known_accelerator()), offered_functions()
    if facts.qemu is None:
        return [Finding("guests", "ok", "qemu-system-x86_64 is not installed; points with guests cannot be measured")]
    version = ".".join(map(str, facts.qemu))
    reason = f" ({facts.accelerator.reason})" if facts.accelerator.reason else ""
    return [
        Finding("guests", "ok", f"QEMU {version}, accelerator {facts.accelerator.kind}{reason}"),
        *(Finding(f"guest nic {model}", "ok", describe(model, facts, functions)) for model in MODELS),
    ]


def describe(model: NicModel, facts: Facts, functions: Sequence[Function] = ()) -> str:
    """Return the images with which a model can be used, or why none can. `functions`: those of this
    machine's adapters that guests may get.
    """
    if MODELS[model].backend == "function":
        return _describe_functions(model, facts, functions)
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


def _describe_functions(model: NicModel, facts: Facts, functions: Sequence[Function]) -> str:
    """Return the functions that a guest may get as a NIC of a model, or why it gets none."""
    recipe = next(recipe for recipe in RECIPES.values() if recipe.adapters)
    outcomes = {each.address: requirements(Nic(model=model), recipe, facts, functions=[each]) for each in functions}
    usable = [address for address, refusal in outcomes.items() if refusal is None]
    if usable:
        return f"usable on a site with guest image {recipe.name}: PCI functions {', '.join(usable)}"
    if outcomes:
        refusal = next(iter(outcomes.values()))
        assert refusal is not None
        return f"not usable: {refusal.reason}; {refusal.hint}"
    if not has_iommu():
        return "not usable: the IOMMU of this machine is missing or switched off; VT-d or AMD-Vi in the firmware"
    return f"not usable: no network adapter has the driver {DRIVER}; `hakaru docs sites` describes how to bind one"
