//! Tests of scripted logins and discoveries, with and without CHAP.
mod peer;

use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_iscsi_session::Chap;
use hakaru_iscsi_session::{DiscoveredTarget, Event, Purpose, SessionConfig, SessionError};
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Credentials};
use hakaru_wire::iscsi::{
    Itt, LoginRequest, LoginResponse, LoginStatus, Lun, Opcode, Stage, TextRequest, TextResponse,
    Ttt,
};
use peer::{Peer, TIMEOUT, config};

fn lost(peer: &mut Peer) -> SessionError {
    match peer.session.poll_event() {
        Some(Event::Lost(error)) => error,
        other => panic!("the session is lost, not {other:?}"),
    }
}

#[test]
fn login_goes_through_both_stages_and_names_initiator_and_target() {
    let mut peer = Peer::connected(config(LoginKeys::default()));
    let first = peer.take();
    let request = LoginRequest::parse(&first.bhs).unwrap();
    assert_eq!(
        (request.current_stage, request.next_stage),
        (
            Stage::SecurityNegotiation,
            Some(Stage::OperationalNegotiation)
        )
    );
    for pair in [
        ("InitiatorName", "iqn.2026-01.lab:vm1"),
        ("TargetName", "iqn.2026-01.lab:t"),
        ("SessionType", "Normal"),
        ("AuthMethod", "None"),
    ] {
        assert!(
            first.pairs().contains(&(pair.0.into(), pair.1.into())),
            "{pair:?} in {:?}",
            first.pairs()
        );
    }
    peer.answer_login(
        Stage::SecurityNegotiation,
        Some(Stage::OperationalNegotiation),
        &[("AuthMethod", "None")],
    );
    let second = peer.take();
    let request = LoginRequest::parse(&second.bhs).unwrap();
    assert_eq!(
        (request.current_stage, request.next_stage),
        (Stage::OperationalNegotiation, Some(Stage::FullFeaturePhase))
    );
    assert!(
        second
            .pairs()
            .contains(&("MaxBurstLength".into(), "16776192".into()))
    );
    peer.answer_login(
        Stage::OperationalNegotiation,
        Some(Stage::FullFeaturePhase),
        &[("MaxBurstLength", "65536")],
    );
    assert_eq!(peer.session.poll_event(), Some(Event::LoggedIn));
    assert_eq!(peer.session.agreed().max_burst_length, 65_536);
    assert!(peer.poll().is_none());
}

#[test]
fn text_of_a_login_may_come_in_pieces() {
    let mut peer = Peer::connected(config(LoginKeys::default()));
    peer.take();
    let numbers = peer.next_numbers();
    let piece = b"AuthMeth";
    let response = LoginResponse {
        more: true,
        tsih: 1,
        itt: Itt(0xff00),
        numbers,
        data_segment_length: piece.len() as u32,
        ..LoginResponse::default()
    };
    peer.send(|out| response.emit(out), piece);
    let ask = peer.take();
    assert!(ask.data.is_empty());
    assert_eq!(
        LoginRequest::parse(&ask.bhs).unwrap().next_stage,
        None,
        "an empty request without T asks for the rest"
    );
    let numbers = peer.next_numbers();
    let rest = b"od=None\0";
    let response = LoginResponse {
        next_stage: Some(Stage::OperationalNegotiation),
        numbers,
        more: false,
        data_segment_length: rest.len() as u32,
        ..response
    };
    peer.send(|out| response.emit(out), rest);
    let request = LoginRequest::parse(&peer.take().bhs).unwrap();
    assert_eq!(request.current_stage, Stage::OperationalNegotiation);
}

