//! MODE SENSE (6, 10): pages 01h, 08h, 0Ah and 1Ch (SPC-4 sections 6.13, 6.14, 7.5; SBC-3 section
//! 6.5). Changeable are WCE (on an LU with a volatile cache), SWP and D_SENSE.

use hakaru_wire::scsi::{
    BlockDescriptor, Cdb, CdbError, ModeData, ModePage, ModeSense, PageControl, Sense,
};

use super::info::{C, CommandInfo, Direction, Ports, Request, X};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::unit::LogicalUnit;
use crate::unit::ModeState;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x1a, 0x08, X, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
    CommandInfo::new(&[0x5a, 0x18, X, X, 0, 0, 0, X, X, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::ModeSense(mode) => mode_sense(device, lu, mode),
        _ => request.of_another_family(),
    }
}

const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;

pub(super) fn mode_sense(device: &mut Device<'_>, lu: u8, request: ModeSense) -> Outcome {
    let Some(unit) = device.units.get(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    if request.control == PageControl::Saved {
        return Outcome::check(Sense::SAVING_PARAMETERS_NOT_SUPPORTED);
    }
    let mut pages = match request.control {
        PageControl::Changeable => changeable_pages(unit),
        PageControl::Default => pages(ModeState::new(&unit.description)),
        _ => pages(unit.mode),
    };
    pages.retain(|page| request.page == ALL_PAGES || request.page == page.code());
    if pages.is_empty() {
        return Outcome::check(
            CdbError::InvalidField {
                byte: 2,
                bit: Some(5),
            }
            .sense(),
        );
    }
    // No page has subpages other than itself; "all subpages" is then the page.
    if !matches!(request.subpage, 0 | ALL_SUBPAGES) {
        return Outcome::check(CdbError::InvalidField { byte: 3, bit: None }.sense());
    }
    let block_descriptor = (!request.disable_block_descriptors).then_some(BlockDescriptor {
        blocks: unit.blocks,
        block_length: unit.block_bytes,
    });
    let data = ModeData {
        write_protected: unit.writable().is_err() || !device.nexus.rights.writes(lu),
        dpo_fua: true,
        block_descriptor,
        pages,
    };
    device.answer(
        &data.emit(request.ten, request.long_lba),
        request.allocation_length.into(),
    )
}

/// Returns the mode pages as masks with ones in changeable bits.
pub(super) fn changeable_pages(unit: &LogicalUnit) -> Vec<ModePage> {
    let mut pages: Vec<ModePage> = pages(unit.mode)
        .iter()
        .map(ModePage::unchangeable)
        .collect();
    for page in &mut pages {
        match page {
            ModePage::Caching { write_cache, .. } => *write_cache = unit.description.write_cache,
            ModePage::Control {
                descriptor_sense,
                write_protect,
                ..
            } => (*descriptor_sense, *write_protect) = (true, true),
            _ => {}
        }
    }
    pages
}

/// Returns the mode pages, ascending.
pub(super) fn pages(state: ModeState) -> Vec<ModePage> {
    vec![
        ModePage::ErrorRecovery {
            reassign_on_write: false,
            reassign_on_read: false,
        },
        ModePage::Caching {
            write_cache: state.write_cache,
            read_cache_disabled: false,
        },
        // Queue algorithm 1: commands may be executed in any order.
        ModePage::Control {
            descriptor_sense: state.descriptor_sense,
            queue_algorithm: 1,
            task_aborted_status: false,
            write_protect: state.write_protect,
        },
        ModePage::InformationalExceptions {
            disabled: true,
            method: 0,
        },
    ]
}
