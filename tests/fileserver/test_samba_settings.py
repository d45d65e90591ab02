"""The description of a file server and its smb.conf, judged by Samba's own testparm."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hakaru.fileserver.samba_settings import FOLDERS, FileServer, SambaSettings, Share, User, configuration, passwd
from pydantic import ValidationError

# testparm's own spelling of some values.
SPELLED = {"Yes": "yes", "No": "no", "SMB2": "SMB2_10", "SMB3": "SMB3_11"}
USER = User("vm-1", "secret")


def server(*shares: Share, **settings: Any) -> FileServer:
    return FileServer("fs-1", shares or (Share(name="data", path="/srv/data"),), (USER,), SambaSettings(**settings))


def judged(described: FileServer, folder: Path) -> dict[str, dict[str, str]]:
    """Return the sections of smb.conf as Samba reads them, with all parameters."""
    if shutil.which("testparm") is None:
        pytest.skip("testparm is not installed (Debian package samba-common-bin)")
    for name in FOLDERS:
        (folder / name).mkdir(exist_ok=True)
    file = folder / "smb.conf"
    file.write_text(configuration(described, str(folder)))
    done = subprocess.run(
        ["testparm", "--suppress-prompt", "--verbose", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "Unknown parameter" not in done.stderr, done.stderr
    sections: dict[str, dict[str, str]] = {}
    for line in done.stdout.splitlines():
        if found := re.fullmatch(r"\[(.+)\]", line):
            sections[found[1]] = {}
        elif "=" in line:
            name, _, value = line.strip().partition(" = ")
            sections[list(sections)[-1]][name.strip()] = value
    return sections


def test_samba_understands_every_setting_in_its_extreme_forms(tmp_path: Path) -> None:
    changed = SambaSettings.model_validate(
        {
            "sync_always": True,
            "read_max": "64 KiB",
            "write_max": "1 MiB",
            "transact_max": "1 MiB",
            "credits_max": 1,
            "signing": "required",
            "encryption": "required",
            "multi_channel": False,
            "sendfile": True,
            "asynchronous_io": False,
            "leases": False,
            "dos_attributes": False,
            "protocol_min": "SMB3_00",
        }
    )
    for settings in (SambaSettings(), SambaSettings(strict_sync=False), changed):
        parameters = settings.parameters()
        sections = judged(FileServer("fs-1", (Share(name="data", path="/srv/data"),), (USER,), settings), tmp_path)
        found = {name: SPELLED.get(value, value) for name, value in sections["global"].items()}
        differing = {name: (value, found.get(name)) for name, value in parameters.items() if found.get(name) != value}
        assert differing == {}


def test_shares_have_their_paths_and_rights(tmp_path: Path) -> None:
    shares = (Share(name="Data-1", path="/srv/a b;c#d"), Share(name="ro", path="/x", read_only=True))
    sections = judged(server(*shares), tmp_path)
    assert sections["Data-1"]["path"] == "/srv/a b;c#d"
    assert sections["Data-1"]["read only"] == "No"
    # Samba's default, which testparm prints as well.
    assert sections["ro"].get("read only", "Yes") == "Yes"
    assert sections["global"]["map to guest"] == "Never"
    with_guests = judged(server(Share(name="all", path="/x", guests=True)), tmp_path)
    assert with_guests["global"]["map to guest"] == "Bad User"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "global", "path": "/x"}, "cannot be the name of a share"),
        ({"name": "a]\n[b", "path": "/x"}, "cannot be the name of a share"),
        ({"name": "a", "path": "relative"}, "must be absolute"),
        ({"name": "a", "path": "/x\nread only = no"}, "must be absolute"),
        ({"name": "a", "path": "/home/%u"}, "must be absolute"),
        ({"name": "a", "path": "/x\\"}, "must be absolute"),
        ({"name": "a", "path": "/x "}, "must be absolute"),
    ],
)
def test_share_that_would_change_other_settings_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Share(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"read_max": "32 KiB"}, "not between 64 KiB and 8 MiB"),
        ({"write_max": "16 MiB"}, "not between 64 KiB and 8 MiB"),
        ({"credits_max": 0}, "greater than or equal to 1"),
        ({"sync_always": True, "strict_sync": False}, "ignores `sync_always`"),
        ({"protocol_min": "SMB3_11", "protocol_max": "SMB2_10"}, "is newer than"),
        ({"encryption": "required", "protocol_max": "SMB2_10"}, "SMB 2.1 has no encryption"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SambaSettings.model_validate(values)


@pytest.mark.parametrize(
    "make",
    [
        lambda: User("root", "x"),
        lambda: User("a:b", "x"),
        lambda: User("a", ""),
        lambda: User("a", "x\ny"),
        lambda: FileServer("fs-1", (), (USER,)),
        lambda: FileServer("fs-1", (Share(name="a", path="/x"), Share(name="A", path="/y")), (USER,)),
        lambda: FileServer("fs-1", (Share(name="a", path="/x"),), (USER, USER)),
    ],
)
def test_users_and_servers_that_cannot_exist_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be a user|needs a password|has no|has two"):
        make()


def test_record_has_no_passwords() -> None:
    assert "secret" not in repr(server().describe())
    assert "secret" not in passwd((USER,), 1000)
