//! Login phase, and limits on logins.

use crate::pair::{INITIATOR, Initiator, Keys, Pair, TARGET, config, names, value};
use hakaru_iscsi_target::Limits;
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{Itt, LoginRequest, LoginStatus, Opcode, Stage};
use hakaru_wire::scsi::Cdb;

const SECURITY: Stage = Stage::SecurityNegotiation;
const OPERATIONAL: Stage = Stage::OperationalNegotiation;
const FULL: Stage = Stage::FullFeaturePhase;

fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    pairs
        .iter()
        .for_each(|(key, value)| emit_pair(&mut out, key, value));
    out
}

fn begin(pair: &mut Pair) -> Initiator {
    let connection = pair.connect();
    Initiator::new(connection, 1)
}

/// Sends one Login Request on a new connection. Returns the status, the keys, and whether the
/// connection was closed.
fn try_login(
    pair: &mut Pair,
    stage: Stage,
    next: Option<Stage>,
    text: &[u8],
) -> (LoginStatus, Keys, bool) {
    let mut initiator = begin(pair);
    let (response, keys) = initiator.login(pair, stage, next, text);
    (response.status, keys, pair.is_closed(initiator.connection))
}

#[test]
fn login_through_both_stages_reaches_full_feature_phase() {
    let mut pair = Pair::new();
    let mut initiator = begin(&mut pair);
    let (first, keys) = initiator.login(
        &mut pair,
        SECURITY,
        Some(OPERATIONAL),
        &[names(INITIATOR), text(&[("AuthMethod", "CHAP,None")])].concat(),
    );
    assert_eq!(
        (first.status, first.next_stage, first.tsih),
        (LoginStatus::SUCCESS, Some(OPERATIONAL), 0)
    );
    assert_eq!(value(&keys, "AuthMethod"), Some("None"));
    assert_eq!(value(&keys, "TargetPortalGroupTag"), Some("1"));
    let (second, keys) = initiator.login(
        &mut pair,
        OPERATIONAL,
        Some(FULL),
        &text(&[("HeaderDigest", "None,CRC32C")]),
    );
    assert_eq!(
        (second.status, second.next_stage),
        (LoginStatus::SUCCESS, Some(FULL))
    );
    assert_ne!(second.tsih, 0, "the session has a handle");
    assert_eq!(
        value(&keys, "HeaderDigest"),
        Some("None"),
        "the initiator's first choice"
    );
    assert_eq!(value(&keys, "MaxRecvDataSegmentLength"), Some("262144"));
    assert_eq!(
        initiator
            .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
            .good(),
        b""
    );
    assert_eq!(pair.counter("sessions", "sessions_now"), 1.0);
}

#[test]
fn login_directly_from_security_to_full_feature_phase_is_accepted() {
    let mut pair = Pair::new();
    let (status, ..) = try_login(&mut pair, SECURITY, Some(FULL), &names(INITIATOR));
    assert_eq!(status, LoginStatus::SUCCESS);
}

#[test]
fn every_negotiated_key_gets_its_result() {
    let cases: &[(&str, &str, &str)] = &[
        ("HeaderDigest", "CRC32C,None", "CRC32C"),
        ("HeaderDigest", "None", "None"),
        ("DataDigest", "CRC32C", "CRC32C"),
        ("DataDigest", "SHA9", "Reject"),
        ("MaxConnections", "8", "1"),
        ("InitialR2T", "No", "No"),
        ("InitialR2T", "Yes", "Yes"),
        ("ImmediateData", "Yes", "Yes"),
        ("ImmediateData", "No", "No"),
        ("ImmediateData", "Maybe", "Reject"),
        ("MaxBurstLength", "16776192", "1048576"),
        ("MaxBurstLength", "512", "512"),
        ("MaxBurstLength", "511", "Reject"),
        ("FirstBurstLength", "262144", "65536"),
        ("FirstBurstLength", "0x1000", "4096"),
        ("DefaultTime2Wait", "5", "5"),
        ("DefaultTime2Retain", "20", "0"),
        ("MaxOutstandingR2T", "65535", "8"),
        ("MaxOutstandingR2T", "0", "Reject"),
        ("DataPDUInOrder", "No", "Yes"),
        ("DataSequenceInOrder", "No", "Yes"),
        ("ErrorRecoveryLevel", "2", "0"),
        ("TaskReporting", "FastAbort,RFC3720", "RFC3720"),
        ("iSCSIProtocolLevel", "2", "1"),
        ("IFMarker", "Yes", "Reject"),
        ("OFMarkInt", "2048", "Reject"),
        ("X-com.example.key", "1", "NotUnderstood"),
    ];
    for (key, offer, expected) in cases {
        let mut pair = Pair::new();
        let (status, keys, _) = try_login(
            &mut pair,
            OPERATIONAL,
            Some(FULL),
            &[names(INITIATOR), text(&[(key, offer)])].concat(),
        );
        assert_eq!(
            (status, value(&keys, key)),
            (LoginStatus::SUCCESS, Some(*expected)),
            "{key}={offer}"
        );
    }
}

