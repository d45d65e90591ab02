//! LOG SENSE of tape drives (SSC-3 section 8.2): bytes moved, TapeAlert, and capacity.

use hakaru_tape::{Cartridge, Drive};
use hakaru_wire::scsi::{Cdb, CdbError, LogPage, LogParameter, LogSense, PageControl};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::drive::idle_drive;
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
        Cdb::LogSense(log) => log_sense(device, request.lu, log),
        _ => request.of_another_family(),
    }
}

const SUPPORTED_PAGES: u8 = 0x00;
const SEQUENTIAL_ACCESS: u8 = 0x0c;
const TAPE_ALERT: u8 = 0x2e;
/// Capacity of the cartridge, as LTO drives report it.
const TAPE_CAPACITY: u8 = 0x31;
const PAGES: [u8; 4] = [
    SUPPORTED_PAGES,
    SEQUENTIAL_ACCESS,
    TAPE_ALERT,
    TAPE_CAPACITY,
];

const TAPE_ALERT_FLAGS: u16 = 64;

fn log_sense(device: &mut Device<'_>, lu: u8, request: LogSense) -> Outcome {
    let invalid = |byte, bit| {
        let bit = Some(bit);
        Outcome::check(CdbError::InvalidField { byte, bit }.sense())
    };
    if request.save {
        return invalid(1, 0);
    }
    // There are neither thresholds nor defaults, only current cumulative values.
    if request.control != PageControl::Changeable && request.control != PageControl::Current {
        return invalid(2, 7);
    }
    if request.subpage != 0 {
        return invalid(3, 7);
    }
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let parameters = match request.page {
        SUPPORTED_PAGES => {
            let data = LogPage::SupportedPages(PAGES.to_vec()).emit();
            return device.answer(&data, request.allocation_length.into());
        }
        SEQUENTIAL_ACCESS => sequential_access(drive),
        TAPE_ALERT => tape_alert(),
        TAPE_CAPACITY => tape_capacity(drive.cartridge()),
        _ => return invalid(2, 5),
    };
    let greatest = parameters.iter().map(|parameter| parameter.code).max();
    if request.parameter_pointer > greatest.unwrap_or(0) {
        return invalid(5, 7);
    }
    let page = LogPage::Parameters {
        code: request.page,
        parameters: parameters
            .into_iter()
            .filter(|parameter| parameter.code >= request.parameter_pointer)
            .collect(),
    };
    device.answer(&page.emit(), request.allocation_length.into())
}

/// Returns the bytes from initiators and to the medium, then from the medium and to initiators.
/// Data is not compressed, so both of each pair are the same.
fn sequential_access(drive: &Drive) -> Vec<LogParameter> {
    let counters = drive.counters();
    let bytes = [
        counters.written_bytes,
        counters.written_bytes,
        counters.read_bytes,
        counters.read_bytes,
    ];
    let values = bytes.into_iter().enumerate();
    values
        .map(|(code, bytes)| LogParameter {
            code: code as u16,
            value: bytes.to_be_bytes().to_vec(),
        })
        .collect()
}

/// Returns the TapeAlert flags. None is ever set, because nothing wears out.
fn tape_alert() -> Vec<LogParameter> {
    (1..=TAPE_ALERT_FLAGS)
        .map(|code| LogParameter {
            code,
            value: vec![0],
        })
        .collect()
}

/// Returns remaining and maximum capacity of the main partition and of the alternate partition,
/// which does not exist, in MiB. All are 0 without a cartridge.
fn tape_capacity(cartridge: Option<&Cartridge>) -> Vec<LogParameter> {
    let mib = |bytes: u64| u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    let (left, length) = cartridge.map_or((0, 0), |cartridge| {
        (cartridge.left_bytes(), cartridge.region.length_bytes)
    });
    let values = [mib(left), 0, mib(length), 0].into_iter().zip(1..);
    values
        .map(|(value, code)| LogParameter {
            code,
            value: value.to_be_bytes().to_vec(),
        })
        .collect()
}
