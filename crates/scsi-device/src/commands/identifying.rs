//! REPORT and SET IDENTIFYING INFORMATION (SPC-4 sections 5.6, 6.32 and 6.43).

use hakaru_wire::scsi::{
    Cdb, CdbError, FieldPointer, IdentifyingKind, Sense, emit_identifying,
    emit_supported_identifying,
};

use super::info::{C, CommandInfo, Direction, Request, X};
use crate::context::Device;
use crate::outcome::{Notice, Outcome};
use crate::reservations::Need;

/// Usage mask of the byte with INFORMATION TYPE.
const TYPE: u8 = 0xfe;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0xa3, 0x05, 0, 0, 0, 0, X, X, X, X, TYPE, C], Direction::In, execute).action(0x05).harmless(Need::Nothing),
    CommandInfo::new(&[0xa4, 0x06, 0, 0, 0, 0, X, X, X, X, TYPE, C], Direction::Out, execute).action(0x06).with_list(with_list),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::ReportIdentifyingInformation {
            information_type,
            allocation_length,
        } => report(device, request.lu, information_type, allocation_length),
        Cdb::SetIdentifyingInformation {
            information_type,
            parameter_list_length,
        } => match IdentifyingKind::from_code(information_type) {
            None => unknown_type(),
            Some(kind) if parameter_list_length > kind.bytes_max().into() => {
                Outcome::check(CdbError::InvalidField { byte: 6, bit: None }.sense())
            }
            Some(kind) if parameter_list_length == 0 => set(device, request.lu, kind, &[]),
            Some(_) => Outcome::Parameters {
                lu: request.lu,
                length_bytes: parameter_list_length,
            },
        },
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    let Cdb::SetIdentifyingInformation {
        information_type,
        parameter_list_length,
    } = request.cdb
    else {
        request.of_another_family()
    };
    // Part of a list must not replace the information.
    if list.len() != parameter_list_length as usize {
        return Outcome::check(Sense::PARAMETER_LIST_LENGTH_ERROR);
    }
    match IdentifyingKind::from_code(information_type) {
        Some(kind) => set(device, request.lu, kind, list),
        None => unknown_type(),
    }
}

/// Refuses an INFORMATION TYPE.
fn unknown_type() -> Outcome {
    let (byte, bit) = (10, Some(7));
    Outcome::check(CdbError::InvalidField { byte, bit }.sense())
}

fn report(
    device: &mut Device<'_>,
    lu: u8,
    information_type: u8,
    allocation_length: u32,
) -> Outcome {
    let Some(unit) = device.units.get(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let data = match IdentifyingKind::from_code(information_type) {
        Some(kind) => emit_identifying(unit.identifying.get(kind)),
        None if information_type == IdentifyingKind::SUPPORTED => emit_supported_identifying(),
        None => return unknown_type(),
    };
    device.answer(&data, allocation_length)
}

/// Replaces the information. Every other nexus gets a unit attention condition if it has changed.
fn set(device: &mut Device<'_>, lu: u8, kind: IdentifyingKind, information: &[u8]) -> Outcome {
    if !kind.admits(information) {
        let field = FieldPointer {
            in_cdb: false,
            byte: 0,
            bit: None,
        };
        return Outcome::check(Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(field));
    }
    let Some(unit) = device.units.get_mut(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    if unit.identifying.set(kind, information) {
        let sense = Sense::DEVICE_IDENTIFIER_CHANGED;
        device.notices.push(Notice::Others { lu, sense });
    }
    Outcome::GOOD
}
