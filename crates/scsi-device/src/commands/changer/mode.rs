//! MODE SENSE and MODE SELECT (6, 10) of changers: element addresses (1Dh), transport geometry (1Eh),
//! device capabilities (1Fh) (SMC-3 section 7.3). Nothing can be changed, so MODE SELECT takes the
//! current values and refuses all others.

use hakaru_tape::{ElementKind, Library};
use hakaru_wire::scsi::{
    Cdb, CdbError, FieldPointer, ModeData, ModePage, ModeSelect, ModeSelectList, ModeSense,
    PageControl, Sense,
};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::super::mode_select::{check_page, mode_select};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x15, 0x11, 0, 0, X, C], Direction::Out, execute).harmless(Need::Write).ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x1a, 0x08, X, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
    CommandInfo::new(&[0x55, 0x11, 0, 0, 0, 0, 0, X, X, C], Direction::Out, execute).harmless(Need::Write).ports(Ports::Standby).with_list(with_list),
    CommandInfo::new(&[0x5a, 0x08, X, X, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::ModeSense(mode) => mode_sense(device, mode),
        Cdb::ModeSelect(mode) => mode_select(request.lu, mode),
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    let Some(tape) = device.units.tape() else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    match request.cdb {
        Cdb::ModeSelect(mode) => match check(pages(&tape.library), mode, list) {
            Ok(()) => Outcome::GOOD,
            Err(sense) => Outcome::check(sense),
        },
        _ => request.of_another_family(),
    }
}

/// Checks a list of MODE SELECT: it has the current values.
fn check(current: Vec<ModePage>, request: ModeSelect, list: &[u8]) -> Result<(), Sense> {
    let parsed =
        ModeSelectList::parse(list, request.ten).map_err(|_| Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    if parsed.block_descriptor.is_some() {
        // A changer has no blocks. The field is the length of the descriptor.
        return Err(
            Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
                in_cdb: false,
                byte: if request.ten { 6 } else { 3 },
                bit: None,
            }),
        );
    }
    let changeable: Vec<ModePage> = current.iter().map(ModePage::unchangeable).collect();
    let mut rest = parsed.pages;
    while !rest.is_empty() {
        let at = list.len() - rest.len();
        let (_, after) = ModePage::parse(rest).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
        let page = &rest[..rest.len() - after.len()];
        check_page(current.clone(), changeable.clone(), page, at)?;
        rest = after;
    }
    Ok(())
}

const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

fn mode_sense(device: &mut Device<'_>, request: ModeSense) -> Outcome {
    let Some(tape) = device.units.tape() else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    if request.control == PageControl::Saved {
        return Outcome::check(Sense::SAVING_PARAMETERS_NOT_SUPPORTED);
    }
    let mut pages = pages(&tape.library);
    if request.control == PageControl::Changeable {
        pages = pages.iter().map(ModePage::unchangeable).collect();
    }
    pages.retain(|page| request.page == ALL_PAGES || request.page == page.code());
    if pages.is_empty() {
        let bit = Some(5);
        return Outcome::check(CdbError::InvalidField { byte: 2, bit }.sense());
    }
    if !matches!(request.subpage, 0 | ALL_SUBPAGES) {
        return Outcome::check(CdbError::InvalidField { byte: 3, bit: None }.sense());
    }
    let data = ModeData {
        write_protected: false,
        dpo_fua: false,
        block_descriptor: None,
        pages,
    };
    device.answer(
        &data.emit(request.ten, false),
        request.allocation_length.into(),
    )
}

/// Returns the mode pages, ascending.
fn pages(library: &Library) -> Vec<ModePage> {
    let page = |code, bytes| ModePage::Unknown {
        code,
        subpage: None,
        bytes,
    };
    let mut addresses = Vec::with_capacity(18);
    for kind in ElementKind::ALL {
        let (first, count) = library.range(kind);
        addresses.extend_from_slice(&first.to_be_bytes());
        addresses.extend_from_slice(&count.to_be_bytes());
    }
    addresses.resize(18, 0);
    // Drives, import/export and slots keep cartridges. They are moved between all of these (bytes 5
    // to 7 of the page) and exchanged between them (bytes 13 to 15). The transport keeps none.
    const KEEPERS: u8 = 0x0e;
    let mut capabilities = vec![0; 18];
    for byte in [2, 5, 6, 7, 13, 14, 15] {
        capabilities[byte - 2] = KEEPERS;
    }
    vec![
        page(0x1d, addresses),
        page(0x1e, vec![0, 0]),
        page(0x1f, capabilities),
    ]
}
