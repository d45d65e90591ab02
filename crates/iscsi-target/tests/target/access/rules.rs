//! The access list: initiators that a rule admits, at a login and at discovery.
use super::scene::{FULL, SECRET, SECURITY, UNAUTHORIZED, log_in, pair_with, text, user};
use crate::pair::{INITIATOR, Initiator, Pair, TARGET, keys_of, names};
use hakaru_iscsi_target::{Access, Rule};
use hakaru_wire::iscsi::{CmdSn, Itt, LoginStatus, TextRequest, TextResponse, Ttt};

/// S-09: conditions on address, initiator name and CHAP user, each unset, met or unmet.
#[test]
fn a_rule_admits_an_initiator_that_meets_all_its_conditions() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Condition {
        Unset,
        Met,
        Unmet,
    }
    use Condition::*;
    let conditions = [Unset, Met, Unmet];
    let pick = |condition: Condition, matching: &str, differing: &str| match condition {
        Unset => None,
        Met => Some(matching.to_owned()),
        Unmet => Some(differing.to_owned()),
    };
    let mut tried = 0;
    for combination in 0..27 {
        let [address, name, user_name] = [9, 3, 1].map(|unit| conditions[combination / unit % 3]);
        let rule = Rule {
            address: pick(address, "10.0.0.0/24", "10.0.1.0/24").map(|text| text.parse().unwrap()),
            initiator_name: pick(name, INITIATOR, "iqn.2026-01.net.example:vm2"),
            user: pick(user_name, "vm", "other"),
            lus: None,
        };
        let mut pair = pair_with(Access {
            users: vec![user("vm", SECRET), user("other", "another secret")],
            rules: Some(vec![rule.clone()]),
            ..Access::default()
        });
        let (status, _) = log_in(&mut pair, "10.0.0.9:40000", &names(INITIATOR), "8");
        let expected = if [address, name, user_name].contains(&Unmet) {
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
fn an_empty_list_admits_no_initiator() {
    let mut pair = pair_with(Access {
        rules: Some(vec![]),
        ..Access::default()
    });
    let (status, _) = log_in(&mut pair, "10.0.0.9:40000", &names(INITIATOR), "8");
    assert_eq!(status, UNAUTHORIZED);
}

/// S-02: the answer to SendTargets, with CHAP required or not, CHAP completed or not, and the
/// initiator on the access list or not.
#[test]
fn discovery_is_authenticated_like_a_login() {
    let mut listed = Vec::new();
    for (chap_required, chap_completed, is_listed) in
        (0..8).map(|bits| (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0))
    {
        let name = if is_listed {
            INITIATOR
        } else {
            "iqn.2026-01.net.example:vm2"
        };
        let mut pair = pair_with(Access {
            users: vec![user("vm", SECRET)],
            rules: Some(vec![Rule {
                initiator_name: Some(name.into()),
                user: chap_required.then(|| "vm".into()),
                ..Rule::default()
            }]),
            ..Access::default()
        });
        let first = text(&[("InitiatorName", INITIATOR), ("SessionType", "Discovery")]);
        let (status, initiator) = if chap_completed {
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
            usize::from(is_listed && (chap_completed || !chap_required)),
            "{chap_required} {chap_completed} {is_listed}"
        );
        listed.push(targets);
    }
    assert_eq!(listed.len(), 8);
    println!(
        "S-02: 8 combinations tried, {} listed the target",
        listed.iter().sum::<usize>()
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
    let targets = keys
        .iter()
        .filter(|(key, value)| key == "TargetName" && value == TARGET);
    targets.count()
}
