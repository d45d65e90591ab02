"""Space of the layers below the trees: bytes of all chains together, means over the repetitions of
a point, and the check that the layers agree. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from hakaru.caveats import Caveat
from hakaru.fileserver.space import LAYERS, STAGES, bytes_of

Json = Mapping[str, Any]
"""Record of a chain in a repetition (`hakaru.lab.build.guest_chain`)."""


def of_repetitions(repetitions: Sequence[Sequence[Json]]) -> dict[str, Any] | None:
    """Return bytes by stage and layer, and the growth of each pair of layers; None without any
    record. A stage is left out if a chain does not have it. `repetitions`: the records of all
    chains of each repetition, with at least one chain.

    Several file servers have a chain each. Their bytes are added up within a repetition, as their
    rates are, and the means are over the repetitions. A pair of layers agrees if it does in each
    chain.
    """
    if not repetitions:
        return None
    stages = {
        stage: {
            layer: fmean(sum(bytes_of(record["stages"][stage])[layer] for record in chains) for chains in repetitions)
            for layer in LAYERS
        }
        for stage in STAGES
        if all(stage in record["stages"] for chains in repetitions for record in chains)
    }
    first = repetitions[0][0]
    return {
        "repetitions": len(repetitions),
        "chains": max(len(chains) for chains in repetitions),
        "page_bytes": first["page_bytes"],
        "disk": dict(first["disk"]),
        "host_file_system": first["host_file_system"],
        "guest_file_system": first["guest_file_system"],
        "stages": stages,
        "growths": [_growth(repetitions, place) for place in range(len(first["growths"]))],
    }


def _growth(repetitions: Sequence[Sequence[Json]], place: int) -> dict[str, Any]:
    """The growth of the pair of layers at `place`, from the top down."""
    pairs = [[record["growths"][place] for record in chains] for chains in repetitions]
    return {
        "upper": pairs[0][0]["upper"],
        "lower": pairs[0][0]["lower"],
        "upper_bytes": fmean(sum(pair["upper_bytes"] for pair in chains) for chains in pairs),
        "lower_bytes": fmean(sum(pair["lower_bytes"] for pair in chains) for chains in pairs),
        "allowed_bytes": max(sum(pair["allowed_bytes"] for pair in chains) for chains in pairs),
        "agrees": all(pair["agrees"] for chains in pairs for pair in chains),
    }


def caveats(record: Json) -> Iterator[Caveat]:
    """A caveat if layers of a repetition do not agree."""
    found = record.get("disagreement")
    if found is not None:
        yield Caveat("layers_disagree", dict(found))
