"""Access to an array that is served on its own: CHAP users, rules, and secret files that only their
owner may read.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.array.serving import MEMORY, TARGET_NAME, array_file, error_of, hakaru, served
from tests.peers.array import need

SECRET, CANARY = "a-secret-of-20-bytes", "canary-of-the-array0"
INITIATOR = "iqn.2026-01.org.example:host-1"
ACCESS = """\
access:
  users: [{name: host-1, secret_file: host-1.secret}]
  target: {name: array, secret_file: array.secret}
  algorithms: [sha256, md5]
"""
RULES = f"""\
  rules:
    - {{user: host-1, initiator_name: {INITIATOR}, lus: [{{lun: 0}}]}}
"""
LUS = MEMORY + "  - {lun: 1, size: 8 MiB, store: {kind: memory}}\n"


def secrets(folder: Path) -> None:
    for name, secret in (("host-1", SECRET), ("array", CANARY)):
        path = folder / f"{name}.secret"
        path.touch(0o600)
        path.write_text(secret + "\n")


def list_lus(portal: str, secret: str | None, initiator: str = INITIATOR) -> subprocess.CompletedProcess[str]:
    """Run `iscsi-ls -s`, as the CHAP user host-1 if a secret is given."""
    program = need("iscsi-ls", "libiscsi-bin")
    user = f"host-1%{secret}@" if secret else ""
    command = [program, "-s", "-i", initiator, f"iscsi://{user}{portal}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_login_needs_chap_and_shows_only_the_lus_of_the_rule(tmp_path: Path) -> None:
    secrets(tmp_path)
    with served(array_file(tmp_path, ACCESS + RULES + LUS)) as array:
        listed = list_lus(array.portal, SECRET)
        assert TARGET_NAME in listed.stdout and "Lun:0" in listed.stdout, listed
        assert "Lun:1" not in listed.stdout
        for secret, initiator in ((None, INITIATOR), ("another-secret-of-20", INITIATOR), (SECRET, INITIATOR + "x")):
            rejected = list_lus(array.portal, secret, initiator)
            assert "Lun:" not in rejected.stdout + rejected.stderr, rejected
        stderr = array.end()
    files = [path.read_text(errors="replace") for path in tmp_path.glob("array.state/**/*") if path.is_file()]
    for text in (stderr, str(array.ready), *files):
        assert SECRET not in text and CANARY not in text


def test_secret_file_readable_by_others_is_refused(tmp_path: Path) -> None:
    secrets(tmp_path)
    (tmp_path / "host-1.secret").chmod(0o640)
    file = array_file(tmp_path, ACCESS + LUS)
    message = error_of(hakaru("array", "serve", file), 2)
    assert f"{file}:5:" in message and "others may read" in message and "chmod 600" in message
    assert SECRET not in message


def test_missing_secret_file_is_named(tmp_path: Path) -> None:
    file = array_file(tmp_path, ACCESS + LUS)
    message = error_of(hakaru("array", "serve", file), 2)
    assert "access.users[0].secret_file" in message and "No such file" in message


@pytest.mark.parametrize(("user", "target", "expected"), [("short", CANARY, "12"), (SECRET, SECRET, "secret")])
def test_weak_or_shared_secret_is_refused_without_showing_it(
    tmp_path: Path, user: str, target: str, expected: str
) -> None:
    secrets(tmp_path)
    (tmp_path / "host-1.secret").write_text(user)
    (tmp_path / "array.secret").write_text(target)
    message = error_of(hakaru("array", "serve", array_file(tmp_path, ACCESS + LUS)), 2)
    assert expected in message and SECRET not in message


def test_external_portal_without_chap_and_rules_is_refused(tmp_path: Path) -> None:
    secrets(tmp_path)
    open_ = {"portals": '["0.0.0.0:0"]', "allow_external": "true"}
    assert "anyone may log in" in error_of(hakaru("array", "serve", array_file(tmp_path, LUS, **open_)), 2)
    assert "anyone may log in" in error_of(hakaru("array", "serve", array_file(tmp_path, ACCESS + LUS, **open_)), 2)
    del open_["allow_external"]
    message = error_of(hakaru("array", "serve", array_file(tmp_path, ACCESS + RULES + LUS, **open_)), 2)
    assert "can be reached from outside this machine" in message
