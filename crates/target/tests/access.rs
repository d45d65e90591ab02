//! Who gets in: CHAP, the access list, and what each initiator finds behind it. Ids (S-02 …) are those of docs/reference/faults.md.

mod pair;

use hakaru_target::{Access, IoFailure, IoOp, IoResult, LuAccess, Rule};
use hakaru_wire::iscsi::chap::{Algorithm, Challenge, Credentials};
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{
    CmdSn, Itt, LoginStatus, Lun, Opcode, Stage, TaskManagementFunction, TaskManagementRequest,
    TaskManagementResponse, TaskManagementResult, TextRequest, TextResponse, Ttt,
};
use hakaru_wire::scsi::{Cdb, Sense, SenseKey, Transfer};
use pair::{INITIATOR, Initiator, Keys, LU_BYTES, Pair, TARGET, config, keys_of, names, value};

const SECURITY: Stage = Stage::SecurityNegotiation;
const OPERATIONAL: Stage = Stage::OperationalNegotiation;
const FULL: Stage = Stage::FullFeaturePhase;
const DENIED: LoginStatus = LoginStatus::AUTHENTICATION_FAILURE;
const UNAUTHORIZED: LoginStatus = LoginStatus::AUTHORIZATION_FAILURE;

const SECRET: &str = "the secret of vm";
const TARGET_SECRET: &str = "the target's own";

fn user(name: &str, secret: &str) -> Credentials {
    Credentials::new(name, secret).expect("credentials")
}

fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    pairs
        .iter()
        .for_each(|(key, value)| emit_pair(&mut out, key, value));
    out
}

fn pair_with(access: Access) -> Pair {
    let mut config = config();
    config.access = access;
    Pair::with(config)
}

/// One user, no list.
fn chap() -> Access {
    Access {
        users: vec![user("vm", SECRET)],
        target: Some(user("array", TARGET_SECRET)),
        ..Access::default()
    }
}

/// A login that stands before CHAP_N and CHAP_R: what it was asked.
fn asked(pair: &mut Pair, algorithms: &str) -> (Initiator, Result<Challenge, LoginStatus>) {
    let connection = pair.connect();
    let mut initiator = Initiator::new(connection, 1);
    let first = [names(INITIATOR), text(&[("AuthMethod", "CHAP,None")])].concat();
    let (response, keys) = initiator.login(pair, SECURITY, Some(OPERATIONAL), &first);
    assert_eq!(response.status, LoginStatus::SUCCESS);
    assert_eq!(
        (value(&keys, "AuthMethod"), response.next_stage),
        (Some("CHAP"), None),
        "nobody passes on before it has proved something"
    );
    let (response, keys) = initiator.login(pair, SECURITY, None, &text(&[("CHAP_A", algorithms)]));
    if response.status != LoginStatus::SUCCESS {
        assert!(keys.is_empty() && pair.is_closed(connection));
        return (initiator, Err(response.status));
    }
    let key = |name| value(&keys, name).expect("asked whole");
    let algorithm = Algorithm::choose(key("CHAP_A"), Algorithm::ALL).expect("one of those");
    let challenge = Challenge::parse(algorithm, key("CHAP_I"), key("CHAP_C"));
    (initiator, Ok(challenge.expect("a challenge")))
}

/// What comes of a login whose third text is `proof` of the challenge.
fn proved(pair: &mut Pair, proof: impl Fn(&Challenge) -> Vec<u8>) -> (LoginStatus, Keys) {
    let (mut initiator, challenge) = asked(pair, "5,6,7,8");
    let text = proof(&challenge.expect("asked"));
    let (response, keys) = initiator.login(pair, SECURITY, Some(FULL), &text);
    let refused = response.status != LoginStatus::SUCCESS;
    assert_eq!(pair.is_closed(initiator.connection), refused);
    (response.status, keys)
}

fn answer(challenge: &Challenge, name: &str, secret: &str) -> Vec<u8> {
    let response = challenge.answer(user(name, secret).secret());
    text(&[("CHAP_N", name), ("CHAP_R", &response)])
}

#[test]
fn who_knows_the_secret_gets_in() {
    let mut pair = pair_with(chap());
    let (status, keys) = proved(&mut pair, |asked| answer(asked, "vm", SECRET));
    assert_eq!(status, LoginStatus::SUCCESS);
    assert_eq!(value(&keys, "CHAP_R"), None, "it was asked nothing");
    assert_eq!(pair.target.sessions_now(), 1);
}

