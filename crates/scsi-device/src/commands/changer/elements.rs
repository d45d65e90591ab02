//! READ ELEMENT STATUS (SMC-3 section 6.11).

use hakaru_tape::{Cartridge, Element, ElementKind};
use hakaru_wire::scsi::{Cdb, ChangerCommand, Sense};

use super::super::identify::lu_designator;
use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0xb8, 0x1f, X, X, X, X, 0x03, X, X, X, 0, C], Direction::In, execute).harmless(Need::Nothing).reserved_by_field(status_need).ports(Ports::Standby),
];

/// Returns the access that the command needs: none if it may cause no motion (CURDATA).
fn status_need(cdb: &Cdb) -> Need {
    match cdb {
        Cdb::Changer(ChangerCommand::ReadElementStatus {
            current_data: true, ..
        }) => Need::Nothing,
        _ => Need::Write,
    }
}

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::Changer(ChangerCommand::ReadElementStatus {
            volume_tags,
            element_type,
            start,
            count,
            device_identifiers,
            allocation_length,
            ..
        }) => {
            let form = Form {
                volume_tags,
                device_identifiers,
            };
            let data = match element_status(device, form, element_type, (start, count)) {
                Ok(data) => data,
                Err(sense) => return Outcome::check(sense),
            };
            device.answer(&data, allocation_length)
        }
        _ => request.of_another_family(),
    }
}

/// Parts of a descriptor that the initiator asks for.
#[derive(Clone, Copy)]
struct Form {
    volume_tags: bool,
    device_identifiers: bool,
}

/// Length of a volume tag: identifier, reserved bytes and sequence number.
const TAG_BYTES: usize = 36;
/// Characters of the identifier.
const IDENTIFIER_BYTES: usize = 32;
/// Length of the identifier of a drive: an NAA of 8 bytes.
const DESIGNATOR_BYTES: usize = 8;

/// Returns the status of at most `count` elements from address `start` on, of one type or of all
/// (0).
fn element_status(
    device: &Device<'_>,
    form: Form,
    element_type: u8,
    (start, count): (u16, u16),
) -> Result<Vec<u8>, Sense> {
    let tape = device.units.tape();
    let tape = tape.ok_or(Sense::LOGICAL_UNIT_NOT_SUPPORTED)?;
    let kinds = ElementKind::ALL.into_iter();
    let mut kinds: Vec<ElementKind> = kinds
        .filter(|kind| element_type == 0 || *kind as u8 == element_type)
        .collect();
    kinds.sort_by_key(|kind| tape.library.range(*kind).0);
    let mut left = usize::from(count);
    let (mut pages, mut first, mut reported) = (Vec::new(), None, 0_u16);
    for kind in kinds {
        let elements = tape.library.elements(kind);
        let elements: Vec<Element<'_>> = elements
            .filter(|element| element.address >= start)
            .take(left)
            .collect();
        left -= elements.len();
        reported += elements.len() as u16;
        let Some(lowest) = elements.first() else {
            continue;
        };
        first.get_or_insert(lowest.address);
        emit_page(device, form, kind, &elements, &mut pages);
    }
    let mut out = Vec::with_capacity(8 + pages.len());
    out.extend_from_slice(&first.unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&reported.to_be_bytes());
    out.extend_from_slice(&(pages.len() as u32).to_be_bytes());
    out.extend_from_slice(&pages);
    Ok(out)
}

/// Writes an element status page: header and descriptors.
fn emit_page(
    device: &Device<'_>,
    form: Form,
    kind: ElementKind,
    elements: &[Element<'_>],
    out: &mut Vec<u8>,
) {
    const PRIMARY_TAGS: u8 = 0x80;
    let with_identifier = form.device_identifiers && kind == ElementKind::Drive;
    let tag_bytes = if form.volume_tags { TAG_BYTES } else { 0 };
    let identifier_bytes = if with_identifier { DESIGNATOR_BYTES } else { 0 };
    let length = 12 + tag_bytes + 4 + identifier_bytes;
    out.extend_from_slice(&[kind as u8, if form.volume_tags { PRIMARY_TAGS } else { 0 }]);
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&((length * elements.len()) as u32).to_be_bytes());
    for element in elements {
        emit_descriptor(element, out);
        if form.volume_tags {
            emit_tag(element.cartridge, out);
        }
        let tape = device.units.tape();
        let lun = element
            .drive
            .and_then(|drive| Some(tape?.drive_luns[drive]));
        let unit = lun.and_then(|lun| device.units.get(lun));
        match unit.filter(|_| with_identifier) {
            Some(unit) => {
                // Code set binary, identifier type NAA.
                out.extend_from_slice(&[1, 3, 0, DESIGNATOR_BYTES as u8]);
                out.extend_from_slice(&lu_designator(unit).to_be_bytes());
            }
            None => out.extend_from_slice(&[0; 4]),
        }
    }
}

/// Writes the first 12 bytes of an element descriptor.
fn emit_descriptor(element: &Element<'_>, out: &mut Vec<u8>) {
    const FULL: u8 = 0x01;
    const ACCESSIBLE: u8 = 0x08;
    const EXPORTS_AND_IMPORTS: u8 = 0x30;
    const SOURCE_VALID: u8 = 0x80;
    let full = if element.cartridge.is_some() { FULL } else { 0 };
    let kind = match element.kind {
        ElementKind::Transport => 0,
        ElementKind::Slot | ElementKind::Drive => ACCESSIBLE,
        ElementKind::ImportExport => ACCESSIBLE | EXPORTS_AND_IMPORTS,
    };
    out.extend_from_slice(&element.address.to_be_bytes());
    out.extend_from_slice(&[full | kind, 0, 0, 0, 0, 0, 0]);
    // Backup programs learn from the source which slot the cartridge of a drive belongs to.
    match element.cartridge.and_then(|cartridge| cartridge.source) {
        Some(source) => {
            out.push(SOURCE_VALID);
            out.extend_from_slice(&source.to_be_bytes());
        }
        None => out.extend_from_slice(&[0; 3]),
    }
}

/// Writes the barcode as a volume tag; zeros without a cartridge.
fn emit_tag(cartridge: Option<&Cartridge>, out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + TAG_BYTES, 0);
    if let Some(cartridge) = cartridge {
        let tag = &mut out[begin..][..IDENTIFIER_BYTES];
        tag.fill(b' ');
        for (to, from) in tag.iter_mut().zip(cartridge.barcode.bytes()) {
            *to = from;
        }
    }
}
