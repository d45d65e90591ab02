"""The rules of `book.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from ruamel.yaml import YAML

from hakaru.analysis.rule_book.gauges import Gauge

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
HEADROOM_BUSY_MIN_PERCENT = 5.0
"""Least use of a device of which a headroom is computed. Below it, one would assume that the use
grows with the load over more than a factor of ten.
"""


class BookRule(BaseModel):
    """One rule. The fields are described at the head of `book.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")]
    gauge: Gauge
    limit: tuple[Number, Number] | None = None
    overridden_by: str | None = None
    headroom: bool = False
    published: tuple[Number, Number] | None = None
    source: Literal["hitachi-2010"]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        for name in ("limit", "published"):
            bounds = getattr(self, name)
            if bounds is not None and bounds[0] > bounds[1]:
                raise ValueError(f"{name}: the lower bound comes first")
        if self.limit is None and (self.headroom or self.overridden_by is not None):
            raise ValueError("`headroom` and `overridden_by` need a `limit`")
        return self

    def headroom_at(self, busy_percent: float) -> tuple[float, float] | None:
        """Return how many times the load could grow until the device is at the lower and at the
        upper limit, if its use grows with the load. None for a rule without headroom, and for a use
        that is too low to say.
        """
        if not self.headroom or self.limit is None or busy_percent < HEADROOM_BUSY_MIN_PERCENT:
            return None
        return self.limit[0] / busy_percent, self.limit[1] / busy_percent


def read(text: str) -> tuple[BookRule, ...]:
    """Parse a rule book. Raises ValueError if a rule is wrong, twice there, or overridden by one
    that is not judged before it.
    """
    rules = TypeAdapter(tuple[BookRule, ...]).validate_python(YAML(typ="safe").load(text))
    judged: set[str] = set()
    for rule in rules:
        if rule.rule in judged:
            raise ValueError(f"the rule {rule.rule} is there twice")
        if rule.overridden_by is not None and rule.overridden_by not in judged:
            raise ValueError(f"{rule.rule} is overridden by {rule.overridden_by}, which does not stand before it")
        judged.add(rule.rule)
    return rules


BOOK = read(Path(__file__).with_name("book.yaml").read_text(encoding="utf-8"))
"""The rules, in the order in which they are judged and shown."""
