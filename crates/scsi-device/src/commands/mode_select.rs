//! MODE SELECT (6, 10) (SPC-4 sections 6.11 and 6.12). A list is applied completely or not at all.
//! A bit that is not changeable must have its current value.

use hakaru_wire::scsi::{
    BlockDescriptor, Cdb, CdbError, FieldPointer, ModePage, ModeSelect, ModeSelectList, Sense,
};

use super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::mode::{changeable_pages, pages};
use crate::context::Device;
use crate::outcome::{Notice, Outcome};
use crate::unit::LogicalUnit;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x15, 0x11, 0, 0, X, C], Direction::Out, execute).ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x55, 0x11, 0, 0, 0, 0, 0, X, X, C], Direction::Out, execute).ports(Ports::Standby).with_list(with_list),
];

fn execute(_: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::ModeSelect(mode) => mode_select(lu, mode),
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    match request.cdb {
        Cdb::ModeSelect(mode) => select_pages(device, request.lu, mode, list),
        _ => request.of_another_family(),
    }
}

/// The PS bit. The remaining bits are page code and SPF.
const PAGE_SAVEABLE: u8 = 0x80;

/// Executes MODE SELECT before its parameter list arrives.
pub(super) fn mode_select(lu: u8, request: ModeSelect) -> Outcome {
    let bit = if request.save_pages {
        0
    } else if !request.page_format {
        4
    } else if request.parameter_list_length == 0 {
        return Outcome::GOOD;
    } else {
        return Outcome::Parameters {
            lu,
            length_bytes: request.parameter_list_length.into(),
        };
    };
    let bit = Some(bit);
    Outcome::check(CdbError::InvalidField { byte: 1, bit }.sense())
}

/// Executes MODE SELECT with its parameter list. An LU whose cache is switched off is flushed.
fn select_pages(device: &mut Device<'_>, lu: u8, request: ModeSelect, list: &[u8]) -> Outcome {
    let Some(unit) = device.units.get_mut(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let changed = match select(unit, request.ten, list) {
        Ok(changed) => changed,
        Err(sense) => return Outcome::check(sense),
    };
    let before = unit.mode;
    for page in changed {
        match page {
            ModePage::Caching { write_cache, .. } => unit.mode.write_cache = write_cache,
            ModePage::Control {
                descriptor_sense,
                write_protect,
                ..
            } => {
                unit.mode.descriptor_sense = descriptor_sense;
                unit.mode.write_protect = write_protect;
            }
            _ => {}
        }
    }
    if unit.mode != before {
        let sense = Sense::MODE_PARAMETERS_CHANGED;
        device.notices.push(Notice::Others { lu, sense });
    }
    if before.write_cache && !unit.mode.write_cache {
        Outcome::Flush { lu }
    } else {
        Outcome::GOOD
    }
}

/// Parses and checks the pages of a list.
fn select(unit: &LogicalUnit, ten: bool, list: &[u8]) -> Result<Vec<ModePage>, Sense> {
    let parsed =
        ModeSelectList::parse(list, ten).map_err(|_| Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    if let Some(descriptor) = parsed.block_descriptor {
        check_descriptor(unit, descriptor)?;
    }
    let mut rest = parsed.pages;
    let mut selected = Vec::new();
    while !rest.is_empty() {
        let at = list.len() - rest.len();
        let (page, after) = ModePage::parse(rest).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
        let (current, changeable) = (pages(unit.mode), changeable_pages(unit));
        check_page(current, changeable, &rest[..rest.len() - after.len()], at)?;
        selected.push(page);
        rest = after;
    }
    Ok(selected)
}

/// Checks a block descriptor. The LU cannot be formatted, so block length and size must be the
/// current ones. 0 and all ones stand for the current size.
fn check_descriptor(unit: &LogicalUnit, descriptor: BlockDescriptor) -> Result<(), Sense> {
    let sized = [0, unit.blocks, u64::from(u32::MAX), u64::MAX].contains(&descriptor.blocks);
    if sized && descriptor.block_length == unit.block_bytes {
        Ok(())
    } else {
        Err(Sense::INVALID_FIELD_IN_PARAMETER_LIST)
    }
}

/// Checks a page that begins `at` bytes into the list: it is among the pages of the device, and its
/// bits that are not changeable have their current values.
pub(super) fn check_page(
    current: Vec<ModePage>,
    changeable: Vec<ModePage>,
    page: &[u8],
    at: usize,
) -> Result<(), Sense> {
    let wrong = |byte: usize| {
        Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
            in_cdb: false,
            byte: (at + byte) as u16,
            bit: None,
        })
    };
    let bytes_of = |pages: Vec<ModePage>| {
        let matching_page = pages
            .into_iter()
            .find(|candidate| candidate.code() == page[0] & !PAGE_SAVEABLE);
        matching_page.map(|candidate| {
            let mut bytes = Vec::new();
            candidate.emit(&mut bytes);
            bytes
        })
    };
    let current = bytes_of(current).ok_or(wrong(0))?;
    let changeable = bytes_of(changeable).ok_or(wrong(0))?;
    if current.len() != page.len() {
        return Err(wrong(1));
    }
    for byte in 2..page.len() {
        if (page[byte] ^ current[byte]) & !changeable[byte] != 0 {
            return Err(wrong(byte));
        }
    }
    Ok(())
}