#[test]
fn who_does_not_is_told_nothing_but_that() {
    for (name, secret) in [
        ("vm", "the secret of vM"),
        ("vm", "the secret of vm "),
        ("Vm", SECRET),
        ("nobody", SECRET),
        ("array", TARGET_SECRET),
    ] {
        let mut pair = pair_with(chap());
        let (status, keys) = proved(&mut pair, |asked| answer(asked, name, secret));
        assert_eq!((status, keys), (DENIED, vec![]), "{name} {secret}");
        assert_eq!(pair.counter("sessions", "logins_denied"), 1.0);
        assert_eq!(pair.target.sessions_now(), 0);
    }
}

#[test]
fn no_way_round_the_security_stage_leads_in() {
    let chap_agreed = [names(INITIATOR), text(&[("AuthMethod", "CHAP")])].concat();
    let none = [names(INITIATOR), text(&[("AuthMethod", "None")])].concat();
    type Step = (Stage, Option<Stage>, Vec<u8>);
    let ways: Vec<(&str, Vec<Step>)> = vec![
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
            "no AuthMethod, then on",
            vec![
                (SECURITY, None, names(INITIATOR)),
                (SECURITY, Some(OPERATIONAL), vec![]),
            ],
        ),
        (
            "CHAP agreed, then silence",
            vec![
                (SECURITY, Some(FULL), chap_agreed.clone()),
                (SECURITY, Some(FULL), vec![]),
            ],
        ),
        (
            "the stage changed by oneself",
            vec![
                (SECURITY, Some(OPERATIONAL), chap_agreed.clone()),
                (OPERATIONAL, Some(FULL), vec![]),
            ],
        ),
        (
            "an answer without a question",
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
            "asked twice",
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
    for (what, steps) in ways {
        let mut pair = pair_with(chap());
        let connection = pair.connect();
        let mut initiator = Initiator::new(connection, 1);
        let last = steps.len() - 1;
        for (at, (stage, next, text)) in steps.into_iter().enumerate() {
            let (response, keys) = initiator.login(&mut pair, stage, next, &text);
            assert_eq!(
                response.status == LoginStatus::SUCCESS,
                at < last,
                "{what}: {keys:?}"
            );
            assert_eq!(response.next_stage, None, "{what}");
            assert_eq!(response.tsih, 0, "{what}");
        }
        assert!(pair.is_closed(connection), "{what}");
        assert_eq!(pair.target.sessions_now(), 0, "{what}");
    }
}

/// S-03.
#[test]
fn weak_algorithms_only_where_they_were_asked_for() {
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
        let (mut initiator, challenge) = asked(&mut pair, offered);
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

/// S-04, as far as the core can: every login is asked something else.
#[test]
fn every_login_is_asked_something_else() {
    let mut pair = pair_with(chap());
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let (initiator, challenge) = asked(&mut pair, "7");
        assert!(seen.insert(challenge.unwrap().value()));
        pair.target.handle_closed(pair.time, initiator.connection);
    }
}

/// S-05.
#[test]
fn the_targets_own_challenge_is_not_answered() {
    let mut pair = pair_with(chap());
    let (status, keys) = proved(&mut pair, |asked| {
        let mut proof = answer(asked, "vm", SECRET);
        proof.extend(text(&[("CHAP_I", "1"), ("CHAP_C", &asked.value())]));
        proof
    });
    assert_eq!((status, keys), (DENIED, vec![]));
    // Nor does one who knows no secret get anything to answer with.
    let (status, keys) = proved(&mut pair, |asked| {
        text(&[
            ("CHAP_N", "vm"),
            ("CHAP_R", &asked.value()),
            ("CHAP_I", "1"),
            ("CHAP_C", &asked.value()),
        ])
    });
    assert_eq!((status, keys), (DENIED, vec![]));
}

#[test]
fn a_target_proves_itself_to_who_asks_and_has_proved_itself() {
    let mut pair = pair_with(chap());
    let own = |algorithm| Challenge::parse(algorithm, "200", "0xfeedc0ffee").unwrap();
    let (status, keys) = proved(&mut pair, |asked| {
        let mut proof = text(&[("CHAP_I", "200"), ("CHAP_C", "0xfeedc0ffee")]);
        proof.extend(answer(asked, "vm", SECRET));
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
    let (status, _) = proved(&mut silent, |asked| {
        let mut proof = answer(asked, "vm", SECRET);
        proof.extend(text(&[("CHAP_I", "200"), ("CHAP_C", "0xfeedc0ffee")]));
        proof
    });
    assert_eq!(
        status, DENIED,
        "an initiator that wants proof does not get in without"
    );
}

/// S-06 and S-07. What the values may be is held in `wire`; here, that a login ends on what they may not.
#[test]
fn keys_that_cannot_be_end_the_login() {
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
        let (status, keys) = proved(&mut pair, |_| {
            text(&[("CHAP_N", "vm"), ("CHAP_R", response)])
        });
        assert_eq!((status, keys), (DENIED, vec![]), "{response}");
    }
    for (identifier, challenge, expected) in [
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
        let (status, _) = proved(&mut pair, |asked| {
            let mut proof = answer(asked, "vm", SECRET);
            proof.extend(text(&[("CHAP_I", identifier), ("CHAP_C", &challenge)]));
            proof
        });
        assert_eq!(status, expected, "{identifier} {}", challenge.len());
    }
    // One without the other, and keys that have no business there.
    for more in [
        ("CHAP_I", "1"),
        ("CHAP_C", "0x00"),
        ("CHAP_A", "7"),
        ("CHAP_N", "vm"),
    ] {
        let (status, _) = proved(&mut pair, |asked| {
            [answer(asked, "vm", SECRET), text(&[more])].concat()
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
        let (status, _) = proved(&mut pair, |asked| answer(asked, name, SECRET));
        assert_eq!(status, LoginStatus::SUCCESS, "{name}");
        let (status, _) = proved(&mut pair, |asked| answer(asked, "\u{ab}", SECRET));
        assert_eq!(status, DENIED, "{name} is not what it would stand for");
    }
}

/// Logs in by whatever the target asks for, as user `vm` where it asks.
fn log_in(pair: &mut Pair, peer: &str, first: &[u8], algorithms: &str) -> (LoginStatus, Initiator) {
    let connection = pair
        .try_connect_from(peer)
        .expect("a connection is accepted");
    let mut initiator = Initiator::new(connection, 1);
    let first = [first, &text(&[("AuthMethod", "CHAP,None")])].concat();
    let (response, keys) = initiator.login(pair, SECURITY, Some(FULL), &first);
    if response.status != LoginStatus::SUCCESS || value(&keys, "AuthMethod") == Some("None") {
        return (response.status, initiator);
    }
    let (response, keys) = initiator.login(pair, SECURITY, None, &text(&[("CHAP_A", algorithms)]));
    let key = |name| value(&keys, name).expect("asked whole");
    assert_eq!(response.status, LoginStatus::SUCCESS);
    let algorithm = Algorithm::choose(key("CHAP_A"), Algorithm::ALL).unwrap();
    let challenge = Challenge::parse(algorithm, key("CHAP_I"), key("CHAP_C")).unwrap();
    let proof = answer(&challenge, "vm", SECRET);
    let (response, _) = initiator.login(pair, SECURITY, Some(FULL), &proof);
    (response.status, initiator)
}

/// S-09: address, initiator name and CHAP user, each not set, fitting, or not.
#[test]
fn a_rule_admits_whom_all_fits_that_it_names() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Says {
        Nothing,
        Fits,
        Differs,
    }
    use Says::*;
    let says = [Nothing, Fits, Differs];
    let pick = |says: Says, fits: &str, differs: &str| match says {
        Nothing => None,
        Fits => Some(fits.to_owned()),
        Differs => Some(differs.to_owned()),
    };
    let mut tried = 0;
    for combination in 0..27 {
        let [address, name, who] = [9, 3, 1].map(|unit| says[combination / unit % 3]);
        let rule = Rule {
            address: pick(address, "10.0.0.0/24", "10.0.1.0/24").map(|text| text.parse().unwrap()),
            initiator_name: pick(name, INITIATOR, "iqn.2026-01.net.example:vm2"),
            user: pick(who, "vm", "other"),
            lus: None,
        };
        let mut pair = pair_with(Access {
            users: vec![user("vm", SECRET), user("other", "another secret")],
            rules: Some(vec![rule.clone()]),
            ..Access::default()
        });
        let (status, _) = log_in(&mut pair, "10.0.0.9:40000", &names(INITIATOR), "8");
        let expected = if [address, name, who].contains(&Differs) {
            UNAUTHORIZED
        } else {
            LoginStatus::SUCCESS
        };
        assert_eq!(status, expected, "{rule:?}");
        assert_eq!(
            pair.target.sessions_now(),
            usize::from(expected == LoginStatus::SUCCESS)
        );
        tried += 1;
    }
    assert_eq!(tried, 27);
    println!("S-09: {tried} combinations tried");
}

#[test]
fn an_empty_list_lets_nobody_in() {
    let mut pair = pair_with(Access {
        rules: Some(vec![]),
        ..Access::default()
    });
    let (status, _) = log_in(&mut pair, "10.0.0.9:40000", &names(INITIATOR), "8");
    assert_eq!(status, UNAUTHORIZED);
}

/// S-02: what SendTargets tells, by whether CHAP is wanted, whether it was done, and whether the list fits.
#[test]
fn discovery_is_authenticated_like_a_login() {
    let mut told = Vec::new();
    for (wanted, done, fits) in (0..8).map(|bits| (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0)) {
        let name = if fits {
            INITIATOR
        } else {
            "iqn.2026-01.net.example:vm2"
        };
        let mut pair = pair_with(Access {
            users: vec![user("vm", SECRET)],
            rules: Some(vec![Rule {
                initiator_name: Some(name.into()),
                user: wanted.then(|| "vm".into()),
                ..Rule::default()
            }]),
            ..Access::default()
        });
        let first = text(&[("InitiatorName", INITIATOR), ("SessionType", "Discovery")]);
        let (status, initiator) = if done {
            log_in(&mut pair, "10.0.0.9:40000", &first, "7")
        } else {
            let connection = pair.connect();
            let mut initiator = Initiator::new(connection, 1);
            let first = [first, text(&[("AuthMethod", "None")])].concat();
            let (response, _) = initiator.login(&mut pair, SECURITY, Some(FULL), &first);
            (response.status, initiator)
        };
        let targets = match status {
            LoginStatus::SUCCESS => send_targets(&mut pair, initiator),
            _ => 0,
        };
        assert_eq!(
            targets,
            usize::from(fits && (done || !wanted)),
            "{wanted} {done} {fits}"
        );
        told.push(targets);
    }
    assert_eq!(told.len(), 8);
    println!(
        "S-02: 8 combinations tried, {} told the target",
        told.iter().sum::<usize>()
    );
}

fn send_targets(pair: &mut Pair, mut initiator: Initiator) -> usize {
    let text = text(&[("SendTargets", "All")]);
    let mut header = [0; 48];
    TextRequest {
        is_final: true,
        itt: Itt(9),
        ttt: Ttt::RESERVED,
        cmd_sn: CmdSn(initiator.cmd_sn),
        data_segment_length: text.len() as u32,
        ..TextRequest::default()
    }
    .emit(&mut header);
    initiator.send(pair, &header, &text);
    let pdu = initiator.receive_one(pair);
    TextResponse::parse(&pdu.bhs).expect("an answer");
    let keys = keys_of(&pdu.data);
    let named = keys
        .iter()
        .filter(|(key, value)| key == "TargetName" && value == TARGET);
    named.count()
}

/// LU 0 read-only, LU 5 whole, LU 7 (read-only for all) not seen.
fn partial() -> Access {
    Access {
        rules: Some(vec![Rule {
            initiator_name: Some(INITIATOR.into()),
            lus: Some(vec![
                LuAccess {
                    lun: 0,
                    read_only: true,
                },
                LuAccess {
                    lun: 5,
                    read_only: false,
                },
            ]),
            ..Rule::default()
        }]),
        ..Access::default()
    }
}

#[test]
fn an_lu_that_the_list_does_not_show_is_not_there() {
    let mut pair = pair_with(partial());
    let mut initiator = pair.log_in(&[]);
    let luns = Cdb::ReportLuns {
        select_report: 0,
        allocation_length: 256,
    };
    let listed = initiator.run_cdb(&mut pair, 5, luns, 256).good();
    assert_eq!(listed[..4], 16u32.to_be_bytes());
    assert_eq!((listed[9], listed[17]), (0, 5));
    let inquiry = Cdb::Inquiry {
        page: None,
        allocation_length: 36,
    };
    for (lun, qualifier) in [(5, 0), (7, 0x7f), (9, 0x7f)] {
        let data = initiator.run_cdb(&mut pair, lun, inquiry, 36).good();
        assert_eq!(
            data[0], qualifier,
            "LUN {lun}: hidden and absent answer alike"
        );
    }
    let hidden = initiator.run_cdb(&mut pair, 7, Cdb::TestUnitReady, 0);
    let absent = initiator.run_cdb(&mut pair, 9, Cdb::TestUnitReady, 0);
    assert_eq!(hidden, absent);
    assert_eq!(hidden.sense(), Sense::LOGICAL_UNIT_NOT_SUPPORTED);
}

#[test]
fn resets_reach_no_lu_that_one_may_not_touch() {
    let mut pair = pair_with(partial());
    let mut initiator = pair.log_in(&[]);
    use TaskManagementFunction as Function;
    for (function, lun, expected) in [
        (
            Function::LogicalUnitReset,
            7,
            TaskManagementResult::NoSuchLun,
        ),
        (Function::ClearTaskSet, 7, TaskManagementResult::NoSuchLun),
        (Function::AbortTaskSet, 7, TaskManagementResult::NoSuchLun),
        (
            Function::TargetWarmReset,
            0,
            TaskManagementResult::NotAuthorized,
        ),
        (
            Function::TargetColdReset,
            0,
            TaskManagementResult::NotAuthorized,
        ),
        (
            Function::LogicalUnitReset,
            0,
            TaskManagementResult::NotAuthorized,
        ),
        (
            Function::ClearTaskSet,
            0,
            TaskManagementResult::NotAuthorized,
        ),
        (
            Function::LogicalUnitReset,
            5,
            TaskManagementResult::Complete,
        ),
    ] {
        initiator.itt += 1;
        let mut header = [0; 48];
        TaskManagementRequest {
            immediate: true,
            function,
            lun: Lun::new(lun),
            itt: Itt(initiator.itt),
            referenced_task_tag: Itt::RESERVED,
            cmd_sn: CmdSn(initiator.cmd_sn + 1),
            exp_stat_sn: initiator.exp_stat_sn,
            ref_cmd_sn: CmdSn(0),
            exp_data_sn: 0,
        }
        .emit(&mut header);
        initiator.send(&mut pair, &header, &[]);
        let pdu = initiator.receive_one(&mut pair);
        assert_eq!(pdu.opcode(), Opcode::TaskManagementResponse);
        let response = TaskManagementResponse::parse(&pdu.bhs).unwrap();
        assert_eq!(response.result, expected, "{function:?} of LUN {lun}");
    }
}

#[test]
fn an_lu_shown_read_only_is_write_protected_for_this_one_alone() {
    let mut pair = pair_with(Access {
        rules: Some(vec![
            partial().rules.unwrap().remove(0),
            Rule {
                initiator_name: Some("iqn.2026-01.net.example:vm2".into()),
                ..Rule::default()
            },
        ]),
        ..Access::default()
    });
    let mut restricted = pair.log_in(&[]);
    let mut other = pair.log_in_as("iqn.2026-01.net.example:vm2", 2, &[]);
    let write = Cdb::Write(Transfer {
        lba: 0,
        blocks: 1,
        ..Transfer::default()
    });
    for (initiator, allowed) in [(&mut restricted, false), (&mut other, true)] {
        let command = initiator.command(0, &write.emit(), false, true, 512);
        initiator.send_command(&mut pair, &command, &[7; 512]);
        let answer = pair::Answer::of(initiator.receive(&mut pair), command.itt);
        assert_eq!(answer.status == 0, allowed);
        if !allowed {
            assert_eq!(answer.sense(), Sense::WRITE_PROTECTED);
            assert_eq!(answer.sense().key, SenseKey::DataProtect);
            assert_eq!(pair.lus[&0][0], 0);
        }
    }
    assert_eq!(pair.lus[&0][..512], [7; 512]);
}

/// Whatever the command is, and whatever commands will be added: nothing is asked of the storage that the list does not allow.
#[test]
fn no_command_reaches_storage_beyond_the_list() {
    let mut pair = pair_with(partial());
    pair.stalled = true;
    let mut initiator = pair.log_in(&[("InitialR2T", "Yes"), ("ImmediateData", "Yes")]);
    let (mut tried, mut reads) = (0, 0);
    for opcode in 0..=0xff_u8 {
        for byte_1 in 0..=0x1f_u8 {
            for lun in [0, 7] {
                // One block at LBA 0; a parameter list of 24 bytes; half of all commands bring data.
                let mut cdb = [0; 16];
                (cdb[0], cdb[1]) = (opcode, byte_1);
                (cdb[4], cdb[8], cdb[9], cdb[13]) = (1, 24 * u8::from(opcode == 0x42), 1, 1);
                if opcode == 0xa8 || opcode == 0xaa {
                    cdb[13] = 0;
                }
                for write in [false, true] {
                    let command = initiator.command(lun, &cdb, !write, write, 512);
                    initiator.send_command(
                        &mut pair,
                        &command,
                        if write { &[0; 512] } else { &[] },
                    );
                    tried += 1;
                    for io in std::mem::take(&mut pair.held) {
                        assert_eq!(io.lun, 0, "{cdb:02x?} reached an LU that is not shown");
                        let harmless =
                            matches!(io.op, IoOp::Read { .. } | IoOp::Flush | IoOp::Status { .. });
                        assert!(
                            harmless,
                            "{cdb:02x?} would change a read-only LU: {:?}",
                            io.op
                        );
                        reads += 1;
                        let failed = IoResult::Failed(IoFailure::Internal);
                        pair.target.handle_io_done(pair.time, io.id, failed);
                    }
                    // A command left open would close the window.
                    pair.target.handle_closed(pair.time, initiator.connection);
                    initiator = pair.log_in(&[]);
                }
            }
        }
    }
    assert!(reads > 0, "reads go through");
    println!("S-10: {tried} commands tried, {reads} accesses, none beyond the list");
}

/// An EXTENDED COPY (LID1) of 4 KiB between LUs that are named by their NAA designators.
fn copy(from: &[u8], from_blocks: u16, to: &[u8]) -> Vec<u8> {
    let mut list = vec![0; 16 + 2 * 32 + 28];
    list[3] = 2 * 32;
    list[11] = 28;
    for (at, (naa, block_bytes)) in [(from, 4096 / from_blocks), (to, 0)]
        .into_iter()
        .enumerate()
    {
        let device = &mut list[16 + 32 * at..][..32];
        (device[0], device[4], device[5], device[7]) = (0xe4, 1, 3, 8);
        device[8..16].copy_from_slice(naa);
        device[30..32].copy_from_slice(&block_bytes.to_be_bytes());
    }
    let segment = &mut list[80..];
    (segment[0], segment[3], segment[7]) = (0x02, 0x18, 1);
    segment[10..12].copy_from_slice(&from_blocks.to_be_bytes());
    list
}

/// S-10.
#[test]
fn a_copy_names_no_lu_that_the_list_does_not_show() {
    let mut pair = pair_with(Access {
        rules: Some(vec![
            partial().rules.unwrap().remove(0),
            Rule {
                initiator_name: Some("iqn.2026-01.net.example:vm2".into()),
                ..Rule::default()
            },
        ]),
        ..Access::default()
    });
    let mut restricted = pair.log_in(&[]);
    let mut other = pair.log_in_as("iqn.2026-01.net.example:vm2", 2, &[]);
    let page = Cdb::Inquiry {
        page: Some(0x83),
        allocation_length: 255,
    };
    let naa = [0, 5, 7].map(|lun| other.run_cdb(&mut pair, lun, page, 255).good()[8..16].to_vec());
    let [read_only, own, hidden] = &naa;
    for (lun, seed) in [(0, 1), (5, 2), (7, 3)] {
        let data = pair::pattern(LU_BYTES, seed);
        pair.lus.insert(lun, data);
    }
    let before = pair.lus.clone();
    let outcome = |initiator: &mut Initiator, list: &[u8], pair: &mut Pair| {
        let cdb = [
            &[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[list.len() as u8, 0, 0],
        ]
        .concat();
        let command = initiator.command(5, &cdb, false, true, list.len() as u32);
        initiator.send_command(pair, &command, list);
        pair::Answer::of(initiator.receive(pair), command.itt)
    };
    for (what, list) in [
        ("from an LU that is not shown", copy(hidden, 8, own)),
        ("to an LU that is not shown", copy(own, 1, hidden)),
        ("to an LU shown read-only", copy(own, 1, read_only)),
    ] {
        let answer = outcome(&mut restricted, &list, &mut pair);
        assert_eq!(answer.status, 2, "{what}: {answer:?}");
        assert_eq!(pair.lus, before, "{what}");
    }
    // The lists are right: who sees all may use them, and so may this one between what it sees.
    outcome(&mut other, &copy(hidden, 8, own), &mut pair).good();
    assert_eq!(pair.lus[&5][..4096], before[&7][..4096]);
    outcome(&mut restricted, &copy(read_only, 8, own), &mut pair).good();
    assert_eq!(pair.lus[&5][..4096], before[&0][..4096]);
}