#[test]
fn refused_logins_get_a_status_and_the_connection_closes() {
    let name = ("InitiatorName", INITIATOR);
    let target = ("TargetName", TARGET);
    let cases: Vec<(&str, Stage, Vec<u8>, LoginStatus)> = vec![
        (
            "no initiator name",
            OPERATIONAL,
            text(&[target]),
            LoginStatus::MISSING_PARAMETER,
        ),
        (
            "no target name",
            OPERATIONAL,
            text(&[name]),
            LoginStatus::MISSING_PARAMETER,
        ),
        (
            "no keys",
            OPERATIONAL,
            vec![],
            LoginStatus::MISSING_PARAMETER,
        ),
        (
            "another target",
            OPERATIONAL,
            text(&[name, ("TargetName", "iqn.2026-01.net.example:other")]),
            LoginStatus::NOT_FOUND,
        ),
        (
            "session type",
            OPERATIONAL,
            text(&[name, target, ("SessionType", "Odd")]),
            LoginStatus::SESSION_TYPE_NOT_SUPPORTED,
        ),
        (
            "CHAP only",
            SECURITY,
            [names(INITIATOR), text(&[("AuthMethod", "CHAP")])].concat(),
            LoginStatus::AUTHENTICATION_FAILURE,
        ),
        (
            "a key twice",
            OPERATIONAL,
            [
                names(INITIATOR),
                text(&[("MaxBurstLength", "512"), ("MaxBurstLength", "512")]),
            ]
            .concat(),
            LoginStatus::INITIATOR_ERROR,
        ),
        (
            "a target's key",
            OPERATIONAL,
            [names(INITIATOR), text(&[("TargetPortalGroupTag", "1")])].concat(),
            LoginStatus::INITIATOR_ERROR,
        ),
        (
            "no equals sign",
            OPERATIONAL,
            [names(INITIATOR), b"Key\0".to_vec()].concat(),
            LoginStatus::INITIATOR_ERROR,
        ),
        (
            "no NUL",
            OPERATIONAL,
            [names(INITIATOR), b"Key=value".to_vec()].concat(),
            LoginStatus::INITIATOR_ERROR,
        ),
        (
            "empty key",
            OPERATIONAL,
            [names(INITIATOR), b"=value\0".to_vec()].concat(),
            LoginStatus::INITIATOR_ERROR,
        ),
        (
            "not UTF-8",
            OPERATIONAL,
            [names(INITIATOR), b"A=\xff\0".to_vec()].concat(),
            LoginStatus::INITIATOR_ERROR,
        ),
        (
            "long key",
            OPERATIONAL,
            [names(INITIATOR), vec![b'K'; 64], b"=1\0".to_vec()].concat(),
            LoginStatus::INITIATOR_ERROR,
        ),
    ];
    for (case, stage, text, expected) in cases {
        let mut pair = Pair::new();
        let (status, _, closed) = try_login(&mut pair, stage, Some(FULL), &text);
        assert_eq!((status, closed), (expected, true), "{case}");
        assert_eq!(pair.counter("sessions", "logins_refused"), 1.0, "{case}");
        assert_eq!(pair.counter("sessions", "connections_now"), 0.0, "{case}");
    }
}

