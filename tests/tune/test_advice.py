"""The configuration text equals golden files, and tgt accepts its lines if it is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hakaru.tune.advice import Block, Names, blocks
from hakaru.tune.closed_form import suggest
from hakaru.tune.conditions import Conditions
from hakaru.tune.knobs import AUTO, Machine, Settings, changed, settle, space_of
from hakaru.tune.start import TODAY, peer_from

from tests.peers.tgt import tgt

GOLDEN = Path(__file__).parent / "golden"
MACHINE = Machine(("cubic", "reno", "bbr"))
NAMES = Names("iqn.2003-01.org.example:disk", "192.0.2.10:3260", "1", "sdb")


def text_of(op: str, loss: float, **values: object) -> tuple[str, list[Block]]:
    conditions = Conditions(20_000_000, loss, 10**9, 4 << 20, op, None)  # type: ignore[arg-type]
    space = space_of(conditions, TODAY, MACHINE, lab=True)
    settings: Settings = settle(space, {**suggest(conditions, space, MACHINE), **values})  # type: ignore[dict-item]
    advice_blocks = blocks(conditions, settings, [k.name for k in changed(space, settings)], MACHINE, NAMES)
    return "\n".join(f"# {b.name} {b.file}\n{b.text}" for b in advice_blocks), advice_blocks


CASES: dict[str, tuple[str, float, dict[str, object]]] = {
    "write": ("write", 0.0, {}),
    "write-loss": ("write", 0.1, {"max_outstanding_r2t": 4, "commands": 128, "command_max": 4 << 20}),
    "write-auto": ("write", 0.0, {"send_buffer": AUTO}),
    "read": ("read", 0.0, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_text_matches_the_golden_file(name: str) -> None:
    op, loss, values = CASES[name]
    text, _ = text_of(op, loss, **values)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("HAKARU_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("level", ["tuned", "guest-tuned"])
def test_long_distance_uses_the_settings_that_the_closed_forms_advise(level: str) -> None:
    conditions = Conditions(20_000_000, 0.0, 10**9, 4 << 20, "write", 1)
    space = space_of(conditions, TODAY, MACHINE, lab=True)
    study = peer_from(f"long-distance:initiator={level}", conditions, space, MACHINE, lab=True)
    assert study == suggest(conditions, space, MACHINE)


def test_unchanged_settings_need_no_text() -> None:
    conditions = Conditions(20_000_000, 0.0, 10**9, 4 << 20, "write", 1)
    space = space_of(conditions, TODAY, MACHINE, lab=True)
    assert blocks(conditions, {k.name: k.default for k in space}, [], MACHINE) == []


def test_text_names_only_changed_knobs() -> None:
    conditions = Conditions(20_000_000, 0.0, 10**9, 4 << 20, "write", 1)
    space = space_of(conditions, TODAY, MACHINE, lab=True)
    advice_blocks = blocks(conditions, suggest(conditions, space, MACHINE), ["initial_r2t"], MACHINE)
    assert [b.name for b in advice_blocks] == ["open-iscsi-conf", "open-iscsi-node", "lio", "tgt"]
    assert all(len(b.lines) == 1 and "InitialR2T" in b.lines[0] for b in advice_blocks)


@pytest.mark.parametrize("name", CASES)
def test_tgt_accepts_its_lines_and_shows_the_values(name: str, tmp_path: Path) -> None:
    op, loss, values = CASES[name]
    _, advice_blocks = text_of(op, loss, **values)
    lines = next((b.lines for b in advice_blocks if b.name == "tgt"), ())
    with tgt(tmp_path, 1 << 20) as target:

        def run(line: str) -> str:
            assert line.startswith("tgtadm ")
            command = line.replace("tgtadm", f"tgtadm -C {target.control}", 1)
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (line, done.stderr)
            return done.stdout

        for line in lines:
            run(line)
        shown = run("tgtadm --lld iscsi --mode target --op show --tid 1")
        for line in lines:
            words = line.split()
            key, value = words[words.index("--name") + 1], words[words.index("--value") + 1]
            assert f"{key}={value}" in shown.splitlines()
