//! Blocks: READ and WRITE (6, 10, 12, 16), SYNCHRONIZE CACHE (10, 16), READ CAPACITY (10, 16) (SBC-3 section 5).

use hakaru_wire::scsi::{Capacity10, Capacity16, CdbError, Sense, Transfer};

use super::{Device, LogicalUnit, Outcome};

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
                fua: transfer.fua || unit.description.write_cache && !unit.mode.write_cache,
            },
            Err(sense) => Outcome::check(sense),
        },
        Err(sense) => Outcome::check(sense),
    }
}

/// The bytes that a transfer names: (offset, length).
fn check<'a>(
    device: &'a Device<'_>,
    lu: u8,
    transfer: Transfer,
) -> Result<(&'a LogicalUnit, u64, u32), Sense> {
    let unit = ready(device, lu)?;
    if transfer.protect != 0 {
        // No LU is formatted with protection information (SBC-3 table 55).
        return Err(CdbError::InvalidField {
            byte: 1,
            bit: Some(7),
        }
        .sense());
    }
    check_range(unit, transfer.lba, transfer.blocks)?;
    let length_bytes = u64::from(transfer.blocks) * u64::from(unit.block_bytes);
    match u32::try_from(length_bytes) {
        Ok(length_bytes) if length_bytes <= device.transfer_bytes_max => Ok((
            unit,
            transfer.lba * u64::from(unit.block_bytes),
            length_bytes,
        )),
        // Longer than MAXIMUM TRANSFER LENGTH of VPD page B0h.
        _ => Err(Sense::INVALID_FIELD_IN_CDB),
    }
}

/// The LU, unless it was stopped or its medium was taken out.
fn ready<'a>(device: &'a Device<'_>, lu: u8) -> Result<&'a LogicalUnit, Sense> {
    match device.units.get(lu) {
        Some(unit) => unit.ready().map(|()| unit),
        None => Err(Sense::LOGICAL_UNIT_NOT_SUPPORTED),
    }
}

/// A range that ends at the end of the LU is within it, also when it is empty. INFORMATION names the first block that is not there.
fn check_range(unit: &LogicalUnit, lba: u64, blocks: u32) -> Result<(), Sense> {
    match lba.checked_add(u64::from(blocks)) {
        Some(end) if end <= unit.blocks => Ok(()),
        _ => Err(Sense::LBA_OUT_OF_RANGE.with_information(lba.max(unit.blocks))),
    }
}

pub(super) fn synchronize_cache(device: &Device<'_>, lu: u8, lba: u64, blocks: u32) -> Outcome {
    let checked = ready(device, lu).and_then(|unit| check_range(unit, lba, blocks).map(|()| unit));
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
                ..Capacity16::default()
            };
            device.answer(&capacity.emit(), allocation_length)
        }
        Err(sense) => Outcome::check(sense),
    }
}