#[test]
fn invalid_versions_stages_and_handles_are_refused() {
    type Change = fn(&mut LoginRequest);
    let cases: &[(&str, Change, LoginStatus)] = &[
        (
            "version",
            |r| (r.version_min, r.version_max) = (1, 1),
            LoginStatus::UNSUPPORTED_VERSION,
        ),
        (
            "unknown TSIH",
            |r| r.tsih = 77,
            LoginStatus::SESSION_DOES_NOT_EXIST,
        ),
    ];
    for (case, change, expected) in cases {
        let mut pair = Pair::new();
        let mut initiator = begin(&mut pair);
        let names = names(INITIATOR);
        let mut request = LoginRequest {
            data_segment_length: names.len() as u32,
            ..initiator.login_request(OPERATIONAL, Some(FULL))
        };
        change(&mut request);
        let (response, _) = initiator.login_with(&mut pair, request, &names);
        assert_eq!(
            (response.status, pair.is_closed(initiator.connection)),
            (*expected, true),
            "{case}"
        );
    }
    // Stages: CSG and NSG in the low bits of byte 1.
    for flags in [
        0x80 | 0x0f,
        0x80 | 0x0c,
        0x80 | 0x04,
        0x80 | 0x05,
        0x80 | 0x02,
        0x08,
        0xc4 | 0x03,
    ] {
        let mut pair = Pair::new();
        let mut initiator = begin(&mut pair);
        let mut header = [0; 48];
        initiator.login_request(OPERATIONAL, None).emit(&mut header);
        header[1] = flags;
        initiator.send(&mut pair, &header, &[]);
        assert!(pair.is_closed(initiator.connection), "{flags:#x}");
        let answer = pair.received(initiator.connection);
        assert_eq!(answer[36..38], [2, 0], "{flags:#x}: initiator error");
    }
}

#[test]
fn a_second_connection_of_a_session_is_refused() {
    let mut pair = Pair::new();
    let first = pair.log_in(&[]);
    let mut second = begin(&mut pair);
    second.tsih = first.tsih;
    let (response, _) = second.login(&mut pair, OPERATIONAL, Some(FULL), &names(INITIATOR));
    assert_eq!(response.status, LoginStatus::TOO_MANY_CONNECTIONS);
    assert!(!pair.is_closed(first.connection));
}

#[test]
fn identity_may_not_change_in_the_middle_of_a_login() {
    type Change = fn(&mut LoginRequest);
    let changes: &[Change] = &[
        |r| r.isid.0[5] = 9,
        |r| r.itt = Itt(9),
        |r| r.cid = 9,
        |r| r.tsih = 9,
        |r| r.current_stage = SECURITY,
    ];
    for change in changes {
        let mut pair = Pair::new();
        let mut initiator = begin(&mut pair);
        initiator.login(&mut pair, OPERATIONAL, None, &names(INITIATOR));
        let mut request = initiator.login_request(OPERATIONAL, Some(FULL));
        change(&mut request);
        let (response, _) = initiator.login_with(&mut pair, request, &[]);
        assert_eq!(response.status, LoginStatus::INITIATOR_ERROR);
        assert!(pair.is_closed(initiator.connection));
    }
}

#[test]
fn keys_may_come_in_pieces_joined_by_the_c_bit() {
    let mut pair = Pair::new();
    let mut initiator = begin(&mut pair);
    let whole = [names(INITIATOR), text(&[("MaxBurstLength", "65536")])].concat();
    for (at, piece) in whole.chunks(20).enumerate() {
        let more = (at + 1) * 20 < whole.len();
        let request = LoginRequest {
            more,
            data_segment_length: piece.len() as u32,
            ..initiator.login_request(OPERATIONAL, (!more).then_some(FULL))
        };
        let (response, keys) = initiator.login_with(&mut pair, request, piece);
        assert_eq!(response.status, LoginStatus::SUCCESS);
        assert_eq!(response.next_stage.is_some(), !more);
        assert_eq!(value(&keys, "MaxBurstLength"), (!more).then_some("65536"));
    }
}

#[test]
fn an_endless_series_of_c_bits_ends_the_login() {
    let mut pair = Pair::new();
    let mut initiator = begin(&mut pair);
    for round in 1..=17 {
        let request = LoginRequest {
            more: true,
            data_segment_length: 4,
            ..initiator.login_request(OPERATIONAL, None)
        };
        let (response, _) = initiator.login_with(&mut pair, request, b"A=b\0");
        assert_eq!(
            response.status == LoginStatus::SUCCESS,
            round <= 16,
            "round {round}"
        );
    }
    assert!(pair.is_closed(initiator.connection));
}

