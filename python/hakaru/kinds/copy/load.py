"""The load of a copy: jobs that read disk images sequentially from one array and write them to
another, all at the same time.

    load:
      kind: copy
      jobs: 4
      image: 256 MiB
      from: {array: primary, lus: [0]}
      to: {array: vtl, lus: [0]}
      time_limit: 60 s

Job i (from 0) runs on host i mod hosts. Its image is number i div n on LU i mod n of the n LUs, at
both ends. `to: {array: vtl, tape: {}}` writes to the drives of a tape library instead; job i uses
drive i mod drives then, and the jobs of a drive run on the same host.
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
    """LUs of one array. Images are placed consecutively from the start of each LU."""

    array: str = Field(min_length=1, max_length=64, description="name of the array, as in the lab")
    lus: list[int] = Field(min_length=1, max_length=256, description="jobs are dealt to these in turn")

    def place(self, job: int) -> tuple[int, int]:
        """LU of a job (counted from 0), and the number of images before its own on that LU."""
        return self.lus[job % len(self.lus)], job // len(self.lus)


class TapeWriting(Part):
    """How copies are written to the drives of a tape library. Job i uses drive i mod drives; jobs
    of one drive run one after another.
    """

    fixed_block: Size | None = Field(
        default=None,
        ge=512,
        multiple_of=512,
        le=8 << 20,
        description="length of fixed blocks, of which a write of `block` has several; default: variable blocks, one "
        "for each write",
    )
    filemark_every: Size | None = Field(
        default=None, ge=4096, description="data between two filemarks; default: one filemark, at the end of each image"
    )
    immediate_filemarks: bool = Field(
        default=False,
        description="filemarks between data do not wait for the tape (IMMED); the one at the end of an image does",
    )
    cartridges: Literal["per_vm", "appended"] = Field(
        default="per_vm",
        description="a cartridge for each VM, or one for each drive on which its VMs follow each other",
    )


class CopyDestination(CopyEnd):
    """LUs of one array, or the drives of its tape library."""

    lus: list[int] = Field(default=[], max_length=256, description="jobs are dealt to these in turn")
    tape: TapeWriting | None = Field(
        default=None, description="write to the drives of the array's tape library instead of `lus`; default: to `lus`"
    )


class CopyLoad(Load):
    """Images copied from LUs to LUs: one job per VM, all started at once."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True)

    kind: Literal["copy"]
    jobs: int = Field(ge=1, le=JOBS_MAX, description="VMs whose images are copied at once")
    image: Size = Field(ge=1 << 20, description="size of each image")
    block: Size = Field(default=256 << 10, ge=512, le=16 << 20, description="one read, and the write that follows it")
    depth: int = Field(default=8, ge=1, le=1024, description="blocks in flight per stream, reading or writing")
    streams: int = Field(
        default=1,
        ge=1,
        le=STREAMS_MAX,
        description="streams per job; each copies a part of the image over its own sessions",
    )
    rate_limit: Rate | None = Field(
        default=None, description="rate limit of each job, applied when it reads the source; default: no limit"
    )
    compression: Literal["none", "zstd"] = Field(default="none", description="compression of the data that is written")
    compression_level: int = Field(default=3, ge=1, le=19, description="compression level of zstd")
    verify: bool = Field(
        default=False,
        description="read the copy back and compare it after the measurement; wrong data ends the run with exit code 6",
    )
    initiator: Literal["hakaru", "kernel"] = Field(
        default="hakaru",
        description="`hakaru`: the initiator of hakaru. `kernel`: that of Linux, open-iscsi, in the guest of "
        "`lab.load_guest`; jobs then copy between its disks past the page cache",
    )
    source: CopyEnd = Field(alias="from")
    destination: CopyDestination = Field(alias="to")
    time_limit: Duration = Field(
        ge=SECOND_NS,
        le=86_400 * SECOND_NS,
        description="a job that has not ended by then is stopped; its rate is that until then",
    )

    warmup: Duration = Field(
        default=0,
        le=86_400 * SECOND_NS,
        description="start of the copy that does not count; at most half of the time until the first host is done",
    )

    def images_on(self, end: CopyEnd) -> dict[int, int]:
        """LU → number of images on it."""
        images: dict[int, int] = {}
        for job in range(self.jobs):
            lun, before = end.place(job)
            images[lun] = max(images.get(lun, 0), before + 1)
        return images

    @property
    def copied_bytes(self) -> int:
        """Total size of all images, bytes."""
        return self.jobs * self.image

    @property
    def job_names(self) -> list[str]:
        """Names of the jobs: `vm01`, `vm02`, …, because a job copies the image of a VM."""
        width = max(2, len(str(self.jobs)))
        return [f"vm{i + 1:0{width}}" for i in range(self.jobs)]


def load_at(study: Study) -> CopyLoad:
    """The load of a study of copies."""
    return load_of(study, CopyLoad)
