//! Persistent reservations of a drive and of the changer, and the commands that they admit.

use hakaru_wire::scsi::{ReservationType, ReserveIn, ReserveOut};

use super::*;
use crate::pair::control::{attentions, order_on};

const CONFLICT: u8 = Status::RESERVATION_CONFLICT.0;
const EXCLUSIVE: u8 = ReservationType::ExclusiveAccess as u8;
const REGISTRANTS_ONLY: u8 = ReservationType::ExclusiveAccessRegistrantsOnly as u8;

/// Two sessions, and the LU that they reserve.
struct Two {
    scene: Scene,
    other: Initiator,
    lun: u8,
}

impl Two {
    fn on(lun: u8) -> Two {
        let mut scene = Scene::new(&[]);
        let other = scene.log_in(2);
        Two { scene, other, lun }
    }

    fn first(&mut self, action: ReserveOut, kind: u8, keys: (u64, u64)) -> Answer {
        let Scene { pair, initiator } = &mut self.scene;
        order_on(self.lun, initiator, pair, action, kind, keys)
    }

    fn second(&mut self, action: ReserveOut, kind: u8, keys: (u64, u64)) -> Answer {
        let pair = &mut self.scene.pair;
        order_on(self.lun, &mut self.other, pair, action, kind, keys)
    }

    /// A command that moves the tape, or the transport of the changer.
    fn moves(&self) -> Cdb {
        if self.lun == CHANGER {
            return Cdb::Changer(ChangerCommand::PositionToElement {
                transport: 0,
                destination: SLOT,
            });
        }
        Cdb::Stream(StreamCommand::Rewind { immediate: false })
    }

    /// Whether each initiator may move it.
    fn may_move(&mut self) -> (bool, bool) {
        let (lun, moves) = (self.lun, self.moves());
        let first = self.scene.run(lun, moves, 0);
        let second = self.other.run_cdb(&mut self.scene.pair, lun, moves, 0);
        for answer in [&first, &second] {
            assert!([0, CONFLICT].contains(&answer.status), "{answer:?}");
        }
        (first.status == 0, second.status == 0)
    }

    fn attentions(&mut self) -> (Vec<Sense>, Vec<Sense>) {
        let (lun, Scene { pair, initiator }) = (self.lun, &mut self.scene);
        let first = attentions(initiator, pair, lun);
        (first, attentions(&mut self.other, pair, lun))
    }

    /// The registered keys, and the key and the type of the reservation.
    fn reported(&mut self) -> (Vec<u64>, Option<(u64, u8)>) {
        let mut report = |action: ReserveIn| {
            let cdb = Cdb::PersistentReserveIn {
                service_action: action as u8,
                allocation_length: 1024,
            };
            self.other
                .run_cdb(&mut self.scene.pair, self.lun, cdb, 1024)
                .good()
        };
        let key = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
        let keys = report(ReserveIn::ReadKeys);
        let held = report(ReserveIn::ReadReservation);
        let held = (held.len() > 8).then(|| (key(&held[8..16]), held[21]));
        (keys[8..].chunks_exact(8).map(key).collect(), held)
    }
}

#[test]
fn reservation_of_drive_or_changer_is_made_preempted_and_cleared() {
    for lun in [DRIVES[0], CHANGER] {
        let mut two = Two::on(lun);
        two.first(ReserveOut::Register, 0, (0, 1)).good();
        assert_eq!(two.may_move(), (true, true), "a registration alone");
        two.first(ReserveOut::Reserve, EXCLUSIVE, (1, 0)).good();
        assert_eq!(two.may_move(), (true, false));
        assert_eq!(two.reported(), (vec![1], Some((1, EXCLUSIVE))));
        let refused = two.second(ReserveOut::Reserve, EXCLUSIVE, (2, 0));
        assert_eq!(refused.status, CONFLICT, "without a registration");
        two.second(ReserveOut::Register, 0, (0, 2)).good();
        let refused = two.second(ReserveOut::Reserve, EXCLUSIVE, (2, 0));
        assert_eq!(refused.status, CONFLICT, "another one has it");

        two.second(ReserveOut::Preempt, REGISTRANTS_ONLY, (2, 1))
            .good();
        assert_eq!(two.reported(), (vec![2], Some((2, REGISTRANTS_ONLY))));
        let told = (vec![Sense::REGISTRATIONS_PREEMPTED], vec![]);
        assert_eq!(two.attentions(), told);
        assert_eq!(two.may_move(), (false, true));
        two.first(ReserveOut::Register, 0, (0, 3)).good();
        assert_eq!(two.may_move(), (true, true), "both are registered");

        two.first(ReserveOut::Clear, 0, (3, 0)).good();
        let told = (vec![], vec![Sense::RESERVATIONS_PREEMPTED]);
        assert_eq!(two.attentions(), told);
        assert_eq!(two.reported(), (vec![], None));
        assert_eq!(two.may_move(), (true, true));
    }
}

#[test]
fn released_reservation_is_reported_to_the_other_registrants() {
    for lun in [DRIVES[0], CHANGER] {
        let mut two = Two::on(lun);
        two.first(ReserveOut::Register, 0, (0, 1)).good();
        two.second(ReserveOut::Register, 0, (0, 2)).good();
        two.first(ReserveOut::Reserve, REGISTRANTS_ONLY, (1, 0))
            .good();
        two.first(ReserveOut::Release, REGISTRANTS_ONLY, (1, 0))
            .good();
        let told = (vec![], vec![Sense::RESERVATIONS_RELEASED]);
        assert_eq!(two.attentions(), told);
        assert_eq!(two.reported(), (vec![1, 2], None));
    }
}

