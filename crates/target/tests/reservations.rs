//! PERSISTENT RESERVE IN and OUT, RESERVE and RELEASE: who has access, who is told, and what is kept.

mod pair;

use hakaru_target::{IoFailure, IoOp, IoResult, check_reservations};
use hakaru_wire::iscsi::{
    CmdSn, Isid, Itt, Lun, Opcode, TaskManagementFunction as Function, TaskManagementRequest,
};
use hakaru_wire::scsi::{
    Cdb, RegisterAndMove, ReservationType, ReserveIn, ReserveOut, ReserveOutParameters, Sense,
    Status, Transfer, TransportId,
};
use pair::control::{attentions, log_in_at, order, register, reserve_out, with_list};
use pair::{Answer, INITIATOR, Initiator, Pair, config, pattern};

const OTHER: &str = "iqn.2026-01.net.example:vm2";
const WRITE_EXCLUSIVE: u8 = ReservationType::WriteExclusive as u8;
const REGISTRANTS_ONLY: u8 = ReservationType::WriteExclusiveRegistrantsOnly as u8;
const ALL_REGISTRANTS: u8 = ReservationType::ExclusiveAccessAllRegistrants as u8;
const CONFLICT: u8 = Status::RESERVATION_CONFLICT.0;

fn two() -> (Pair, Initiator, Initiator) {
    let mut pair = Pair::new();
    let first = pair.log_in(&[]);
    let second = pair.log_in_as(OTHER, 2, &[]);
    (pair, first, second)
}

fn one_block() -> Transfer {
    Transfer {
        blocks: 1,
        ..Transfer::default()
    }
}

fn reads(initiator: &mut Initiator, pair: &mut Pair) -> bool {
    let answer = initiator.run_cdb(pair, 0, Cdb::Read(one_block()), 512);
    assert!([0, CONFLICT].contains(&answer.status), "{answer:?}");
    answer.status == 0
}

fn writes(initiator: &mut Initiator, pair: &mut Pair) -> bool {
    let answer = with_list(initiator, pair, 0, Cdb::Write(one_block()), &[7; 512]);
    assert!([0, CONFLICT].contains(&answer.status), "{answer:?}");
    answer.status == 0
}

fn report(initiator: &mut Initiator, pair: &mut Pair, action: ReserveIn) -> Vec<u8> {
    let cdb = Cdb::PersistentReserveIn {
        service_action: action as u8,
        allocation_length: 1024,
    };
    initiator.run_cdb(pair, 0, cdb, 1024).good()
}

