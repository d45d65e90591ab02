"""Joining the figures of the layers."""

from __future__ import annotations

import pytest
from hakaru.fileserver.image_map import ImageMap, Range
from hakaru.fileserver.layers import ArrayCounters, array_counters, layers_of

STATUS = {
    "pools": [
        {"name": "other", "page_bytes": 1, "used_bytes": 1, "volumes": []},
        {
            "name": "p",
            "page_bytes": 65536,
            "used_bytes": 327680,
            "volumes": [{"name": "v0", "mapped_bytes": 65536}, {"name": "v1", "mapped_bytes": 262144}],
        },
    ]
}
REPORT = {
    "entries": "3",
    "files": "10",
    "guest_used": "4096",
    "host_used": "8192",
    "image_length": "99",
    "image_blocks": "3",
}


def test_counters_are_those_of_the_named_volume_and_its_pool() -> None:
    assert array_counters(STATUS, "p", "v1") == ArrayCounters(262144, 327680, 65536)


@pytest.mark.parametrize("names", [("p", "v2"), ("other", "v1"), ("q", "v1")])
def test_volume_that_the_array_does_not_have_is_an_error(names: tuple[str, str]) -> None:
    with pytest.raises(KeyError, match="/".join(names)):
        array_counters(STATUS, *names)


def test_every_layer_has_its_own_bytes() -> None:
    image = ImageMap((Range(0, 4096, data=True, offset=512), Range(4096, 4096, data=False, offset=None)))
    layers = layers_of(REPORT, image, ArrayCounters(262144, 327680, 65536)).describe()
    assert layers == {
        "entries": 3,
        "files_bytes": 10,
        "guest_used_bytes": 4096,
        "image_data_bytes": 4096,
        "image_length_bytes": 99,
        # Blocks of stat(2) have 512 bytes, whatever those of the file system.
        "image_allocated_bytes": 3 * 512,
        "host_used_bytes": 8192,
        "lu_mapped_bytes": 262144,
        "pool_used_bytes": 327680,
        "misaligned_bytes": 4096,
        "fragments": 1,
    }


def test_image_without_a_map_has_no_figures_instead_of_zeros() -> None:
    layers = layers_of(REPORT, None, ArrayCounters(0, 0, 65536))
    assert (layers.image_data_bytes, layers.misaligned_bytes, layers.fragments) == (None, None, None)
    assert layers.image_allocated_bytes == 1536
