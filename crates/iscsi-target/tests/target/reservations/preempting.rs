//! The ways in which a nexus loses a reservation: preempted, cleared or moved.
use super::scene::{
    ALL_REGISTRANTS, CONFLICT, OTHER, REGISTRANTS_ONLY, WRITE_EXCLUSIVE, held, keys, one_block,
    two_sessions, writes,
};
use crate::pair::control::{attentions, log_in_at, order, register, reserve_out, with_list};
use crate::pair::{Answer, Initiator, Pair, pattern};
use hakaru_wire::iscsi::{Isid, Itt};
use hakaru_wire::scsi::{
    Cdb, RegisterAndMove, ReserveOut, ReserveOutParameters, Sense, TransportId,
};

#[test]
fn preempting_takes_over_the_reservation_and_notifies_the_former_holder() {
    let (mut pair, mut first, mut second) = two_sessions();
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
    let refused = order(
        &mut second,
        &mut pair,
        ReserveOut::Preempt,
        REGISTRANTS_ONLY,
        (2, 77),
    );
    assert_eq!(refused.status, CONFLICT, "no registration has that key");
}

#[test]
fn preempting_all_registrants_leaves_only_the_sender_registered() {
    let (mut pair, mut first, mut second) = two_sessions();
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
fn preempt_and_abort_is_answered_when_the_aborted_tasks_have_ended() {
    let (mut pair, mut first, mut second) = two_sessions();
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
        "the storage still executes the write"
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
        "another LU is not affected"
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
fn clearing_removes_the_reservation_and_all_registrations() {
    let (mut pair, mut first, mut second) = two_sessions();
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
fn a_reservation_moves_to_a_nexus_that_is_not_logged_in_yet() {
    let (mut pair, mut first, mut second) = two_sessions();
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
    let mut new_holder = log_in_at(&mut pair, 1, OTHER, 9);
    assert!(writes(&mut new_holder, &mut pair));
    let elsewhere = &mut log_in_at(&mut pair, 0, OTHER, 9);
    assert!(
        !writes(elsewhere, &mut pair),
        "a session on another port is another nexus"
    );
}
