//! MODE SENSE (6, 10) of changers: element addresses (1Dh), transport geometry (1Eh), device
//! capabilities (1Fh) (SMC-3 section 7.3). Nothing can be changed.

use hakaru_tape::{ElementKind, Library};
use hakaru_wire::scsi::{Cdb, CdbError, ModeData, ModePage, ModeSense, PageControl, Sense};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x1a, 0x08, X, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
    CommandInfo::new(&[0x5a, 0x08, X, X, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::ModeSense(mode) => mode_sense(device, mode),
        _ => request.of_another_family(),
    }
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
    // Drives, import/export and slots keep cartridges and exchange them with each other. The
    // transport keeps none.
    const KEEPERS: u8 = 0x0e;
    let mut capabilities = vec![KEEPERS, 0, 0, KEEPERS, KEEPERS, KEEPERS];
    capabilities.resize(18, 0);
    vec![
        page(0x1d, addresses),
        page(0x1e, vec![0, 0]),
        page(0x1f, capabilities),
    ]
}