#[test]
fn an_answer_to_many_unknown_keys_is_bounded() {
    let mut pair = Pair::new();
    let mut initiator = begin(&mut pair);
    // The target answers at most 16 unknown keys.
    let unknown: Vec<u8> = (0..16)
        .flat_map(|i| text(&[(&format!("X-{i:060}"), "1")]))
        .collect();
    let (response, keys) = initiator.login(
        &mut pair,
        OPERATIONAL,
        Some(FULL),
        &[names(INITIATOR), unknown].concat(),
    );
    assert_eq!(
        (response.status, response.more),
        (LoginStatus::SUCCESS, false)
    );
    assert_eq!(
        keys.iter().filter(|(_, v)| v == "NotUnderstood").count(),
        16
    );
    let many: Vec<u8> = (0..17)
        .flat_map(|i| text(&[(&format!("X-{i:060}"), "1")]))
        .collect();
    let (status, keys, _) = try_login(
        &mut pair,
        OPERATIONAL,
        Some(FULL),
        &[names(INITIATOR), many].concat(),
    );
    assert_eq!(
        (status, keys.len()),
        (LoginStatus::INITIATOR_ERROR, 0),
        "more unknown keys must not make the reply longer"
    );
}

#[test]
fn a_first_pdu_that_is_not_a_login_request_closes_the_connection_without_an_answer() {
    for opcode in (0..64u8).filter(|opcode| *opcode != Opcode::LoginRequest.code()) {
        let mut pair = Pair::new();
        let other = pair.log_in_as("iqn.2026-01.net.example:other", 2, &[]);
        let connection = pair.connect();
        let mut header = [0; 48];
        header[0] = opcode;
        pair.send(connection, &header);
        assert!(pair.is_closed(connection), "{opcode:#x}");
        assert_eq!(pair.received(connection), b"", "{opcode:#x}");
        assert!(!pair.is_closed(other.connection));
    }
    for greeting in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"[..], b"GET / HTTP/1.1\r\nHost: array.example.net\r\nAccept: */*\r\n\r\n"] {
        let mut pair = Pair::new();
        let connection = pair.connect();
        pair.send(connection, greeting);
        assert!(pair.is_closed(connection));
        assert_eq!(pair.received(connection), b"");
    }
}

#[test]
fn a_login_pdu_longer_than_8192_bytes_closes_the_connection() {
    for length in [8193u32, 0xff_ffff] {
        let mut pair = Pair::new();
        let initiator = begin(&mut pair);
        let mut header = [0; 48];
        LoginRequest {
            data_segment_length: length,
            ..initiator.login_request(OPERATIONAL, Some(FULL))
        }
        .emit(&mut header);
        pair.send(initiator.connection, &header);
        assert!(pair.is_closed(initiator.connection));
    }
}

#[test]
fn a_connection_cut_anywhere_in_its_login_leaves_nothing_behind() {
    let mut pair = Pair::new();
    let names = names(INITIATOR);
    let probe = Initiator::new(pair.connect(), 1);
    let mut header = [0; 48];
    LoginRequest {
        data_segment_length: names.len() as u32,
        ..probe.login_request(OPERATIONAL, Some(FULL))
    }
    .emit(&mut header);
    let whole = probe.pdu(&header, &names);
    pair.target.handle_closed(pair.time, probe.connection);
    for cut in 0..whole.len() {
        let connection = pair.connect();
        pair.send(connection, &whole[..cut]);
        pair.target.handle_closed(pair.time, connection);
        assert_eq!(pair.counter("sessions", "connections_now"), 0.0);
    }
}

#[test]
fn a_login_that_takes_longer_than_15_seconds_is_cut() {
    let mut pair = Pair::new();
    let slow = pair.connect();
    for _ in 0..4 {
        pair.send(slow, &[0x43]);
        pair.advance(3.6);
    }
    assert!(!pair.is_closed(slow), "14.4 s");
    let quick = pair.log_in(&[]);
    pair.advance(0.8);
    assert!(
        pair.is_closed(slow) && !pair.is_closed(quick.connection),
        "15.2 s"
    );
}

#[test]
fn one_address_cannot_occupy_all_logins() {
    let mut pair = Pair::with(hakaru_iscsi_target::TargetConfig {
        limits: Limits {
            logins_max: 4,
            logins_per_address_max: 3,
            ..Limits::default()
        },
        ..config()
    });
    let own: Vec<_> = (0..3).map(|_| pair.connect()).collect();
    assert!(pair.try_connect().is_none());
    let other = "10.0.0.10:1".parse().unwrap();
    let local = "10.0.0.1:3260".parse().unwrap();
    assert!(
        pair.target
            .handle_connected(pair.time, 0, local, other)
            .is_some()
    );
    pair.target.handle_closed(pair.time, own[0]);
    assert!(pair.try_connect().is_some());
}
