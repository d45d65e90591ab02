//! Commands that examine the contents of the medium: VERIFY and WRITE AND VERIFY (10, 12, 16),
//! COMPARE AND WRITE, ORWRITE (16), PRE-FETCH (10, 16) (SBC-3 sections 5.2, 5.8, 5.20, 5.37 and
//! 5.47).

use hakaru_wire::scsi::{ByteCheck, Cdb, CdbError, Sense, Status, Transfer, Verify};

use super::block::{check_protect, extent, extent_to_end, ready, transfer_bytes};
use super::info::{C, CommandInfo, Direction, Request, X};
use crate::context::Device;
use crate::io::Extent;
use crate::limits::COMPARE_AND_WRITE_BYTES_MAX;
use crate::outcome::Outcome;
use crate::program::{
    CHUNK_BYTES, Compare, CompareAndWrite, Job, LengthMismatch, OrWrite, Program,
};
use crate::reservations::Need;
use crate::unit::LogicalUnit;
use crate::verdict::Verdict;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x2f, 0xf6, X, X, X, X, 0, X, X, C], Direction::Out, execute).harmless(Need::Read),
    CommandInfo::new(&[0x8f, 0xf6, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute).harmless(Need::Read),
    CommandInfo::new(&[0xaf, 0xf6, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute).harmless(Need::Read),
    CommandInfo::new(&[0x2e, 0xf2, X, X, X, X, 0, X, X, C], Direction::Out, execute),
    CommandInfo::new(&[0x8e, 0xf2, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute),
    CommandInfo::new(&[0xae, 0xf2, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute),
    CommandInfo::new(&[0x89, 0xf8, X, X, X, X, X, X, X, X, 0, 0, 0, X, 0, C], Direction::Out, execute),
    CommandInfo::new(&[0x8b, 0xf8, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute),
    CommandInfo::new(&[0x34, 0x02, X, X, X, X, 0, X, X, C], Direction::None, execute).harmless(Need::Read),
    CommandInfo::new(&[0x90, 0x02, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::None, execute).harmless(Need::Read),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::Verify(request) => verify(device, lu, request),
        Cdb::WriteAndVerify(request) => write_and_verify(device, lu, request),
        Cdb::CompareAndWrite(request) => compare_and_write(device, lu, request),
        Cdb::OrWrite(request) => or_write(device, lu, request),
        Cdb::PreFetch {
            lba,
            blocks,
            immediate,
        } => pre_fetch(device, lu, (lba, blocks), immediate),
        _ => request.of_another_family(),
    }
}

/// Returns the LU, if it is ready, and the blocks that a command addresses.
fn check<'a>(
    device: &'a Device<'_>,
    lu: u8,
    (lba, blocks, protect): (u64, u32, u8),
) -> Result<(&'a LogicalUnit, Extent), Sense> {
    let unit = ready(device, lu)?;
    check_protect(protect)?;
    Ok((unit, extent(unit, lba, blocks)?))
}

fn outcome(planned: Result<Job, Verdict>) -> Outcome {
    match planned {
        Ok(job) => Outcome::program(job),
        Err(verdict) => Outcome::End(verdict),
    }
}

/// The command has nothing to do.
const NOTHING: Verdict = Verdict::Status(Status::GOOD);

pub(super) fn verify(device: &Device<'_>, lu: u8, request: Verify) -> Outcome {
    outcome(plan_verify(device, lu, request))
}

fn plan_verify(device: &Device<'_>, lu: u8, request: Verify) -> Result<Job, Verdict> {
    let blocks = (request.lba, request.blocks, request.protect);
    let (unit, extent) = check(device, lu, blocks).map_err(Verdict::Check)?;
    if extent.length_bytes == 0 {
        return Err(NOTHING);
    }
    let data_out_bytes = match request.check {
        ByteCheck::Medium => 0,
        ByteCheck::Whole => transfer_bytes(device, extent.length_bytes).map_err(Verdict::Check)?,
        ByteCheck::OneBlock => unit.block_bytes,
    };
    let length_mismatch = if data_out_bytes == 0 {
        LengthMismatch::Ignore
    } else {
        LengthMismatch::Refuse
    };
    let compare = Compare::new(extent, unit.block_bytes, request.check);
    Ok(Job {
        data_out_bytes,
        length_mismatch,
        reads_bytes: CHUNK_BYTES as u32,
        ..Job::new(lu, Program::Compare(compare))
    })
}

/// Executes WRITE AND VERIFY: writes through the cache, then reads the data back, while no other
/// command writes to the same blocks.
pub(super) fn write_and_verify(device: &Device<'_>, lu: u8, request: Verify) -> Outcome {
    outcome(plan_write_and_verify(device, lu, request))
}

fn plan_write_and_verify(device: &Device<'_>, lu: u8, request: Verify) -> Result<Job, Verdict> {
    let blocks = (request.lba, request.blocks, request.protect);
    let (unit, extent) = check(device, lu, blocks).map_err(Verdict::Check)?;
    unit.writable().map_err(Verdict::Check)?;
    let data_out_bytes = transfer_bytes(device, extent.length_bytes).map_err(Verdict::Check)?;
    let compare = Compare::after_write(extent, unit.block_bytes, request.check);
    Ok(Job {
        data_out_bytes,
        length_mismatch: LengthMismatch::Cut,
        reads_bytes: CHUNK_BYTES as u32,
        exclusive: Some(extent),
        ..Job::new(lu, Program::Compare(compare))
    })
}

pub(super) fn compare_and_write(device: &Device<'_>, lu: u8, request: Transfer) -> Outcome {
    outcome(plan_compare_and_write(device, lu, request))
}

fn plan_compare_and_write(device: &Device<'_>, lu: u8, request: Transfer) -> Result<Job, Verdict> {
    let blocks = (request.lba, request.blocks, request.protect);
    let (unit, extent) = check(device, lu, blocks).map_err(Verdict::Check)?;
    unit.writable().map_err(Verdict::Check)?;
    if extent.length_bytes > u64::from(COMPARE_AND_WRITE_BYTES_MAX) {
        let field = CdbError::InvalidField {
            byte: 13,
            bit: None,
        };
        return Err(Verdict::Check(field.sense()));
    }
    let length_bytes = extent.length_bytes as u32;
    Ok(Job {
        data_out_bytes: 2 * length_bytes,
        length_mismatch: LengthMismatch::Refuse,
        reads_bytes: length_bytes,
        exclusive: Some(extent),
        ..Job::new(
            lu,
            Program::CompareAndWrite(CompareAndWrite::new(
                extent,
                unit.writes_through(request.fua),
            )),
        )
    })
}

pub(super) fn or_write(device: &Device<'_>, lu: u8, request: Transfer) -> Outcome {
    outcome(plan_or_write(device, lu, request))
}

fn plan_or_write(device: &Device<'_>, lu: u8, request: Transfer) -> Result<Job, Verdict> {
    let blocks = (request.lba, request.blocks, request.protect);
    let (unit, extent) = check(device, lu, blocks).map_err(Verdict::Check)?;
    unit.writable().map_err(Verdict::Check)?;
    let data_out_bytes = transfer_bytes(device, extent.length_bytes).map_err(Verdict::Check)?;
    if data_out_bytes == 0 {
        return Err(NOTHING);
    }
    let fua = unit.writes_through(request.fua);
    Ok(Job {
        data_out_bytes,
        length_mismatch: LengthMismatch::Refuse,
        reads_bytes: CHUNK_BYTES as u32,
        exclusive: Some(extent),
        ..Job::new(lu, Program::OrWrite(OrWrite::new(extent, fua)))
    })
}

/// Executes PRE-FETCH: reads the requested blocks, up to the length of one transfer, into any cache
/// that the storage has. The status is GOOD rather than CONDITION MET, because nothing guarantees
/// that all blocks stay cached. With IMMED the command is only a hint and is ignored.
pub(super) fn pre_fetch(
    device: &Device<'_>,
    lu: u8,
    (lba, blocks): (u64, u32),
    immediate: bool,
) -> Outcome {
    let checked = ready(device, lu)
        .and_then(|unit| extent_to_end(unit, lba, blocks).map(|extent| (unit, extent)));
    let (unit, mut extent) = match checked {
        Ok(checked) => checked,
        Err(sense) => return Outcome::check(sense),
    };
    extent.length_bytes = extent.length_bytes.min(device.transfer_bytes_max.into());
    if immediate || extent.length_bytes == 0 {
        return Outcome::GOOD;
    }
    let fetch = Compare::new(extent, unit.block_bytes, ByteCheck::Medium);
    Outcome::program(Job {
        reads_bytes: CHUNK_BYTES as u32,
        ..Job::new(lu, Program::Compare(fetch))
    })
}
