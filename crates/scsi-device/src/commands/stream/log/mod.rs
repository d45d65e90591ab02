//! LOG SENSE of tape drives (SSC-3 and SSC-4 section 8.2, ADC-3 section 6.1, and the pages of LTO
//! drives). All values are counts of this drive or of the cartridge in it. A parameter for which
//! they have no value is left out, except the temperature, which is reported as not available.

mod device;
mod volume;

use hakaru_wire::scsi::{Cdb, CdbError, LogPage, LogParameter, LogSense, PageControl, Sense};

use self::device::Surroundings;
use super::super::identify::serial_number;
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
const WRITE_ERRORS: u8 = 0x02;
const READ_ERRORS: u8 = 0x03;
const SEQUENTIAL_ACCESS: u8 = 0x0c;
const TEMPERATURE: u8 = 0x0d;
/// State of the drive, for the library (ADC-3).
const DEVICE_STATUS: u8 = 0x11;
const TAPE_ALERT_RESPONSE: u8 = 0x12;
const DEVICE_STATISTICS: u8 = 0x14;
const VOLUME_STATISTICS: u8 = 0x17;
const COMPRESSION: u8 = 0x1b;
const TAPE_ALERT: u8 = 0x2e;
/// Pages of LTO drives: use and capacity of the cartridge, and compression.
const TAPE_USAGE: u8 = 0x30;
const TAPE_CAPACITY: u8 = 0x31;
const LTO_COMPRESSION: u8 = 0x32;
const PAGES: [u8; 14] = [
    SUPPORTED_PAGES,
    WRITE_ERRORS,
    READ_ERRORS,
    SEQUENTIAL_ACCESS,
    TEMPERATURE,
    DEVICE_STATUS,
    TAPE_ALERT_RESPONSE,
    DEVICE_STATISTICS,
    VOLUME_STATISTICS,
    COMPRESSION,
    TAPE_ALERT,
    TAPE_USAGE,
    TAPE_CAPACITY,
    LTO_COMPRESSION,
];

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
    let Some(unit) = device.units.get(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let around = Surroundings {
        serial: serial_number(unit),
        prevented: !unit.preventing.is_empty(),
    };
    let known = device.nexus.alerts_read(lu);
    let drive = match idle_drive(device, lu) {
        Ok(drive) => drive,
        Err(outcome) => return outcome,
    };
    let events = drive.alerts.events();
    let parameters = match request.page {
        SUPPORTED_PAGES => {
            let data = LogPage::SupportedPages(PAGES.to_vec()).emit();
            return device.answer(&data, request.allocation_length.into());
        }
        WRITE_ERRORS => device::write_errors(drive.logged()),
        READ_ERRORS => device::read_errors(drive.logged()),
        SEQUENTIAL_ACCESS => device::sequential_access(drive),
        TEMPERATURE => device::temperature(),
        DEVICE_STATUS => device::status(drive, &around),
        TAPE_ALERT_RESPONSE => vec![LogParameter::binary(
            0,
            &drive.alerts.after(0).to_be_bytes(),
        )],
        DEVICE_STATISTICS => device::statistics(drive.counters(), &around),
        VOLUME_STATISTICS => volume::statistics(drive),
        COMPRESSION => device::compression(drive),
        TAPE_ALERT => tape_alert(drive.alerts.after(known)),
        TAPE_USAGE => volume::usage(drive),
        TAPE_CAPACITY => volume::capacity(drive),
        LTO_COMPRESSION => {
            let mut parameters = device::compression(drive);
            parameters.retain(|parameter| parameter.code < device::COMPRESSION_ENABLED);
            parameters
        }
        _ => return invalid(2, 5),
    };
    let greatest = parameters.iter().map(|parameter| parameter.code).max();
    if request.parameter_pointer > greatest.unwrap_or(0) {
        return invalid(5, 7);
    }
    if request.page == TAPE_ALERT_RESPONSE {
        drive.alerts.report();
    }
    if request.page == TAPE_ALERT {
        // TAPLSD and TARPC are 0: the page ends all flags for its reader.
        device.nexus.read_alerts(lu, events);
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

const TAPE_ALERT_FLAGS: u16 = 64;

/// Returns the TapeAlert flags, of which the most significant bit is number 1. Only those of
/// [`hakaru_tape::Alert`] are ever set, because nothing wears out.
fn tape_alert(flags: u64) -> Vec<LogParameter> {
    (1..=TAPE_ALERT_FLAGS)
        .map(|code| LogParameter::binary(code, &[(flags >> (TAPE_ALERT_FLAGS - code)) as u8 & 1]))
        .collect()
}
