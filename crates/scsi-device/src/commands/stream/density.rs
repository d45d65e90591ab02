//! REPORT DENSITY SUPPORT (SSC-3 section 7.11). A cartridge has the density of its generation. A
//! drive reads the density of its own generation and of the two before, and writes all of these but
//! the oldest.

use hakaru_tape::{Drive, Generation};
use hakaru_wire::scsi::{Cdb, StreamCommand};

use super::super::info::{C, CommandInfo, Direction, Request, X};
use super::attributes::{MEDIUM_WIDTH, ORGANIZATION};
use super::drive::idle_drive;
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x44, 0x03, 0, 0, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Nothing),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let Cdb::Stream(StreamCommand::ReportDensity {
        medium,
        medium_types,
        allocation_length,
    }) = request.cdb
    else {
        request.of_another_family();
    };
    let drive = match idle_drive(device, request.lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    if let (true, Err(condition)) = (medium, drive.loaded()) {
        return Outcome::check(condition.sense());
    }
    let generations = if medium {
        vec![drive.format()]
    } else {
        drive.generation.readable().collect()
    };
    let mut data = vec![0; 4];
    for generation in generations {
        if medium_types {
            data.extend_from_slice(&medium_descriptor(generation));
        } else {
            data.extend_from_slice(&density_descriptor(drive, generation));
        }
    }
    let length = data.len() as u16 - 2;
    data[..2].copy_from_slice(&length.to_be_bytes());
    device.answer(&data, allocation_length.into())
}

/// Writes three texts, padded with spaces, into fields of 8, 8 and 20 bytes at the end of a
/// descriptor.
fn emit_texts(fields: &mut [u8], texts: [&str; 3]) {
    fields.fill(b' ');
    for (at, text) in [0, 8, 16].into_iter().zip(texts) {
        fields[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
}

/// Returns the density support data block descriptor (SSC-3 table 61) of a generation that the drive
/// reads. The default density is that of the drive.
fn density_descriptor(drive: &Drive, generation: Generation) -> [u8; 52] {
    const WRITABLE: u8 = 0x80;
    const DEFAULT: u8 = 0x20;
    let writable = u8::from(drive.generation.writes(generation)) * WRITABLE;
    let default = u8::from(drive.generation == generation) * DEFAULT;
    let density = generation.density();
    let mut out = [0; 52];
    out[..3].copy_from_slice(&[density.code, density.code, writable | default]);
    out[5..8].copy_from_slice(&density.bits_per_mm.to_be_bytes()[1..]);
    out[8..10].copy_from_slice(&MEDIUM_WIDTH.to_be_bytes());
    out[10..12].copy_from_slice(&density.tracks.to_be_bytes());
    out[12..16].copy_from_slice(&density.capacity_mb.to_be_bytes());
    let texts = [ORGANIZATION, density.name, density.description];
    emit_texts(&mut out[16..], texts);
    out
}

/// Returns the medium type descriptor (SSC-3 table 62): a data cartridge, type 00h.
fn medium_descriptor(generation: Generation) -> [u8; 56] {
    let mut out = [0; 56];
    // DESCRIPTOR LENGTH, and one density code.
    out[3] = 52;
    out[4] = 1;
    out[5] = generation.density().code;
    out[14..16].copy_from_slice(&MEDIUM_WIDTH.to_be_bytes());
    out[16..18].copy_from_slice(&(generation.length_m() as u16).to_be_bytes());
    emit_texts(
        &mut out[20..],
        [ORGANIZATION, "Data", generation.personality()],
    );
    out
}
