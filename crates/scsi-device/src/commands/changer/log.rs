//! LOG SENSE of changers: TapeAlert (SMC-3 section 7.2).

use hakaru_wire::scsi::{Cdb, LogPage, LogParameter, LogSense, log_page};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::super::log::{ALL_SUBPAGES, answer, supported_subpages};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x4d, 0x01, X, X, 0, X, X, X, X, C], Direction::In, execute).harmless(Need::Nothing).ports(Ports::Standby),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::LogSense(log) => answer(device, log, page(log)),
        _ => request.of_another_family(),
    }
}

const TAPE_ALERT: u8 = 0x2e;
const PAGES: [u8; 2] = [log_page::SUPPORTED_PAGES, TAPE_ALERT];
const TAPE_ALERT_FLAGS: u16 = 64;

fn page(request: LogSense) -> Option<LogPage> {
    match (request.page, request.subpage) {
        (log_page::SUPPORTED_PAGES, 0) => Some(LogPage::SupportedPages(PAGES.to_vec())),
        (log_page::SUPPORTED_PAGES, ALL_SUBPAGES) => Some(supported_subpages(&PAGES)),
        // No flag is ever set, because nothing wears out.
        (code @ TAPE_ALERT, 0) => Some(LogPage::Parameters {
            code,
            parameters: (1..=TAPE_ALERT_FLAGS)
                .map(|code| LogParameter::binary(code, &[0]))
                .collect(),
        }),
        _ => None,
    }
}