/// PRGENERATION and the registered keys.
fn keys(initiator: &mut Initiator, pair: &mut Pair) -> (u32, Vec<u64>) {
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

/// Key of the holder and type.
fn held(initiator: &mut Initiator, pair: &mut Pair) -> Option<(u64, u8)> {
    let data = report(initiator, pair, ReserveIn::ReadReservation);
    (data.len() > 8).then(|| {
        let key = u64::from_be_bytes(data[8..16].try_into().unwrap());
        (key, data[21])
    })
}

#[test]
fn each_type_lets_in_whom_it_should() {
    // Type, (registered reads, writes), (unregistered reads, writes).
    let cases = [
        (
            ReservationType::WriteExclusive,
            (true, false),
            (true, false),
        ),
        (
            ReservationType::ExclusiveAccess,
            (false, false),
            (false, false),
        ),
        (
            ReservationType::WriteExclusiveRegistrantsOnly,
            (true, true),
            (true, false),
        ),
        (
            ReservationType::ExclusiveAccessRegistrantsOnly,
            (true, true),
            (false, false),
        ),
        (
            ReservationType::WriteExclusiveAllRegistrants,
            (true, true),
            (true, false),
        ),
        (
            ReservationType::ExclusiveAccessAllRegistrants,
            (true, true),
            (false, false),
        ),
    ];
    for (kind, registered, unregistered) in cases {
        let (mut pair, mut holder, mut other) = two();
        register(&mut holder, &mut pair, 1);
        register(&mut other, &mut pair, 2);
        order(
            &mut holder,
            &mut pair,
            ReserveOut::Reserve,
            kind as u8,
            (1, 0),
        )
        .good();
        assert!(reads(&mut holder, &mut pair) && writes(&mut holder, &mut pair));
        let access = (reads(&mut other, &mut pair), writes(&mut other, &mut pair));
        assert_eq!(access, registered, "{kind:?}, registered");
        register(&mut other, &mut pair, 0);
        let access = (reads(&mut other, &mut pair), writes(&mut other, &mut pair));
        assert_eq!(access, unregistered, "{kind:?}, not registered");
        let key = if kind.all_registrants() { 0 } else { 1 };
        assert_eq!(held(&mut other, &mut pair), Some((key, kind as u8)));
        // What tells of the LU itself is never refused.
        other.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
        other.run_cdb(&mut pair, 0, Cdb::ReadCapacity10, 8).good();
    }
}

#[test]
fn a_key_is_needed_for_everything_and_must_be_right() {
    let (mut pair, mut first, mut second) = two();
    register(&mut first, &mut pair, 1);
    for action in ReserveOut::ALL {
        if matches!(
            action,
            ReserveOut::RegisterAndIgnoreExistingKey | ReserveOut::RegisterAndMove
        ) {
            continue;
        }
        for (initiator, key) in [(&mut first, 9), (&mut second, 1)] {
            let answer = order(initiator, &mut pair, action, WRITE_EXCLUSIVE, (key, 3));
            assert_eq!(answer.status, CONFLICT, "{action:?}");
        }
    }
    assert_eq!(keys(&mut first, &mut pair), (1, vec![1]));
    order(&mut first, &mut pair, ReserveOut::Register, 0, (1, 4)).good();
    order(&mut second, &mut pair, ReserveOut::Register, 0, (0, 5)).good();
    assert_eq!(keys(&mut first, &mut pair), (3, vec![4, 5]));
}

#[test]
fn a_reservation_is_released_as_it_was_made_and_registrants_are_told() {
    let (mut pair, mut holder, mut other) = two();
    register(&mut holder, &mut pair, 1);
    register(&mut other, &mut pair, 2);
    order(
        &mut holder,
        &mut pair,
        ReserveOut::Reserve,
        REGISTRANTS_ONLY,
        (1, 0),
    )
    .good();
    let again = order(
        &mut other,
        &mut pair,
        ReserveOut::Reserve,
        REGISTRANTS_ONLY,
        (2, 0),
    );
    assert_eq!(again.status, CONFLICT);
    // Another's release does nothing, and is no error.
    order(
        &mut other,
        &mut pair,
        ReserveOut::Release,
        REGISTRANTS_ONLY,
        (2, 0),
    )
    .good();
    let wrong = order(
        &mut holder,
        &mut pair,
        ReserveOut::Release,
        WRITE_EXCLUSIVE,
        (1, 0),
    );
    assert_eq!(
        wrong.sense(),
        Sense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION
    );
    assert_eq!(held(&mut other, &mut pair), Some((1, REGISTRANTS_ONLY)));
    order(
        &mut holder,
        &mut pair,
        ReserveOut::Release,
        REGISTRANTS_ONLY,
        (1, 0),
    )
    .good();
    assert_eq!(
        attentions(&mut other, &mut pair, 0),
        [Sense::RESERVATIONS_RELEASED]
    );
    assert_eq!(attentions(&mut holder, &mut pair, 0), []);
    assert_eq!(held(&mut other, &mut pair), None);
}

#[test]
fn a_reservation_goes_with_its_last_holder() {
    let (mut pair, mut first, mut second) = two();
    register(&mut first, &mut pair, 1);
    register(&mut second, &mut pair, 2);
    order(
        &mut first,
        &mut pair,
        ReserveOut::Reserve,
        ALL_REGISTRANTS,
        (1, 0),
    )
    .good();
    register(&mut first, &mut pair, 0);
    assert_eq!(held(&mut second, &mut pair), Some((0, ALL_REGISTRANTS)));
    assert!(
        !reads(&mut first, &mut pair),
        "who is not registered holds nothing"
    );
    register(&mut second, &mut pair, 0);
    assert_eq!(held(&mut second, &mut pair), None);
}

#[test]
fn preempting_takes_the_reservation_over_and_tells_whose_it_was() {
    let (mut pair, mut first, mut second) = two();
    register(&mut first, &mut pair, 1);
    register(&mut second, &mut pair, 2);
    order(
        &mut first,
        &mut pair,
        ReserveOut::Reserve,
        WRITE_EXCLUSIVE,
        (1, 0),
    )
    .good();
    order(
        &mut second,
        &mut pair,
        ReserveOut::Preempt,
        REGISTRANTS_ONLY,
        (2, 1),
    )
    .good();
    assert_eq!(held(&mut second, &mut pair), Some((2, REGISTRANTS_ONLY)));
    assert_eq!(keys(&mut second, &mut pair), (3, vec![2]));
    assert_eq!(
        attentions(&mut first, &mut pair, 0),
        [Sense::REGISTRATIONS_PREEMPTED]
    );
    assert!(!writes(&mut first, &mut pair) && writes(&mut second, &mut pair));
    let gone = order(
        &mut second,
        &mut pair,
        ReserveOut::Preempt,
        REGISTRANTS_ONLY,
        (2, 77),
    );
    assert_eq!(gone.status, CONFLICT, "nobody has that key");
}

#[test]
fn preempting_everyone_leaves_the_sender_alone_with_it() {
    let (mut pair, mut first, mut second) = two();
    register(&mut first, &mut pair, 1);
    register(&mut second, &mut pair, 2);
    order(
        &mut first,
        &mut pair,
        ReserveOut::Reserve,
        ALL_REGISTRANTS,
        (1, 0),
    )
    .good();
    order(
        &mut second,
        &mut pair,
        ReserveOut::Preempt,
        WRITE_EXCLUSIVE,
        (2, 0),
    )
    .good();
    assert_eq!(held(&mut second, &mut pair), Some((2, WRITE_EXCLUSIVE)));
    assert_eq!(keys(&mut second, &mut pair).1, [2]);
}

#[test]
fn preempt_and_abort_is_answered_when_what_it_aborted_is_over() {
    let (mut pair, mut first, mut second) = two();
    register(&mut first, &mut pair, 1);
    register(&mut second, &mut pair, 2);
    order(
        &mut first,
        &mut pair,
        ReserveOut::Reserve,
        WRITE_EXCLUSIVE,
        (1, 0),
    )
    .good();
    pair.stalled = true;
    let write = first.command(0, &Cdb::Write(one_block()).emit(), false, true, 512);
    first.send_command(&mut pair, &write, &pattern(512, 1));
    let elsewhere = first.command(5, &Cdb::Read(one_block()).emit(), true, false, 4096);
    first.send_command(&mut pair, &elsewhere, &[]);
    let list = ReserveOutParameters {
        key: 2,
        service_action_key: 1,
        ..ReserveOutParameters::default()
    };
    let cdb = reserve_out(ReserveOut::PreemptAndAbort, WRITE_EXCLUSIVE, 24);
    let preempt = second.command(0, &cdb.emit(), false, true, 24);
    second.send_command(&mut pair, &preempt, &list.emit());
    assert!(
        second.receive(&mut pair).is_empty(),
        "the write is still with the storage"
    );
    pair.release();
    let answer = Answer::of(second.receive(&mut pair), preempt.itt);
    assert_eq!(answer.status, 0);
    let answered: Vec<Itt> = first
        .receive(&mut pair)
        .iter()
        .map(|pdu| pdu.bhs.itt())
        .collect();
    assert!(
        answered.contains(&elsewhere.itt),
        "another LU is not concerned"
    );
    assert!(
        !answered.contains(&write.itt),
        "an aborted command has no status"
    );
    assert_eq!(
        attentions(&mut first, &mut pair, 0),
        [
            Sense::REGISTRATIONS_PREEMPTED,
            Sense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR
        ]
    );
}

#[test]
fn clearing_ends_everything() {
    let (mut pair, mut first, mut second) = two();
    register(&mut first, &mut pair, 1);
    register(&mut second, &mut pair, 2);
    order(
        &mut first,
        &mut pair,
        ReserveOut::Reserve,
        WRITE_EXCLUSIVE,
        (1, 0),
    )
    .good();
    order(&mut second, &mut pair, ReserveOut::Clear, 0, (2, 0)).good();
    assert_eq!(
        attentions(&mut first, &mut pair, 0),
        [Sense::RESERVATIONS_PREEMPTED]
    );
    assert_eq!(keys(&mut first, &mut pair), (3, vec![]));
    assert_eq!(held(&mut first, &mut pair), None);
}

#[test]
fn a_reservation_moves_to_a_nexus_that_is_not_there_yet() {
    let (mut pair, mut first, mut second) = two();
    register(&mut first, &mut pair, 1);
    order(
        &mut first,
        &mut pair,
        ReserveOut::Reserve,
        WRITE_EXCLUSIVE,
        (1, 0),
    )
    .good();
    let mut moved = RegisterAndMove {
        key: 1,
        service_action_key: 3,
        unregister: true,
        persist_through_power_loss: false,
        relative_target_port: 2,
        initiator_port: TransportId {
            name: OTHER.to_owned(),
            isid: Some(Isid::random(9, 0)),
        },
    };
    let send = |initiator: &mut Initiator, pair: &mut Pair, list: &[u8]| {
        let cdb = reserve_out(ReserveOut::RegisterAndMove, WRITE_EXCLUSIVE, list.len());
        with_list(initiator, pair, 0, cdb, list)
    };
    assert_eq!(send(&mut second, &mut pair, &moved.emit()).status, CONFLICT);
    moved.relative_target_port = 3;
    let refused = send(&mut first, &mut pair, &moved.emit());
    assert_eq!(
        refused.sense(),
        Sense::INVALID_FIELD_IN_PARAMETER_LIST,
        "there is no port 3"
    );
    moved.relative_target_port = 2;
    send(&mut first, &mut pair, &moved.emit()).good();
    assert_eq!(held(&mut first, &mut pair), Some((3, WRITE_EXCLUSIVE)));
    assert!(!writes(&mut first, &mut pair));
    let mut heir = log_in_at(&mut pair, 1, OTHER, 9);
    assert!(writes(&mut heir, &mut pair));
    let elsewhere = &mut log_in_at(&mut pair, 0, OTHER, 9);
    assert!(
        !writes(elsewhere, &mut pair),
        "by another port it is another nexus"
    );
}

#[test]
fn one_registration_can_be_made_for_every_port() {
    let (mut pair, mut first, mut reader) = two();
    let list = ReserveOutParameters {
        service_action_key: 1,
        all_target_ports: true,
        ..ReserveOutParameters::default()
    };
    let cdb = reserve_out(ReserveOut::Register, 0, 24);
    with_list(&mut first, &mut pair, 0, cdb, &list.emit()).good();
    let full = report(&mut reader, &mut pair, ReserveIn::ReadFullStatus);
    let second = 8 + 24 + u32::from_be_bytes(full[28..32].try_into().unwrap()) as usize;
    assert_eq!((full[8 + 19], full[second + 19]), (1, 2), "both ports");
    let id = TransportId::parse(&full[8 + 24..second]).expect("a TransportID");
    assert_eq!((id.name.as_str(), id.isid), (INITIATOR, Some(first.isid)));
}

#[test]
fn kept_reservations_are_there_again_and_only_then_is_it_said() {
    let mut config = config();
    config.lus[0].reservations = Some(Vec::new());
    let mut pair = Pair::with(config.clone());
    let mut first = pair.log_in(&[]);
    let list = ReserveOutParameters {
        service_action_key: 1,
        persist_through_power_loss: true,
        ..ReserveOutParameters::default()
    };
    let mut keep = |pair: &mut Pair, action, kind, list: ReserveOutParameters, result| {
        pair.stalled = true;
        let cdb = reserve_out(action, kind, 24);
        let command = first.command(0, &cdb.emit(), false, true, 24);
        first.send_command(pair, &command, &list.emit());
        assert!(
            first.receive(pair).is_empty(),
            "nothing is said before it is kept"
        );
        let io = pair.held.pop().expect("an access");
        let IoOp::Keep { record } = io.op else {
            panic!("{io:?}")
        };
        pair.target.handle_io_done(pair.time, io.id, result);
        pair.stalled = false;
        pair.run();
        (record, Answer::of(first.receive(pair), command.itt))
    };
    let (_, answer) = keep(&mut pair, ReserveOut::Register, 0, list, IoResult::Done);
    assert_eq!(answer.status, 0);
    let holder = ReserveOutParameters {
        key: 1,
        ..ReserveOutParameters::default()
    };
    let failed = IoResult::Failed(IoFailure::Write);
    let (_, answer) = keep(
        &mut pair,
        ReserveOut::Reserve,
        WRITE_EXCLUSIVE,
        holder,
        failed,
    );
    assert_eq!(answer.sense(), Sense::INTERNAL_TARGET_FAILURE);
    let done = IoResult::Done;
    let (record, answer) = keep(
        &mut pair,
        ReserveOut::Reserve,
        WRITE_EXCLUSIVE,
        holder,
        done,
    );
    assert_eq!(answer.status, 0, "what could not be kept had not happened");

    check_reservations(&record).expect("a record");
    config.lus[0].reservations = Some(record);
    let mut again = Pair::with(config);
    let mut other = again.log_in_as(OTHER, 2, &[]);
    assert_eq!(keys(&mut other, &mut again), (0, vec![1]));
    assert!(!writes(&mut other, &mut again));
    let mut first = again.log_in(&[]);
    assert!(writes(&mut first, &mut again));
}

#[test]
fn what_cannot_be_kept_is_not_promised() {
    let (mut pair, mut first, _) = two();
    let list = ReserveOutParameters {
        service_action_key: 1,
        persist_through_power_loss: true,
        ..ReserveOutParameters::default()
    };
    let cdb = reserve_out(ReserveOut::Register, 0, 24);
    let answer = with_list(&mut first, &mut pair, 0, cdb, &list.emit());
    assert_eq!(answer.sense(), Sense::INVALID_FIELD_IN_PARAMETER_LIST);
    assert_eq!(keys(&mut first, &mut pair), (0, vec![]));
    let capabilities = report(&mut first, &mut pair, ReserveIn::ReportCapabilities);
    assert_eq!(capabilities[2] & 1, 0, "PTPL_C");
}

#[test]
fn a_list_that_lies_about_its_length_changes_nothing() {
    let (mut pair, mut first, _) = two();
    let list = ReserveOutParameters {
        service_action_key: 1,
        ..ReserveOutParameters::default()
    }
    .emit();
    let specified = ReserveOutParameters {
        specify_initiator_ports: true,
        ..ReserveOutParameters::default()
    };
    let cases: [(usize, &[u8], Sense); 5] = [
        (0, &[], Sense::PARAMETER_LIST_LENGTH_ERROR),
        (23, &list[..23], Sense::PARAMETER_LIST_LENGTH_ERROR),
        (24, &list[..8], Sense::PARAMETER_LIST_LENGTH_ERROR),
        (u32::MAX as usize, &list, Sense::PARAMETER_LIST_LENGTH_ERROR),
        (
            24,
            &specified.emit(),
            Sense::INVALID_FIELD_IN_PARAMETER_LIST,
        ),
    ];
    for (length, list, sense) in cases {
        let cdb = reserve_out(ReserveOut::Register, 0, length);
        let answer = with_list(&mut first, &mut pair, 0, cdb, list);
        assert_eq!(
            answer.sense(),
            sense,
            "{length} bytes said, {} sent",
            list.len()
        );
    }
    assert_eq!(keys(&mut first, &mut pair), (0, vec![]));
}

#[test]
fn reserve_keeps_everyone_else_out_until_its_nexus_or_the_lu_ends_it() {
    let (mut pair, mut first, mut second) = two();
    first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    let taken = second.run_cdb(&mut pair, 0, Cdb::Reserve, 0);
    assert_eq!(taken.status, CONFLICT);
    assert!(!reads(&mut second, &mut pair) && writes(&mut first, &mut pair));
    second.run_cdb(&mut pair, 0, Cdb::Release, 0).good();
    assert!(
        !reads(&mut second, &mut pair),
        "it was not the second one's to release"
    );
    let mixed = order(&mut first, &mut pair, ReserveOut::Register, 0, (0, 1));
    assert_eq!(mixed.status, CONFLICT, "the two kinds exclude each other");
    first.run_cdb(&mut pair, 0, Cdb::Release, 0).good();
    assert!(reads(&mut second, &mut pair));

    second.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    pair.target.handle_closed(pair.time, second.connection);
    assert!(
        reads(&mut first, &mut pair),
        "with the nexus goes its reservation"
    );

    let mut third = pair.log_in_as(OTHER, 3, &[]);
    third.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    let mut header = [0; 48];
    TaskManagementRequest {
        immediate: true,
        function: Function::LogicalUnitReset,
        lun: Lun::new(0),
        itt: Itt(0x7000_0000),
        referenced_task_tag: Itt::RESERVED,
        cmd_sn: CmdSn(first.cmd_sn),
        exp_stat_sn: first.exp_stat_sn,
        ref_cmd_sn: CmdSn(0),
        exp_data_sn: 0,
    }
    .emit(&mut header);
    first.send(&mut pair, &header, &[]);
    assert_eq!(
        first.receive_one(&mut pair).opcode(),
        Opcode::TaskManagementResponse
    );
    assert_eq!(
        attentions(&mut first, &mut pair, 0),
        [Sense::BUS_DEVICE_RESET_FUNCTION]
    );
    assert!(reads(&mut first, &mut pair));
}

#[test]
fn a_registrant_with_access_reserves_and_releases_in_the_old_way_without_effect() {
    let (mut pair, mut first, mut second) = two();
    register(&mut first, &mut pair, 1);
    assert_eq!(
        first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).status,
        CONFLICT
    );
    order(
        &mut first,
        &mut pair,
        ReserveOut::Reserve,
        WRITE_EXCLUSIVE,
        (1, 0),
    )
    .good();
    first.run_cdb(&mut pair, 0, Cdb::Reserve, 0).good();
    first.run_cdb(&mut pair, 0, Cdb::Release, 0).good();
    assert_eq!(held(&mut second, &mut pair), Some((1, WRITE_EXCLUSIVE)));
    assert_eq!(
        second.run_cdb(&mut pair, 0, Cdb::Release, 0).status,
        CONFLICT
    );
}
