//! Write data, which is immediate, unsolicited or solicited, and its errors.

use crate::pair::{Answer, Initiator, Pair, Pdu, answer_to, pattern, r2t_of, unsolicited, write};
use hakaru_wire::iscsi::{DataOut, Itt, R2t, Reject, RejectReason, Residual, ScsiCommand, Ttt};
use hakaru_wire::scsi::{Cdb, Sense, Transfer};

fn logged_in(keys: &[(&str, &str)]) -> (Pair, Initiator) {
    let mut pair = Pair::new();
    let initiator = pair.log_in(keys);
    (pair, initiator)
}

/// Checks that no session has reserved write budget.
fn assert_nothing_reserved(pair: &Pair) {
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

#[test]
fn writes_of_every_size_of_cdb_arrive() {
    let (mut pair, mut initiator) = logged_in(&[]);
    for (at, cdb) in [
        vec![0x0a, 0, 0, 8, 2, 0],
        vec![0x2a, 0, 0, 0, 0, 16, 0, 0, 2, 0],
        vec![0xaa, 0, 0, 0, 0, 24, 0, 0, 0, 2, 0, 0],
        vec![0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 2, 0, 0],
    ]
    .into_iter()
    .enumerate()
    {
        let data = pattern(1024, at as u8);
        let command = initiator.command(0, &cdb, false, true, 1024);
        initiator.send_command(&mut pair, &command, &data);
        Answer::of(initiator.receive(&mut pair), command.itt).good();
        assert_eq!(pair.lus[&0][(at + 1) * 4096..][..1024], data);
    }
    assert_eq!(
        (
            pair.counter("lu/0", "writes"),
            pair.counter("lu/0", "write_bytes")
        ),
        (4.0, 4096.0)
    );
    assert_nothing_reserved(&pair);
}

#[test]
fn a_read_only_unit_refuses_writes() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let command = initiator.command(7, &write(0, 1), false, true, 512);
    initiator.send_command(&mut pair, &command, &pattern(512, 1));
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(
        (answer.sense(), answer.residual),
        (Sense::WRITE_PROTECTED, Residual::Underflow(512))
    );
    assert!(pair.lus[&7].iter().all(|byte| *byte == 0));
    assert_nothing_reserved(&pair);
}

#[test]
fn r2ts_request_bursts_and_no_more_are_outstanding_than_agreed() {
    let keys = [
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
        ("MaxBurstLength", "4096"),
        ("MaxOutstandingR2T", "3"),
    ];
    let (mut pair, mut initiator) = logged_in(&keys);
    let data = pattern(5 * 4096 + 512, 3);
    let command = initiator.command(0, &write(1, 41), false, true, data.len() as u32);
    initiator.send_command(&mut pair, &command, &[]);
    let mut open: Vec<R2t> = initiator.receive(&mut pair).iter().map(r2t_of).collect();
    assert_eq!(open.len(), 3);
    let mut r2ts = 0;
    loop {
        let r2t = open.remove(0);
        assert_eq!((r2t.r2t_sn, r2t.buffer_offset), (r2ts, r2ts * 4096));
        r2ts += 1;
        let end = r2t.buffer_offset + r2t.desired_data_transfer_length;
        // Two PDUs for each burst.
        let half = r2t.desired_data_transfer_length / 2;
        let first = DataOut {
            is_final: false,
            ..answer_to(&r2t)
        };
        initiator.send_data_out(
            &mut pair,
            first,
            &data[r2t.buffer_offset as usize..][..half as usize],
        );
        let second = DataOut {
            buffer_offset: r2t.buffer_offset + half,
            data_sn: 1,
            ..answer_to(&r2t)
        };
        initiator.send_data_out(
            &mut pair,
            second,
            &data[(r2t.buffer_offset + half) as usize..end as usize],
        );
        let pdus = initiator.receive(&mut pair);
        if end as usize == data.len() {
            Answer::of(pdus, command.itt).good();
            break;
        }
        open.extend(pdus.iter().map(r2t_of));
        assert!(open.len() <= 3);
    }
    assert_eq!(r2ts, 6);
    assert_eq!(pair.lus[&0][512..][..data.len()], data);
    assert_nothing_reserved(&pair);
}

