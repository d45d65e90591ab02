"""Parameters of a study that no source states, and that were chosen so that a published number is
met.

    calibrated:
      - place: load.iscsi.initiator.commands
        on: {en: "socket buffer optimised / default, 5 times at 20 ms", ja: …}

The value itself stands at its place in the study. A number that chose a parameter is no evidence
for the model; its row of `reference` is marked as calibrated.
"""

from __future__ import annotations

from pydantic import Field

from hakaru.study.part import Part, Text
from hakaru.study.variables import Place


class Calibrated(Part):
    """One calibrated parameter."""

    place: Place = Field(description="place of the parameter in the study")
    on: Text = Field(description="published number that the value was chosen to meet")
