//! Tests of both sides against each other, and of each side against a faulty peer.
use super::*;
use crate::iscsi::Stage;
use crate::iscsi::text::{emit_pair, parse_pairs};
use proptest::prelude::*;

const OPERATIONAL: Stage = Stage::OperationalNegotiation;

fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pairs
        .iter()
        .for_each(|(key, value)| emit_pair(&mut bytes, key, value));
    bytes
}

fn pairs(bytes: &[u8]) -> Vec<(&str, &str)> {
    parse_pairs(bytes)
        .collect::<Result<_, _>>()
        .expect("emitted text parses")
}

fn target() -> Negotiation {
    Negotiation::new(
        Role::Target,
        Offer {
            max_recv_data_segment_length: 262_144,
            ..Offer::default()
        },
    )
}

/// Returns the answers of a target with preferences `own`, without its own
/// MaxRecvDataSegmentLength.
fn answers(own: Offer, offers: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut target = Negotiation::new(Role::Target, own);
    let mut reply = Vec::new();
    target
        .receive(OPERATIONAL, &text(offers), &mut reply)
        .expect("acceptable offers");
    let own_pairs = pairs(&reply)
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    own_pairs
        .filter(|(key, _)| key != "MaxRecvDataSegmentLength")
        .collect()
}

fn answer(own: Offer, key: &str, value: &str) -> String {
    answers(own, &[(key, value)]).pop().expect("one answer").1
}

#[test]
fn table_holds_every_key_of_the_rfc_once() {
    assert!(Key::ALL.len() >= 44);
    for (i, &key) in Key::ALL.iter().enumerate() {
        assert_eq!(Key::from_name(key.name()), Some(key));
        assert_eq!(key as usize, i);
        assert!(key.name().len() <= crate::iscsi::text::KEY_LENGTH_MAX);
    }
    assert_eq!(
        Key::from_name("maxburstlength"),
        None,
        "names are case-sensitive"
    );
}

#[test]
fn defaults_lie_within_the_ranges_of_the_table() {
    for &key in Key::ALL {
        if let Kind::Minimum { min, max } | Kind::Maximum { min, max } = key.rule().kind {
            let default = Offer::default()
                .number(key)
                .expect("every negotiated number is a preference");
            assert!((min..=max).contains(&default), "{key:?}");
        }
        if let Kind::And | Kind::Or = key.rule().kind {
            assert!(Offer::default().boolean(key).is_some(), "{key:?}");
        }
    }
}

#[test]
fn every_negotiated_key_has_its_result_function() {
    let own = Offer {
        header_digests: &[Digest::Crc32c, Digest::None],
        initial_r2t: false,
        max_burst_length: 1 << 20,
        default_time2retain: 0,
        max_outstanding_r2t: 16,
        ..Offer::default()
    };
    for (key, offer, expected) in [
        ("HeaderDigest", "None,CRC32C", "None"),
        ("HeaderDigest", "CRC32C,None", "CRC32C"),
        ("HeaderDigest", "MD5,CRC32C", "CRC32C"),
        ("DataDigest", "CRC32C,None", "None"),
        ("DataDigest", "CRC32C", "Reject"),
        ("MaxConnections", "8", "1"),
        ("InitialR2T", "No", "No"),
        ("InitialR2T", "Yes", "Yes"),
        ("ImmediateData", "Yes", "Yes"),
        ("ImmediateData", "No", "No"),
        ("MaxBurstLength", "16776192", "1048576"),
        ("MaxBurstLength", "0x8000", "32768"),
        ("FirstBurstLength", "262144", "65536"),
        ("DefaultTime2Wait", "0", "2"),
        ("DefaultTime2Wait", "5", "5"),
        ("DefaultTime2Retain", "0", "0"),
        ("MaxOutstandingR2T", "4", "4"),
        ("DataPDUInOrder", "No", "Yes"),
        ("DataSequenceInOrder", "No", "Yes"),
        ("ErrorRecoveryLevel", "2", "0"),
        ("TaskReporting", "FastAbort,RFC3720", "RFC3720"),
        ("iSCSIProtocolLevel", "2", "1"),
        ("AuthMethod", "CHAP,None", "None"),
        ("AuthMethod", "CHAP", "Reject"),
        ("IFMarker", "No", "Reject"),
        ("OFMarkInt", "2048", "Reject"),
        ("CHAP_A", "5", "Reject"),
        ("X-org.example.new", "1", "NotUnderstood"),
    ] {
        assert_eq!(answer(own.clone(), key, offer), expected, "{key}={offer}");
    }
}

