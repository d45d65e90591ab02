//! CHAP logins, and attempts to bypass authentication.
use super::scene::{
    DENIED, FULL, OPERATIONAL, SECRET, SECURITY, TARGET_SECRET, answer, begin_chap, chap,
    log_in_with_proof, pair_with, text, user,
};
use crate::pair::{INITIATOR, Initiator, names, value};
use hakaru_iscsi_target::Access;
use hakaru_wire::iscsi::chap::{Algorithm, Challenge};
use hakaru_wire::iscsi::{LoginStatus, Stage};

#[test]
fn an_initiator_that_knows_the_secret_logs_in() {
    let mut pair = pair_with(chap());
    let (status, keys) = log_in_with_proof(&mut pair, |challenge| answer(challenge, "vm", SECRET));
    assert_eq!(status, LoginStatus::SUCCESS);
    assert_eq!(
        value(&keys, "CHAP_R"),
        None,
        "the initiator requested no mutual CHAP"
    );
    assert_eq!(pair.target.sessions_now(), 1);
}

#[test]
fn an_initiator_with_a_wrong_name_or_secret_gets_only_the_status() {
    for (name, secret) in [
        ("vm", "the secret of vM"),
        ("vm", "the secret of vm "),
        ("Vm", SECRET),
        ("unknown", SECRET),
        ("array", TARGET_SECRET),
    ] {
        let mut pair = pair_with(chap());
        let (status, keys) =
            log_in_with_proof(&mut pair, |challenge| answer(challenge, name, secret));
        assert_eq!((status, keys), (DENIED, vec![]), "{name} {secret}");
        assert_eq!(pair.counter("sessions", "logins_denied"), 1.0);
        assert_eq!(pair.target.sessions_now(), 0);
    }
}

#[test]
fn no_login_bypasses_the_security_stage() {
    let chap_agreed = [names(INITIATOR), text(&[("AuthMethod", "CHAP")])].concat();
    let none = [names(INITIATOR), text(&[("AuthMethod", "None")])].concat();
    type Step = (Stage, Option<Stage>, Vec<u8>);
    let attempts: Vec<(&str, Vec<Step>)> = vec![
        (
            "straight to the operational stage",
            vec![(OPERATIONAL, Some(FULL), names(INITIATOR))],
        ),
        ("AuthMethod=None", vec![(SECURITY, Some(FULL), none)]),
        (
            "no AuthMethod at all",
            vec![(SECURITY, Some(FULL), names(INITIATOR))],
        ),
        (
            "no AuthMethod, then the next stage",
            vec![
                (SECURITY, None, names(INITIATOR)),
                (SECURITY, Some(OPERATIONAL), vec![]),
            ],
        ),
        (
            "CHAP agreed, then no keys",
            vec![
                (SECURITY, Some(FULL), chap_agreed.clone()),
                (SECURITY, Some(FULL), vec![]),
            ],
        ),
        (
            "the stage changed by the initiator",
            vec![
                (SECURITY, Some(OPERATIONAL), chap_agreed.clone()),
                (OPERATIONAL, Some(FULL), vec![]),
            ],
        ),
        (
            "a response without a challenge",
            vec![
                (SECURITY, Some(FULL), chap_agreed.clone()),
                (
                    SECURITY,
                    Some(FULL),
                    text(&[("CHAP_N", "vm"), ("CHAP_R", "0x00")]),
                ),
            ],
        ),
        (
            "CHAP_A sent twice",
            vec![
                (SECURITY, None, chap_agreed.clone()),
                (SECURITY, None, text(&[("CHAP_A", "7")])),
                (SECURITY, None, text(&[("CHAP_A", "7")])),
            ],
        ),
        (
            "AuthMethod changed to None",
            vec![
                (SECURITY, None, chap_agreed.clone()),
                (SECURITY, Some(FULL), text(&[("AuthMethod", "None")])),
            ],
        ),
    ];
    for (attempt, steps) in attempts {
        let mut pair = pair_with(chap());
        let connection = pair.connect();
        let mut initiator = Initiator::new(connection, 1);
        let last = steps.len() - 1;
        for (at, (stage, next, text)) in steps.into_iter().enumerate() {
            let (response, keys) = initiator.login(&mut pair, stage, next, &text);
            assert_eq!(
                response.status == LoginStatus::SUCCESS,
                at < last,
                "{attempt}: {keys:?}"
            );
            assert_eq!(response.next_stage, None, "{attempt}");
            assert_eq!(response.tsih, 0, "{attempt}");
        }
        assert!(pair.is_closed(connection), "{attempt}");
        assert_eq!(pair.target.sessions_now(), 0, "{attempt}");
    }
}

