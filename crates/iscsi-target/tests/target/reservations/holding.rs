//! Access rights under each reservation type, keys, registration and release.
use super::scene::{
    ALL_REGISTRANTS, CONFLICT, REGISTRANTS_ONLY, WRITE_EXCLUSIVE, held, keys, reads, report,
    two_sessions, writes,
};
use crate::pair::INITIATOR;
use crate::pair::control::{attentions, order, register, reserve_out, with_list};
use hakaru_wire::scsi::{
    Cdb, ReservationType, ReserveIn, ReserveOut, ReserveOutParameters, Sense, TransportId,
};

#[test]
fn each_type_gives_access_to_the_right_nexuses() {
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
        let (mut pair, mut holder, mut other) = two_sessions();
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
        // Commands that describe the LU itself are never refused.
        other.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
        other.run_cdb(&mut pair, 0, Cdb::ReadCapacity10, 8).good();
    }
}

#[test]
fn every_action_needs_the_registered_key() {
    let (mut pair, mut first, mut second) = two_sessions();
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
fn a_reservation_is_released_with_its_own_type_and_registrants_are_notified() {
    let (mut pair, mut holder, mut other) = two_sessions();
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
    // A release by another registrant has no effect and is not an error.
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
fn a_reservation_ends_with_its_last_holder() {
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
    register(&mut first, &mut pair, 0);
    assert_eq!(held(&mut second, &mut pair), Some((0, ALL_REGISTRANTS)));
    assert!(
        !reads(&mut first, &mut pair),
        "an unregistered nexus has no access"
    );
    register(&mut second, &mut pair, 0);
    assert_eq!(held(&mut second, &mut pair), None);
}

#[test]
fn one_registration_can_apply_to_every_port() {
    let (mut pair, mut first, mut reader) = two_sessions();
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
fn a_list_with_a_wrong_length_changes_nothing() {
    let (mut pair, mut first, _) = two_sessions();
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
            "{length} bytes announced, {} sent",
            list.len()
        );
    }
    assert_eq!(keys(&mut first, &mut pair), (0, vec![]));
}
