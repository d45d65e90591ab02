//! SANITIZE, and the state of an LU during the operation (SBC-3 sections 4.11 and 5.24).
//!
//! The operation belongs to the LU. It continues when its command is aborted, when sessions end and
//! across resets. It does not continue when the array is stopped; the LU then stays partly
//! sanitized.
//!
//! OVERWRITE writes a pattern. BLOCK ERASE and CRYPTOGRAPHIC ERASE deallocate every block, or write
//! zeros if the LU is not thin. There is no key that CRYPTOGRAPHIC ERASE could destroy, but its
//! guarantee holds: data written before cannot be read.

use hakaru_wire::scsi::{Cdb, FieldPointer, Sanitize, SanitizeAction, Sense};

use super::block::ready;
use super::info::{Availability, C, CommandInfo, Direction, Request, Sanitizing, X};
use crate::context::Device;
use crate::io::Extent;
use crate::outcome::Outcome;
use crate::program::{Fill, Job, Program, Unmap};
use crate::unit::LogicalUnit;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x48, 0xe1, 0, 0, 0, 0, 0, X, X, C], Direction::Out, execute).action(0x01).of(Availability::Sanitize).sanitizing(Sanitizing::AfterFailure).with_list(with_list),
    CommandInfo::new(&[0x48, 0xe2, 0, 0, 0, 0, 0, X, X, C], Direction::None, execute).action(0x02).of(Availability::Sanitize).sanitizing(Sanitizing::AfterFailure),
    CommandInfo::new(&[0x48, 0xe3, 0, 0, 0, 0, 0, X, X, C], Direction::None, execute).action(0x03).of(Availability::Sanitize).sanitizing(Sanitizing::AfterFailure),
    CommandInfo::new(&[0x48, 0xff, 0, 0, 0, 0, 0, X, X, C], Direction::None, execute).action(0x1f).of(Availability::Sanitize).sanitizing(Sanitizing::AfterFailure),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::Sanitize(request) => sanitize(device, lu, request),
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    match request.cdb {
        Cdb::Sanitize(sanitize) => overwrite(device, request.lu, sanitize, list),
        _ => request.of_another_family(),
    }
}

pub(super) fn sanitize(device: &mut Device<'_>, lu: u8, request: Sanitize) -> Outcome {
    match plan(device, lu, request) {
        Ok(outcome) => outcome,
        Err(sense) => Outcome::check(sense),
    }
}

fn plan(device: &mut Device<'_>, lu: u8, request: Sanitize) -> Result<Outcome, Sense> {
    if request.action == SanitizeAction::ExitFailureMode {
        if request.parameter_list_length != 0 {
            return Err(Sense::INVALID_FIELD_IN_CDB);
        }
        if let Some(unit) = device.units.get_mut(lu) {
            unit.sanitize_failed = false;
        }
        return Ok(Outcome::GOOD);
    }
    let unit = ready(device, lu)?;
    unit.writable()?;
    let length_bytes = u32::from(request.parameter_list_length);
    if request.action == SanitizeAction::Overwrite {
        // A header of 4 bytes, and a pattern of 1 byte to one block.
        return if (5..=unit.block_bytes + 4).contains(&length_bytes) {
            Ok(Outcome::Parameters { lu, length_bytes })
        } else {
            Err(Sense::INVALID_FIELD_IN_CDB)
        };
    }
    if length_bytes != 0 {
        return Err(Sense::INVALID_FIELD_IN_CDB);
    }
    let (lu_extent, has_cache) = (lu_extent(unit), unit.description.write_cache);
    let program = if unit.description.thin.is_some() {
        Program::Unmap(Unmap::new(vec![lu_extent]).with_flush(has_cache))
    } else {
        let zeros = vec![0; unit.block_bytes as usize];
        Program::Fill(Fill::with(lu_extent, zeros, false).with_fua(has_cache))
    };
    Ok(begin(lu, lu_extent, program, request.immediate))
}

fn lu_extent(unit: &LogicalUnit) -> Extent {
    Extent {
        offset_bytes: 0,
        length_bytes: unit.blocks * u64::from(unit.block_bytes),
    }
}

fn begin(lu: u8, lu_extent: Extent, program: Program, immediate: bool) -> Outcome {
    let job = Job {
        exclusive: Some(lu_extent),
        ..Job::new(lu, program)
    };
    Outcome::Operation {
        job: Box::new(job),
        immediate,
    }
}

/// Executes OVERWRITE with its parameter list, which contains the number of passes and the pattern
/// (SBC-3 table 97).
pub(super) fn overwrite(device: &Device<'_>, lu: u8, request: Sanitize, list: &[u8]) -> Outcome {
    let unit = match ready(device, lu) {
        Ok(unit) if unit.operation.is_none() => unit,
        Ok(_) => return Outcome::check(Sense::SANITIZE_IN_PROGRESS),
        Err(sense) => return Outcome::check(sense),
    };
    let [flags, _, high, low, pattern @ ..] = list else {
        return Outcome::check(Sense::PARAMETER_LIST_LENGTH_ERROR);
    };
    let wrong = |byte, bit| {
        let field = FieldPointer {
            in_cdb: false,
            byte,
            bit,
        };
        Outcome::check(Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(field))
    };
    let passes = u32::from(flags & 0x1f);
    if passes == 0 {
        return wrong(0, Some(4));
    }
    // TEST selects vendor-specific tests, and there are none.
    if flags >> 5 & 3 != 0 {
        return wrong(0, Some(6));
    }
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length == 0 || length > unit.block_bytes as usize || length != pattern.len() {
        return wrong(2, None);
    }
    let block: Vec<u8> = pattern
        .iter()
        .copied()
        .cycle()
        .take(unit.block_bytes as usize)
        .collect();
    let invert = flags & 0x80 != 0;
    let lu_extent = lu_extent(unit);
    let fill = Fill::with(lu_extent, block, false)
        .repeated(passes, invert)
        .with_fua(unit.description.write_cache);
    begin(lu, lu_extent, Program::Fill(fill), request.immediate)
}
