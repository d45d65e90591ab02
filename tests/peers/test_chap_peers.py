"""CHAP with programs of other makers: libiscsi logs in to our array, our initiator logs in to tgt.

Both support MD5. Whether another algorithm is used depends on how libiscsi was built.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.peers import tgt as other
from tests.peers.array import MIB, TARGET_NAME, array, lu, need
from tests.peers.initiator import Outcome, iscsi, load_until, vm

SECRET, OWN_SECRET = "canary-of-the-vm", "canary-of-the-array"
EVERY = ["sha3_256", "sha256", "sha1", "md5"]


def user(name: str, secret: str) -> dict[str, Any]:
    return {"name": name, "secret": {"kind": "text", "text": secret}}


def run_iscsi_ls(
    portal: str, secret: str | None, *, target_secret: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `iscsi-ls -s` with CHAP in its URL."""
    program = need("iscsi-ls", "libiscsi-bin")
    credentials = "" if secret is None else f"vm%{secret}@"
    mutual = "" if target_secret is None else f"?target_user=array&target_password={target_secret}"
    command = [program, "-s", f"iscsi://{credentials}{portal}{mutual}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_libiscsi_logs_in_only_with_the_secret() -> None:
    access = {"users": [user("vm", SECRET)], "target": user("array", OWN_SECRET), "algorithms": EVERY}
    with array(lu(0, 64 * MIB), access=access) as a:
        right = run_iscsi_ls(a.portal, SECRET)
        assert right.returncode == 0, right.stderr
        assert f"Target:{TARGET_NAME}" in right.stdout and "Lun:0" in right.stdout
        for wrong in (None, "canary-of-the-vM"):
            refused = run_iscsi_ls(a.portal, wrong)
            assert refused.returncode != 0
            assert TARGET_NAME not in refused.stdout, "an unknown initiator learns nothing"
        mutual = run_iscsi_ls(a.portal, SECRET, target_secret=OWN_SECRET)
        assert mutual.returncode == 0 and "Lun:0" in mutual.stdout, mutual.stderr
        values = a.engine.stop()
    assert values["logins_denied"] == 2
    assert values["protocol_errors"] == 0


def test_initiator_sees_only_the_lus_of_its_access_rule() -> None:
    access = {"rules": [{"address": "127.0.0.0/8", "lus": [{"lun": 3}]}]}
    with array(lu(0, 64 * MIB), lu(3, 64 * MIB), access=access) as a:
        output = run_iscsi_ls(a.portal, None).stdout
    assert "Lun:3" in output and "Lun:0" not in output


def our_load(portal: str, target_name: str, lun: int, **more: Any) -> Outcome:
    """Log in and read, with the settings `more`."""
    return load_until(lambda counters: counters["reads"] > 0, vm("vm1", iscsi(portal, target_name, lun, "vm1")), **more)


@pytest.mark.parametrize("algorithm", EVERY)
def test_our_initiator_and_our_array_agree_on_every_algorithm(algorithm: str) -> None:
    access = {"users": [user("vm", SECRET)], "target": user("array", OWN_SECRET), "algorithms": EVERY}
    with array(lu(0, 64 * MIB), access=access) as a:
        chap = {"user": user("vm", SECRET), "target": user("array", OWN_SECRET), "algorithms": [algorithm]}
        outcome = our_load(a.portal, TARGET_NAME, 0, chap=chap)
        assert outcome.exit_code == 0 and outcome.values["reads"] > 0
        for wrong in ({"user": user("vm", OWN_SECRET + "x")}, {"target": user("array", SECRET + "x")}):
            refused = our_load(a.portal, TARGET_NAME, 0, chap=chap | wrong)
            assert refused.exit_code == 7
            assert "authentication" in refused.events[-1]["message"]
            assert "canary" not in str(refused.events)


def test_our_initiator_logs_in_to_tgt_only_if_it_proves_itself(tmp_path: Path) -> None:
    # tgt uses number 7 for SHA-1, which IANA assigned to SHA-256. Only MD5 has the same number in
    # tgt and elsewhere.
    known = ["sha3_256", "md5"]
    with other.tgt(tmp_path, 64 * MIB, user=("vm", SECRET), own=("array", OWN_SECRET)) as tgt:
        for target, exit_code in ((None, 0), (OWN_SECRET, 0), ("another-secret", 7)):
            chap: dict[str, Any] = {"user": user("vm", SECRET), "algorithms": known}
            if target is not None:
                chap["target"] = user("array", target)
            outcome = our_load(tgt.portal, other.TARGET_NAME, other.LUN, chap=chap)
            assert outcome.exit_code == exit_code, outcome.events[-1]
        wrong = user("vm", "another-secret")
        refused = our_load(tgt.portal, other.TARGET_NAME, other.LUN, chap={"user": wrong, "algorithms": known})
        assert refused.exit_code == 7
        silent = our_load(tgt.portal, other.TARGET_NAME, other.LUN)
        assert silent.exit_code == 7 and "authentication" in silent.events[-1]["message"]


def test_array_that_accepts_broken_hashes_warns() -> None:
    with array(lu(0, MIB), access={"users": [user("vm", SECRET)], "algorithms": ["sha256", "md5"]}) as a:
        warning = a.engine.wait_for("error")
    assert not warning["fatal"] and "MD5" in warning["message"] and "canary" not in str(warning)
