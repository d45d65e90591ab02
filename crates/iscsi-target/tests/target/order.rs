//! Order and flow control: sequence numbers, window, tags, pings, rejects, digests.

use crate::pair::{self, Initiator, Pair, Pdu, config, logged_in, pattern, read};
use hakaru_wire::iscsi::{
    CmdSn, Itt, NopIn, NopOut, Opcode, Reject, RejectReason, ScsiCommand, Ttt,
};
use hakaru_wire::scsi::Cdb;

#[test]
fn a_ping_is_answered_with_as_much_of_its_data_as_the_initiator_accepts() {
    let (mut pair, mut initiator) = logged_in(&[("MaxRecvDataSegmentLength", "512")]);
    for (immediate, length) in [(true, 0), (false, 5), (true, 600)] {
        let data = pattern(length, 1);
        let ping = NopOut {
            immediate,
            itt: Itt(50),
            ttt: Ttt::RESERVED,
            cmd_sn: CmdSn(initiator.cmd_sn),
            data_segment_length: length as u32,
            ..NopOut::default()
        };
        initiator.cmd_sn += u32::from(!immediate);
        let mut header = [0; 48];
        ping.emit(&mut header);
        initiator.send(&mut pair, &header, &data);
        let pdu = initiator.receive_one(&mut pair);
        let pong = NopIn::parse(&pdu.bhs).unwrap();
        assert_eq!((pong.itt, pong.ttt), (Itt(50), Ttt::RESERVED));
        assert_eq!(pdu.data, data[..length.min(512)]);
    }
}

#[test]
fn commands_outside_the_window_are_ignored() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let next = initiator.cmd_sn;
    for outside in [
        next.wrapping_sub(1),
        next.wrapping_sub(1 << 30),
        next + 128,
        next + (1 << 30),
    ] {
        let command = ScsiCommand {
            cmd_sn: CmdSn(outside),
            ..initiator.command(0, &[0], false, false, 0)
        };
        initiator.send_command(&mut pair, &command, &[]);
        assert!(initiator.receive(&mut pair).is_empty(), "{outside}");
    }
    initiator.cmd_sn = next;
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
}

#[test]
fn the_window_closes_at_128_commands_in_flight_and_opens_again() {
    let (mut pair, mut initiator) = logged_in(&[]);
    pair.stalled = true;
    for _ in 0..129 {
        let command = initiator.command(0, &read(0, 1).emit(), true, false, 512);
        initiator.send_command(&mut pair, &command, &[]);
    }
    assert_eq!(pair.held.len(), 128, "the 129th is ignored");
    pair.release();
    let answers = initiator.receive(&mut pair);
    assert_eq!(answers.len(), 128);
    let numbers = |pdu: &Pdu| hakaru_wire::iscsi::DataIn::parse(&pdu.bhs).unwrap().numbers;
    let (first, last) = (numbers(&answers[0]), numbers(&answers[127]));
    assert_eq!(
        (
            first.max_cmd_sn.0.wrapping_sub(first.exp_cmd_sn.0),
            last.max_cmd_sn.0.wrapping_sub(last.exp_cmd_sn.0)
        ),
        (0, 127)
    );
    initiator.cmd_sn -= 1;
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
}

#[test]
fn commands_that_arrive_early_are_held_until_their_turn_across_the_wrap() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    let mut initiator = Initiator::new(connection, 1);
    initiator.cmd_sn = u32::MAX - 1;
    let stages = (
        hakaru_wire::iscsi::Stage::OperationalNegotiation,
        hakaru_wire::iscsi::Stage::FullFeaturePhase,
    );
    initiator.login(
        &mut pair,
        stages.0,
        Some(stages.1),
        &pair::names(pair::INITIATOR),
    );
    let commands: Vec<_> = (0..4)
        .map(|_| initiator.command(0, &[0], false, false, 0))
        .collect();
    for early in [3, 1, 2] {
        initiator.send_command(&mut pair, &commands[early], &[]);
        assert!(initiator.receive(&mut pair).is_empty());
    }
    initiator.send_command(&mut pair, &commands[1], &[]); // A duplicate is ignored.
    initiator.send_command(&mut pair, &commands[0], &[]);
    let order: Vec<Itt> = initiator
        .receive(&mut pair)
        .iter()
        .map(|pdu| pdu.bhs.itt())
        .collect();
    assert_eq!(
        order,
        commands
            .iter()
            .map(|command| command.itt)
            .collect::<Vec<_>>()
    );
}

