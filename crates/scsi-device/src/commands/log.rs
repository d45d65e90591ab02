//! LOG SENSE (SPC-4 section 6.8). It reports the space left (SBC-3 section 6.4.4), and that no
//! failure is predicted.

use hakaru_wire::scsi::{
    Cdb, CdbError, LogPage, LogParameter, LogSense, PageControl, ResourceScope, Sense, log_page,
    provisioning_parameter,
};

use super::info::{C, CommandInfo, Direction, Ports, Request, X};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::unit::LogicalUnit;

/// The commands of this family.
#[rustfmt::skip]
pub(super) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x4d, 0x01, X, X, 0, X, X, X, X, C], Direction::In, execute).harmless(Need::Nothing).ports(Ports::Standby),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::LogSense(log) => log_sense(device, lu, log),
        _ => request.of_another_family(),
    }
}

pub(super) const ALL_SUBPAGES: u8 = 0xff;

pub(super) fn log_sense(device: &mut Device<'_>, lu: u8, request: LogSense) -> Outcome {
    let Some(unit) = device.units.get(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let page = page(unit, request);
    answer(device, request, page)
}

/// Answers with a page, from the parameter that the request names on. `None`: the device has no such
/// page.
pub(super) fn answer(device: &mut Device<'_>, request: LogSense, page: Option<LogPage>) -> Outcome {
    if request.save {
        return invalid(1, 0);
    }
    // There are neither thresholds nor defaults, only current cumulative values.
    if request.control != PageControl::Changeable && request.control != PageControl::Current {
        return invalid(2, 7);
    }
    let Some(mut page) = page else {
        return invalid(2, 5);
    };
    if let LogPage::Parameters { parameters, .. } = &mut page {
        let greatest = parameters.iter().map(|parameter| parameter.code).max();
        if request.parameter_pointer > greatest.unwrap_or(0) {
            return invalid(5, 7);
        }
        parameters.retain(|parameter| parameter.code >= request.parameter_pointer);
    }
    device.answer(&page.emit(), request.allocation_length.into())
}

fn invalid(byte: u16, bit: u8) -> Outcome {
    Outcome::check(
        CdbError::InvalidField {
            byte,
            bit: Some(bit),
        }
        .sense(),
    )
}

/// Returns the codes of the supported pages, ascending.
fn codes(unit: &LogicalUnit) -> Vec<u8> {
    let mut codes = vec![log_page::SUPPORTED_PAGES];
    if unit.description.thin.is_some() {
        codes.push(log_page::LOGICAL_BLOCK_PROVISIONING);
    }
    codes.push(log_page::INFORMATIONAL_EXCEPTIONS);
    codes
}

fn page(unit: &LogicalUnit, request: LogSense) -> Option<LogPage> {
    let codes = codes(unit);
    if !codes.contains(&request.page) {
        return None;
    }
    match (request.page, request.subpage) {
        (log_page::SUPPORTED_PAGES, 0) => Some(LogPage::SupportedPages(codes)),
        (log_page::SUPPORTED_PAGES, ALL_SUBPAGES) => Some(supported_subpages(&codes)),
        (code @ log_page::LOGICAL_BLOCK_PROVISIONING, 0) => Some(LogPage::Parameters {
            code,
            parameters: provisioning(unit),
        }),
        // ASC and ASCQ are 0, because no failure is predicted. The third byte is the temperature;
        // FFh means unknown.
        (code @ log_page::INFORMATIONAL_EXCEPTIONS, 0) => Some(LogPage::Parameters {
            code,
            parameters: vec![LogParameter::binary(0, &[0, 0, 0xff, 0])],
        }),
        _ => None,
    }
}

/// Returns the list of pages and subpages: the pages, and this list.
pub(super) fn supported_subpages(codes: &[u8]) -> LogPage {
    let mut pages: Vec<(u8, u8)> = codes.iter().map(|code| (*code, 0)).collect();
    pages.insert(1, (log_page::SUPPORTED_PAGES, ALL_SUBPAGES));
    LogPage::SupportedSubpages(pages)
}

/// Returns the available and the used space in threshold sets, each as large as a page of the LU.
/// There are no parameters until the storage has reported its space.
fn provisioning(unit: &LogicalUnit) -> Vec<LogParameter> {
    let (Some(space), Some(thin)) = (unit.space, unit.description.thin) else {
        return Vec::new();
    };
    let sets = |bytes: u64| u32::try_from(bytes / thin.page_bytes).unwrap_or(u32::MAX);
    vec![
        LogParameter::resource_count(
            provisioning_parameter::AVAILABLE,
            sets(space.available_bytes),
            ResourceScope::Shared,
        ),
        LogParameter::resource_count(
            provisioning_parameter::USED,
            sets(space.used_bytes),
            ResourceScope::Dedicated,
        ),
    ]
}
