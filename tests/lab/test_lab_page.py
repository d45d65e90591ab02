"""docs/reference/lab.md lists exactly the fields of a lab and the settings of the TCP stack of
2009.
"""

from __future__ import annotations

import re
from pathlib import Path

from hakaru.lab.model import LinkSpec
from hakaru.lab.plan.backend import LINK_FEATURES, SWITCH_FEATURES
from hakaru.lab.plan.tcp import REMAINS_2009, SACK_RACK, SWITCHES_2009

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/lab.md").read_text()


def test_page_lists_every_sysctl_of_2009_with_its_value_and_origin() -> None:
    rows = re.findall(r"^\| `(tcp_\w+)` \| (.+?) \| (.+?) \| (.+) \|$", PAGE, re.M)
    assert rows == [
        (switch.name, switch.value, f"{switch.since} {switch.commit}".strip() or "as before", switch.why)
        for switch in SWITCHES_2009
    ]


def test_page_lists_the_features_that_no_setting_disables() -> None:
    listed = PAGE.split("What no setting undoes:")[1].split("With `sack")[0]
    assert re.findall(r"^- (.+)$", listed, re.M) == [SACK_RACK, *REMAINS_2009]


def test_page_explains_every_field_of_a_link() -> None:
    table = PAGE.split("| field of a link")[1].split("A node's own end")[0]
    named = set(
        re.findall(r"`(\w+)`", "\n".join(line.split("|")[1] for line in table.splitlines() if line[:3] == "| `"))
    )
    assert named == set(LinkSpec.model_fields) - {"between"}


def test_page_lists_the_features_that_the_kernel_backend_refuses() -> None:
    (refused,) = (line for line in PAGE.splitlines() if line.endswith("| yes | refused |"))
    words = {"discipline": "marking", "loss": "bursts of loss", "reorder": "reordering", "forwarding": "cut-through"}
    for feature in (*LINK_FEATURES, *SWITCH_FEATURES):
        assert words.get(feature.field, feature.field.replace("_", " ")) in refused, feature.field
