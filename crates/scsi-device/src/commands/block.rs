//! Blocks: READ and WRITE (6, 10, 12, 16), WRITE ATOMIC (16), SYNCHRONIZE CACHE (10, 16), READ
//! CAPACITY (10, 16) (SBC-3 section 5, SBC-4 section 5.48), and functions for all commands that
//! address blocks.

use hakaru_wire::scsi::{Capacity10, Capacity16, Cdb, CdbError, Sense, Transfer, WriteAtomic};

use super::info::{Availability, C, CommandInfo, Direction, Request, X};
use crate::context::Device;
use crate::io::Extent;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::unit::LogicalUnit;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x08, 0x1f, X, X, X, C], Direction::In, execute).harmless(Need::Read),
    CommandInfo::new(&[0x28, 0xf8, X, X, X, X, 0, X, X, C], Direction::In, execute).harmless(Need::Read),
    CommandInfo::new(&[0x88, 0xf8, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::In, execute).harmless(Need::Read),
    CommandInfo::new(&[0xa8, 0xf8, X, X, X, X, X, X, X, X, 0, C], Direction::In, execute).harmless(Need::Read),
    CommandInfo::new(&[0x0a, 0x1f, X, X, X, C], Direction::Out, execute),
    CommandInfo::new(&[0x2a, 0xf8, X, X, X, X, 0, X, X, C], Direction::Out, execute),
    CommandInfo::new(&[0x8a, 0xf8, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute),
    CommandInfo::new(&[0xaa, 0xf8, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute),
    CommandInfo::new(&[0x9c, 0xf8, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::Out, execute).of(Availability::Atomic),
    CommandInfo::new(&[0x35, 0x02, X, X, X, X, 0, X, X, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0x91, 0x02, X, X, X, X, X, X, X, X, X, X, X, X, 0, C], Direction::None, execute).harmless(Need::Write),
    CommandInfo::new(&[0x25, 0, X, X, X, X, 0, 0, 0x01, C], Direction::In, execute).harmless(Need::Nothing),
    CommandInfo::new(&[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).action(0x10).harmless(Need::Nothing),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::Read(transfer) => read(device, lu, transfer),
        Cdb::Write(transfer) => write(device, lu, transfer),
        Cdb::WriteAtomic(request) => write_atomic(device, lu, request),
        Cdb::SynchronizeCache { lba, blocks, .. } => synchronize_cache(device, lu, lba, blocks),
        Cdb::ReadCapacity10 => read_capacity_10(device, lu),
        Cdb::ReadCapacity16 { allocation_length } => {
            read_capacity_16(device, lu, allocation_length)
        }
        _ => request.of_another_family(),
    }
}

pub(super) fn read(device: &Device<'_>, lu: u8, transfer: Transfer) -> Outcome {
    match check(device, lu, transfer) {
        Ok((_, offset_bytes, length_bytes)) => Outcome::Read {
            lu,
            offset_bytes,
            length_bytes,
        },
        Err(sense) => Outcome::check(sense),
    }
}

pub(super) fn write(device: &Device<'_>, lu: u8, transfer: Transfer) -> Outcome {
    match check(device, lu, transfer) {
        Ok((unit, offset_bytes, length_bytes)) => match unit.writable() {
            Ok(()) => Outcome::Write {
                lu,
                offset_bytes,
                length_bytes,
                fua: unit.writes_through(transfer.fua),
            },
            Err(sense) => Outcome::check(sense),
        },
        Err(sense) => Outcome::check(sense),
    }
}

/// Checks a transfer and returns its LU, and offset and length in bytes.
fn check<'a>(
    device: &'a Device<'_>,
    lu: u8,
    transfer: Transfer,
) -> Result<(&'a LogicalUnit, u64, u32), Sense> {
    let unit = ready(device, lu)?;
    check_protect(transfer.protect)?;
    let extent = extent(unit, transfer.lba, transfer.blocks)?;
    let length_bytes = transfer_bytes(device, extent.length_bytes)?;
    Ok((unit, extent.offset_bytes, length_bytes))
}

/// Checks that a command requests no protection information: no LU is formatted with it (SBC-3
/// table 55).
pub(super) fn check_protect(protect: u8) -> Result<(), Sense> {
    if protect == 0 {
        return Ok(());
    }
    Err(CdbError::InvalidField {
        byte: 1,
        bit: Some(7),
    }
    .sense())
}

/// Checks that the initiator sends or receives at most MAXIMUM TRANSFER LENGTH of VPD page B0h, and
/// returns the length, bytes.
pub(super) fn transfer_bytes(device: &Device<'_>, bytes: u64) -> Result<u32, Sense> {
    match u32::try_from(bytes) {
        Ok(bytes) if bytes <= device.transfer_bytes_max => Ok(bytes),
        _ => Err(Sense::INVALID_FIELD_IN_CDB),
    }
}

/// Executes WRITE ATOMIC. The LU writes up to `atomic_bytes` as a unit, even if power is lost.
pub(super) fn write_atomic(device: &Device<'_>, lu: u8, atomic: WriteAtomic) -> Outcome {
    let Some(unit) = device.units.get(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let blocks = u32::from(atomic.blocks);
    if atomic.boundary != 0 {
        return Outcome::check(
            CdbError::InvalidField {
                byte: 10,
                bit: None,
            }
            .sense(),
        );
    }
    let transfer = Transfer {
        lba: atomic.lba,
        blocks,
        fua: atomic.fua,
        dpo: atomic.dpo,
        protect: atomic.protect,
    };
    let outcome = write(device, lu, transfer);
    let fits = blocks * unit.block_bytes <= unit.description.atomic_bytes;
    match outcome {
        Outcome::Write { .. } if !fits => Outcome::check(
            CdbError::InvalidField {
                byte: 12,
                bit: None,
            }
            .sense(),
        ),
        outcome => outcome,
    }
}

/// Returns the LU, unless it was stopped or its medium was ejected.
pub(super) fn ready<'a>(device: &'a Device<'_>, lu: u8) -> Result<&'a LogicalUnit, Sense> {
    match device.units.get(lu) {
        Some(unit) => unit.ready().map(|()| unit),
        None => Err(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}

/// Returns the bytes of a range. A range that ends at the end of the LU is within it, even if it is
/// empty. INFORMATION names the first block that does not exist.
pub(super) fn extent(unit: &LogicalUnit, lba: u64, blocks: u32) -> Result<Extent, Sense> {
    match lba.checked_add(u64::from(blocks)) {
        Some(end) if end <= unit.blocks => {
            let block_bytes = u64::from(unit.block_bytes);
            Ok(Extent {
                offset_bytes: lba * block_bytes,
                length_bytes: u64::from(blocks) * block_bytes,
            })
        }
        _ => Err(Sense::LBA_OUT_OF_RANGE.with_information(lba.max(unit.blocks))),
    }
}

/// Returns the bytes of a range like [`extent`], but 0 blocks mean all blocks up to the end of the
/// LU.
pub(super) fn extent_to_end(unit: &LogicalUnit, lba: u64, blocks: u32) -> Result<Extent, Sense> {
    let mut extent = extent(unit, lba, blocks)?;
    if blocks == 0 {
        extent.length_bytes = (unit.blocks - lba) * u64::from(unit.block_bytes);
    }
    Ok(extent)
}

pub(super) fn synchronize_cache(device: &Device<'_>, lu: u8, lba: u64, blocks: u32) -> Outcome {
    let checked = ready(device, lu).and_then(|unit| extent(unit, lba, blocks).map(|_| unit));
    match checked {
        Ok(unit) if unit.description.write_cache => Outcome::Flush { lu },
        Ok(_) => Outcome::GOOD,
        Err(sense) => Outcome::check(sense),
    }
}

pub(super) fn read_capacity_10(device: &mut Device<'_>, lu: u8) -> Outcome {
    match ready(device, lu) {
        Ok(unit) => {
            let data = Capacity10::new(unit.blocks - 1, unit.block_bytes).emit();
            device.answer(&data, u32::MAX)
        }
        Err(sense) => Outcome::check(sense),
    }
}

pub(super) fn read_capacity_16(device: &mut Device<'_>, lu: u8, allocation_length: u32) -> Outcome {
    match ready(device, lu) {
        Ok(unit) => {
            let capacity = Capacity16 {
                last_lba: unit.blocks - 1,
                block_length: unit.block_bytes,
                physical_block_exponent: unit
                    .description
                    .physical_block_bytes
                    .map_or(0, |bytes| (bytes / unit.block_bytes).trailing_zeros() as u8),
                thin: unit.description.thin.is_some(),
                deallocated_reads_zero: unit.description.thin.is_some(),
                ..Capacity16::default()
            };
            device.answer(&capacity.emit(), allocation_length)
        }
        Err(sense) => Outcome::check(sense),
    }
}
