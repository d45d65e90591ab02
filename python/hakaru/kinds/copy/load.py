"""The copying of disk images: jobs that read an image in order from one array and write it to
another, all at once.

    load:
      kind: copy
      jobs: 4
      image: 256 MiB
      from: {array: primary, lus: [0]}
      to: {array: vtl, lus: [0]}
      time_limit: 60 s

Job i (from 0) runs on host i mod hosts; its image is number i div n on LU i mod n of the n LUs
named, at both ends.
"""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from hakaru.study.any_load import Load
from hakaru.study.kind import load_of
from hakaru.study.model import Study
from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration, Rate, Size

JOBS_MAX = 256
STREAMS_MAX = 64


class CopyEnd(Part):
    """LUs of one array that images lie on, one image after the other from the start of each."""

    array: str = Field(min_length=1, max_length=64, description="name of the array, as in the lab")
    lus: list[int] = Field(min_length=1, max_length=256, description="jobs are dealt to these in turn")

    def place(self, job: int) -> tuple[int, int]:
        """LU of a job (from 0), and how many images lie before its own there."""
        return self.lus[job % len(self.lus)], job // len(self.lus)


class CopyLoad(Load):
    """Images copied from LUs to LUs: one job per VM, all started at once."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True)

    kind: Literal["copy"]
    jobs: int = Field(ge=1, le=JOBS_MAX, description="VMs whose images are copied at once")
    image: Size = Field(ge=1 << 20, description="size of each image")
    block: Size = Field(default=256 << 10, ge=512, le=16 << 20, description="one read, and the write that follows it")
    depth: int = Field(default=8, ge=1, le=1024, description="blocks in flight per stream, reading or writing")
    streams: int = Field(
        default=1, ge=1, le=STREAMS_MAX, description="per job; each copies a part of the image over sessions of its own"
    )
    rate_limit: Rate | None = Field(
        default=None, description="of each job, kept where it reads the source; default: as fast as it goes"
    )
    compression: Literal["none", "zstd"] = Field(default="none", description="of what is written")
    compression_level: int = Field(default=3, ge=1, le=19, description="of zstd")
    verify: bool = Field(
        default=False,
        description="read the copy back and compare it, after the clock has stopped; wrong data ends the run with 6",
    )
    source: CopyEnd = Field(alias="from")
    destination: CopyEnd = Field(alias="to")
    time_limit: Duration = Field(
        ge=SECOND_NS,
        le=86_400 * SECOND_NS,
        description="a job that has not ended by then stops there, and its rate is what it copied until then",
    )

    def images_on(self, end: CopyEnd) -> dict[int, int]:
        """LU → images that its jobs put there."""
        found: dict[int, int] = {}
        for job in range(self.jobs):
            lun, before = end.place(job)
            found[lun] = max(found.get(lun, 0), before + 1)
        return found

    @property
    def copied_bytes(self) -> int:
        """All images."""
        return self.jobs * self.image

    @property
    def job_names(self) -> list[str]:
        """`vm01`, `vm02`, …: a job copies the image of a VM."""
        width = max(2, len(str(self.jobs)))
        return [f"vm{i + 1:0{width}}" for i in range(self.jobs)]


def load_at(study: Study) -> CopyLoad:
    """The load of a study that copies."""
    return load_of(study, CopyLoad)
