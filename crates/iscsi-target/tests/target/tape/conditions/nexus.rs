//! Reports about other initiators: access rights, reservations, and unit attention conditions.

use hakaru_iscsi_target::{Access, LuAccess, Rule};
use hakaru_wire::scsi::{ReservationType, ReserveOut};

use super::*;
use crate::pair::INITIATOR;
use crate::pair::control::order_on;

pub(super) const ROWS: &[Row] = &[
    row(
        "WRITE, and the access list lets the initiator only read",
        || {
            let mut config = with_library(false);
            let read_only = |lun, read_only| LuAccess { lun, read_only };
            config.access = Access {
                rules: Some(vec![Rule {
                    initiator_name: Some(INITIATOR.into()),
                    lus: Some(vec![
                        read_only(CHANGER, false),
                        read_only(DRIVES[0], true),
                        read_only(DRIVES[1], true),
                    ]),
                    ..Rule::default()
                }]),
                ..Access::default()
            };
            let mut scene = Scene::empty(config, &[]);
            scene.move_medium(SLOT, DRIVE).good();
            clear(&mut scene.pair, &mut scene.initiator, DRIVES[0]);
            scene.write(false, 4, b"data")
        },
    ),
    row(
        "WRITE, and another initiator has the drive by RESERVE (6)",
        || {
            let (mut scene, mut other) = with_other();
            other
                .run_cdb(&mut scene.pair, DRIVES[0], Cdb::Reserve, 0)
                .good();
            scene.write(false, 4, b"data")
        },
    ),
    row(
        "WRITE, and another initiator has it by PERSISTENT RESERVE OUT",
        || {
            let (mut scene, mut other) = with_other();
            reserve(&mut scene, &mut other, DRIVES[0], EXCLUSIVE);
            scene.write(false, 4, b"data")
        },
    ),
    row(
        "MOVE MEDIUM, and another initiator has the changer by RESERVE (6)",
        || {
            let (mut scene, mut other) = with_other();
            other
                .run_cdb(&mut scene.pair, CHANGER, Cdb::Reserve, 0)
                .good();
            scene.move_medium(DRIVE, SLOT)
        },
    ),
    row(
        "MOVE MEDIUM, and another has it by PERSISTENT RESERVE OUT",
        || {
            let (mut scene, mut other) = with_other();
            reserve(&mut scene, &mut other, CHANGER, EXCLUSIVE);
            scene.move_medium(DRIVE, SLOT)
        },
    ),
    row(
        "first command to a drive after MOVE MEDIUM into it, of every initiator",
        || {
            let mut scene = Scene::empty(with_library(false), &[]);
            let mut other = scene.log_in(2);
            scene.move_medium(SLOT, DRIVE).good();
            let others = other.run_cdb(&mut scene.pair, DRIVES[0], Cdb::TestUnitReady, 0);
            let answer = scene.run(DRIVES[0], Cdb::TestUnitReady, 0);
            assert_eq!(answer, others);
            answer
        },
    ),
    row("first command after LOAD, of every other initiator", || {
        let (mut scene, mut other) = with_other();
        for load in [false, true] {
            let load = StreamCommand::LoadUnload {
                immediate: false,
                load,
                retension: false,
                end_of_tape: false,
            };
            let load = Cdb::Stream(load);
            other.run_cdb(&mut scene.pair, DRIVES[0], load, 0).good();
        }
        scene.run(DRIVES[0], Cdb::TestUnitReady, 0)
    }),
    row(
        "first command after LOGICAL UNIT RESET, of every initiator",
        || {
            let mut scene = Scene::new(&[]);
            reset(&mut scene, TaskManagementFunction::LogicalUnitReset);
            scene.run(DRIVES[0], Cdb::TestUnitReady, 0)
        },
    ),
    row(
        "first command after the login that follows TARGET COLD RESET",
        || {
            let mut scene = Scene::new(&[]);
            reset(&mut scene, TaskManagementFunction::TargetColdReset);
            scene.initiator = scene.pair.log_in(&[]);
            scene.run(DRIVES[0], Cdb::TestUnitReady, 0)
        },
    ),
    row(
        "first command after MODE SELECT, of every other initiator",
        || {
            let (mut scene, mut other) = with_other();
            let list = [0, 0, 0x10, 8, 0, 0, 0, 0, 0, 0, 2, 0];
            let cdb = [0x15, 0x10, 0, 0, 12, 0];
            other
                .run_out(&mut scene.pair, DRIVES[0], &cdb, &list)
                .good();
            scene.run(DRIVES[0], Cdb::TestUnitReady, 0)
        },
    ),
    row(
        "first command after SET IDENTIFYING INFORMATION, of every other initiator",
        || {
            let (mut scene, mut other) = with_other();
            let cdb = [0xa4, 0x06, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0];
            other
                .run_out(&mut scene.pair, DRIVES[0], &cdb, b"name")
                .good();
            scene.run(DRIVES[0], Cdb::TestUnitReady, 0)
        },
    ),
    row(
        "first command after CLEAR of reservations, of every other registrant",
        || after(ReserveOut::Clear, (2, 0)),
    ),
    row(
        "first command after RELEASE for registrants only, of every other one",
        || after(ReserveOut::Release, (2, 0)),
    ),
    row(
        "first command after PREEMPT of the initiator's registration",
        || after(ReserveOut::Preempt, (2, 1)),
    ),
];

const EXCLUSIVE: u8 = ReservationType::ExclusiveAccess as u8;
const REGISTRANTS_ONLY: u8 = ReservationType::ExclusiveAccessRegistrantsOnly as u8;

/// A library, and a session of another initiator with it.
fn with_other() -> (Scene, Initiator) {
    let mut scene = Scene::new(&[]);
    let other = scene.log_in(2);
    (scene, other)
}

/// Lets the other initiator register key 2 and reserve an LU.
fn reserve(scene: &mut Scene, other: &mut Initiator, lun: u8, kind: u8) {
    let register = ReserveOut::Register;
    order_on(lun, other, &mut scene.pair, register, 0, (0, 2)).good();
    order_on(
        lun,
        other,
        &mut scene.pair,
        ReserveOut::Reserve,
        kind,
        (2, 0),
    )
    .good();
}

/// The initiator has registered key 1, and another one executes an action on its reservation.
fn after(action: ReserveOut, keys: (u64, u64)) -> Answer {
    let (mut scene, mut other) = with_other();
    let Scene { pair, initiator } = &mut scene;
    order_on(DRIVES[0], initiator, pair, ReserveOut::Register, 0, (0, 1)).good();
    reserve(&mut scene, &mut other, DRIVES[0], REGISTRANTS_ONLY);
    order_on(
        DRIVES[0],
        &mut other,
        &mut scene.pair,
        action,
        REGISTRANTS_ONLY,
        keys,
    )
    .good();
    scene.run(DRIVES[0], Cdb::TestUnitReady, 0)
}
