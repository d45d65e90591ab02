//! Provisioning of blocks: WRITE SAME (10, 16), UNMAP, GET LBA STATUS (SBC-3 sections 4.7, 5.6,
//! 5.28, 5.49 and 5.50).

use hakaru_wire::scsi::{Cdb, CdbError, Sense, WriteSame, parse_unmap_list};

use super::block::{check_protect, extent, extent_to_end, ready};
use super::info::{Availability, C, CommandInfo, Direction, Request, X};
use crate::context::Device;
use crate::io::{Extent, IoOp};
use crate::limits::{UNMAP_DESCRIPTORS_MAX, WRITE_SAME_BLOCKS_MAX};
use crate::outcome::Outcome;
use crate::program::{Fill, Job, LengthMismatch, Program, Unmap};
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x41, 0xf8, X, X, X, X, 0, X, X, C], Direction::Out, execute),
    CommandInfo::new(&[0x93, 0xf9, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute),
    CommandInfo::new(&[0x42, 0x01, 0, 0, 0, 0, 0, X, X, C], Direction::Out, execute).of(Availability::Thin).with_list(with_list),
    CommandInfo::new(&[0x9e, 0x12, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::In, execute).action(0x12).harmless(Need::Read),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::WriteSame(request) => write_same(device, lu, request),
        Cdb::Unmap {
            anchor,
            parameter_list_length,
        } => unmap(device, lu, anchor, parameter_list_length),
        Cdb::GetLbaStatus {
            lba,
            allocation_length,
        } => get_lba_status(device, lu, lba, allocation_length),
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    match request.cdb {
        Cdb::Unmap { .. } => unmap_list(device, request.lu, list),
        _ => request.of_another_family(),
    }
}

/// Maximum number of descriptors in an answer to GET LBA STATUS.
const STATUS_DESCRIPTORS_MAX: usize = 1024;

fn invalid(byte: u16, bit: u8) -> Sense {
    CdbError::InvalidField {
        byte,
        bit: Some(bit),
    }
    .sense()
}

pub(super) fn write_same(device: &Device<'_>, lu: u8, request: WriteSame) -> Outcome {
    match plan_write_same(device, lu, request) {
        Ok(job) => Outcome::program(job),
        Err(sense) => Outcome::check(sense),
    }
}

/// Plans WRITE SAME. 0 blocks mean all blocks up to the end of the LU (WSNZ is 0), which must not
/// exceed MAXIMUM WRITE SAME LENGTH.
fn plan_write_same(device: &Device<'_>, lu: u8, request: WriteSame) -> Result<Job, Sense> {
    let unit = ready(device, lu)?;
    check_protect(request.protect)?;
    if request.anchor {
        return Err(invalid(1, 4)); // ANC_SUP is 0.
    }
    if request.unmap && unit.description.thin.is_none() {
        return Err(invalid(1, 3));
    }
    let extent = extent_to_end(unit, request.lba, request.blocks)?;
    if extent.length_bytes > u64::from(WRITE_SAME_BLOCKS_MAX) * u64::from(unit.block_bytes) {
        return Err(Sense::INVALID_FIELD_IN_CDB);
    }
    unit.writable()?;
    let data_out_bytes = if request.no_data_out {
        0
    } else {
        unit.block_bytes
    };
    let ignores_data = request.unmap && unit.description.unmap_any_data;
    let fill = if request.no_data_out || ignores_data {
        let zeros = vec![0; unit.block_bytes as usize];
        Fill::with(extent, zeros, request.unmap)
    } else {
        Fill::new(extent, request.unmap)
    };
    Ok(Job {
        data_out_bytes,
        length_mismatch: if data_out_bytes == 0 {
            LengthMismatch::Ignore
        } else {
            LengthMismatch::Refuse
        },
        ..Job::new(lu, Program::Fill(fill.with_fua(unit.writes_through(false))))
    })
}

pub(super) fn unmap(device: &Device<'_>, lu: u8, anchor: bool, length: u16) -> Outcome {
    let unit = match ready(device, lu) {
        Ok(unit) => unit,
        Err(sense) => return Outcome::check(sense),
    };
    if anchor {
        return Outcome::check(invalid(1, 0));
    }
    if let Err(sense) = unit.writable() {
        return Outcome::check(sense);
    }
    match u32::from(length) {
        0 => Outcome::GOOD,
        length_bytes => Outcome::Parameters { lu, length_bytes },
    }
}

/// Executes UNMAP with its parameter list. All ranges are checked before any of them is unmapped.
pub(super) fn unmap_list(device: &Device<'_>, lu: u8, list: &[u8]) -> Outcome {
    match plan_unmap(device, lu, list) {
        Ok(ranges) if ranges.is_empty() => Outcome::GOOD,
        Ok(ranges) => Outcome::program(Job::new(lu, Program::Unmap(Unmap::new(ranges)))),
        Err(sense) => Outcome::check(sense),
    }
}

fn plan_unmap(device: &Device<'_>, lu: u8, list: &[u8]) -> Result<Vec<Extent>, Sense> {
    let unit = ready(device, lu)?;
    let ranges = parse_unmap_list(list, UNMAP_DESCRIPTORS_MAX as usize)?;
    let mut extents = Vec::with_capacity(ranges.len());
    for range in ranges {
        extents.push(extent(unit, range.lba, range.blocks)?);
    }
    extents.retain(|extent| extent.length_bytes > 0);
    Ok(extents)
}

pub(super) fn get_lba_status(
    device: &Device<'_>,
    lu: u8,
    lba: u64,
    allocation_length: u32,
) -> Outcome {
    const HEADER: usize = 8;
    const DESCRIPTOR: usize = 16;
    let unit = match ready(device, lu) {
        Ok(unit) => unit,
        Err(sense) => return Outcome::check(sense),
    };
    if lba >= unit.blocks {
        return Outcome::check(Sense::LBA_OUT_OF_RANGE.with_information(lba));
    }
    if allocation_length == 0 {
        return Outcome::GOOD;
    }
    let block_bytes = unit.block_bytes;
    let room = (allocation_length as usize).saturating_sub(HEADER) / DESCRIPTOR;
    let op = IoOp::Status {
        range: Extent {
            offset_bytes: lba * u64::from(block_bytes),
            length_bytes: (unit.blocks - lba) * u64::from(block_bytes),
        },
        extents_max: room.clamp(1, STATUS_DESCRIPTORS_MAX),
    };
    Outcome::program(Job::new(
        lu,
        Program::Status {
            block_bytes,
            allocation_length,
            op: Some(op),
        },
    ))
}
