//! READ ATTRIBUTE: the memory in the cartridge (SPC-4 sections 6.18 and 7.4).

use hakaru_tape::{AttributeFormat, Cartridge, Drive, HOST_ATTRIBUTES, HostAttribute};
use hakaru_wire::scsi::{AttributeForm, Cdb, CdbError, StreamCommand};

use super::super::identify::{serial_number, vendor};
use super::super::info::{C, CommandInfo, Direction, Request, X};
use super::drive::idle_drive;
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x8c, 0x00, 0, 0, 0, X, 0, X, X, X, X, X, X, X, 0, C], Direction::In, execute).action(0x00).harmless(Need::Read),
    CommandInfo::new(&[0x8c, 0x01, 0, 0, 0, X, 0, X, X, X, X, X, X, X, 0, C], Direction::In, execute).action(0x01).harmless(Need::Read),
    CommandInfo::new(&[0x8c, 0x05, 0, 0, 0, X, 0, X, X, X, X, X, X, X, 0, C], Direction::In, execute).action(0x05).harmless(Need::Read),
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
    let names = drive_names(device);
    let drive = match idle_drive(device, request.lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let cartridge = match drive.loaded() {
        Ok(cartridge) => cartridge,
        Err(condition) => return Outcome::check(condition.sense()),
    };
    let mut attributes = attributes(drive, cartridge, &names);
    add_written(&mut attributes, cartridge, form == AttributeForm::Supported);
    attributes.retain(|attribute| attribute.identifier >= first);
    let mut data = vec![0; 4];
    for attribute in attributes {
        data.extend_from_slice(&attribute.identifier.to_be_bytes());
        if form == AttributeForm::Values {
            const READ_ONLY: u8 = 0x80;
            let writable = HostAttribute::of(attribute.identifier).is_some();
            let read_only = if writable { 0 } else { READ_ONLY };
            data.push(read_only | attribute.format as u8);
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
    Text = 2,
}

struct Attribute {
    identifier: u16,
    format: Format,
    value: Vec<u8>,
}

/// Manufacturer of cartridges.
pub(super) const MANUFACTURER: &str = "HAKARU";
/// Organization that assigns densities of LTO.
pub(super) const ORGANIZATION: &str = "LTO-CVE";

/// Width of the tape in 1/10 mm.
pub(super) const MEDIUM_WIDTH: u16 = 127;
/// DEVICE VENDOR/SERIAL NUMBER AT LAST LOAD; the identifiers of the loads before it follow.
const LAST_LOAD: u16 = 0x020a;

/// Returns vendor and serial number of each drive.
fn drive_names(device: &Device<'_>) -> Vec<String> {
    let tape = device.units.tape();
    let luns = tape.map_or(&[][..], |tape| &tape.drive_luns);
    let units = luns.iter().filter_map(|lun| device.units.get(*lun));
    units
        .map(|unit| format!("{:8}{}", vendor(unit), serial_number(unit)))
        .collect()
}

fn binary(identifier: u16, value: &[u8]) -> Attribute {
    Attribute {
        identifier,
        format: Format::Binary,
        value: value.to_vec(),
    }
}

fn ascii(identifier: u16, length: usize, text: &str) -> Attribute {
    let mut value = text.as_bytes().to_vec();
    value.resize(length, b' ');
    Attribute {
        identifier,
        format: Format::Ascii,
        value,
    }
}

/// Returns the attributes, ascending. Numbers of bytes are in MiB, on the tape. Attributes without a known value
/// are left out: the size of the memory and what is left of it, initializations, the date of
/// manufacture, and for a cartridge that was in use before the array was started, the bytes of its
/// life.
fn attributes(drive: &Drive, cartridge: &Cartridge, names: &[String]) -> Vec<Attribute> {
    let mib = |bytes: u64| (drive.ratio.stored_bytes(bytes) >> 20).to_be_bytes();
    let mut attributes = vec![
        binary(0x0000, &mib(cartridge.left_bytes())),
        binary(0x0001, &mib(cartridge.region.length_bytes)),
        // TapeAlert flags.
        binary(0x0002, &drive.alerts.after(0).to_be_bytes()),
        binary(0x0003, &cartridge.loads.to_be_bytes()),
        ascii(0x0005, 8, ORGANIZATION),
        binary(0x0006, &[drive.format().density().code]),
        // VOLUME IDENTIFIER: the label that the library reads.
        ascii(0x0008, 32, &cartridge.barcode),
    ];
    let loads = cartridge.drives.iter().zip(LAST_LOAD..);
    attributes.extend(loads.filter_map(|(drive, identifier)| {
        let name = names.get(usize::from(*drive))?;
        Some(ascii(identifier, 40, name))
    }));
    if let Some(life) = drive.life() {
        attributes.push(binary(0x0220, &mib(life.written_bytes)));
        attributes.push(binary(0x0221, &mib(life.read_bytes)));
    }
    let mount = drive.mount();
    attributes.extend([
        binary(0x0222, &mib(mount.written_bytes)),
        binary(0x0223, &mib(mount.read_bytes)),
        ascii(0x0400, 8, MANUFACTURER),
        ascii(0x0401, 32, &cartridge.barcode),
        binary(0x0402, &drive.format().length_m().to_be_bytes()),
        binary(0x0403, &u32::from(MEDIUM_WIDTH).to_be_bytes()),
        ascii(0x0404, 8, ORGANIZATION),
        binary(0x0405, &[drive.format().density().code]),
        // MEDIUM TYPE: a data cartridge.
        binary(0x0408, &[0]),
        ascii(0x0806, 32, &cartridge.barcode),
    ]);
    attributes
}

/// Adds what programs have written, and keeps the attributes ascending. With `all`, adds attributes
/// without a value, too.
fn add_written(attributes: &mut Vec<Attribute>, cartridge: &Cartridge, all: bool) {
    for attribute in HOST_ATTRIBUTES {
        let identifier = attribute.identifier;
        let value = cartridge.memory.attributes().get(identifier);
        let present = attributes
            .iter()
            .any(|attribute| attribute.identifier == identifier);
        if value.is_none() && (present || !all) {
            continue;
        }
        attributes.retain(|attribute| attribute.identifier != identifier);
        attributes.push(Attribute {
            identifier,
            format: match attribute.format {
                AttributeFormat::Binary => Format::Binary,
                AttributeFormat::Ascii => Format::Ascii,
                AttributeFormat::Text => Format::Text,
            },
            value: value.unwrap_or_default().to_vec(),
        });
    }
    attributes.sort_by_key(|attribute| attribute.identifier);
}