#[test]
fn values_outside_range_or_form_are_rejected() {
    for (key, values) in [
        (
            "MaxBurstLength",
            &[
                "-1",
                "0",
                "511",
                "16777216",
                "18446744073709551616",
                "1,2,3",
                "0512",
                "+512",
                "",
                "0x",
                "512 ",
                "4k",
                "~",
            ][..],
        ),
        ("MaxConnections", &["0", "65536"]),
        ("DefaultTime2Wait", &["3601"]),
        ("ErrorRecoveryLevel", &["3"]),
        ("InitialR2T", &["yes", "", "1", "Yes,No"]),
        ("HeaderDigest", &["", "crc32c", "CRC32C None"]),
    ] {
        for value in values {
            assert_eq!(
                answer(Offer::default(), key, value),
                "Reject",
                "{key}={value}"
            );
        }
    }
}

#[test]
fn first_burst_is_negotiated_after_the_keys_that_it_depends_on() {
    let own = Offer {
        initial_r2t: false,
        ..Offer::default()
    };
    let offers = [
        ("FirstBurstLength", "65536"),
        ("MaxBurstLength", "4096"),
        ("InitialR2T", "No"),
    ];
    let answered = answers(own.clone(), &offers);
    assert_eq!(
        answered.last().unwrap(),
        &("FirstBurstLength".to_owned(), "4096".to_owned())
    );
    let offers = [
        ("FirstBurstLength", "65536"),
        ("ImmediateData", "No"),
        ("InitialR2T", "Yes"),
    ];
    assert_eq!(answers(own, &offers).last().unwrap().1, "Irrelevant");
}

#[test]
fn max_burst_below_the_default_first_burst_bounds_it() {
    let mut target = target();
    target
        .receive(
            OPERATIONAL,
            &text(&[("MaxBurstLength", "512")]),
            &mut Vec::new(),
        )
        .unwrap();
    assert_eq!(
        (
            target.agreed().max_burst_length,
            target.agreed().first_burst_length
        ),
        (512, 512)
    );
}

#[test]
fn discovery_sessions_answer_irrelevant_in_any_order_of_keys() {
    let mut target = target();
    let offers = text(&[
        ("MaxBurstLength", "512"),
        ("HeaderDigest", "None"),
        ("SessionType", "Discovery"),
        ("InitiatorName", "iqn.2020-01.org.example:a"),
    ]);
    let mut reply = Vec::new();
    target.receive(OPERATIONAL, &offers, &mut reply).unwrap();
    let expected = [
        ("MaxBurstLength", "Irrelevant"),
        ("HeaderDigest", "None"),
        ("MaxRecvDataSegmentLength", "262144"),
    ];
    assert_eq!(pairs(&reply), expected);
    assert_eq!(target.agreed().max_burst_length, 262_144);
}

