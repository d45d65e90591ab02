//! WRITE ATTRIBUTE: what programs write into the memory of a cartridge (SPC-4 section 6.46).

use hakaru_tape::{HostAttribute, HostAttributes};
use hakaru_wire::scsi::{Cdb, CdbError, FieldPointer, Sense, TapeService};

use super::super::info::{C, CommandInfo, Direction, Request, X};
use super::drive::{idle_drive, outcome};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::program::{Job, Program, TapeWrite};

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x8d, 0, 0, 0, 0, X, 0, X, 0, 0, X, X, X, X, 0, C], Direction::Out, execute).with_list(with_list),
];

/// Longest parameter list, bytes. All attributes together are shorter.
const LIST_BYTES_MAX: u32 = 4096;

fn execute(device: &mut Device<'_>, command: &Request) -> Outcome {
    let lu = command.lu;
    let Cdb::TapeService(TapeService::WriteAttribute {
        partition,
        parameter_list_length,
    }) = command.cdb
    else {
        command.of_another_family();
    };
    if partition != 0 {
        return Outcome::check(CdbError::InvalidField { byte: 7, bit: None }.sense());
    }
    if parameter_list_length > LIST_BYTES_MAX {
        let byte = 10;
        return Outcome::check(CdbError::InvalidField { byte, bit: None }.sense());
    }
    match idle_drive(device, lu).map(|drive| drive.writable()) {
        Err(outcome) => outcome,
        Ok(Err(condition)) => Outcome::check(condition.sense()),
        Ok(Ok(())) if parameter_list_length == 0 => Outcome::GOOD,
        Ok(Ok(())) => Outcome::Parameters {
            lu,
            length_bytes: parameter_list_length,
        },
    }
}

/// Executes WRITE ATTRIBUTE with its parameter list. It is applied completely or not at all.
fn with_list(device: &mut Device<'_>, command: &Request, list: &[u8]) -> Outcome {
    let lu = command.lu;
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let before = match drive.loaded() {
        Ok(cartridge) => cartridge.memory.attributes().clone(),
        Err(condition) => return Outcome::check(condition.sense()),
    };
    let attributes = match parse(list, before) {
        Ok(attributes) => attributes,
        Err(sense) => return Outcome::check(sense),
    };
    let record = match drive.write_attributes(attributes) {
        Ok(record) => record,
        Err(condition) => return outcome(Err(condition)),
    };
    let store_lun = device.units.tape().map(|tape| tape.changer_lun);
    let (Some(record), Some(store_lun)) = (record, store_lun) else {
        return Outcome::GOOD;
    };
    let program = TapeWrite::recording(store_lun, record);
    Outcome::program(Job::new(lu, Program::TapeWrite(program)))
}

/// Bytes of PARAMETER DATA LENGTH, and of an attribute before its value.
const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = 5;

/// Returns the attributes after those in the list, which ascend. One without a value is removed.
fn parse(list: &[u8], mut attributes: HostAttributes) -> Result<HostAttributes, Sense> {
    let short = Sense::PARAMETER_LIST_LENGTH_ERROR;
    let (length, rest) = list.split_first_chunk::<LENGTH_BYTES>().ok_or(short)?;
    let length = u32::from_be_bytes(*length) as usize;
    let mut rest = rest.get(..length).ok_or(short)?;
    let mut last = None;
    while !rest.is_empty() {
        let at = LENGTH_BYTES + length - rest.len();
        let (head, after) = rest.split_first_chunk::<HEAD_BYTES>().ok_or(short)?;
        let identifier = u16::from_be_bytes([head[0], head[1]]);
        let known = HostAttribute::of(identifier);
        let attribute = known
            .filter(|_| last < Some(identifier))
            .ok_or(invalid(at))?;
        // FORMAT.
        if head[2] & 3 != attribute.format as u8 {
            return Err(invalid(at + 2));
        }
        let value_bytes = u16::from_be_bytes([head[3], head[4]]);
        if ![0, attribute.length_bytes].contains(&value_bytes) {
            return Err(invalid(at + 3));
        }
        let (value, next) = after.split_at_checked(value_bytes.into()).ok_or(short)?;
        attributes.set(identifier, value);
        last = Some(identifier);
        rest = next;
    }
    Ok(attributes)
}

fn invalid(byte: usize) -> Sense {
    Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
        in_cdb: false,
        byte: byte as u16,
        bit: None,
    })
}
