//! The access list: initiators that a rule admits, at a login and at discovery.
use crate::pair::{INITIATOR, Initiator, Pair, TARGET, keys_of, names};
use crate::scene::{FULL, SECRET, SECURITY, UNAUTHORIZED, log_in, pair_with, text, user};
use hakaru_iscsi_target::{Access, Rule};
use hakaru_wire::iscsi::{CmdSn, Itt, LoginStatus, TextRequest, TextResponse, Ttt};

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

/// S-02: the answer to SendTargets, with CHAP required or not, completed or not, and the initiator on
/// the access list or not.
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
        "S-02: 8 combinations tried, {} listed the target",
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