fn reject_of(pdu: &Pdu) -> RejectReason {
    assert_eq!(pdu.data.len(), 48, "a Reject carries the header");
    Reject::parse(&pdu.bhs).unwrap().reason
}

#[test]
fn a_tag_that_is_in_use_is_rejected_and_its_number_stays_free() {
    let (mut pair, mut initiator) = logged_in(&[]);
    pair.stalled = true;
    let first = initiator.command(0, &read(0, 1).emit(), true, false, 512);
    initiator.send_command(&mut pair, &first, &[]);
    let again = ScsiCommand {
        itt: first.itt,
        ..initiator.command(0, &[0], false, false, 0)
    };
    initiator.send_command(&mut pair, &again, &[]);
    assert_eq!(
        reject_of(&initiator.receive_one(&mut pair)),
        RejectReason::TaskInProgress
    );
    initiator.cmd_sn -= 1;
    initiator
        .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
        .good();
}

#[test]
fn immediate_commands_are_limited_to_eight_in_flight() {
    let (mut pair, mut initiator) = logged_in(&[]);
    pair.stalled = true;
    for n in 0..9 {
        let command = ScsiCommand {
            immediate: true,
            ..initiator.command(0, &read(0, 1).emit(), true, false, 512)
        };
        initiator.cmd_sn -= 1;
        initiator.send_command(&mut pair, &command, &[]);
        let answers = initiator.receive(&mut pair);
        assert_eq!(answers.len(), usize::from(n == 8));
        if let Some(answer) = answers.first() {
            assert_eq!(reject_of(answer), RejectReason::ImmediateCommandReject);
        }
    }
    pair.release();
    assert_eq!(initiator.receive(&mut pair).len(), 8);
}

#[test]
fn pdus_that_are_invalid_in_full_feature_phase_are_rejected() {
    let cases: &[(&str, u8, u8, RejectReason)] = &[
        ("SNACK", 0x10, 0x80, RejectReason::SnackReject),
        (
            "vendor opcode",
            0x1c,
            0x80,
            RejectReason::CommandNotSupported,
        ),
        (
            "a target's opcode",
            0x21,
            0x80,
            RejectReason::CommandNotSupported,
        ),
        ("Reject", 0x3f, 0x80, RejectReason::CommandNotSupported),
        (
            "command without F and W",
            0x01,
            0x00,
            RejectReason::InvalidPduField,
        ),
        (
            "text with C and no data",
            0x44,
            0x40,
            RejectReason::InvalidPduField,
        ),
        (
            "text with C and F",
            0x44,
            0xc0,
            RejectReason::InvalidPduField,
        ),
        (
            "logout of an unknown kind",
            0x46,
            0x85,
            RejectReason::InvalidPduField,
        ),
        (
            "SCSI command with the reserved tag",
            0x41,
            0x80,
            RejectReason::InvalidPduField,
        ),
    ];
    for (name, opcode, flags, reason) in cases {
        let (mut pair, mut initiator) = logged_in(&[]);
        let mut header = [0; 48];
        (header[0], header[1]) = (*opcode, *flags);
        header[16..24].fill(0xff);
        header[24..28].copy_from_slice(&initiator.cmd_sn.to_be_bytes());
        initiator.send(&mut pair, &header, &[]);
        let pdu = initiator.receive_one(&mut pair);
        assert_eq!(reject_of(&pdu), *reason, "{name}");
        assert_eq!(pdu.data, header, "{name}");
        assert_eq!(
            initiator
                .run_cdb(&mut pair, 0, Cdb::TestUnitReady, 0)
                .good(),
            b"",
            "{name}"
        );
    }
}

