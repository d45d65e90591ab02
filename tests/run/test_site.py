"""Sites: which LUs may be used, and that nothing is written without permission."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.kinds.vms.load import load_at
from hakaru.run.site import SitePlace, check_writes
from hakaru.run.site_file import load_site
from hakaru.study import expand, load
from hakaru.study.variables import Change
from hakaru.study.watch import Watch

STUDY = load("vm-sweep").study
ONE_PATH = {"paths": {"1"}}
READ_ONLY = STUDY.changed([Change(f"load.patterns.{name}.read_percent", 100) for name in load_at(STUDY).patterns])


def site(tmp_path: Path, extra: str = "") -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(
        "format: 1\nname: our array\nlus:\n"
        f"  - portal: 192.0.2.10:3260\n    target_name: iqn.2011-10.example.vendor:array\n    lun: 3\n{extra}"
    )
    return path


def test_writing_needs_expendable_and_the_refusal_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as e:
        check_writes(load_site(site(tmp_path)), expand(STUDY, only=ONE_PATH))
    assert "nothing was written" in e.value.message
    assert "LU 3" in e.value.message and "192.0.2.10:3260" in e.value.message
    assert "`expendable: true`" in e.value.hint


def test_captures_on_a_site_are_possible_only_on_this_host(tmp_path: Path) -> None:
    expendable = load_site(site(tmp_path, "    expendable: true\n"))
    for at in ("hosts", "arrays", "both"):
        watch = Watch.model_validate({"capture": {"at": at}})
        expanded = expand(STUDY.model_copy(update={"watch": watch}), only=ONE_PATH)
        if at == "hosts":
            assert check_writes(expendable, expanded) is True
            continue
        with pytest.raises(UsageError, match=f"captures at {at}") as e:
            check_writes(expendable, expanded)
        assert "`hosts`" in e.value.hint


def test_expendable_lu_may_be_written(tmp_path: Path) -> None:
    assert check_writes(load_site(site(tmp_path, "    expendable: true\n")), expand(STUDY, only=ONE_PATH)) is True


def test_point_with_several_paths_is_refused_because_an_lu_of_a_site_has_one_portal(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing was written: the point .* paths 2.* uses several paths") as e:
        check_writes(load_site(site(tmp_path, "    expendable: true\n")), expand(STUDY))
    assert "--only paths=1" in e.value.hint


def test_read_only_study_needs_no_permission_to_write(tmp_path: Path) -> None:
    assert check_writes(load_site(site(tmp_path)), expand(READ_ONLY, only=ONE_PATH)) is False


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("    expendible: true\n", "unknown field"),
        ("    expendable: 1\n", "lus[0].expendable"),
        ("    expendable: 'true'\n", "lus[0].expendable"),
        ("    expendable: yes\n", "lus[0].expendable"),
        ("    lun: 4\n", "duplicate key"),
    ],
)
def test_bad_site_names_the_place(tmp_path: Path, extra: str, message: str) -> None:
    path = site(tmp_path, extra)
    with pytest.raises(UsageError) as e:
        load_site(path)
    assert e.value.message.startswith(f"{path}:7:")
    assert message in e.value.message


@pytest.mark.parametrize("portal", ["192.0.2.10", "a b:1", "x:y", ":3260", "user@host:1", "fe80::1:3260"])
def test_portal_is_an_address_and_a_port(tmp_path: Path, portal: str) -> None:
    path = site(tmp_path)
    path.write_text(path.read_text().replace("192.0.2.10:3260", f"'{portal}'"))
    with pytest.raises(UsageError, match="portal"):
        load_site(path)


CHAP = "chap:\n  name: vm\n  secret_file: secrets/vm\n  target: {name: array, secret_file: secrets/array}\n"


def test_chap_of_a_site_names_files_next_to_it_and_the_engine_reads_them(tmp_path: Path) -> None:
    path = site(tmp_path, CHAP)
    with pytest.raises(UsageError, match="secrets/vm"):
        load_site(path)
    (tmp_path / "secrets").mkdir()
    for name in ("vm", "array"):
        (tmp_path / "secrets" / name).write_text("canary-canary\n")
    site_chap = load_site(path).chap
    chap = site_chap and site_chap.config()
    assert chap is not None and chap.target is not None
    assert chap.user.secret == contract.SecretFile(path=str(tmp_path / "secrets/vm"))
    assert chap.target.secret == contract.SecretFile(path=str(tmp_path / "secrets/array"))
    assert chap.algorithms == ["sha3_256", "sha256"]
    described = json.dumps(SitePlace(load_site(path), allow_writes=False).describe())
    assert "canary" not in described and "secrets/vm" in described


def test_secret_in_a_site_file_is_refused_without_showing_it(tmp_path: Path) -> None:
    path = site(tmp_path, CHAP.replace("secret_file: secrets/vm", "secret: canary-canary"))
    with pytest.raises(UsageError) as e:
        load_site(path)
    assert "unknown field" in e.value.message and "canary" not in e.value.message + e.value.hint
