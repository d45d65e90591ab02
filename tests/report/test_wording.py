"""The catalogues: both languages have every message, with the same placeholders, in letters that
our fonts have.
"""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from hakaru import kind
from hakaru.errors import EnvironmentError_
from hakaru.kinds.copy.analysis.metrics import UNITS as COPY_UNITS
from hakaru.kinds.vms.analysis.flows import UNITS as FLOW_UNITS
from hakaru.kinds.vms.analysis.metrics import UNITS
from hakaru.report.fonts import FACES, face, missing
from hakaru.wording import LANGUAGES, LOCALE, catalogue, join, merged, number, say, tenths

PYTHON = Path(__file__).parents[2] / "python" / "hakaru"


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_have_every_message_with_the_same_placeholders() -> None:
    en, ja = catalogue("en"), catalogue("ja")
    assert set(en) == set(ja)
    for message in en:
        assert all(en[message]) and all(ja[message]), message
        assert fields("".join(en[message])) == fields("".join(ja[message])), message


def ids(file: Path) -> list[str]:
    return re.findall(r'^msgid "(.+)"', file.read_text(), re.MULTILINE)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_message_is_defined_twice(language: str) -> None:
    defined = [message for file in PYTHON.rglob(f"locale/{language}.po") for message in ids(file)]
    assert len(defined) == len(set(defined)), {m for m in defined if defined.count(m) > 1}


def test_two_packages_that_define_the_same_message_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "first.po", tmp_path / "second.po"]
    for path in paths:
        path.write_text('msgid "limiter.tape"\nmsgstr "the tape drive"\n')
    with pytest.raises(EnvironmentError_) as error:
        merged(paths, "en")
    assert str(error.value) == f"{paths[1]}: message 'limiter.tape' is already defined in {paths[0]}"
    assert "begin the ids" in error.value.hint


@pytest.mark.parametrize("name", sorted(kind.registered()))
def test_each_kind_has_its_own_texts_in_both_languages(name: str) -> None:
    en, ja = (ids(kind.named(name).folder / "locale" / f"{language}.po") for language in LANGUAGES)
    assert en == ja and en


def sources(*folders: Path) -> str:
    files = [p for folder in folders for p in sorted(folder.rglob("*")) if p.suffix in (".py", ".j2")]
    return "".join(p.read_text() for p in files)


USERS_OF_KINDS = {"tuning": ["tune"], "vms": ["kinds/tuning"]}
"""Kind → further folders that use its texts: the package of tuning, and for `vms` the kind tuning,
which uses VMs.
"""


@pytest.mark.parametrize("name", sorted(kind.registered()))
def test_texts_of_a_kind_are_used_only_in_its_folder_and_common_ones_elsewhere(name: str) -> None:
    own = [PYTHON / "kinds" / name, *(PYTHON / folder for folder in USERS_OF_KINDS.get(name, []))]
    others = [
        PYTHON / top if top != "kinds" else PYTHON / "kinds" / other
        for top in ("analysis", "capture", "live", "report", "run", "tune", "cli", "kinds", "web")
        for other in (sorted(set(kind.registered()) - {name}) if top == "kinds" else [""])
    ]
    inside, outside = sources(*own), sources(*(folder for folder in others if folder not in own))
    stems = set(re.findall(r"""[f"' ]["']([a-z_.]+\.)\{""", outside))
    for message in ids(PYTHON / "kinds" / name / "locale" / "en.po"):
        assert f'"{message}"' not in outside, f"{message} is used outside the kind {name}"
    for message in ids(LOCALE / "en.po"):
        built = any(message.startswith(stem) for stem in stems)
        assert built or f'"{message}"' not in inside or f'"{message}"' in outside, f"{message} belongs to {name}"


