"""Creation of the two fonts beside this file from Noto Sans JP. Run by hand when the repertoire
changes, never at run time.

    npm pack @expo-google-fonts/noto-sans-jp && tar xzf expo-google-fonts-noto-sans-jp-*.tgz
    python -m hakaru.report.fonts.subset package python/hakaru/report/fonts

The family is renamed so that reports never use a system font of the same name. Repertoire: Latin,
Greek, punctuation, the arrows and mathematical symbols of reports, kana, the kanji of JIS X 0208
level 1 (2965 characters, which include the jōyō kanji in common technical use), and a few kanji of
technical terms (`MORE`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter, load_font, save_font

FAMILY = "Hakaru Sans"
FACES = {
    "regular": ("400Regular/NotoSansJP_400Regular.ttf", 400),
    "bold": ("600SemiBold/NotoSansJP_600SemiBold.ttf", 700),
}
RANGES = [(0x20, 0x17F), (0x370, 0x3FF), (0x2010, 0x2044), (0x20AC, 0x20AC), (0x2070, 0x209C), (0x2100, 0x214F)]
RANGES += [(0x2190, 0x21FF), (0x2200, 0x22FF), (0x2460, 0x2473), (0x25A0, 0x25FF), (0x2713, 0x2717)]
# Kanji beyond level 1 for technical terms, such as congestion and threshold.
MORE = "輻輳閾冪隙"
RANGES += [(0x3000, 0x30FF), (0x31F0, 0x31FF), (0xFF00, 0xFFEF)]


def kanji_of_level_1() -> set[int]:
    """Code points of rows 16 to 47 of JIS X 0208, through the EUC-JP codec."""
    points = set()
    for row in range(16, 48):
        for cell in range(1, 95):
            try:
                points.add(ord(bytes([0xA0 + row, 0xA0 + cell]).decode("euc_jp")))
            except UnicodeDecodeError:
                continue  # row 47 is not full
    return points


def subset(source: Path, target: Path, weight: int) -> None:
    """Write a subset of `source`, without hinting, as family `Hakaru Sans`."""
    options = Options(
        hinting=False,
        layout_features=["kern", "tnum", "palt"],
        name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14],
        notdef_outline=True,
    )
    font = load_font(str(source), options)
    subsetter = Subsetter(options)
    subsetter.populate(
        unicodes={p for low, high in RANGES for p in range(low, high + 1)} | kanji_of_level_1() | set(map(ord, MORE))
    )
    subsetter.subset(font)
    style = "Bold" if weight >= 700 else "Regular"
    names = {1: FAMILY, 2: style, 3: f"{FAMILY} {style}", 4: f"{FAMILY} {style}", 6: f"HakaruSans-{style}"}
    for name_id, text in names.items():
        font["name"].setName(text, name_id, 3, 1, 0x409)
    for name_id in (16, 17, 25):
        font["name"].removeNames(nameID=name_id)
    font["OS/2"].usWeightClass = weight
    font["OS/2"].fsSelection = (font["OS/2"].fsSelection & ~0x61) | (0x20 if style == "Bold" else 0x40)
    font["head"].macStyle = 1 if style == "Bold" else 0
    save_font(font, str(target), options)


if __name__ == "__main__":
    package, out = Path(sys.argv[1]), Path(sys.argv[2])
    for face, (path, css_weight) in FACES.items():
        subset(package / path, out / f"HakaruSans-{face}.ttf", css_weight)