#[test]
fn duplicates_are_refused_but_a_repeated_name_is_accepted() {
    let name = ("InitiatorName", "iqn.2020-01.org.example:a");
    let mut target = target();
    target
        .receive(Stage::SecurityNegotiation, &text(&[name]), &mut Vec::new())
        .unwrap();
    target
        .receive(OPERATIONAL, &text(&[name]), &mut Vec::new())
        .unwrap();
    let other = text(&[("InitiatorName", "iqn.2020-01.org.example:b")]);
    assert_eq!(
        target.receive(OPERATIONAL, &other, &mut Vec::new()),
        Err(NegotiationError::Duplicate(Key::InitiatorName))
    );
    for (key, value) in [
        ("MaxBurstLength", "512"),
        ("MaxRecvDataSegmentLength", "512"),
        ("HeaderDigest", "None"),
        ("IFMarker", "No"),
    ] {
        let twice = text(&[(key, value), (key, value)]);
        let error = NegotiationError::Duplicate(Key::from_name(key).unwrap());
        assert_eq!(
            super::tests::target().receive(OPERATIONAL, &twice, &mut Vec::new()),
            Err(error)
        );
    }
}

#[test]
fn invalid_declarations_end_the_login() {
    let long_name = format!("iqn.{}", "a".repeat(220));
    let long_alias = "a".repeat(256);
    for (key, value) in [
        ("SessionType", "Other"),
        ("InitiatorName", "nobody"),
        ("InitiatorName", "iqn."),
        ("InitiatorName", "iqn.a b"),
        ("InitiatorName", &long_name),
        ("InitiatorAlias", &long_alias),
        ("InitiatorAlias", ""),
        ("MaxRecvDataSegmentLength", "511"),
        ("MaxRecvDataSegmentLength", "16777216"),
    ] {
        let error = NegotiationError::Value(Key::from_name(key).unwrap());
        assert_eq!(
            target().receive(OPERATIONAL, &text(&[(key, value)]), &mut Vec::new()),
            Err(error),
            "{key}={value}"
        );
    }
    let foreign = text(&[("TargetAlias", "a")]);
    assert_eq!(
        target().receive(OPERATIONAL, &foreign, &mut Vec::new()),
        Err(NegotiationError::WrongSender(Key::TargetAlias))
    );
}

#[test]
fn unknown_keys_cannot_make_the_reply_grow() {
    let mut target = target();
    let mut reply = Vec::new();
    let key = |i: u32| format!("X-{i:061}");
    for i in 0..UNKNOWN_KEYS_MAX {
        target
            .receive(OPERATIONAL, &text(&[(&key(i), "1")]), &mut reply)
            .unwrap();
    }
    assert!(reply.len() < 2048);
    assert_eq!(
        target.receive(OPERATIONAL, &text(&[("X-one.more", "1")]), &mut reply),
        Err(NegotiationError::TooManyKeys)
    );
    let thousand: Vec<u8> = (0..1000).flat_map(|i| text(&[(&key(i), "1")])).collect();
    assert_eq!(
        super::tests::target().receive(OPERATIONAL, &thousand, &mut reply),
        Err(NegotiationError::TooManyKeys)
    );
}

#[test]
fn refusals_of_unknown_keys_are_not_answered() {
    let mut reply = Vec::new();
    let echo = text(&[
        ("X-a", "NotUnderstood"),
        ("X-b", "Reject"),
        ("X-c", "Irrelevant"),
    ]);
    target()
        .receive(Stage::SecurityNegotiation, &echo, &mut reply)
        .unwrap();
    assert_eq!(pairs(&reply), []);
}

#[test]
fn login_keys_are_rejected_in_full_feature_phase_and_segment_length_may_change() {
    let mut target = target();
    target
        .receive(
            OPERATIONAL,
            &text(&[("MaxRecvDataSegmentLength", "4096")]),
            &mut Vec::new(),
        )
        .unwrap();
    let mut reply = Vec::new();
    let late = text(&[
        ("MaxBurstLength", "512"),
        ("MaxRecvDataSegmentLength", "1024"),
        ("SendTargets", "All"),
    ]);
    target
        .receive(Stage::FullFeaturePhase, &late, &mut reply)
        .unwrap();
    assert_eq!(pairs(&reply), [("MaxBurstLength", "Reject")]);
    assert_eq!(target.agreed().peer_max_recv_data_segment_length, 1024);
    assert_eq!(target.take_send_targets().as_deref(), Some("All"));
    assert_eq!(target.take_send_targets(), None);
}