def test_every_message_that_the_code_uses_is_defined() -> None:
    used = set()
    for path in [
        *(PYTHON / "analysis").rglob("*.py"),
        *(PYTHON / "capture").glob("*.py"),
        *(PYTHON / "kinds").rglob("*.py"),
        *(PYTHON / "live").glob("*.py"),
        *(PYTHON / "web").rglob("*.py"),
        *(PYTHON / "web").rglob("*.j2"),
        *(PYTHON / "report").rglob("*.py"),
        *(PYTHON / "report").rglob("*.j2"),
    ]:
        used |= set(re.findall(r"""say\((?:language, )?["']((?!(?:en|ja)["'])[a-z_.0-9]+)["']""", path.read_text()))
    assert len(used) > 60
    assert used <= set(catalogue("en")), used - set(catalogue("en"))


def test_every_metric_has_a_name() -> None:
    named = {f"metric.{name}" for name in (*UNITS, *COPY_UNITS, *FLOW_UNITS)}
    assert named <= set(catalogue("en")), named - set(catalogue("en"))


def test_no_message_is_unused() -> None:
    text = "".join(
        p.read_text()
        for folder in ("analysis", "capture", "kinds", "live", "report", "tune", "web")
        for p in (PYTHON / folder).rglob("*")
        if p.suffix in (".py", ".j2")
    )
    stems = set(re.findall(r"""[f"' ]["']([a-z_.]+\.)\{""", text))
    for message in catalogue("en"):
        built = any(message.startswith(s) for s in stems) or re.fullmatch(r"expect\.[a-z_]+\.found", message)
        used = f'"{message}"' in text or f"'{message}'" in text or built
        assert used, message


@pytest.mark.parametrize("language", LANGUAGES)
def test_fonts_have_every_letter_of_the_catalogue(language: str) -> None:
    assert missing("".join(t for texts in catalogue(language).values() for t in texts)) == set()


def test_missing_letters_of_the_fonts_are_reported() -> None:
    assert missing("検証 vs. עברית") == set("עברית")


def test_embedded_font_holds_only_the_needed_letters() -> None:
    small, large = face(400, "a"), face(400, "計測は測ることである。abcdefghijklmnopqrstuvwxyz")
    assert small.startswith("data:font/woff2;base64,")
    assert len(small) < len(large) < 40_000


def test_font_files_are_small_and_licensed() -> None:
    assert sum(path.stat().st_size for path in FACES.values()) < 2.2e6
    assert "SIL Open Font License" in (FACES[400].parent / "OFL.txt").read_text()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
        (0, "0"),
        (3280.4, "3,280"),
        (47.23, "47.2"),
        (1.234, "1.23"),
        (0.0312, "0.0312"),
        (0.00001234, "0.0000123"),
        (-0.5, "-0.500"),
        (1e15, "1,000,000,000,000,000"),
    ],
)
def test_numbers_keep_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text
    assert number(value, "ja") == text


def test_percentages_have_one_decimal() -> None:
    assert [tenths(v) for v in (7, 99.96, None)] == ["7.0", "100.0", "–"]


def test_value_of_a_placeholder_is_not_a_template() -> None:
    assert "{iops}" in say("en", "series", {"series": "{iops}", "text": "x"})


def test_plural_follows_the_count() -> None:
    assert say("en", "level.vms", {"count": 1}) == "1 VM"
    assert say("en", "level.vms", {"count": 7}) == "7 VMs"
    assert say("ja", "level.vms", {"count": 7}) == "VM 7 台"


JAPANESE, LATIN = "[ぁ-ゖァ-ヺー々一-龯]", "[0-9A-Za-z%]"
MISJOINED = re.compile(f"{JAPANESE}{LATIN}|{LATIN}{JAPANESE}|{JAPANESE} +{JAPANESE}")


@pytest.mark.parametrize("value", ["IOPS", "使用率", "マシンの CPU", "5 %"])
def test_japanese_and_latin_letters_have_one_space_between_them_for_any_value(value: str) -> None:
    for message, forms in catalogue("ja").items():
        for form in forms:
            text = say("ja", message, dict.fromkeys(fields(form), value))
            assert not MISJOINED.search(text), f"{message}: {text}"


def test_value_is_joined_according_to_its_letters() -> None:
    assert join("使用率は", "IOPS") == "使用率は IOPS"
    assert join("7", "台") == "7 台"
    assert join("最大は ", "使用率") == "最大は使用率"
    assert join("（", "IOPS") + join("IOPS", "、") == "（IOPSIOPS、"
