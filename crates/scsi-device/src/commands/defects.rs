//! READ DEFECT DATA (10, 12): the defect lists are empty (SBC-3 sections 5.16 and 5.17).

use hakaru_wire::scsi::{Cdb, ReadDefectData, Sense};

use super::block::ready;
use super::info::{C, CommandInfo, Direction, Request, X};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x37, 0, 0x1f, 0, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Read),
    CommandInfo::new(&[0xb7, 0x1f, 0, 0, 0, 0, X, X, X, X, 0, C], Direction::In, execute).harmless(Need::Read),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::ReadDefectData(request) => read_defect_data(device, lu, request),
        _ => request.of_another_family(),
    }
}

/// Executes READ DEFECT DATA with an empty list in the requested format.
pub(super) fn read_defect_data(
    device: &mut Device<'_>,
    lu: u8,
    request: ReadDefectData,
) -> Outcome {
    // Formats 6 (vendor's) and 7 (reserved).
    if request.format > 5 {
        return Outcome::check(Sense::INVALID_FIELD_IN_CDB);
    }
    if let Err(sense) = ready(device, lu) {
        return Outcome::check(sense);
    }
    let valid = u8::from(request.primary) << 4 | u8::from(request.grown) << 3 | request.format;
    let header = [0, valid, 0, 0, 0, 0, 0, 0];
    let length = if request.twelve { 8 } else { 4 };
    device.answer(&header[..length], request.allocation_length)
}
