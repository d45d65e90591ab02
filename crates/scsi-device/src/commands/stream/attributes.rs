//! READ ATTRIBUTE: the memory in the cartridge (SPC-4 sections 6.18 and 7.4). Attributes cannot be
//! written.

use hakaru_tape::{Cartridge, Density};
use hakaru_wire::scsi::{AttributeForm, Cdb, CdbError, StreamCommand};

use super::super::info::{C, CommandInfo, Direction, Request, X};
use super::drive::idle_drive;
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x8c, 0x00, 0, 0, 0, X, 0, X, X, X, X, X, X, X, 0, C], Direction::In, execute).action(0x00).harmless(Need::Nothing),
    CommandInfo::new(&[0x8c, 0x01, 0, 0, 0, X, 0, X, X, X, X, X, X, X, 0, C], Direction::In, execute).action(0x01).harmless(Need::Nothing),
    CommandInfo::new(&[0x8c, 0x05, 0, 0, 0, X, 0, X, X, X, X, X, X, X, 0, C], Direction::In, execute).action(0x05).harmless(Need::Nothing),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let Cdb::Stream(StreamCommand::ReadAttribute {
        form,
        partition,
        first,
        allocation_length,
    }) = request.cdb
    else {
        request.of_another_family();
    };
    if partition != 0 {
        let bit = None;
        return Outcome::check(CdbError::InvalidField { byte: 7, bit }.sense());
    }
    let drive = match idle_drive(device, request.lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let cartridge = match drive.loaded() {
        Ok(cartridge) => cartridge,
        Err(condition) => return Outcome::check(condition.sense()),
    };
    let mut attributes = attributes(cartridge, drive.generation.density());
    attributes.retain(|attribute| attribute.identifier >= first);
    let mut data = vec![0; 4];
    for attribute in attributes {
        data.extend_from_slice(&attribute.identifier.to_be_bytes());
        if form == AttributeForm::Values {
            const READ_ONLY: u8 = 0x80;
            data.push(READ_ONLY | attribute.format as u8);
            data.extend_from_slice(&(attribute.value.len() as u16).to_be_bytes());
            data.extend_from_slice(&attribute.value);
        }
    }
    // AVAILABLE DATA does not count its own bytes.
    let available = data.len() as u32 - 4;
    data[..4].copy_from_slice(&available.to_be_bytes());
    device.answer(&data, allocation_length)
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Format {
    Binary = 0,
    Ascii = 1,
}

struct Attribute {
    identifier: u16,
    format: Format,
    value: Vec<u8>,
}

const MANUFACTURER: &str = "HAKARU";
const ORGANIZATION: &str = "LTO-CVE";

/// Returns the attributes, ascending. Capacities are in MiB.
fn attributes(cartridge: &Cartridge, density: Density) -> Vec<Attribute> {
    let binary = |identifier, value: &[u8]| Attribute {
        identifier,
        format: Format::Binary,
        value: value.to_vec(),
    };
    let ascii = |identifier, length: usize, text: &str| {
        let mut value = text.as_bytes().to_vec();
        value.resize(length, b' ');
        Attribute {
            identifier,
            format: Format::Ascii,
            value,
        }
    };
    let mib = |bytes: u64| (bytes >> 20).to_be_bytes();
    vec![
        binary(0x0000, &mib(cartridge.left_bytes())),
        binary(0x0001, &mib(cartridge.region.length_bytes)),
        // TapeAlert flags. None is ever set.
        binary(0x0002, &[0; 8]),
        binary(0x0003, &cartridge.loads.to_be_bytes()),
        ascii(0x0005, 8, ORGANIZATION),
        binary(0x0006, &[density.code]),
        ascii(0x0400, 8, MANUFACTURER),
        ascii(0x0401, 32, &cartridge.barcode),
        // MEDIUM TYPE: a data cartridge.
        binary(0x0408, &[0]),
        ascii(0x0806, 32, &cartridge.barcode),
    ]
}