/// S-03.
#[test]
fn weak_algorithms_are_used_only_if_configured() {
    let strong = Algorithm::DEFAULT.to_vec();
    let all = Algorithm::ALL.to_vec();
    for (own, offered, expected) in [
        (&strong, "5,6,7,8", Some(Algorithm::Sha3_256)),
        (&strong, "5,7", Some(Algorithm::Sha256)),
        (&strong, "5", None),
        (&strong, "6,5", None),
        (&all, "5", Some(Algorithm::Md5)),
        (&all, "6,5", Some(Algorithm::Sha1)),
        (&all, "5,6,7,8", Some(Algorithm::Sha3_256)),
        (&all, "128", None),
        (&all, "", None),
    ] {
        let mut pair = pair_with(Access {
            algorithms: own.clone(),
            ..chap()
        });
        let (mut initiator, challenge) = begin_chap(&mut pair, offered);
        assert_eq!(
            challenge.as_ref().ok().map(Challenge::algorithm),
            expected,
            "{offered}"
        );
        let Ok(challenge) = challenge else { continue };
        let proof = answer(&challenge, "vm", SECRET);
        let (response, _) = initiator.login(&mut pair, SECURITY, Some(FULL), &proof);
        assert_eq!(response.status, LoginStatus::SUCCESS, "{offered}");
    }
}

/// S-04, as far as the target is concerned.
#[test]
fn every_login_gets_another_challenge() {
    let mut pair = pair_with(chap());
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let (initiator, challenge) = begin_chap(&mut pair, "7");
        assert!(seen.insert(challenge.unwrap().value()));
        pair.target.handle_closed(pair.time, initiator.connection);
    }
}

/// S-05.
#[test]
fn the_targets_own_challenge_is_not_answered() {
    let mut pair = pair_with(chap());
    let (status, keys) = log_in_with_proof(&mut pair, |challenge| {
        let mut proof = answer(challenge, "vm", SECRET);
        proof.extend(text(&[("CHAP_I", "1"), ("CHAP_C", &challenge.value())]));
        proof
    });
    assert_eq!((status, keys), (DENIED, vec![]));
    // An initiator that does not know the secret cannot use the target's challenge as an answer.
    let (status, keys) = log_in_with_proof(&mut pair, |challenge| {
        text(&[
            ("CHAP_N", "vm"),
            ("CHAP_R", &challenge.value()),
            ("CHAP_I", "1"),
            ("CHAP_C", &challenge.value()),
        ])
    });
    assert_eq!((status, keys), (DENIED, vec![]));
}