#[test]
fn immediate_then_unsolicited_then_solicited_data_make_one_write() {
    let keys = [
        ("InitialR2T", "No"),
        ("FirstBurstLength", "2048"),
        ("MaxBurstLength", "4096"),
    ];
    let (mut pair, mut initiator) = logged_in(&keys);
    let data = pattern(6144, 5);
    let command = ScsiCommand {
        is_final: false,
        ..initiator.command(0, &write(0, 12), false, true, 6144)
    };
    initiator.send_command(&mut pair, &command, &data[..1024]);
    assert!(
        initiator.receive(&mut pair).is_empty(),
        "the target waits for unsolicited data"
    );
    initiator.send_data_out(
        &mut pair,
        unsolicited(&command, 1024, 0, false),
        &data[1024..1536],
    );
    initiator.send_data_out(
        &mut pair,
        unsolicited(&command, 1536, 1, true),
        &data[1536..2048],
    );
    let r2t = r2t_of(&initiator.receive_one(&mut pair));
    assert_eq!(
        (r2t.buffer_offset, r2t.desired_data_transfer_length),
        (2048, 4096)
    );
    initiator.send_data_out(&mut pair, answer_to(&r2t), &data[2048..]);
    Answer::of(initiator.receive(&mut pair), command.itt).good();
    assert_eq!(pair.lus[&0][..6144], data);
}

#[test]
fn residuals_of_writes_report_the_data_that_was_not_used() {
    for (expected, residual, written) in [
        (1024u32, Residual::None, 1024),
        (1536, Residual::Underflow(512), 1024),
        (512, Residual::Overflow(512), 512),
        (700, Residual::Overflow(324), 512),
        (200, Residual::Overflow(824), 0),
        (0, Residual::Overflow(1024), 0),
    ] {
        let (mut pair, mut initiator) = logged_in(&[]);
        let data = pattern(expected as usize, 9);
        let command = initiator.command(0, &write(0, 2), false, expected > 0, expected);
        initiator.send_command(&mut pair, &command, &data);
        let answer = Answer::of(initiator.receive(&mut pair), command.itt);
        assert_eq!(
            (answer.status, answer.residual),
            (0, residual),
            "{expected}"
        );
        assert_eq!(pair.lus[&0][..written], data[..written]);
        assert!(pair.lus[&0][written..2048].iter().all(|byte| *byte == 0));
        assert_nothing_reserved(&pair);
    }
}

#[test]
fn data_that_was_not_agreed_on_is_discarded_and_refused() {
    let immediate = [("ImmediateData", "No"), ("InitialR2T", "No")];
    let (mut pair, mut initiator) = logged_in(&immediate);
    let command = initiator.command(0, &write(0, 1), false, true, 512);
    initiator.send_command(&mut pair, &command, &pattern(512, 1));
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(
        answer.sense(),
        Sense::UNEXPECTED_UNSOLICITED_DATA,
        "immediate data"
    );

    let (mut pair, mut initiator) = logged_in(&[("InitialR2T", "Yes")]);
    let command = ScsiCommand {
        is_final: false,
        ..initiator.command(0, &write(0, 2), false, true, 1024)
    };
    initiator.send_command(&mut pair, &command, &[]);
    assert!(initiator.receive(&mut pair).is_empty());
    initiator.send_data_out(
        &mut pair,
        unsolicited(&command, 0, 0, true),
        &pattern(512, 1),
    );
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(
        answer.sense(),
        Sense::UNEXPECTED_UNSOLICITED_DATA,
        "unsolicited data"
    );

    let (mut pair, mut initiator) = logged_in(&[("FirstBurstLength", "512")]);
    let command = initiator.command(0, &write(0, 2), false, true, 1024);
    initiator.send_command(&mut pair, &command, &pattern(1024, 1));
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(
        answer.sense(),
        Sense::UNEXPECTED_UNSOLICITED_DATA,
        "beyond the first burst"
    );
    assert!(pair.lus[&0].iter().all(|byte| *byte == 0));
    assert_nothing_reserved(&pair);
}