#[test]
fn refused_login_reports_the_reason_in_the_words_of_the_rfc() {
    for (status, text) in [
        (
            LoginStatus::AUTHENTICATION_FAILURE,
            "login refused: authentication failure (0201h)",
        ),
        (
            LoginStatus::NOT_FOUND,
            "login refused: target not found (0203h)",
        ),
        (
            LoginStatus::SERVICE_UNAVAILABLE,
            "login refused: service unavailable (0301h)",
        ),
        (
            LoginStatus(0x02ff),
            "login refused: initiator error (02ffh)",
        ),
        (
            LoginStatus(0x0900),
            "login refused: unknown status class (0900h)",
        ),
    ] {
        let mut peer = Peer::connected(config(LoginKeys::default()));
        peer.take();
        let response = LoginResponse {
            status,
            itt: Itt(0xff00),
            ..LoginResponse::default()
        };
        peer.send(|out| response.emit(out), &[]);
        assert_eq!(lost(&mut peer).to_string(), text);
        assert!(peer.session.is_ended());
    }
}

#[test]
fn redirect_reports_the_address_without_its_portal_group() {
    let mut peer = Peer::connected(config(LoginKeys::default()));
    peer.take();
    let text = b"TargetAddress=192.0.2.7:3261,1\0";
    let status = LoginStatus::TARGET_MOVED_TEMPORARILY;
    let length = text.len() as u32;
    let response = LoginResponse {
        status,
        itt: Itt(0xff00),
        data_segment_length: length,
        ..LoginResponse::default()
    };
    peer.send(|out| response.emit(out), text);
    assert_eq!(
        peer.session.poll_event(),
        Some(Event::Redirected {
            address: "192.0.2.7:3261".into()
        })
    );
}

#[test]
fn redirect_without_an_address_is_an_error() {
    for text in [&b""[..], b"TargetAddress=\0", b"TargetAddress=,1\0"] {
        let mut peer = Peer::connected(config(LoginKeys::default()));
        peer.take();
        let response = LoginResponse {
            status: LoginStatus::TARGET_MOVED_PERMANENTLY,
            itt: Itt(0xff00),
            data_segment_length: text.len() as u32,
            ..LoginResponse::default()
        };
        peer.send(|out| response.emit(out), text);
        assert_eq!(lost(&mut peer), SessionError::RedirectWithoutAddress);
    }
}

#[test]
fn endless_login_is_abandoned() {
    let mut peer = Peer::connected(config(LoginKeys::default()));
    for _ in 0..100 {
        if peer.poll().is_none() {
            break;
        }
        peer.answer_login(Stage::SecurityNegotiation, None, &[]);
    }
    assert_eq!(
        lost(&mut peer),
        SessionError::Protocol("login exceeds 32 Login Responses")
    );
}

#[test]
fn login_that_is_not_answered_times_out() {
    let mut peer = Peer::connected(config(LoginKeys::default()));
    assert_eq!(peer.session.poll_timeout(), Some(peer.time + TIMEOUT));
    peer.pass(TIMEOUT - Duration::from_nanos(1));
    assert!(peer.session.poll_event().is_none());
    peer.pass(Duration::from_nanos(1));
    assert_eq!(
        lost(&mut peer),
        SessionError::Timeout {
            exchange: "the login",
            after: TIMEOUT
        }
    );
}