#[test]
fn a_target_proves_its_identity_to_an_authenticated_initiator_that_requests_it() {
    let mut pair = pair_with(chap());
    let own = |algorithm| Challenge::parse(algorithm, "200", "0xfeedc0ffee").unwrap();
    let (status, keys) = log_in_with_proof(&mut pair, |challenge| {
        let mut proof = text(&[("CHAP_I", "200"), ("CHAP_C", "0xfeedc0ffee")]);
        proof.extend(answer(challenge, "vm", SECRET));
        proof
    });
    assert_eq!(status, LoginStatus::SUCCESS);
    assert_eq!(value(&keys, "CHAP_N"), Some("array"));
    let response = value(&keys, "CHAP_R").expect("its proof");
    let right = user("array", TARGET_SECRET);
    assert_eq!(
        own(Algorithm::Sha3_256).check(Some(right.secret()), response),
        Ok(())
    );

    let mut silent = pair_with(Access {
        target: None,
        ..chap()
    });
    let (status, _) = log_in_with_proof(&mut silent, |challenge| {
        let mut proof = answer(challenge, "vm", SECRET);
        proof.extend(text(&[("CHAP_I", "200"), ("CHAP_C", "0xfeedc0ffee")]));
        proof
    });
    assert_eq!(
        status, DENIED,
        "an initiator that requires proof of the target refuses to log in without it"
    );
}

/// S-06 and S-07: a login ends at an invalid value. Tests in `wire` define which values are valid.
#[test]
fn invalid_keys_end_the_login() {
    let zeros = |bytes: usize| format!("0x{}", "00".repeat(bytes));
    let base64 = |characters: usize| format!("0b{}", "A".repeat(characters));
    let responses = [
        "".into(),
        "0x".into(),
        "0b".into(),
        "0".into(),
        "1".into(),
        "0x0".into(),
        zeros(31),
        zeros(33),
        zeros(49),
        zeros(1024),
        base64(127),
        base64(44),
        base64(1366),
        "0x0g".into(),
        "Reject".into(),
        "NotUnderstood".into(),
    ];
    let mut pair = pair_with(chap());
    for response in &responses {
        let (status, keys) = log_in_with_proof(&mut pair, |_| {
            text(&[("CHAP_N", "vm"), ("CHAP_R", response)])
        });
        assert_eq!((status, keys), (DENIED, vec![]), "{response}");
    }
    for (identifier, sent_value, expected) in [
        ("256", zeros(16), DENIED),
        ("-1", zeros(16), DENIED),
        ("", zeros(16), DENIED),
        ("70000", zeros(16), DENIED),
        ("1", "".into(), DENIED),
        ("1", "0x".into(), DENIED),
        ("1", base64(1368), DENIED),
        ("1", zeros(1025), LoginStatus::INITIATOR_ERROR),
        ("1", zeros(4000), LoginStatus::INITIATOR_ERROR),
        ("255", zeros(1024), LoginStatus::SUCCESS),
        ("0", base64(1366), LoginStatus::SUCCESS),
    ] {
        let (status, _) = log_in_with_proof(&mut pair, |challenge| {
            let mut proof = answer(challenge, "vm", SECRET);
            proof.extend(text(&[("CHAP_I", identifier), ("CHAP_C", &sent_value)]));
            proof
        });
        assert_eq!(status, expected, "{identifier} {}", sent_value.len());
    }
    // One key without the other, and keys that are not allowed at this point.
    for more in [
        ("CHAP_I", "1"),
        ("CHAP_C", "0x00"),
        ("CHAP_A", "7"),
        ("CHAP_N", "vm"),
    ] {
        let (status, _) = log_in_with_proof(&mut pair, |challenge| {
            [answer(challenge, "vm", SECRET), text(&[more])].concat()
        });
        assert_ne!(status, LoginStatus::SUCCESS, "{more:?}");
    }
}

/// S-08.
#[test]
fn names_are_literal_even_where_they_look_like_numbers() {
    for name in [
        "0xAB",
        "0bAB",
        "0x",
        "007",
        "iqn.2026-01.net.example:vm1",
        "名前",
    ] {
        let mut pair = pair_with(Access {
            users: vec![user(name, SECRET)],
            ..Access::default()
        });
        let (status, _) = log_in_with_proof(&mut pair, |challenge| answer(challenge, name, SECRET));
        assert_eq!(status, LoginStatus::SUCCESS, "{name}");
        let (status, _) =
            log_in_with_proof(&mut pair, |challenge| answer(challenge, "\u{ab}", SECRET));
        assert_eq!(status, DENIED, "{name} must not be decoded");
    }
}
