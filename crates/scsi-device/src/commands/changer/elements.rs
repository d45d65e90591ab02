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
            match report(device, form, count, wanted(element_type, start)) {
                Ok(report) => device.answer(&report.emit(0), allocation_length),
                Err(sense) => Outcome::check(sense),
            }
        }
        _ => request.of_another_family(),
    }
}

/// Parts of a descriptor that the initiator asks for.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) volume_tags: bool,
    pub(super) device_identifiers: bool,
}

/// The status of elements, ascending by address.
pub(super) struct Report {
    /// Address of the first element; 0 without one.
    first: u16,
    /// Element status pages, one for each type.
    pages: Vec<u8>,
    /// Address of each element, and the end of its descriptor in the pages.
    descriptors: Vec<(u16, usize)>,
}

/// Length of the header before the pages.
const HEADER_BYTES: usize = 8;

impl Report {
    /// Returns the parameter data. Byte 4 is `action`, which READ ELEMENT STATUS does not have.
    pub(super) fn emit(&self, action: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.pages.len());
        out.extend_from_slice(&self.first.to_be_bytes());
        out.extend_from_slice(&(self.descriptors.len() as u16).to_be_bytes());
        out.extend_from_slice(&(self.pages.len() as u32).to_be_bytes());
        out[4] = action;
        out.extend_from_slice(&self.pages);
        out
    }

    /// Returns the address of the last element whose descriptor is complete within an allocation
    /// length.
    pub(super) fn last_within(&self, allocation_length: u32) -> Option<u16> {
        let room = (allocation_length as usize).checked_sub(HEADER_BYTES)?;
        let fits = self.descriptors.iter().rev().find(|(_, end)| *end <= room);
        fits.map(|(address, _)| *address)
    }
}

/// Length of a volume tag: identifier, reserved bytes and sequence number.
const TAG_BYTES: usize = 36;
/// Characters of the identifier.
const IDENTIFIER_BYTES: usize = 32;
/// Length of the identifier of a drive: an NAA of 8 bytes.
const DESIGNATOR_BYTES: usize = 8;

/// Returns whether an element is of a type (0: any) and has an address from `start` on.
pub(super) fn wanted(element_type: u8, start: u16) -> impl Fn(&Element<'_>) -> bool {
    move |element| {
        (element_type == 0 || element.kind as u8 == element_type) && element.address >= start
    }
}

/// Returns the status of the first `count` elements that are wanted.
pub(super) fn report(
    device: &Device<'_>,
    form: Form,
    count: u16,
    is_wanted: impl Fn(&Element<'_>) -> bool,
) -> Result<Report, Sense> {
    let tape = device.units.tape();
    let tape = tape.ok_or(Sense::LOGICAL_UNIT_NOT_SUPPORTED)?;
    let mut kinds = ElementKind::ALL;
    kinds.sort_by_key(|kind| tape.library.range(*kind).0);
    let mut left = usize::from(count);
    let mut report = Report {
        first: 0,
        pages: Vec::new(),
        descriptors: Vec::new(),
    };
    for kind in kinds {
        let elements = tape.library.elements(kind);
        let elements: Vec<Element<'_>> = elements.filter(&is_wanted).take(left).collect();
        left -= elements.len();
        if !elements.is_empty() {
            emit_page(device, form, kind, &elements, &mut report);
        }
    }
    let first = report.descriptors.first();
    report.first = first.map_or(0, |(address, _)| *address);
    Ok(report)
}

/// Writes an element status page: header and descriptors.
fn emit_page(
    device: &Device<'_>,
    form: Form,
    kind: ElementKind,
    elements: &[Element<'_>],
    report: &mut Report,
) {
    const PRIMARY_TAGS: u8 = 0x80;
    let with_identifier = form.device_identifiers && kind == ElementKind::Drive;
    let tag_bytes = if form.volume_tags { TAG_BYTES } else { 0 };
    let identifier_bytes = if with_identifier { DESIGNATOR_BYTES } else { 0 };
    let length = 12 + tag_bytes + 4 + identifier_bytes;
    let out = &mut report.pages;
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
        report.descriptors.push((element.address, out.len()));
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
        ElementKind::ImportExport if element.open => EXPORTS_AND_IMPORTS,
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