#[test]
fn discovery_collects_targets_over_several_responses_and_logs_out() {
    let discovery = SessionConfig {
        purpose: Purpose::Discovery,
        ..config(LoginKeys::default())
    };
    let mut peer = Peer::connected(discovery);
    assert!(
        peer.take()
            .pairs()
            .contains(&("SessionType".into(), "Discovery".into()))
    );
    peer.answer_login(
        Stage::SecurityNegotiation,
        Some(Stage::OperationalNegotiation),
        &[("AuthMethod", "None")],
    );
    let offers = peer.take().pairs();
    assert!(
        !offers.iter().any(|(key, _)| key == "MaxBurstLength"),
        "irrelevant in a discovery session: {offers:?}"
    );
    peer.answer_login(
        Stage::OperationalNegotiation,
        Some(Stage::FullFeaturePhase),
        &[],
    );
    let ask = peer.take();
    assert_eq!(ask.pairs(), [("SendTargets".into(), "All".into())]);
    let itt = TextRequest::parse(&ask.bhs).unwrap().itt;
    let pieces: [&[u8]; 2] = [
        b"TargetName=iqn.a\0TargetAddr",
        b"ess=192.0.2.1:3260,1\0TargetName=iqn.b\0",
    ];
    for (i, piece) in pieces.into_iter().enumerate() {
        let (numbers, last) = (peer.next_numbers(), i == 1);
        let response = TextResponse {
            is_final: last,
            more: !last,
            itt,
            ttt: if last { Ttt::RESERVED } else { Ttt(9) },
            numbers,
            data_segment_length: piece.len() as u32,
            lun: Lun(0),
        };
        peer.send(|out| response.emit(out), piece);
        if !last {
            let ask = peer.take();
            assert!(ask.data.is_empty());
            assert_eq!(TextRequest::parse(&ask.bhs).unwrap().ttt, Ttt(9));
        }
    }
    assert_eq!(peer.session.poll_event(), Some(Event::LoggedIn));
    let targets = vec![
        DiscoveredTarget {
            name: "iqn.a".into(),
            addresses: vec!["192.0.2.1:3260,1".into()],
        },
        DiscoveredTarget {
            name: "iqn.b".into(),
            addresses: vec![],
        },
    ];
    assert_eq!(peer.session.poll_event(), Some(Event::Targets(targets)));
    assert!(Peer::is_opcode(&peer.take(), Opcode::LogoutRequest));
}

const SECURITY: Stage = Stage::SecurityNegotiation;
const OPERATIONAL: Stage = Stage::OperationalNegotiation;
const USER: (&str, &str) = ("vm", "the secret of vm");
const OWN: (&str, &str) = ("array", "the target's own");

fn credentials((name, secret): (&str, &str)) -> Credentials {
    Credentials::new(name, secret).unwrap()
}

/// Returns a session that has offered CHAP.
fn offers_chap(mutual: bool) -> Peer {
    let target = mutual.then(|| credentials(OWN));
    let chap = Chap::new(
        credentials(USER),
        target,
        Algorithm::DEFAULT.to_vec(),
        |out| out.fill(0x5a),
    )
    .unwrap();
    let mut peer = Peer::connected(SessionConfig {
        chap: Some(chap),
        ..config(LoginKeys::default())
    });
    let first = peer.take();
    assert_eq!(LoginRequest::parse(&first.bhs).unwrap().next_stage, None);
    assert!(
        first
            .pairs()
            .contains(&("AuthMethod".into(), "CHAP".into()))
    );
    peer
}

fn challenged_keys(peer: &mut Peer) -> Vec<(String, String)> {
    peer.answer_login(SECURITY, None, &[("AuthMethod", "CHAP")]);
    assert_eq!(peer.take().pairs(), [("CHAP_A".into(), "8,7".into())]);
    peer.answer_login(
        SECURITY,
        None,
        &[("CHAP_A", "7"), ("CHAP_I", "3"), ("CHAP_C", "0x0102030405")],
    );
    peer.take().pairs()
}

#[test]
fn chap_answers_the_challenge_and_sends_its_own_if_mutual() {
    for mutual in [false, true] {
        let mut peer = offers_chap(mutual);
        let keys = challenged_keys(&mut peer);
        let value = |key: &str| keys.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let challenge = Challenge::parse(Algorithm::Sha256, "3", "0x0102030405").unwrap();
        assert_eq!(value("CHAP_N"), Some("vm"));
        assert_eq!(
            challenge.check(Some(credentials(USER).secret()), value("CHAP_R").unwrap()),
            Ok(())
        );
        assert_eq!(value("CHAP_C").is_some(), mutual);
        let mut proof = Vec::new();
        let response;
        if mutual {
            let challenge = Challenge::parse(
                Algorithm::Sha256,
                value("CHAP_I").unwrap(),
                value("CHAP_C").unwrap(),
            );
            response = challenge.unwrap().answer(credentials(OWN).secret());
            proof = vec![("CHAP_N", "array"), ("CHAP_R", response.as_str())];
        }
        peer.answer_login(SECURITY, Some(OPERATIONAL), &proof);
        peer.take();
        peer.answer_login(OPERATIONAL, Some(Stage::FullFeaturePhase), &[]);
        assert_eq!(peer.session.poll_event(), Some(Event::LoggedIn));
    }
}

