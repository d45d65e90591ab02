"""The report of a run on real equipment names that equipment and no model of the study."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hakaru.report import render
from hakaru.run.site import SitePlace
from hakaru.run.site_file import Site, SiteLu

from tests.fixtures.make_run import make_run

SITE = Site(
    format=1,
    name="our array",
    lus=[
        SiteLu(portal="192.0.2.10:3260", target_name="iqn.2011-10.example.vendor:array", lun=5, expendable=True),
        SiteLu(portal="192.0.2.11:3260", target_name="iqn.2011-10.example.vendor:array", lun=6),
    ],
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = make_run(tmp_path_factory.mktemp("site"))
    run = json.loads((directory / "run.json").read_text())
    run |= {"site": SITE.model_dump(mode="json"), "origin": "measured"}
    (directory / "run.json").write_text(json.dumps(run))
    (directory / "lab.json").write_text(json.dumps(SitePlace(SITE, {}, allow_writes=False).describe()))
    return directory


@pytest.mark.parametrize("language", ["en", "ja"])
def test_report_of_a_site_names_its_lus_and_no_model(directory: Path, tmp_path: Path, language: str) -> None:
    (path,) = render(directory, ["html"], [language], tmp_path)
    text = re.sub(r"<[^>]*>", " ", path.read_text())
    assert "jdsf-2011;" not in text and "jdsf-2011、" not in text and "jdsf-2011。" not in text
    assert "{'" not in text and "&#39;portal&#39;" not in text and "None" not in text
    for shown in ("our array", "192.0.2.10:3260", "iqn.2011-10.example.vendor:array", "LU 5", "LU 6"):
        assert shown in text


@pytest.mark.parametrize(("described", "shown"), [(True, True), (False, False)])
def test_lab_section_appears_only_if_a_lab_is_described(tmp_path: Path, described: bool, shown: bool) -> None:
    directory = make_run(tmp_path / "run")
    if not described:
        (directory / "lab.json").write_text("{}")
    (path,) = render(directory, ["html"], ["en"], tmp_path)
    assert ('<section id="lab">' in path.read_text()) is shown
