"""Studies of files on the share of a site."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.kinds.files import on_site
from hakaru.run.options import Options, expand_options
from hakaru.run.site_file import Site, load_site
from hakaru.study import load as load_study

from tests.cli.command import pages_of
from tests.fileserver.conftest import need_samba
from tests.kinds.files.served import PASSWORD, USER
from tests.kinds.files.study import written
from tests.kinds.files.test_run import options

SHARE: dict[str, Any] = {"server": "127.0.0.1", "name": "data", "folder": "below/trees", "expendable": True}
SMB: dict[str, Any] = {"to": {"smb": {}}, "verify": True}


def site_of(folder: Path, **changes: Any) -> Path:
    """A site file, and the file of the secret beside it."""
    secret = folder / "secret"
    secret.write_text(changes.pop("password", PASSWORD) + "\n")
    secret.chmod(0o600)
    user = {"name": USER, "secret_file": "secret"}
    path = folder / "site.yaml"
    path.write_text(json.dumps({"format": 1, "name": "ours", "share": SHARE | {"user": user} | changes}))
    return path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run hakaru beside a Samba that serves the directory `share`."""
    need_samba()
    (folder / "share").mkdir(exist_ok=True)
    command = options(folder, *arguments)
    beside = [sys.executable, "-m", "tests.kinds.files.served", str(folder / "share"), *command.pop("args")]
    root = str(Path(__file__).parents[3])
    command["env"] |= {"PYTHONPATH": f"{root}/python:{root}"}
    return subprocess.run(beside, **command, capture_output=True, timeout=800)


def test_trees_are_built_on_the_share_read_back_and_deleted(tmp_path: Path) -> None:
    study, site = written(tmp_path, load=SMB), site_of(tmp_path)
    (tmp_path / "share" / "below").mkdir(parents=True)
    ran = run(tmp_path, "run", str(study), "--site", str(site), "--report", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (directory,) = (tmp_path / "runs").iterdir()
    summary = json.loads((directory / "report" / "report.json").read_text())
    assert summary["valid"] and summary["run"]["origin"] == "measured"
    assert all(point["metrics"]["files_per_s"]["mean"] > 0 for point in summary["points"])
    page = pages_of(directory)["en"]
    assert "//127.0.0.1/data/below/trees" in page and PASSWORD not in page
    assert not any(PASSWORD in path.read_text() for path in directory.glob("*.json"))
    assert list((tmp_path / "share").rglob("*")) == [tmp_path / "share" / "below"]


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    other = tmp_path / "share" / "below" / "trees" / "other"
    other.parent.mkdir(parents=True)
    other.write_text("precious")
    study, site = written(tmp_path, load=SMB), site_of(tmp_path)
    ran = run(tmp_path, "run", str(study), "--site", str(site))
    assert ran.returncode != 0 and "below" in ran.stderr and "hint:" in ran.stderr
    assert other.read_text() == "precious" and list(other.parent.iterdir()) == [other]


def test_wrong_password_is_named(tmp_path: Path) -> None:
    study, site = written(tmp_path, load=SMB), site_of(tmp_path, password="wrong")
    ran = run(tmp_path, "run", str(study), "--site", str(site))
    assert ran.returncode != 0 and "hint:" in ran.stderr and "Traceback" not in ran.stderr
    assert "login refused" in ran.stderr and "127.0.0.1" in ran.stderr


@pytest.mark.parametrize(
    ("load", "share", "message"),
    [
        (SMB, {"expendable": False}, "does not declare folder 'below/trees' of share 'data' on 127.0.0.1 expendable"),
        (SMB | {"cold": True}, {}, "hakaru cannot empty the caches of the file server of a site"),
        ({"to": {"directory": "small"}}, {}, "the trees are in a directory of this machine, not on a share"),
        ({"to": {"smb": {"server": {"read_max": "1 MiB"}}}}, {}, "hakaru cannot configure the file server of a site"),
    ],
)
def test_what_a_share_cannot_do_is_refused(
    tmp_path: Path, load: dict[str, Any], share: dict[str, Any], message: str
) -> None:
    expanded = expand_options(load_study(str(written(tmp_path, load=load))), Options())
    with pytest.raises(UsageError, match="nothing was written") as refused:
        on_site.check(expanded, load_site(site_of(tmp_path, **share)))
    assert message in refused.value.message and refused.value.hint


def test_server_without_an_address_is_named(tmp_path: Path) -> None:
    expanded = expand_options(load_study(str(written(tmp_path, load=SMB))), Options())
    site = load_site(site_of(tmp_path, server="files.invalid"))
    with pytest.raises(EnvironmentError_, match=r"file server files\.invalid has no address"):
        on_site.destination(expanded.study, site)


def test_secret_is_beside_the_site_file_and_must_exist(tmp_path: Path) -> None:
    path = site_of(tmp_path)
    site = load_site(path)
    assert site.share is not None and site.share.user is not None
    assert site.share.user.secret_file == str(tmp_path / "secret")
    (tmp_path / "secret").unlink()
    with pytest.raises(UsageError, match="no such file for the secret of user 'tester'"):
        load_site(path)


def test_site_without_equipment_is_refused() -> None:
    with pytest.raises(ValueError, match="none of `lus`, `ports` and `share`"):
        Site.model_validate({"format": 1, "name": "nothing"})
