"""Copies in guests whose interfaces have a rate of their own, behind the link of their host."""

from __future__ import annotations

import json
from pathlib import Path

from hakaru.store import RunReader

from tests.run.conftest import Hakaru
from tests.run.test_copying import COPY, last_of

LAB = """\
  hosts: [kvm, other]
  guests:
    kvm: {names: [vm01, vm02], nic_rate: 10 Mbit/s}
  vlans: {servers: {id: 10}, storage: {id: 20}}
  arrays: [primary, vtl]
  switches: {core: {router: {interfaces: [servers, storage]}}, edge: {}}
  links:
    kvm: {between: [kvm, core], rate: 100 Mbit/s, sustained: 1 Mbit/s, vlan: servers}
    other: {between: [other, core], rate: 100 Mbit/s, sustained: 1 Mbit/s, vlan: servers}
    primary: {between: [primary, core], rate: 100 Mbit/s, sustained: 1 Mbit/s, vlan: storage}
    uplink: {between: [core, edge], rate: 100 Mbit/s, sustained: 1 Mbit/s, vlans: [storage]}
    vtl: {between: [vtl, edge], rate: 50 Mbit/s, sustained: 1 Mbit/s, vlan: storage}
arrays:
"""
NIC_PAYLOAD = 10e6 * 1448 / 1538


def test_each_guest_is_held_to_the_rate_of_its_interface(hakaru: Hakaru, tmp_path: Path) -> None:
    before, _, rest = COPY.partition("  hosts: [kvm]\n")
    text = before + LAB + rest.partition("\narrays:\n")[2]
    text = text.replace("held: {lab.links.kvm.send_rate: 20 Mbit/s, lab.mtu: 9000}", "held: {}")
    (tmp_path / "study.yaml").write_text(text)
    result = hakaru.run("run", str(tmp_path / "study.yaml"), "--only", "case=held", "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    reader = RunReader(hakaru.only_run())
    (record,) = reader.repetitions()
    for guest in ("vm01", "vm02"):
        (values,) = [e["values"] for e in record["engines"] if (e["engine"], e["node"]) == ("backup", guest)]
        assert values["jobs_done"] == 1
        assert values["bytes"] * 8 / values[f"seconds/{guest}"] <= 1.02 * NIC_PAYLOAD
    # Both together use the link of the host, which carries more than one guest sends.
    fabric = last_of(reader, record, "fabric")
    sent = [fabric[f"link/{link}/a-b", "bytes_out"] for link in ("kvm", "vm01", "vm02")]
    assert sent[0] >= sent[1] + sent[2] > 0
    assert "backup" not in {e["engine"] for e in record["engines"] if e["node"] in ("kvm", "other")}
    lab = reader.read("lab.json")
    assert (lab["baselines"][0]["from"], lab["baselines"][0]["to"]) == ("kvm", "other")
    assert json.dumps(lab["nodes"]).count('"guest"') == 2
