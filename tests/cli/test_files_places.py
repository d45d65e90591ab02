"""`hakaru files` on a directory and on a share: places, refusals, and loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hakaru.errors import UsageError
from hakaru.files.place import destination

from tests.engine.smb_server import ADDRESS, USER, smb_server

SMALL = ("--scale", "1/100000", "--trees", "2", "--tree")
TREE = "tree: {trees: 2, depth: 3, folders: 4, targets: 30}\n"


def hakaru(folder: Path, *arguments: str, inside: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*inside, sys.executable, "-m", "hakaru.cli", "files", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)


def test_a_place_is_a_directory_or_a_folder_of_a_share(tmp_path: Path) -> None:
    directory = destination("trees", None)
    assert directory.kind == "directory" and directory.path == str(Path("trees").absolute())
    guest = destination("smb://127.0.0.1/data/a%20b/trees", None)
    assert guest.kind == "smb" and guest.user.kind == "guest"
    assert (guest.address, guest.share, guest.folder) == ("127.0.0.1:445", "data", "a b/trees")
    named = destination("smb://LAB;anna@[::1]:1445/data/trees", tmp_path / "key")
    assert named.kind == "smb" and named.address == "[::1]:1445" and named.user.kind == "password"
    assert (named.user.name, named.user.domain) == ("anna", "LAB")
    assert named.user.password.kind == "file" and named.user.password.path == str(tmp_path / "key")


@pytest.mark.parametrize(
    ("place", "has_password", "problem"),
    [
        ("smb://nas", False, "does not name a server, a share and a folder"),
        ("smb:///data/trees", False, "does not name a server"),
        ("smb://nas/data", False, "does not name a server, a share and a folder"),
        ("smb://nas/data/trees?x", False, "does not name a server"),
        ("smb://nas:port/data/trees", False, "is no URL"),
        ("smb://anna:secret@nas/data/trees", False, "can read a password in a URL"),
        ("SMB://anna:secret@nas/data/trees", False, "can read a password in a URL"),
        ("smb://anna:secret@nas:x/data", False, "can read a password in a URL"),
        ("smb://anna@nas/data/trees", False, "a user needs a password"),
        ("smb://nas/data/trees", True, "a password a user"),
        ("trees", True, "a directory needs no password"),
    ],
)
def test_wrong_places_are_refused(place: str, has_password: bool, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        destination(place, Path("key") if has_password else None)


def test_a_load_of_a_directory_prints_rates_and_times(tmp_path: Path) -> None:
    (tmp_path / "tree.yaml").write_text(TREE)
    loaded = hakaru(tmp_path, "load", "trees", *SMALL, "tree.yaml", "--tools", "2", "--verify", "--read", "50")
    assert loaded.returncode == 0, loaded.stderr
    assert "60 files used in" in loaded.stdout and "files/s" in loaded.stdout and "failed: 0" in loaded.stdout
    assert "open: median" in loaded.stdout and "file_read: median" in loaded.stdout
    # The trees stay as described.
    verified = hakaru(tmp_path, "verify", "trees")
    assert verified.returncode == 0 and "60 files verified" in verified.stdout


def test_trees_on_a_share_are_built_loaded_verified_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "share"
    folder.mkdir()
    (tmp_path / "tree.yaml").write_text(TREE)
    key = tmp_path / "key"
    key.write_text(f"{USER.password}\n")
    key.chmod(0o600)
    place = (f"smb://{USER.name}@{ADDRESS}/data/trees", "--password-file", str(key))
    with smb_server(folder) as server:
        built = hakaru(tmp_path, "build", *place, *SMALL, "tree.yaml", inside=server.inside)
        assert built.returncode == 0 and "60 files built" in built.stdout, built.stderr
        arguments = ("load", *place, *SMALL, "tree.yaml", "--tools", "2", "--json")
        loaded = hakaru(tmp_path, *arguments, inside=server.inside)
        assert loaded.returncode == 0, loaded.stderr
        result = json.loads(loaded.stdout)
        assert result["values"]["files_read"] + result["values"]["files_written"] == 60
        assert result["times_ms"]["open"][0] > 0
        verified = hakaru(tmp_path, "verify", *place, inside=server.inside)
        assert verified.returncode == 0 and "60 files verified" in verified.stdout, verified.stderr
        key.write_text("wrong\n")
        refused = hakaru(tmp_path, "verify", *place, inside=server.inside)
        assert refused.returncode == 7 and "login refused" in refused.stderr
        key.write_text(f"{USER.password}\n")
        assert hakaru(tmp_path, "remove", *place, inside=server.inside).returncode == 0
    assert list(folder.iterdir()) == []
