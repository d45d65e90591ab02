//! PERSISTENT RESERVE IN (SPC-4 section 6.15).

use hakaru_wire::scsi::{
    Cdb, CdbError, FullStatus, ReserveCapabilities, ReserveIn, Sense, Status, TransportId,
    emit_full_status, emit_keys, emit_reservation,
};

use super::super::info::{C, CommandInfo, Direction, Ports, Request, Sanitizing, X};
use crate::context::Device;
use crate::outcome::Outcome;
use crate::reservations::Need;
use crate::reservations::Reservations;
use crate::verdict::Verdict;

/// The commands of this family.
#[rustfmt::skip]
pub(crate) const ROWS: &[CommandInfo] = &[
    CommandInfo::new(&[0x5e, 0x00, 0, 0, 0, 0, 0, X, X, C], Direction::In, execute).action(0x00).harmless(Need::Nothing).ports(Ports::Standby).sanitizing(Sanitizing::Allowed),
    CommandInfo::new(&[0x5e, 0x01, 0, 0, 0, 0, 0, X, X, C], Direction::In, execute).action(0x01).harmless(Need::Nothing).ports(Ports::Standby).sanitizing(Sanitizing::Allowed),
    CommandInfo::new(&[0x5e, 0x02, 0, 0, 0, 0, 0, X, X, C], Direction::In, execute).action(0x02).harmless(Need::Nothing).ports(Ports::Standby).sanitizing(Sanitizing::Allowed),
    CommandInfo::new(&[0x5e, 0x03, 0, 0, 0, 0, 0, X, X, C], Direction::In, execute).action(0x03).harmless(Need::Nothing).ports(Ports::Standby).sanitizing(Sanitizing::Allowed),
];

fn execute(device: &mut Device<'_>, request: &Request) -> Outcome {
    let lu = request.lu;
    match request.cdb {
        Cdb::PersistentReserveIn {
            service_action,
            allocation_length,
        } => reserve_in(device, lu, service_action, allocation_length),
        _ => request.of_another_family(),
    }
}

pub(crate) fn reserve_in(
    device: &mut Device<'_>,
    lu: u8,
    service_action: u8,
    allocation_length: u16,
) -> Outcome {
    let Some(unit) = device.units.get(lu) else {
        return Outcome::check(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    };
    let Some(action) = ReserveIn::from_code(service_action) else {
        return Outcome::check(
            CdbError::InvalidField {
                byte: 1,
                bit: Some(4),
            }
            .sense(),
        );
    };
    let reservations = &unit.reservations;
    // SPC-2 section 5.5.1: during a reservation by RESERVE (6) persistent reservations are not
    // reported.
    if reservations.reserved_by.is_some() {
        return Outcome::End(Verdict::Status(Status::RESERVATION_CONFLICT));
    }
    let data = match action {
        ReserveIn::ReadKeys => {
            let keys = reservations
                .registrations
                .iter()
                .map(|registration| registration.key);
            emit_keys(reservations.generation, keys)
        }
        ReserveIn::ReadReservation => reservations.emit_held(),
        ReserveIn::ReportCapabilities => {
            let keeps = unit.description.reservations.is_some();
            ReserveCapabilities {
                compatible_reservation_handling: true,
                all_target_ports: true,
                persist_through_power_loss: keeps,
                persistence_active: reservations.persistent,
            }
            .emit()
            .to_vec()
        }
        ReserveIn::ReadFullStatus => reservations.emit_full_status(),
    };
    device.answer(&data, allocation_length.into())
}

impl Reservations {
    fn emit_held(&self) -> Vec<u8> {
        let held = self.held.as_ref().map(|held| {
            let key = if held.kind.all_registrants() {
                0
            } else {
                self.key_of(&held.holder).unwrap_or(0)
            };
            (key, held.kind)
        });
        emit_reservation(self.generation, held)
    }

    fn emit_full_status(&self) -> Vec<u8> {
        let registrations = self.registrations.iter().map(|registration| FullStatus {
            key: registration.key,
            held: self.holds(&registration.nexus),
            relative_target_port: registration.nexus.port,
            initiator_port: TransportId {
                name: registration.nexus.initiator_name.clone(),
                isid: Some(registration.nexus.isid),
            },
        });
        emit_full_status(self.generation, registrations)
    }
}
