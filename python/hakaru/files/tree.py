"""Description of trees of files, as a study or a file for `hakaru files build` contains it.

    tree:
      trees: 128
      depth: 25
      folders: 49
      targets: 1000
      sizes: {lognormal: {median: 176200 B, sigma: 1.5, min: 50 kB, max: 1 GB}}
      scale: 1/1000

The defaults are those of the published study of file servers (2010): 128 trees of 49 folders on 25
levels, with 1000 files each that are used, 128 053 899 719 bytes in all. That publication draws the
distribution of sizes without printing it; the default has its mean and its minimum and is an
assumption otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from hakaru.engine import contract
from hakaru.study.part import Part
from hakaru.units import Size

PUBLISHED_FILES, PUBLISHED_BYTES = 128_000, 128_053_899_719
DIVISOR_MAX = 1_000_000_000
FILES_MAX = 1 << 24


Scale = Annotated[str, BeforeValidator(str), Field(pattern=r"^1( ?/ ?[1-9][0-9]{0,9})?$")]


class SizeClassSpec(Part):
    """Files of a class of sizes, as `hakaru files survey` counts them."""

    up_to: int = Field(ge=0, le=1 << 50, description="largest size of the class, in bytes")
    count: float = Field(ge=0, description="number or weight of the files")


class TailSpec(Part):
    """Pareto distribution of the largest files."""

    above: Size = Field(ge=1, description="smallest size of the tail, and largest of the lognormal body")
    alpha: float = Field(ge=0.1, le=10, description="exponent")
    percent: float = Field(gt=0, lt=100, description="share of all files")


class LognormalSpec(Part):
    """Lognormal distribution of sizes, cut at the bounds, with an optional tail."""

    median: Size = Field(ge=1, description="median before the distribution is cut at its bounds")
    sigma: float = Field(ge=0.01, le=10, description="standard deviation of the natural logarithm of the size")
    min: Size = Field(default=0, ge=0)
    max: Size = Field(default=1 << 40, ge=1, le=1 << 50)
    tail: TailSpec | None = None


class SizesSpec(Part):
    """Distribution of sizes: a table, or a lognormal distribution."""

    table: list[SizeClassSpec] | None = Field(default=None, min_length=1, max_length=4096)
    lognormal: LognormalSpec | None = None

    @model_validator(mode="after")
    def _has_one_form(self) -> SizesSpec:
        if (self.table is None) == (self.lognormal is None):
            raise ValueError("write either `table` or `lognormal`")
        return self

    def config(self) -> contract.SizeTable | contract.LognormalSizes:
        """The distribution for the engine."""
        if self.table is not None:
            classes = [contract.SizeClass(up_to_bytes=row.up_to, count=float(row.count)) for row in self.table]
            return contract.SizeTable(classes=classes)
        assert self.lognormal is not None, "checked by the validator"
        own = self.lognormal
        tail = None
        if own.tail is not None:
            alpha, percent = float(own.tail.alpha), float(own.tail.percent)
            tail = contract.ParetoTail(from_bytes=own.tail.above, alpha=alpha, percent=percent)
        return contract.LognormalSizes(
            median_bytes=own.median, sigma=float(own.sigma), min_bytes=own.min, max_bytes=own.max, tail=tail
        )


ASSUMED = SizesSpec.model_validate(
    {
        "lognormal": {
            "median": "176200 B",
            "sigma": 1.5,
            "min": "50 kB",
            "max": "1 GB",
            "tail": {"above": "10 MB", "alpha": 1.4, "percent": 1.4},
        }
    }
)
"""Sizes with the published mean (1 000 421 bytes) and minimum."""


class ContentSpec(Part):
    """Contents of files, in blocks of 4 KiB."""

    alphabet: Literal["ascii", "binary"] = Field(
        default="ascii", description="`ascii`: 64 printable characters; `binary`: all values"
    )
    compressible_percent: int = Field(default=0, ge=0, le=100, description="share of each block that repeats one byte")
    duplicate_percent: int = Field(default=0, ge=0, le=100, description="share of blocks that are copies of 64 blocks")


class TreeSpec(Part):
    """Trees of files. All trees have the same shape."""

    seed: int = Field(default=1, ge=0, lt=1 << 63, description="seed of names, sizes and contents")
    trees: int = Field(default=128, ge=1, le=65_536)
    depth: int = Field(default=25, ge=1, le=64, description="levels of folders; the root of a tree is level 1")
    folders: int = Field(default=49, ge=1, le=65_536, description="folders of a tree, with its root")
    targets: int = Field(default=1000, ge=1, le=1_000_000, description="files of a tree that a load uses")
    dummies: int = Field(default=0, ge=0, le=1_000_000, description="files of a tree that a load does not use")
    placement: Literal["even", "random"] | list[float] = Field(
        default="even", description="files by folder; a list has the weight of each level, the root's first"
    )
    sizes: SizesSpec = Field(default=ASSUMED, description="sizes of targets")
    dummy_sizes: SizesSpec | None = Field(default=None, description="default: those of targets")
    total: Literal["published", "drawn"] | Size = Field(
        default="published",
        description="sum of the sizes of all targets before they are scaled, met to the byte. `published`: "
        "128 053 899 719 bytes for 128 000 files, and in proportion for others; `drawn`: not adjusted",
    )
    scale: Scale = Field(default="1", description="`1/1000` divides every size by 1000; counts stay as they are")
    content: ContentSpec = Field(default_factory=ContentSpec)

    @property
    def divisor(self) -> int:
        """Divisor of every size."""
        return int(self.scale.replace(" ", "").partition("/")[2] or 1)

    @property
    def files(self) -> int:
        """Files of all trees."""
        return self.trees * (self.targets + self.dummies)

    @property
    def total_bytes(self) -> int | None:
        """Sum of all targets before scaling; None if it is as drawn."""
        if self.total == "drawn":
            return None
        if self.total == "published":
            return PUBLISHED_BYTES * self.trees * self.targets // PUBLISHED_FILES
        return int(self.total)

    @model_validator(mode="after")
    def _is_possible(self) -> TreeSpec:
        if self.folders < self.depth:
            raise ValueError("`folders` is less than `depth`; every level needs one")
        if self.depth == 1 and self.folders > 1:
            raise ValueError("a tree of one level has one folder; make `depth` 2 or more")
        if self.files > FILES_MAX:
            raise ValueError(f"{self.files} files; all trees together may have {FILES_MAX}")
        if self.divisor > DIVISOR_MAX:
            raise ValueError(f"`scale` divides by more than {DIVISOR_MAX}")
        if isinstance(self.placement, list):
            weights = self.placement
            if not 1 <= len(weights) <= self.depth or min(weights) < 0 or not sum(weights):
                raise ValueError("`placement` needs 1 to `depth` weights of at least 0, one of which is above 0")
        return self

    def part(self, number: int, parts: int, seed: int) -> TreeSpec:
        """One of several equal parts of the trees, which divide `trees`. `seed`: its own, so that
        no two parts have the same contents.
        """
        changes: dict[str, int] = {"seed": seed, "trees": self.trees // parts}
        if self.total_bytes is not None:
            # The parts add up to the byte.
            share, rest = divmod(self.total_bytes, parts)
            changes["total"] = share + (number < rest)
        return self.model_copy(update=changes)

    def config(self) -> contract.TreesConfig:
        """The description for the engine."""
        placement: contract.EvenPlacement | contract.RandomPlacement | contract.LevelPlacement
        if isinstance(self.placement, list):
            placement = contract.LevelPlacement(weights=[float(weight) for weight in self.placement])
        elif self.placement == "random":
            placement = contract.RandomPlacement()
        else:
            placement = contract.EvenPlacement()
        return contract.TreesConfig(
            seed=self.seed,
            trees=self.trees,
            depth=self.depth,
            folders=self.folders,
            targets=self.targets,
            dummies=self.dummies,
            placement=placement,
            sizes=self.sizes.config(),
            dummy_sizes=self.dummy_sizes.config() if self.dummy_sizes else None,
            total_bytes=self.total_bytes,
            divide_sizes_by=self.divisor,
            content=contract.FileContent(
                alphabet=self.content.alphabet,
                compressible_percent=self.content.compressible_percent,
                duplicate_percent=self.content.duplicate_percent,
            ),
        )
