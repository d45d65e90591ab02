//! Login phase, discovery, reinstatement and limits on who may connect.

mod pair;

use hakaru_target::Limits;
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{
    CmdSn, Itt, LoginRequest, LoginStatus, LogoutReason, LogoutRequest, LogoutResponse,
    LogoutResult, NopIn, Opcode, Stage, TextRequest, TextResponse, Ttt,
};
use hakaru_wire::scsi::Cdb;
use pair::{
    INITIATOR, Initiator, Keys, LU_BYTES, Pair, TARGET, config, keys_of, names, pattern, value,
};

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

/// One exchange from a fresh connection.
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
fn login_straight_from_security_to_full_feature_phase_is_taken() {
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
fn refused_logins_say_why_and_the_connection_closes() {
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
            "nothing at all",
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
    for (what, stage, text, expected) in cases {
        let mut pair = Pair::new();
        let (status, _, closed) = try_login(&mut pair, stage, Some(FULL), &text);
        assert_eq!((status, closed), (expected, true), "{what}");
        assert_eq!(pair.counter("sessions", "logins_refused"), 1.0, "{what}");
        assert_eq!(pair.counter("sessions", "connections_now"), 0.0, "{what}");
    }
}

#[test]
fn versions_stages_and_handles_that_cannot_be_are_refused() {
    type Change = fn(&mut LoginRequest);
    let cases: &[(&str, Change, LoginStatus)] = &[
        (
            "version",
            |r| (r.version_min, r.version_max) = (1, 1),
            LoginStatus::UNSUPPORTED_VERSION,
        ),
        (
            "TSIH of nobody",
            |r| r.tsih = 77,
            LoginStatus::SESSION_DOES_NOT_EXIST,
        ),
    ];
    for (what, change, expected) in cases {
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
            "{what}"
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
fn a_second_connection_of_a_session_is_one_too_many() {
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
fn a_c_bit_that_never_ends_does() {
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
fn an_answer_longer_than_a_login_pdu_goes_in_pieces() {
    let mut pair = Pair::new();
    let mut initiator = begin(&mut pair);
    // 16 keys that nobody knows are the most that are answered.
    let odd: Vec<u8> = (0..16)
        .flat_map(|i| text(&[(&format!("X-{i:060}"), "1")]))
        .collect();
    let (response, keys) = initiator.login(
        &mut pair,
        OPERATIONAL,
        Some(FULL),
        &[names(INITIATOR), odd].concat(),
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
        "the reply cannot be made to grow"
    );
}

#[test]
fn what_is_no_login_as_first_pdu_is_closed_without_a_word() {
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
fn a_login_pdu_longer_than_8192_bytes_is_cut_off_before_anything_is_held() {
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
fn a_connection_cut_anywhere_in_its_login_leaves_nothing() {
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
fn one_address_cannot_take_all_logins() {
    let mut pair = Pair::with(hakaru_target::TargetConfig {
        limits: Limits {
            logins_max: 4,
            logins_per_address_max: 3,
            ..Limits::default()
        },
        ..config()
    });
    let mine: Vec<_> = (0..3).map(|_| pair.connect()).collect();
    assert!(pair.try_connect().is_none());
    let other = "10.0.0.10:1".parse().unwrap();
    let local = "10.0.0.1:3260".parse().unwrap();
    assert!(
        pair.target
            .handle_connected(pair.time, 0, local, other)
            .is_some()
    );
    pair.target.handle_closed(pair.time, mine[0]);
    assert!(pair.try_connect().is_some());
}

#[test]
fn sessions_are_limited() {
    let mut pair = Pair::with(hakaru_target::TargetConfig {
        limits: Limits {
            sessions_max: 1,
            ..Limits::default()
        },
        ..config()
    });
    let first = pair.log_in(&[]);
    let mut second = begin(&mut pair);
    let (response, _) = second.login(
        &mut pair,
        OPERATIONAL,
        Some(FULL),
        &names("iqn.2026-01.net.example:two"),
    );
    assert_eq!(response.status, LoginStatus::OUT_OF_RESOURCES);
    assert!(!pair.is_closed(first.connection));
}

#[test]
fn the_same_initiator_port_takes_the_place_of_its_older_session() {
    let mut pair = Pair::new();
    let old = pair.log_in(&[]);
    let mut other = pair.log_in_as("iqn.2026-01.net.example:other", 1, &[]);
    let mut new = pair.log_in(&[]);
    assert!(pair.is_closed(old.connection));
    assert_ne!(new.tsih, old.tsih);
    assert_eq!(pair.counter("sessions", "sessions_now"), 2.0);
    assert_eq!(pair.counter("sessions", "reinstatements"), 1.0);
    new.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
    other.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
}

#[test]
fn a_new_session_begins_only_after_the_writes_of_the_old_one_have_ended() {
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    pair.stalled = true;
    for _ in 0..128 {
        let command = old.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
        old.send_command(&mut pair, &command, &pattern(512, 1));
    }
    let mut new = begin(&mut pair);
    let names = names(INITIATOR);
    let request = LoginRequest {
        data_segment_length: names.len() as u32,
        ..new.login_request(OPERATIONAL, Some(FULL))
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    new.send(&mut pair, &header, &names);
    assert!(pair.is_closed(old.connection));
    assert!(
        new.receive(&mut pair).is_empty(),
        "no answer while 128 writes are with the storage"
    );
    for left in (0..128).rev() {
        pair.release_one();
        assert_eq!(
            pair.received_nothing(new.connection),
            left > 0,
            "{left} left"
        );
    }
    pair.stalled = false;
    let answer = new.receive_one(&mut pair);
    assert_eq!(
        (answer.opcode(), answer.bhs.as_bytes()[36]),
        (Opcode::LoginResponse, 0)
    );
    assert!(
        new.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
            .good()
            .is_empty()
    );
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

#[test]
fn a_login_behind_a_stalled_storage_is_refused_in_time() {
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    pair.stalled = true;
    let command = old.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    old.send_command(&mut pair, &command, &pattern(512, 1));
    let mut new = begin(&mut pair);
    let names = names(INITIATOR);
    let request = LoginRequest {
        data_segment_length: names.len() as u32,
        ..new.login_request(OPERATIONAL, Some(FULL))
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    new.send(&mut pair, &header, &names);
    pair.advance(15.2);
    let answer = new.receive_one(&mut pair);
    assert_eq!(answer.bhs.as_bytes()[36..38], [3, 1], "service unavailable");
    assert!(pair.is_closed(new.connection));
    pair.release();
    pair.log_in(&[]);
}

fn discover(pair: &mut Pair, send_targets: &str, keys: &[(&str, &str)]) -> (TextResponse, Keys) {
    let mut initiator = begin(pair);
    let hello = [
        &[("InitiatorName", INITIATOR), ("SessionType", "Discovery")],
        keys,
    ]
    .concat();
    let (response, _) = initiator.login(pair, OPERATIONAL, Some(FULL), &text(&hello));
    assert_eq!(response.status, LoginStatus::SUCCESS);
    let question = text(&[("SendTargets", send_targets)]);
    let mut request = TextRequest {
        is_final: true,
        itt: Itt(7),
        ttt: Ttt::RESERVED,
        cmd_sn: CmdSn(initiator.cmd_sn),
        data_segment_length: question.len() as u32,
        ..TextRequest::default()
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &question);
    let mut all = Vec::new();
    loop {
        let pdu = initiator.receive_one(pair);
        let response = TextResponse::parse(&pdu.bhs).unwrap();
        all.extend_from_slice(&pdu.data);
        if response.is_final {
            return (response, keys_of(&all));
        }
        request = TextRequest {
            ttt: response.ttt,
            cmd_sn: request.cmd_sn.plus(1),
            data_segment_length: 0,
            ..request
        };
        request.emit(&mut header);
        initiator.send(pair, &header, &[]);
    }
}

#[test]
fn discovery_tells_the_target_and_its_addresses() {
    let expected = [
        ("TargetName", TARGET),
        ("TargetAddress", "10.0.0.1:3260,1"),
        ("TargetAddress", "10.0.0.1:3261,2"),
    ];
    let expected: Keys = expected
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    let mut pair = Pair::new();
    assert_eq!(discover(&mut pair, "All", &[]).1, expected);
    assert_eq!(discover(&mut pair, TARGET, &[]).1, expected);
    assert_eq!(
        discover(&mut pair, "iqn.2026-01.net.example:none", &[]).1,
        vec![]
    );
    assert_eq!(
        discover(&mut pair, "", &[]).1,
        vec![("SendTargets".to_owned(), "Reject".to_owned())]
    );
}

#[test]
fn a_list_of_targets_that_fits_no_pdu_comes_in_pieces() {
    let mut config = config();
    config.portals = (0..40)
        .map(|i| format!("[2001:db8::{i:x}]:3260").parse().unwrap())
        .collect();
    let mut pair = Pair::with(config);
    let (_, keys) = discover(&mut pair, "All", &[("MaxRecvDataSegmentLength", "512")]);
    assert_eq!(keys.len(), 41);
    assert_eq!(keys[40].1, "[2001:db8::27]:3260,40");
}

#[test]
fn a_discovery_session_takes_no_commands() {
    let mut pair = Pair::new();
    let mut initiator = begin(&mut pair);
    initiator.login(
        &mut pair,
        OPERATIONAL,
        Some(FULL),
        &text(&[("InitiatorName", INITIATOR), ("SessionType", "Discovery")]),
    );
    let command = initiator.command(0, &[0], false, false, 0);
    initiator.send_command(&mut pair, &command, &[]);
    assert_eq!(initiator.receive_one(&mut pair).opcode(), Opcode::Reject);
}

#[test]
fn a_normal_session_may_ask_for_its_own_target() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    let ask = |initiator: &mut Initiator, pair: &mut Pair, what: &str| {
        let question = text(&[("SendTargets", what)]);
        let request = TextRequest {
            immediate: true,
            is_final: true,
            itt: Itt(7),
            ttt: Ttt::RESERVED,
            cmd_sn: CmdSn(initiator.cmd_sn),
            data_segment_length: question.len() as u32,
            ..TextRequest::default()
        };
        let mut header = [0; 48];
        request.emit(&mut header);
        initiator.send(pair, &header, &question);
        keys_of(&initiator.receive_one(pair).data)
    };
    assert_eq!(
        value(&ask(&mut initiator, &mut pair, ""), "TargetName"),
        Some(TARGET)
    );
    assert_eq!(
        value(&ask(&mut initiator, &mut pair, "All"), "SendTargets"),
        Some("Reject")
    );
}

#[test]
fn a_changed_data_segment_length_holds_from_then_on() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[("MaxRecvDataSegmentLength", "65536")]);
    let read = Cdb::Read(hakaru_wire::scsi::Transfer {
        lba: 0,
        blocks: 16,
        ..Default::default()
    });
    assert_eq!(initiator.run_cdb(&mut pair, 0, read, 8192).data_in_pdus, 1);
    let change = text(&[("MaxRecvDataSegmentLength", "1024")]);
    let request = TextRequest {
        is_final: true,
        itt: Itt(7),
        ttt: Ttt::RESERVED,
        cmd_sn: CmdSn(initiator.cmd_sn),
        data_segment_length: change.len() as u32,
        ..TextRequest::default()
    };
    initiator.cmd_sn += 1;
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(&mut pair, &header, &change);
    assert_eq!(
        initiator.receive_one(&mut pair).opcode(),
        Opcode::TextResponse
    );
    assert_eq!(initiator.run_cdb(&mut pair, 0, read, 8192).data_in_pdus, 8);
}

fn log_out(
    initiator: &mut Initiator,
    pair: &mut Pair,
    reason: LogoutReason,
    cid: u16,
) -> LogoutResult {
    let request = LogoutRequest {
        immediate: false,
        reason,
        itt: Itt(9),
        cid,
        cmd_sn: CmdSn(initiator.cmd_sn),
        exp_stat_sn: initiator.exp_stat_sn,
    };
    initiator.cmd_sn += 1;
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &[]);
    let pdu = initiator.receive_one(pair);
    LogoutResponse::parse(&pdu.bhs).unwrap().result
}

#[test]
fn logout_ends_the_session_and_what_it_has_in_flight() {
    for (reason, cid) in [
        (LogoutReason::CloseSession, 0),
        (LogoutReason::CloseConnection, 1),
    ] {
        let mut pair = Pair::new();
        let mut initiator = pair.log_in(&[]);
        pair.stalled = true;
        for lba in 0..8 {
            let command = initiator.command(0, &[0x28, 0, 0, 0, 0, lba, 0, 0, 1], true, false, 512);
            initiator.send_command(&mut pair, &command, &[]);
        }
        assert_eq!(
            log_out(&mut initiator, &mut pair, reason, cid),
            LogoutResult::Success
        );
        assert!(pair.is_closed(initiator.connection));
        pair.release();
        assert_eq!(pair.counter("sessions", "logouts"), 1.0);
        assert_eq!(pair.counter("sessions", "sessions_now"), 0.0);
    }
}

#[test]
fn logout_of_another_connection_or_for_recovery_leaves_the_session() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    assert_eq!(
        log_out(&mut initiator, &mut pair, LogoutReason::CloseConnection, 5),
        LogoutResult::CidNotFound
    );
    assert_eq!(
        log_out(
            &mut initiator,
            &mut pair,
            LogoutReason::RemoveForRecovery,
            1
        ),
        LogoutResult::RecoveryNotSupported
    );
    assert_eq!(
        initiator
            .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
            .good(),
        b""
    );
}

#[test]
fn an_initiator_that_is_silent_is_asked_and_then_given_up() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    pair.advance(10.2);
    let ping = initiator.receive_one(&mut pair);
    let ping = NopIn::parse(&ping.bhs).unwrap();
    assert_eq!(ping.itt, Itt::RESERVED);
    assert_ne!(ping.ttt, Ttt::RESERVED, "an answer is wanted");
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
    pair.advance(9.0);
    assert!(
        !pair.is_closed(initiator.connection),
        "any byte is a sign of life"
    );
    pair.advance(6.2);
    assert!(
        pair.is_closed(initiator.connection),
        "10 s and 5 s of silence"
    );
    assert_eq!(pair.counter("sessions", "timeouts"), 1.0);
}

#[test]
fn an_initiator_that_reads_nothing_is_held_back_and_given_up_after_a_minute() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[("MaxRecvDataSegmentLength", "65536")]);
    pair.copy = true;
    pair.blocked.insert(initiator.connection);
    let mut nop = [0; 48];
    hakaru_wire::iscsi::NopOut {
        immediate: true,
        itt: Itt(5),
        ttt: Ttt::RESERVED,
        data_segment_length: 65_536,
        ..Default::default()
    }
    .emit(&mut nop);
    let mut sent = 0;
    while pair.target.wants_received(initiator.connection) {
        initiator.send(&mut pair, &nop, &[7; 65_536]);
        sent += 1;
        assert!(sent < 1000, "it is never held back");
    }
    for _ in 0..6 {
        pair.advance(9.5);
        initiator.send(&mut pair, &nop, &[7; 65_536]);
    }
    assert!(!pair.is_closed(initiator.connection));
    pair.advance(9.5);
    assert!(pair.is_closed(initiator.connection));
}

#[test]
fn shutting_down_asks_for_logout_waits_for_commands_and_ends() {
    let mut pair = Pair::new();
    let mut idle = pair.log_in_as("iqn.2026-01.net.example:idle", 2, &[]);
    let mut busy = pair.log_in(&[]);
    pair.stalled = true;
    let command = busy.command(0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1], true, false, 512);
    busy.send_command(&mut pair, &command, &[]);
    let waiting = pair.connect();
    pair.target.shut_down(pair.time);
    pair.run();
    assert!(pair.try_connect().is_none() && pair.is_closed(waiting));
    assert_eq!(idle.receive_one(&mut pair).opcode(), Opcode::AsyncMessage);
    pair.advance(0.3);
    assert!(pair.is_closed(idle.connection) && !pair.is_closed(busy.connection));
    pair.release();
    let opcodes: Vec<_> = busy
        .receive(&mut pair)
        .iter()
        .map(pair::Pdu::opcode)
        .collect();
    assert_eq!(opcodes, [Opcode::AsyncMessage, Opcode::DataIn]);
    pair.advance(0.3);
    assert!(pair.is_closed(busy.connection));
    assert_eq!(
        (pair.target.sessions_now(), pair.target.poll_timeout()),
        (0, None)
    );
}

#[test]
fn an_lu_of_another_session_is_not_disturbed_by_a_lost_connection() {
    let mut pair = Pair::new();
    let mut lost = pair.log_in(&[]);
    let mut kept = pair.log_in_as("iqn.2026-01.net.example:kept", 2, &[]);
    pair.stalled = true;
    let command = lost.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    lost.send_command(&mut pair, &command, &pattern(512, 3));
    pair.target.handle_closed(pair.time, lost.connection);
    pair.release();
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
    let read = Cdb::Read(hakaru_wire::scsi::Transfer {
        lba: 0,
        blocks: 1,
        ..Default::default()
    });
    assert_eq!(kept.run_cdb(&mut pair, 0, read, 512).good().len(), 512);
    assert_eq!(pair.lus[&0].len(), LU_BYTES);
}

/// A login's bytes, sent without waiting for the answer.
fn ask_to_log_in(pair: &mut Pair) -> Initiator {
    let mut initiator = begin(pair);
    let names = names(INITIATOR);
    let request = LoginRequest {
        data_segment_length: names.len() as u32,
        ..initiator.login_request(OPERATIONAL, Some(FULL))
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &names);
    initiator
}

#[test]
fn an_initiator_that_lost_its_connection_comes_back_after_its_old_writes_only() {
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    pair.stalled = true;
    let command = old.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    old.send_command(&mut pair, &command, &pattern(512, 1));
    pair.target.handle_closed(pair.time, old.connection);
    let mut new = ask_to_log_in(&mut pair);
    assert!(new.receive(&mut pair).is_empty());
    let mut other = pair.log_in_as("iqn.2026-01.net.example:other", 2, &[]);
    other.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
    pair.release();
    assert_eq!(new.receive_one(&mut pair).opcode(), Opcode::LoginResponse);
    let command = new.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    new.send_command(&mut pair, &command, &pattern(512, 2));
    assert_eq!(
        pair.lus[&0][..512],
        pattern(512, 2),
        "the old write came first"
    );
}

#[test]
fn of_logins_that_wait_for_the_same_session_the_last_wins() {
    let mut pair = Pair::new();
    let mut old = pair.log_in(&[]);
    pair.stalled = true;
    let command = old.command(0, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1], false, true, 512);
    old.send_command(&mut pair, &command, &pattern(512, 1));
    let first = ask_to_log_in(&mut pair);
    let mut last = ask_to_log_in(&mut pair);
    pair.release();
    assert!(pair.is_closed(first.connection) && !pair.is_closed(last.connection));
    assert_eq!(last.receive_one(&mut pair).opcode(), Opcode::LoginResponse);
    last.run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0).good();
    assert_eq!(pair.counter("sessions", "sessions_now"), 1.0);
}
