//! Discovery, and text exchanges of normal sessions.

use crate::pair::{INITIATOR, Initiator, Keys, Pair, TARGET, config, keys_of, value};
use hakaru_wire::iscsi::text::emit_pair;
use hakaru_wire::iscsi::{CmdSn, Itt, LoginStatus, Opcode, Stage, TextRequest, TextResponse, Ttt};
use hakaru_wire::scsi::Cdb;

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

fn discover(pair: &mut Pair, send_targets: &str, keys: &[(&str, &str)]) -> (TextResponse, Keys) {
    let mut initiator = begin(pair);
    let hello = [
        &[("InitiatorName", INITIATOR), ("SessionType", "Discovery")],
        keys,
    ]
    .concat();
    let (response, _) = initiator.login(pair, OPERATIONAL, Some(FULL), &text(&hello));
    assert_eq!(response.status, LoginStatus::SUCCESS);
    let text_request = text(&[("SendTargets", send_targets)]);
    let mut request = TextRequest {
        is_final: true,
        itt: Itt(7),
        ttt: Ttt::RESERVED,
        cmd_sn: CmdSn(initiator.cmd_sn),
        data_segment_length: text_request.len() as u32,
        ..TextRequest::default()
    };
    let mut header = [0; 48];
    request.emit(&mut header);
    initiator.send(pair, &header, &text_request);
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
fn discovery_reports_the_target_and_its_addresses() {
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
fn a_list_of_targets_that_exceeds_a_pdu_is_sent_in_pieces() {
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
fn a_normal_session_may_request_its_own_target() {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    let send_targets = |initiator: &mut Initiator, pair: &mut Pair, requested: &str| {
        let text_request = text(&[("SendTargets", requested)]);
        let request = TextRequest {
            immediate: true,
            is_final: true,
            itt: Itt(7),
            ttt: Ttt::RESERVED,
            cmd_sn: CmdSn(initiator.cmd_sn),
            data_segment_length: text_request.len() as u32,
            ..TextRequest::default()
        };
        let mut header = [0; 48];
        request.emit(&mut header);
        initiator.send(pair, &header, &text_request);
        keys_of(&initiator.receive_one(pair).data)
    };
    assert_eq!(
        value(&send_targets(&mut initiator, &mut pair, ""), "TargetName"),
        Some(TARGET)
    );
    assert_eq!(
        value(
            &send_targets(&mut initiator, &mut pair, "All"),
            "SendTargets"
        ),
        Some("Reject")
    );
}

#[test]
fn a_changed_data_segment_length_applies_to_later_pdus() {
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
