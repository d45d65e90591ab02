//! A target and two initiators, and commands that examine its reservations.
use crate::pair::control::with_list;
use crate::pair::{Initiator, Pair};
use hakaru_wire::scsi::{Cdb, ReservationType, ReserveIn, Status, Transfer};

pub const OTHER: &str = "iqn.2026-01.net.example:vm2";
pub const WRITE_EXCLUSIVE: u8 = ReservationType::WriteExclusive as u8;
pub const REGISTRANTS_ONLY: u8 = ReservationType::WriteExclusiveRegistrantsOnly as u8;
pub const ALL_REGISTRANTS: u8 = ReservationType::ExclusiveAccessAllRegistrants as u8;
pub const CONFLICT: u8 = Status::RESERVATION_CONFLICT.0;

pub fn two_sessions() -> (Pair, Initiator, Initiator) {
    let mut pair = Pair::new();
    let first = pair.log_in(&[]);
    let second = pair.log_in_as(OTHER, 2, &[]);
    (pair, first, second)
}

pub fn one_block() -> Transfer {
    Transfer {
        blocks: 1,
        ..Transfer::default()
    }
}

pub fn reads(initiator: &mut Initiator, pair: &mut Pair) -> bool {
    let answer = initiator.run_cdb(pair, 0, Cdb::Read(one_block()), 512);
    assert!([0, CONFLICT].contains(&answer.status), "{answer:?}");
    answer.status == 0
}

pub fn writes(initiator: &mut Initiator, pair: &mut Pair) -> bool {
    let answer = with_list(initiator, pair, 0, Cdb::Write(one_block()), &[7; 512]);
    assert!([0, CONFLICT].contains(&answer.status), "{answer:?}");
    answer.status == 0
}

pub fn report(initiator: &mut Initiator, pair: &mut Pair, action: ReserveIn) -> Vec<u8> {
    let cdb = Cdb::PersistentReserveIn {
        service_action: action as u8,
        allocation_length: 1024,
    };
    initiator.run_cdb(pair, 0, cdb, 1024).good()
}

/// Returns PRGENERATION and the registered keys.
pub fn keys(initiator: &mut Initiator, pair: &mut Pair) -> (u32, Vec<u64>) {
    let data = report(initiator, pair, ReserveIn::ReadKeys);
    let generation = u32::from_be_bytes(data[..4].try_into().unwrap());
    let length = u32::from_be_bytes(data[4..8].try_into().unwrap());
    assert_eq!(length as usize, data.len() - 8);
    let keys = data[8..].chunks_exact(8);
    (
        generation,
        keys.map(|key| u64::from_be_bytes(key.try_into().unwrap()))
            .collect(),
    )
}

/// Returns the holder's key and the type of the reservation, if there is one.
pub fn held(initiator: &mut Initiator, pair: &mut Pair) -> Option<(u64, u8)> {
    let data = report(initiator, pair, ReserveIn::ReadReservation);
    (data.len() > 8).then(|| {
        let key = u64::from_be_bytes(data[8..16].try_into().unwrap());
        (key, data[21])
    })
}
