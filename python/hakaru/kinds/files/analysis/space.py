"""Space of the layers below the trees: means over the repetitions of a point, and the check that
the layers agree. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from hakaru.caveats import Caveat
from hakaru.fileserver.space import LAYERS, STAGES, bytes_of

Json = Mapping[str, Any]
"""Record of a chain in a repetition (`hakaru.lab.build.guest_chain`)."""


def of_repetitions(records: Sequence[Json]) -> dict[str, Any] | None:
    """Return bytes by stage and layer, and the growth of each pair of layers; None without any
    record.
    """
    if not records:
        return None
    stages = {
        stage: {layer: fmean(bytes_of(record["stages"][stage])[layer] for record in records) for layer in LAYERS}
        for stage in STAGES
    }
    growths = []
    for pairs in zip(*(record["growths"] for record in records), strict=True):
        growths.append(
            {
                "upper": pairs[0]["upper"],
                "lower": pairs[0]["lower"],
                "upper_bytes": fmean(pair["upper_bytes"] for pair in pairs),
                "lower_bytes": fmean(pair["lower_bytes"] for pair in pairs),
                "allowed_bytes": max(pair["allowed_bytes"] for pair in pairs),
                "agrees": all(pair["agrees"] for pair in pairs),
            }
        )
    (first, *_) = records
    return {
        "repetitions": len(records),
        "page_bytes": first["page_bytes"],
        "disk": dict(first["disk"]),
        "host_file_system": first["host_file_system"],
        "guest_file_system": first["guest_file_system"],
        "stages": stages,
        "growths": growths,
    }


def caveats(record: Json) -> Iterator[Caveat]:
    """A caveat if layers of a repetition do not agree."""
    found = record.get("disagreement")
    if found is not None:
        yield Caveat("layers_disagree", dict(found))