#[test]
fn reservation_ends_neither_with_its_session_nor_with_a_move() {
    let mut two = Two::on(DRIVES[0]);
    two.second(ReserveOut::Register, 0, (0, 2)).good();
    two.second(ReserveOut::Reserve, EXCLUSIVE, (2, 0)).good();
    let connection = two.other.connection;
    two.scene
        .pair
        .target
        .handle_closed(two.scene.pair.time, connection);
    two.other = two.scene.log_in(2);
    assert_eq!(two.may_move(), (false, true));
    // The changer is another logical unit: its moves need no right on the drive.
    two.scene.move_medium(DRIVE, SLOT).good();
    two.scene.move_medium(SLOT, DRIVE).good();
    two.attentions();
    assert_eq!(two.may_move(), (false, true));
}

/// A command: operation code and service action.
type Command = (u8, Option<u16>);

/// Commands that a persistent reservation of another initiator admits.
const ALWAYS: &[Command] = &[
    (0x00, None),    // TEST UNIT READY
    (0x03, None),    // REQUEST SENSE
    (0x05, None),    // READ BLOCK LIMITS
    (0x12, None),    // INQUIRY
    (0x1e, None),    // PREVENT ALLOW MEDIUM REMOVAL, to allow it
    (0x44, None),    // REPORT DENSITY SUPPORT
    (0x4d, None),    // LOG SENSE
    (0x5e, Some(0)), // PERSISTENT RESERVE IN
    (0x5e, Some(1)),
    (0x5e, Some(2)),
    (0x5e, Some(3)),
    (0xa0, None),       // REPORT LUNS
    (0xa3, Some(0x05)), // REPORT IDENTIFYING INFORMATION
    (0xa3, Some(0x0a)), // REPORT TARGET PORT GROUPS
];

/// Commands that it admits if others may read.
const FOR_READERS: &[Command] = &[
    (0x8c, Some(0)), // READ ATTRIBUTE
    (0x8c, Some(1)),
    (0x8c, Some(5)),
];

/// PERSISTENT RESERVE OUT: the keys in its parameter list decide.
const BY_KEY: u8 = 0x5f;

/// Returns the commands of a device, and those that a reservation of another initiator admits.
fn admitted(lun: u8, kind: u8) -> (Vec<Command>, Vec<Command>) {
    let mut two = Two::on(lun);
    let report = Cdb::ReportSupportedOpcodes {
        commands: ReportedCommands::All,
        timeouts: false,
        allocation_length: 65_536,
    };
    let reported = two.scene.run(lun, report, 65_536).good();
    two.first(ReserveOut::Register, 0, (0, 1)).good();
    two.first(ReserveOut::Reserve, kind, (1, 0)).good();
    let (mut commands, mut admitted) = (Vec::new(), Vec::new());
    for (opcode, action, cdb_bytes) in parse_all_commands(&reported) {
        commands.push((opcode, action));
        if opcode == BY_KEY {
            continue;
        }
        let mut cdb = vec![0; cdb_bytes.into()];
        cdb[0] = opcode;
        cdb[1] = action.unwrap_or(0) as u8;
        let answer = two.other.run(&mut two.scene.pair, lun, &cdb, 0);
        match answer.status {
            CONFLICT => {}
            0 => admitted.push((opcode, action)),
            _ => panic!("{opcode:02x}h {action:?}: {answer:?}"),
        }
    }
    (commands, admitted)
}

/// READ is not among them: it moves the tape under the initiator that has the reservation.
#[test]
fn reservation_of_another_initiator_admits_what_changes_nothing() {
    for (kind, reads) in [
        (ReservationType::WriteExclusive, true),
        (ReservationType::ExclusiveAccess, false),
        (ReservationType::WriteExclusiveRegistrantsOnly, true),
        (ReservationType::ExclusiveAccessRegistrantsOnly, false),
        (ReservationType::WriteExclusiveAllRegistrants, true),
        (ReservationType::ExclusiveAccessAllRegistrants, false),
    ] {
        for lun in [DRIVES[0], CHANGER] {
            let (commands, admitted) = admitted(lun, kind as u8);
            let readers = if reads { FOR_READERS } else { &[] };
            let mut expected = [ALWAYS, readers].concat();
            expected.retain(|command| commands.contains(command));
            expected.sort_unstable();
            assert_eq!(admitted, expected, "{kind:?} of LUN {lun}");
        }
    }
}

#[test]
fn elements_of_a_reserved_changer_are_reported_as_far_as_known() {
    let mut two = Two::on(CHANGER);
    two.first(ReserveOut::Register, 0, (0, 1)).good();
    two.first(ReserveOut::Reserve, EXCLUSIVE, (1, 0)).good();
    let status = |current_data| {
        Cdb::Changer(ChangerCommand::ReadElementStatus {
            volume_tags: false,
            element_type: 4,
            start: 0,
            count: 1,
            current_data,
            device_identifiers: false,
            allocation_length: 255,
        })
    };
    let pair = &mut two.scene.pair;
    let refused = two.other.run_cdb(pair, CHANGER, status(false), 255);
    assert_eq!(refused.status, CONFLICT);
    let known = two.other.run_cdb(pair, CHANGER, status(true), 255).good();
    assert_eq!(known[16..18], DRIVE.to_be_bytes());
}

#[test]
fn reserve_6_has_the_effect_of_exclusive_access() {
    for lun in [DRIVES[0], CHANGER] {
        let mut two = Two::on(lun);
        two.scene.run(lun, Cdb::Reserve, 0).good();
        assert_eq!(two.may_move(), (true, false));
        let refused = two.second(ReserveOut::Register, 0, (0, 2));
        assert_eq!(refused.status, CONFLICT, "the two kinds exclude each other");
        two.scene.run(lun, Cdb::Release, 0).good();
        assert_eq!(two.may_move(), (true, true));
    }
}
