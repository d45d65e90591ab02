//! Searches for cartridges by their barcodes: SEND VOLUME TAG begins one, REQUEST VOLUME ELEMENT ADDRESS
//! returns its results (SMC-3 section 6). Each element is reported once. Barcodes are labels, which no
//! command changes.

use hakaru_tape::Element;
use hakaru_wire::scsi::{Cdb, CdbError, ChangerCommand, Sense, VolumeTemplate};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, X};
use super::elements::{Form, report, wanted};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::volumes::VolumeSearch;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0xb5, 0x1f, X, X, X, X, 0, X, X, X, 0, C], Direction::In, execute).harmless(Need::Write).ports(Ports::Standby),
    CommandInfo::new(&[0xb6, 0x0f, X, X, 0, 0x1f, 0, 0, X, X, 0, C], Direction::Out, execute).harmless(Need::Write).ports(Ports::Standby).with_list(with_list),
];

/// Send action codes that search, by the tags that are compared: all, primary or alternate ones. The
/// first three compare sequence numbers, too.
const SEARCHES: [u8; 6] = [0x00, 0x01, 0x02, 0x04, 0x05, 0x06];
/// Bits of a send action code: search alternate tags only, ignore sequence numbers.
const ALTERNATE: u8 = 0x02;
const WITHOUT_SEQUENCE: u8 = 0x04;

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    match request.cdb {
        Cdb::Changer(ChangerCommand::SendVolumeTag {
            action,
            parameter_list_length,
            ..
        }) => {
            if !SEARCHES.contains(&action) {
                let (byte, bit) = (5, Some(4));
                return Outcome::check(CdbError::InvalidField { byte, bit }.sense());
            }
            match usize::from(parameter_list_length) {
                0 => Outcome::GOOD,
                VolumeTemplate::BYTES => Outcome::Parameters {
                    lu: request.lu,
                    length_bytes: parameter_list_length.into(),
                },
                _ => Outcome::check(Sense::PARAMETER_LIST_LENGTH_ERROR),
            }
        }
        Cdb::Changer(ChangerCommand::RequestVolumeElementAddress {
            volume_tags,
            element_type,
            start,
            count,
            allocation_length,
        }) => {
            let is_wanted = wanted(element_type, start);
            request_addresses(device, volume_tags, count, is_wanted, allocation_length)
        }
        _ => request.of_another_family(),
    }
}

fn with_list(device: &mut Device<'_>, request: &Request, list: &[u8]) -> Outcome {
    let Cdb::Changer(ChangerCommand::SendVolumeTag {
        action,
        element_type,
        start,
        ..
    }) = request.cdb
    else {
        request.of_another_family()
    };
    let Some(template) = VolumeTemplate::parse(list) else {
        return Outcome::check(Sense::PARAMETER_LIST_LENGTH_ERROR);
    };
    // Every tag is a primary one, with the sequence number 0.
    let fits =
        action & ALTERNATE == 0 && (action & WITHOUT_SEQUENCE != 0 || template.sequence_min == 0);
    device.nexus.volume_search = Some(VolumeSearch {
        action,
        element_type,
        template: fits.then_some(template),
        next: start.into(),
    });
    Outcome::GOOD
}

fn request_addresses(
    device: &mut Device<'_>,
    volume_tags: bool,
    count: u16,
    is_wanted: impl Fn(&Element<'_>) -> bool,
    allocation_length: u32,
) -> Outcome {
    let Some(search) = &device.nexus.volume_search else {
        return Outcome::check(Sense::COMMAND_SEQUENCE_ERROR);
    };
    let form = Form {
        volume_tags,
        device_identifiers: false,
    };
    let found = report(device, form, count, |element| {
        search.finds(element) && is_wanted(element)
    });
    let found = match found {
        Ok(found) => found,
        Err(sense) => return Outcome::check(sense),
    };
    let (data, last) = (
        found.emit(search.action),
        found.last_within(allocation_length),
    );
    if let (Some(search), Some(last)) = (&mut device.nexus.volume_search, last) {
        search.next = u32::from(last) + 1;
    }
    device.answer(&data, allocation_length)
}