#[test]
fn a_refused_write_discards_its_unsolicited_data_first() {
    let (mut pair, mut initiator) = logged_in(&[("InitialR2T", "No")]);
    for (lun, cdb, sense) in [
        (7, write(0, 4), Sense::WRITE_PROTECTED),
        (9, write(0, 4), Sense::LOGICAL_UNIT_NOT_SUPPORTED),
        (0, write(1 << 40, 4), Sense::LBA_OUT_OF_RANGE),
        (0, [0xc1; 16], Sense::INVALID_COMMAND_OPERATION_CODE),
    ] {
        let command = ScsiCommand {
            is_final: false,
            ..initiator.command(lun, &cdb, false, true, 2048)
        };
        initiator.send_command(&mut pair, &command, &pattern(512, 1));
        assert!(initiator.receive(&mut pair).is_empty());
        initiator.send_data_out(
            &mut pair,
            unsolicited(&command, 512, 0, false),
            &pattern(512, 1),
        );
        assert!(initiator.receive(&mut pair).is_empty());
        initiator.send_data_out(
            &mut pair,
            unsolicited(&command, 1024, 1, true),
            &pattern(1024, 1),
        );
        assert_eq!(
            Answer::of(initiator.receive(&mut pair), command.itt).sense(),
            sense
        );
    }
    assert_nothing_reserved(&pair);
}

/// Answers two R2Ts of 1024 bytes each. `change` corrupts the second Data-Out PDU of the first
/// sequence. Returns the PDUs that were received when both sequences have ended.
fn write_with_fault(change: impl FnOnce(&mut DataOut, &mut Vec<u8>)) -> (Vec<Pdu>, Pair) {
    let keys = [
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
        ("MaxBurstLength", "1024"),
        ("MaxOutstandingR2T", "2"),
    ];
    let (mut pair, mut initiator) = logged_in(&keys);
    let command = initiator.command(0, &write(0, 4), false, true, 2048);
    initiator.send_command(&mut pair, &command, &[]);
    let r2ts: Vec<R2t> = initiator.receive(&mut pair).iter().map(r2t_of).collect();
    let first = DataOut {
        is_final: false,
        ..answer_to(&r2ts[0])
    };
    initiator.send_data_out(&mut pair, first, &pattern(512, 1));
    let mut second = DataOut {
        buffer_offset: 512,
        data_sn: 1,
        ..answer_to(&r2ts[0])
    };
    let mut data = pattern(512, 1);
    change(&mut second, &mut data);
    initiator.send_data_out(&mut pair, second, &data);
    initiator.send_data_out(&mut pair, answer_to(&r2ts[1]), &pattern(1024, 1));
    let pdus = initiator.receive(&mut pair);
    (pdus, pair)
}

#[test]
fn the_write_succeeds_without_a_fault() {
    let (pdus, pair) = write_with_fault(|_, _| {});
    assert_eq!(pdus.len(), 1);
    Answer::of(pdus.clone(), pdus[0].bhs.itt()).good();
    assert_eq!(pair.lus[&0][..512], pattern(512, 1));
}