#[test]
fn send_targets_during_login_is_rejected() {
    assert_eq!(answer(Offer::default(), "SendTargets", "All"), "Reject");
}

/// Returns an initiator that has offered every operational key, and its text.
fn initiator(own: Offer) -> (Negotiation, Vec<u8>) {
    let mut initiator = Negotiation::new(Role::Initiator, own);
    let mut request = Vec::new();
    initiator.declare_session(
        "iqn.2020-01.org.example:a",
        Some("iqn.2020-01.org.example:t"),
        &mut request,
    );
    initiator.offer_operational(&mut request);
    (initiator, request)
}

#[test]
fn initiator_refuses_answers_that_no_result_function_returns() {
    let own = Offer {
        max_burst_length: 4096,
        immediate_data: false,
        default_time2wait: 5,
        ..Offer::default()
    };
    for (key, value) in [
        ("MaxBurstLength", "4097"),
        ("MaxBurstLength", "many"),
        ("ImmediateData", "Yes"),
        ("InitialR2T", "No"),
        ("DefaultTime2Wait", "4"),
        ("HeaderDigest", "CRC32C"),
        ("HeaderDigest", "None,CRC32C"),
    ] {
        let (mut initiator, _) = initiator(own.clone());
        let error = NegotiationError::Value(Key::from_name(key).unwrap());
        assert_eq!(
            initiator.receive(OPERATIONAL, &text(&[(key, value)]), &mut Vec::new()),
            Err(error),
            "{key}={value}"
        );
    }
    let (mut rejected, _) = initiator(own);
    let error = NegotiationError::Rejected(Key::MaxBurstLength);
    assert_eq!(
        rejected.receive(
            OPERATIONAL,
            &text(&[("MaxBurstLength", "Reject")]),
            &mut Vec::new()
        ),
        Err(error)
    );
}

#[test]
fn repeated_answer_is_refused() {
    let (mut initiator, _) = initiator(Offer::default());
    let twice = text(&[("MaxBurstLength", "512"), ("MaxBurstLength", "512")]);
    assert_eq!(
        initiator.receive(OPERATIONAL, &twice, &mut Vec::new()),
        Err(NegotiationError::Duplicate(Key::MaxBurstLength))
    );
}

#[test]
fn unanswered_offers_apply_where_the_offer_alone_decides() {
    let (mut initiator, _) = initiator(Offer {
        immediate_data: false,
        initial_r2t: false,
        max_burst_length: 4096,
        ..Offer::default()
    });
    initiator.conclude();
    let agreed = initiator.agreed();
    assert_eq!(
        (
            agreed.immediate_data,
            agreed.initial_r2t,
            agreed.max_burst_length
        ),
        (false, true, 262_144)
    );
}

#[test]
fn target_may_offer_too() {
    let (mut initiator, _) = initiator(Offer::default());
    let mut reply = Vec::new();
    let keys = text(&[
        ("TaskReporting", "RFC3720"),
        ("TargetAlias", "disks"),
        ("TargetPortalGroupTag", "1"),
        ("X-what", "?"),
    ]);
    initiator.receive(OPERATIONAL, &keys, &mut reply).unwrap();
    assert_eq!(
        pairs(&reply),
        [("TaskReporting", "RFC3720"), ("X-what", "NotUnderstood")]
    );
    assert_eq!(initiator.declared().target_alias.as_deref(), Some("disks"));
    assert_eq!(initiator.declared().target_portal_group_tag, Some(1));
}

#[test]
fn discovery_offers_contain_no_irrelevant_key() {
    let mut initiator = Negotiation::new(Role::Initiator, Offer::default());
    let mut request = Vec::new();
    initiator.declare_session("iqn.2020-01.org.example:a", None, &mut request);
    initiator.offer_operational(&mut request);
    let mut reply = Vec::new();
    target().receive(OPERATIONAL, &request, &mut reply).unwrap();
    assert!(
        pairs(&reply)
            .iter()
            .all(|(_, value)| *value != "Irrelevant"),
        "{reply:?}"
    );
}

