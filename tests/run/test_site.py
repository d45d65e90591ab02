"""Sites: which LUs may be used, and that nothing is written without permission."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru import kind
from hakaru.engine import contract
from hakaru.engine.offset import ClockOffset, ClockRecord
from hakaru.errors import UsageError
from hakaru.kinds.vms.load import load_at
from hakaru.remote.host import HostSpec, SshHost
from hakaru.remote.secrets import with_secrets
from hakaru.run.outcome import _clock_caveats
from hakaru.run.site import SitePlace, check_writes
from hakaru.run.site_file import HOST, load_site
from hakaru.study import expand, load
from hakaru.study.variables import Change
from hakaru.study.watch import Watch

from tests.study.shipped import shipped

STUDY = shipped("vm-sweep").study
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
    with pytest.raises(UsageError, match="portal") as e:
        load_site(path)
    assert "for example 192.0.2.10:3260" in e.value.message and "pattern" not in e.value.message


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
    described = json.dumps(SitePlace(load_site(path), {}, allow_writes=False).describe())
    assert "canary" not in described and "secrets/vm" in described


def test_secret_in_a_site_file_is_refused_without_showing_it(tmp_path: Path) -> None:
    path = site(tmp_path, CHAP.replace("secret_file: secrets/vm", "secret: canary-canary"))
    with pytest.raises(UsageError) as e:
        load_site(path)
    assert "unknown field" in e.value.message and "canary" not in e.value.message + e.value.hint


HOSTS = "load_hosts:\n  - {name: kvm-1, ssh: tester@kvm-1.example, engine: ~/bin/hakaru-engine}\n  - {name: local}\n"


def test_load_hosts_are_the_nodes_of_a_run_and_share_its_vms(tmp_path: Path) -> None:
    assert load_site(site(tmp_path)).host_names == (HOST,)
    loaded = load_site(site(tmp_path, HOSTS))
    assert loaded.hosts == [
        HostSpec("kvm-1", "tester@kvm-1.example", "~/bin/hakaru-engine"),
        HostSpec("local", None, "hakaru-engine"),
    ]
    expanded = expand(READ_ONLY, only={"paths": {"1"}, "vms": {"7"}})
    loads = SitePlace(loaded, {}, allow_writes=False).loads(expanded, expanded.repetitions[0])
    vms = {host: [vm.name for vm in config.vms] for host, config in loads.items()}  # type: ignore[union-attr]
    assert vms == {"kvm-1": ["vm01", "vm03", "vm05", "vm07"], "local": ["vm02", "vm04", "vm06"]}


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ("[]", "load_hosts"),
        ("[{name: a, ssh: -oProxyCommand=id}]", "load_hosts[0].ssh"),
        ("[{name: a, ssh: 'b; id'}]", "load_hosts[0].ssh"),
        ("[{name: a, ssh: b, engine: 'x; id'}]", "load_hosts[0].engine"),
        ("[{name: a, ssh: b, engine: -x}]", "load_hosts[0].engine"),
        ("[{name: A, ssh: b}]", "load_hosts[0].name"),
        ("[{name: a, engine: x}]", "`engine` is given without `ssh`"),
        ("[{name: a, ssh: b}, {name: a, ssh: c}]", "two of the `load_hosts` have the same name"),
        ("[{name: a, password: b}]", "unknown field"),
    ],
)
def test_load_host_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path, hosts: str, message: str) -> None:
    with pytest.raises(UsageError) as e:
        load_site(site(tmp_path, f"load_hosts: {hosts}\n"))
    assert message in e.value.message


def test_interfaces_of_this_machine_and_load_hosts_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(
        "format: 1\nname: router\nload_hosts: [{name: a}]\nports:\n  left: {interface: eth2, address: 198.18.1.2}\n"
        "  right: {interface: eth3, address: 198.18.2.2}\n"
    )
    with pytest.raises(UsageError, match="beside `ports`"):
        load_site(path)


def test_recordings_on_other_machines_are_refused(tmp_path: Path) -> None:
    watch = Watch.model_validate({"tcp_interval": "10 ms"})
    expanded = expand(READ_ONLY.model_copy(update={"watch": watch}), only=ONE_PATH)
    assert check_writes(load_site(site(tmp_path, "load_hosts: [{name: local}]\n")), expanded) is False
    with pytest.raises(UsageError, match="load host 'kvm-1' is another one") as e:
        check_writes(load_site(site(tmp_path, HOSTS)), expanded)
    assert "leave `watch` out" in e.value.hint


def test_secrets_are_sent_to_other_machines_and_never_named_there(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary-canary\r\n")
    user = contract.ChapUser(name="vm", secret=contract.SecretFile(path=str(secret)))
    config = contract.BackupConfig(jobs=[], chap=contract.ChapConfig(user=user), time_limit_s=0, sample_interval_ms=100)
    sent = with_secrets(config)
    assert isinstance(sent, contract.BackupConfig) and sent.chap is not None
    assert sent.chap.user.secret == contract.SecretText(text="canary-canary")
    assert "canary" not in repr(sent)
    secret.unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        with_secrets(config)


def offset(offset_ms: float, bound_ms: float, at_s: float = 0) -> ClockOffset:
    return ClockOffset(int(offset_ms * 1e6), int(bound_ms * 1e6), int(at_s * 1e9), 32)


@pytest.mark.parametrize(
    ("end", "error_ms"),
    [
        (None, 2),
        (offset(500, 3, 10), 5),
        (offset(505, 2, 10), 9),  # the clock has drifted by 5 ms
    ],
)
def test_clock_that_may_be_off_by_more_than_a_sample_interval_is_marked(end: ClockOffset | None, error_ms: int) -> None:
    clocks = {"kvm-1": ClockRecord(offset(500, 2), end), "kvm-2": ClockRecord(offset(0, 1))}
    assert list(_clock_caveats(clocks, error_ms * 1_000_000)) == []
    (caveat,) = _clock_caveats(clocks, error_ms * 1_000_000 - 1)
    assert caveat.name == "clock_uncertain" and caveat.severity == "warning"
    assert (caveat.values["host"], caveat.values["error_ms"]) == ("kvm-1", error_ms)


def test_load_hosts_share_the_jobs_of_a_copy(tmp_path: Path) -> None:
    lus = "  - {portal: '192.0.2.11:3260', target_name: iqn.example:b, lun: 0, role: ROLE, expendable: true}\n"
    path = tmp_path / "site.yaml"
    both = lus.replace("ROLE", "source") + lus.replace("ROLE", "destination").replace("lun: 0", "lun: 1")
    path.write_text(f"format: 1\nname: backup\nlus:\n{both}{HOSTS}")
    study = load(str(kind.named("copy").template("en"))).study
    expanded = expand(study, only={"jobs": {"2"}})
    loads = SitePlace(load_site(path), {}, allow_writes=True).loads(expanded, expanded.repetitions[0])
    jobs = {host: len(config.jobs) for host, config in loads.items()}  # type: ignore[union-attr]
    assert jobs == {"kvm-1": 1, "local": 1}


@pytest.mark.parametrize(
    ("engine", "named"),
    [
        ("hakaru-engine", ["root@load-1:`", "`engine: ~/hakaru-engine`"]),
        ("/opt/engine", ["root@load-1:/opt/engine`"]),
    ],
)
def test_hint_to_copy_the_engine_names_a_place_that_a_login_finds(
    engine: str, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hakaru.remote.host.find_engine", lambda: Path("/usr/lib/hakaru-engine"))
    hint = SshHost(HostSpec("load-1", "root@load-1", engine), "root@load-1")._how_to_copy()
    assert all(each in hint for each in named), hint