#[test]
fn wrong_numbers_offsets_and_lengths_end_the_task_without_a_byte_written() {
    type Change = fn(&mut DataOut, &mut Vec<u8>);
    let cases: &[(&str, Change, Sense, bool)] = &[
        (
            "DataSN skipped",
            |pdu, _| pdu.data_sn = 2,
            Sense::PROTOCOL_SERVICE_CRC_ERROR,
            false,
        ),
        (
            "DataSN 27",
            |pdu, _| pdu.data_sn = 27,
            Sense::PROTOCOL_SERVICE_CRC_ERROR,
            false,
        ),
        (
            "DataSN -1",
            |pdu, _| pdu.data_sn = u32::MAX,
            Sense::PROTOCOL_SERVICE_CRC_ERROR,
            false,
        ),
        (
            "DataSN repeated",
            |pdu, _| pdu.data_sn = 0,
            Sense::PROTOCOL_SERVICE_CRC_ERROR,
            false,
        ),
        (
            "offset repeated",
            |pdu, _| pdu.buffer_offset = 0,
            Sense::DATA_PHASE_ERROR,
            false,
        ),
        (
            "offset beyond",
            |pdu, _| pdu.buffer_offset = 1024,
            Sense::DATA_PHASE_ERROR,
            false,
        ),
        (
            "offset of 4 GiB",
            |pdu, _| pdu.buffer_offset = u32::MAX - 512,
            Sense::DATA_PHASE_ERROR,
            false,
        ),
        (
            "more than requested",
            |_, data| data.extend_from_slice(&[0; 512]),
            Sense::DATA_PHASE_ERROR,
            false,
        ),
        (
            "less than requested",
            |_, data| data.truncate(256),
            Sense::NOT_ENOUGH_UNSOLICITED_DATA,
            false,
        ),
        (
            "unknown transfer tag",
            |pdu, _| pdu.ttt = Ttt(0x1234_5678),
            Sense::DATA_PHASE_ERROR,
            true,
        ),
        (
            "tag of the second R2T",
            |pdu, _| pdu.ttt.0 ^= 1,
            Sense::DATA_PHASE_ERROR,
            true,
        ),
        (
            "unsolicited",
            |pdu, _| pdu.ttt = Ttt::RESERVED,
            Sense::UNEXPECTED_UNSOLICITED_DATA,
            true,
        ),
        (
            "another LUN",
            |pdu, _| pdu.lun = hakaru_wire::iscsi::Lun::new(5),
            Sense::DATA_PHASE_ERROR,
            true,
        ),
    ];
    for (case, change, sense, rejected) in cases {
        let (mut pdus, mut pair) = write_with_fault(change);
        if *rejected {
            let reject = pdus.remove(0);
            assert_eq!(
                Reject::parse(&reject.bhs).unwrap().reason,
                RejectReason::InvalidPduField,
                "{case}"
            );
        }
        assert_eq!(pdus.len(), 1, "{case}: {pdus:#?}");
        let itt = pdus[0].bhs.itt();
        assert_eq!(Answer::of(pdus, itt).sense(), *sense, "{case}");
        assert!(pair.lus[&0].iter().all(|byte| *byte == 0), "{case}");
        assert_nothing_reserved(&pair);
        pair.log_in_as("iqn.2026-01.net.example:other", 2, &[])
            .run(&mut pair, 0, &[0], 0)
            .good();
    }
}

#[test]
fn unsolicited_data_beyond_the_first_burst_ends_the_task() {
    let (mut pair, mut initiator) =
        logged_in(&[("InitialR2T", "No"), ("FirstBurstLength", "1024")]);
    let command = ScsiCommand {
        is_final: false,
        ..initiator.command(0, &write(0, 8), false, true, 4096)
    };
    initiator.send_command(&mut pair, &command, &pattern(512, 1));
    initiator.send_data_out(
        &mut pair,
        unsolicited(&command, 512, 0, true),
        &pattern(1024, 1),
    );
    assert_eq!(
        Answer::of(initiator.receive(&mut pair), command.itt).sense(),
        Sense::DATA_PHASE_ERROR
    );
    assert_nothing_reserved(&pair);
}

#[test]
fn data_of_no_task_is_discarded() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let stray = DataOut {
        is_final: true,
        itt: Itt(77),
        ttt: Ttt(3),
        ..DataOut::default()
    };
    initiator.send_data_out(&mut pair, stray, &pattern(512, 1));
    assert!(initiator.receive(&mut pair).is_empty());
    initiator.run(&mut pair, 0, &[0], 0).good();
}