fn offers() -> impl Strategy<Value = Offer> {
    let digests: [&'static [Digest]; 3] = [
        &[Digest::None],
        &[Digest::Crc32c, Digest::None],
        &[Digest::None, Digest::Crc32c],
    ];
    let sizes = (512u32..1 << 24, 512u32..1 << 24, 512u32..1 << 24);
    let small = (1u32..65_536, 0u32..3601, 0u32..3601, 1u32..65_536, 0u32..3);
    (0usize..3, 0usize..3, any::<[bool; 4]>(), sizes, small).prop_map(
        move |(header, data, flags, sizes, small)| Offer {
            header_digests: digests[header],
            data_digests: digests[data],
            initial_r2t: flags[0],
            immediate_data: flags[1],
            data_pdu_in_order: flags[2],
            data_sequence_in_order: flags[3],
            max_recv_data_segment_length: sizes.0,
            max_burst_length: sizes.1,
            first_burst_length: sizes.2,
            max_connections: small.0,
            default_time2wait: small.1,
            default_time2retain: small.2,
            max_outstanding_r2t: small.3,
            error_recovery_level: small.4,
            ..Offer::default()
        },
    )
}

/// Returns the values without the two fields that differ by side.
fn shared(agreed: &Agreed) -> Agreed {
    Agreed {
        max_recv_data_segment_length: 0,
        peer_max_recv_data_segment_length: 0,
        ..*agreed
    }
}

proptest! {
    #[test]
    fn both_sides_agree_on_the_same_values(ours in offers(), theirs in offers()) {
        let (mut initiator, request) = initiator(ours);
        let mut target = Negotiation::new(Role::Target, theirs);
        let mut reply = Vec::new();
        target.receive(OPERATIONAL, &request, &mut reply).unwrap();
        let mut nothing_more = Vec::new();
        initiator.receive(OPERATIONAL, &reply, &mut nothing_more).unwrap();
        prop_assert_eq!(pairs(&nothing_more), []);
        initiator.conclude();
        target.conclude();
        let (a, b) = (initiator.agreed(), target.agreed());
        prop_assert!(a.first_burst_length <= a.max_burst_length);
        prop_assert_eq!(a.max_recv_data_segment_length, b.peer_max_recv_data_segment_length);
        prop_assert_eq!(b.max_recv_data_segment_length, a.peer_max_recv_data_segment_length);
        // An irrelevant FirstBurstLength is unused, and each side keeps its own number.
        let (mut a, mut b) = (shared(a), shared(b));
        if a.initial_r2t && !a.immediate_data {
            (a.first_burst_length, b.first_burst_length) = (0, 0);
        }
        prop_assert_eq!(a, b);
    }

    #[test]
    fn no_offers_panic_break_first_burst_or_make_the_reply_grow(
        offers in proptest::collection::vec((0..Key::ALL.len() + 4, "[0-9A-Za-z,.~ -]{0,12}|Yes|No|[0-9]{1,9}|Reject"), 0..60),
        rounds in 1usize..4,
        as_target: bool,
    ) {
        let mut side = if as_target { target() } else { initiator(Offer::default()).0 };
        let name = |i: usize| Key::ALL.get(i).map_or_else(|| format!("X-{i}"), |key| key.name().to_owned());
        for (round, offers) in offers.chunks(offers.len() / rounds + 1).enumerate() {
            let request: Vec<u8> = offers.iter().flat_map(|(i, value)| text(&[(&name(*i), value)])).collect();
            let stage = [Stage::SecurityNegotiation, OPERATIONAL, Stage::FullFeaturePhase][round % 3];
            let mut reply = Vec::new();
            let _ = side.receive(stage, &request, &mut reply);
            prop_assert!(reply.len() <= 8192);
            prop_assert!(side.agreed().first_burst_length <= side.agreed().max_burst_length);
            side.conclude();
        }
    }
}