#[test]
fn a_target_without_a_challenge_or_proof_is_refused() {
    // Answers before the challenge.
    type Answer = (Option<Stage>, &'static [(&'static str, &'static str)]);
    let early: [Answer; 5] = [
        (None, &[("AuthMethod", "None")]),
        (None, &[("AuthMethod", "Reject")]),
        (None, &[]),
        (Some(OPERATIONAL), &[("AuthMethod", "None")]),
        (Some(OPERATIONAL), &[("AuthMethod", "CHAP")]),
    ];
    for (next, keys) in early {
        let mut peer = offers_chap(false);
        peer.answer_login(SECURITY, next, keys);
        lost(&mut peer);
    }
    // Invalid challenges.
    let long = format!("0x{}", "00".repeat(1025));
    let challenges: [&[(&str, &str)]; 9] = [
        &[],
        &[("CHAP_A", "7")],
        &[("CHAP_A", "5"), ("CHAP_I", "1"), ("CHAP_C", "0x00")],
        &[("CHAP_A", "8,7"), ("CHAP_I", "1"), ("CHAP_C", "0x00")],
        &[("CHAP_A", "7"), ("CHAP_I", "256"), ("CHAP_C", "0x00")],
        &[("CHAP_A", "7"), ("CHAP_I", "1"), ("CHAP_C", "0x")],
        &[("CHAP_A", "7"), ("CHAP_I", "1"), ("CHAP_C", &long)],
        &[
            ("CHAP_A", "7"),
            ("CHAP_I", "1"),
            ("CHAP_C", "0x00"),
            ("CHAP_N", "x"),
        ],
        &[("CHAP_N", "array"), ("CHAP_R", "0x00"), ("CHAP_I", "1")],
    ];
    for keys in challenges {
        let mut peer = offers_chap(false);
        peer.answer_login(SECURITY, None, &[("AuthMethod", "CHAP")]);
        peer.take();
        peer.answer_login(SECURITY, None, keys);
        lost(&mut peer);
    }
    // Invalid proofs: none, a wrong response, the bytes of our challenge, a missing key.
    let zeros = format!("0x{}", "00".repeat(32));
    let echo = format!("0x{}", "5a".repeat(32));
    let proofs: [&[(&str, &str)]; 5] = [
        &[],
        &[("CHAP_N", "array"), ("CHAP_R", &zeros)],
        &[("CHAP_N", "array"), ("CHAP_R", &echo)],
        &[("CHAP_N", "array")],
        &[("CHAP_R", &zeros)],
    ];
    for keys in proofs {
        for next in [None, Some(OPERATIONAL)] {
            let mut peer = offers_chap(true);
            challenged_keys(&mut peer);
            peer.answer_login(SECURITY, next, keys);
            let error = lost(&mut peer).to_string();
            assert!(error.contains("prove") || error.contains("keys"), "{error}");
        }
    }
}

#[test]
fn the_right_proof_with_another_name_is_refused() {
    let mut peer = offers_chap(true);
    let keys = challenged_keys(&mut peer);
    let value = |key: &str| {
        keys.iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.as_str())
            .unwrap()
    };
    let challenge = Challenge::parse(Algorithm::Sha256, value("CHAP_I"), value("CHAP_C")).unwrap();
    let response = challenge.answer(credentials(OWN).secret());
    peer.answer_login(
        SECURITY,
        Some(OPERATIONAL),
        &[("CHAP_N", "other"), ("CHAP_R", &response)],
    );
    assert!(lost(&mut peer).to_string().contains("prove"));
}

#[test]
fn one_secret_for_both_directions_is_refused() {
    let chap = Chap::new(
        credentials(("vm", OWN.1)),
        Some(credentials(OWN)),
        Algorithm::DEFAULT.to_vec(),
        |out| out.fill(1),
    );
    assert!(chap.is_err());
}