#[test]
fn damaged_immediate_data_is_rejected_and_the_command_may_be_sent_again() {
    let (mut pair, mut initiator) = logged_in(&[("DataDigest", "CRC32C")]);
    let data = pattern(1024, 4);
    let command = ScsiCommand {
        data_segment_length: 1024,
        ..initiator.command(0, &write(0, 2), false, true, 1024)
    };
    let mut header = [0; 48];
    command.emit(&mut header);
    let mut damaged = initiator.pdu(&header, &data);
    damaged[100] ^= 0x10;
    // The next command is held until its CmdSN is due.
    let next = Cdb::Read(Transfer {
        blocks: 2,
        ..Transfer::default()
    })
    .emit();
    let next = initiator.command(0, &next, true, false, 1024);
    pair.send(initiator.connection, &damaged);
    initiator.send_command(&mut pair, &next, &[]);
    let reject = initiator.receive_one(&mut pair);
    assert_eq!(
        Reject::parse(&reject.bhs).unwrap().reason,
        RejectReason::DataDigestError
    );
    assert!(pair.lus[&0].iter().all(|byte| *byte == 0));
    assert_nothing_reserved(&pair);
    initiator.send(&mut pair, &header, &data);
    let answers = initiator.receive(&mut pair);
    assert_eq!((answers[0].bhs.itt(), answers.len()), (command.itt, 2));
    assert_eq!(answers[1].data, data, "the read must follow the write");
}

#[test]
fn damaged_data_out_ends_its_task_once_all_its_data_was_received() {
    let keys = [
        ("DataDigest", "CRC32C"),
        ("InitialR2T", "Yes"),
        ("ImmediateData", "No"),
        ("MaxBurstLength", "1024"),
        ("MaxOutstandingR2T", "2"),
    ];
    let (mut pair, mut initiator) = logged_in(&keys);
    let command = initiator.command(0, &write(0, 4), false, true, 2048);
    initiator.send_command(&mut pair, &command, &[]);
    let r2ts: Vec<R2t> = initiator.receive(&mut pair).iter().map(r2t_of).collect();
    let mut header = [0; 48];
    DataOut {
        data_segment_length: 1024,
        ..answer_to(&r2ts[0])
    }
    .emit(&mut header);
    let mut bytes = initiator.pdu(&header, &pattern(1024, 2));
    *bytes.last_mut().unwrap() ^= 1;
    pair.send(initiator.connection, &bytes);
    let reject = initiator.receive_one(&mut pair);
    assert_eq!(
        Reject::parse(&reject.bhs).unwrap().reason,
        RejectReason::DataDigestError
    );
    initiator.send_data_out(&mut pair, answer_to(&r2ts[1]), &pattern(1024, 2));
    let answer = Answer::of(initiator.receive(&mut pair), command.itt);
    assert_eq!(answer.sense(), Sense::PROTOCOL_SERVICE_CRC_ERROR);
    assert!(
        pair.lus[&0].iter().all(|byte| *byte == 0),
        "data of the task was written"
    );
    assert_nothing_reserved(&pair);
}

#[test]
fn directions_that_contradict_the_command_move_nothing() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let read = Cdb::Read(Transfer {
        blocks: 1,
        ..Transfer::default()
    })
    .emit();
    let inquiry = Cdb::Inquiry {
        page: None,
        allocation_length: 96,
    }
    .emit();
    for (case, cdb, r, w, status) in [
        ("READ", read, false, true, 0),
        ("READ both ways", read, true, true, 2),
        ("INQUIRY", inquiry, false, true, 0),
        ("WRITE", write(0, 1), true, false, 2),
    ] {
        let command = initiator.command(0, &cdb, r, w, 512);
        let data = if w { pattern(512, 1) } else { vec![] };
        initiator.send_command(&mut pair, &command, &data);
        let answer = Answer::of(initiator.receive(&mut pair), command.itt);
        assert_eq!(
            (answer.status, answer.residual),
            (status, Residual::Underflow(512)),
            "{case}"
        );
    }
    // A command without a direction that expects data moves no data.
    let command = initiator.command(0, &[0], false, false, 512);
    initiator.send_command(&mut pair, &command, &[]);
    assert_eq!(
        Answer::of(initiator.receive(&mut pair), command.itt).residual,
        Residual::Underflow(512)
    );
    assert!(pair.lus[&0].iter().all(|byte| *byte == 0));
    assert_nothing_reserved(&pair);
}
