//! Reservations that survive a restart. They are acknowledged only once they are stored.
use super::scene::{OTHER, WRITE_EXCLUSIVE, keys, report, two_sessions, writes};
use crate::pair::control::{reserve_out, with_list};
use crate::pair::{Answer, Pair, config};
use hakaru_iscsi_target::{IoFailure, IoOp, IoResult, check_reservations};
use hakaru_wire::scsi::{ReserveIn, ReserveOut, ReserveOutParameters, Sense};

#[test]
fn stored_reservations_survive_a_restart_and_are_acknowledged_once_stored() {
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
            "no answer before the reservation is stored"
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
    assert_eq!(
        answer.status, 0,
        "a reservation that could not be stored must have no effect"
    );

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
fn persistence_is_refused_if_it_is_not_supported() {
    let (mut pair, mut first, _) = two_sessions();
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