#[test]
fn a_login_in_full_feature_phase_ends_the_session() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let mut header = [0; 48];
    header[0] = 0x43;
    initiator.send(&mut pair, &header, &[]);
    assert_eq!(initiator.receive_one(&mut pair).opcode(), Opcode::Reject);
    assert!(pair.is_closed(initiator.connection));
}

#[test]
fn an_inconsistent_additional_header_is_rejected_and_a_consistent_one_accepted() {
    let (mut pair, mut initiator) = logged_in(&[]);
    for (ahs, good) in [
        (vec![0, 5, 2, 0, 0, 0, 2, 0], true),
        (vec![0xff, 0xff, 1, 0], false),
        (vec![0, 1, 9, 7], true),
    ] {
        let command = initiator.command(0, &[0], false, false, 0);
        let mut header = [0; 48];
        command.emit(&mut header);
        header[4] = (ahs.len() / 4) as u8;
        pair.send(initiator.connection, &[&header[..], &ahs].concat());
        let answer = initiator.receive_one(&mut pair);
        assert_eq!(answer.opcode() == Opcode::ScsiResponse, good, "{ahs:?}");
        if !good {
            initiator.cmd_sn -= 1;
        }
    }
}

#[test]
fn digests_are_used_in_both_directions_and_a_damaged_header_ends_the_session() {
    for (header_digest, data_digest) in [(true, false), (false, true), (true, true)] {
        let word = |on| if on { "CRC32C" } else { "None" };
        let (mut pair, mut initiator) = logged_in(&[
            ("HeaderDigest", word(header_digest)),
            ("DataDigest", word(data_digest)),
        ]);
        assert_eq!(
            (initiator.header_digest, initiator.data_digest),
            (header_digest, data_digest)
        );
        assert_eq!(
            initiator.run_cdb(&mut pair, 0, read(7, 100), 51_200).good(),
            pair.lus[&0][7 * 512..107 * 512]
        );
        let command = initiator.command(0, &[0], false, false, 0);
        let mut header = [0; 48];
        command.emit(&mut header);
        let mut bytes = initiator.pdu(&header, &[]);
        bytes[33] ^= 1;
        pair.send(initiator.connection, &bytes);
        assert_eq!(pair.is_closed(initiator.connection), header_digest);
    }
}

#[test]
fn copied_reads_wait_while_too_much_is_queued_and_continue_as_the_queue_drains() {
    let mut config = config();
    config.limits.transmit_bytes_max = 64 << 10;
    let mut pair = Pair::with(config);
    let mut initiator = pair.log_in(&[
        ("DataDigest", "CRC32C"),
        ("MaxRecvDataSegmentLength", "65536"),
    ]);
    pair.blocked.insert(initiator.connection);
    pair.stalled = true;
    let commands: Vec<ScsiCommand> = (0..16)
        .map(|n| initiator.command(0, &read(n * 64, 64).emit(), true, false, 32_768))
        .collect();
    for command in &commands {
        initiator.send_command(&mut pair, command, &[]);
    }
    assert_eq!(pair.held.len(), 3, "96 KiB are requested from the storage");
    pair.release();
    assert!(!pair.target.wants_received(initiator.connection));
    assert_eq!(
        pair.target.transmit(initiator.connection).pending_bytes() / 32_768,
        3
    );
    pair.unblock(initiator.connection);
    let answers = initiator.receive(&mut pair);
    assert_eq!(answers.len(), 16);
    assert!(
        answers
            .iter()
            .zip(&commands)
            .all(|(a, c)| a.bhs.itt() == c.itt)
    );
}
