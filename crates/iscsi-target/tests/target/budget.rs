//! Limits on the write data of the target and of a session.

use crate::pair::{
    Answer, Initiator, Pair, answer_to, config, pattern, r2t_of, unsolicited, write,
};
use hakaru_iscsi_target::Limits;
use hakaru_wire::iscsi::{CmdSn, Itt, Opcode, R2t, Reject, RejectReason, ScsiCommand, Ttt};

fn logged_in(keys: &[(&str, &str)]) -> (Pair, Initiator) {
    let mut pair = Pair::new();
    let initiator = pair.log_in(keys);
    (pair, initiator)
}

/// Checks that no session has reserved write budget.
fn assert_nothing_reserved(pair: &Pair) {
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

fn small_budget() -> Pair {
    Pair::with(hakaru_iscsi_target::TargetConfig {
        limits: Limits {
            transfer_bytes_max: 8192,
            session_write_buffer_bytes_max: 16_384,
            write_buffer_bytes_max: 24_576,
            ..Limits::default()
        },
        ..config()
    })
}

/// Sends the data that an R2T requests. Returns the R2Ts received then, and the number of
/// statuses.
fn serve(pair: &mut Pair, initiator: &mut Initiator, r2t: &R2t) -> (Vec<R2t>, usize) {
    initiator.send_data_out(pair, answer_to(r2t), &pattern(8192, 1));
    assert!(pair.counter("sessions", "write_buffer_bytes_now") <= 24_576.0);
    let pdus = initiator.receive(pair);
    let r2ts = pdus.iter().filter(|pdu| pdu.opcode() == Opcode::R2t);
    let statuses = pdus
        .iter()
        .filter(|pdu| pdu.opcode() == Opcode::ScsiResponse);
    (r2ts.map(r2t_of).collect(), statuses.count())
}

#[test]
fn writes_beyond_a_share_wait_and_sessions_take_turns_for_the_budget() {
    let mut pair = small_budget();
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut a = pair.log_in_as("iqn.2026-01.net.example:a", 1, &keys);
    let mut b = pair.log_in_as("iqn.2026-01.net.example:b", 2, &keys);
    let mut open: Vec<R2t> = Vec::new();
    for lba in 0..4 {
        let command = a.command(0, &write(lba * 16, 16), false, true, 8192);
        a.send_command(&mut pair, &command, &[]);
        open.extend(a.receive(&mut pair).iter().map(r2t_of));
    }
    assert_eq!(open.len(), 2, "a session's share is two writes");
    let command = b.command(0, &write(64, 16), false, true, 8192);
    b.send_command(&mut pair, &command, &[]);
    let first_of_b = r2t_of(&b.receive_one(&mut pair));
    let command = b.command(0, &write(80, 16), false, true, 8192);
    b.send_command(&mut pair, &command, &[]);
    assert!(b.receive(&mut pair).is_empty(), "the budget is used up");
    let (third, done) = serve(&mut pair, &mut a, &open[0]);
    assert_eq!((third.len(), done), (1, 1), "the third of a was first");
    assert!(b.receive(&mut pair).is_empty());
    let (none, done) = serve(&mut pair, &mut a, &open[1]);
    assert_eq!((none.len(), done), (0, 1), "it is the turn of b");
    let second_of_b = r2t_of(&b.receive_one(&mut pair));
    for r2t in [first_of_b, second_of_b] {
        assert_eq!(serve(&mut pair, &mut b, &r2t).1, 1);
    }
    let fourth = r2t_of(&a.receive_one(&mut pair));
    for r2t in [third[0], fourth] {
        assert_eq!(serve(&mut pair, &mut a, &r2t).1, 1);
    }
    assert_nothing_reserved(&pair);
}

#[test]
fn a_session_that_has_used_its_share_is_passed_over() {
    let mut pair = small_budget();
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut names = ["a", "b", "c"].iter().zip(1..);
    let [mut a, mut b, mut c] = [(); 3].map(|()| {
        let (name, isid) = names.next().expect("three names");
        pair.log_in_as(&format!("iqn.2026-01.net.example:{name}"), isid, &keys)
    });
    let begin = |pair: &mut Pair, initiator: &mut Initiator, lba| {
        let command = initiator.command(0, &write(lba, 16), false, true, 8192);
        initiator.send_command(pair, &command, &[]);
        initiator.receive(pair).first().map(r2t_of)
    };
    let open = [0, 16, 32].map(|lba| begin(&mut pair, &mut a, lba).is_some());
    assert_eq!(open, [true, true, false], "a has used its share");
    let r2t = begin(&mut pair, &mut c, 48).expect("an R2T");
    assert!(begin(&mut pair, &mut b, 64).is_none(), "none is left");
    assert_eq!(serve(&mut pair, &mut c, &r2t).1, 1);
    assert!(a.receive(&mut pair).is_empty());
    let r2t = r2t_of(&b.receive_one(&mut pair));
    assert_eq!(serve(&mut pair, &mut b, &r2t).1, 1);
}

#[test]
fn immediate_data_is_accepted_while_another_session_has_used_its_share() {
    let mut pair = small_budget();
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut a = pair.log_in_as("iqn.2026-01.net.example:a", 1, &keys);
    let mut b = pair.log_in_as("iqn.2026-01.net.example:b", 2, &[]);
    for lba in 0..3 {
        let command = a.command(0, &write(lba * 16, 16), false, true, 8192);
        a.send_command(&mut pair, &command, &[]);
    }
    let command = b.command(0, &write(64, 1), false, true, 512);
    b.send_command(&mut pair, &command, &pattern(512, 1));
    Answer::of(b.receive(&mut pair), command.itt).good();
}

#[test]
fn immediate_data_does_not_overtake_a_write_that_waits_for_the_budget() {
    let mut pair = small_budget();
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut full = pair.log_in_as("iqn.2026-01.net.example:full", 1, &keys);
    let mut half = pair.log_in_as("iqn.2026-01.net.example:half", 2, &keys);
    let mut large = pair.log_in_as("iqn.2026-01.net.example:large", 3, &keys);
    let mut small = pair.log_in_as("iqn.2026-01.net.example:small", 4, &[]);
    for lba in [0, 16] {
        let command = full.command(0, &write(lba, 16), false, true, 8192);
        full.send_command(&mut pair, &command, &[]);
    }
    let command = half.command(0, &write(32, 8), false, true, 4096);
    half.send_command(&mut pair, &command, &[]);
    let r2t = r2t_of(&half.receive_one(&mut pair));
    let command = large.command(0, &write(48, 16), false, true, 8192);
    large.send_command(&mut pair, &command, &[]);
    assert!(large.receive(&mut pair).is_empty(), "4096 bytes are left");
    let command = small.command(0, &write(64, 1), false, true, 512);
    small.send_command(&mut pair, &command, &pattern(512, 1));
    let answer = Answer::of(small.receive(&mut pair), command.itt);
    assert_eq!(answer.status, 0x28, "the larger write comes first");
    half.send_data_out(&mut pair, answer_to(&r2t), &pattern(4096, 1));
    let r2t = r2t_of(&large.receive_one(&mut pair));
    assert_eq!(serve(&mut pair, &mut large, &r2t).1, 1);
    let command = small.command(0, &write(64, 1), false, true, 512);
    small.send_command(&mut pair, &command, &pattern(512, 1));
    Answer::of(small.receive(&mut pair), command.itt).good();
}

#[test]
fn the_budget_of_a_refused_command_goes_to_the_write_that_waits_for_it() {
    let mut pair = small_budget();
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut full = pair.log_in_as("iqn.2026-01.net.example:full", 1, &keys);
    let mut refused = pair.log_in_as("iqn.2026-01.net.example:refused", 2, &[]);
    let mut waiting = pair.log_in_as("iqn.2026-01.net.example:waiting", 3, &keys);
    for lba in [0, 16] {
        let command = full.command(0, &write(lba, 16), false, true, 8192);
        full.send_command(&mut pair, &command, &[]);
    }
    // The header of a write beyond the LU reserves the rest of the budget for its immediate data.
    let command = refused.command(0, &write(1 << 40, 16), false, true, 8192);
    let mut header = [0; 48];
    ScsiCommand {
        data_segment_length: 8192,
        ..command
    }
    .emit(&mut header);
    let pdu = refused.pdu(&header, &pattern(8192, 1));
    let (first, rest) = pdu.split_at(48 + 512);
    pair.target
        .handle_received(pair.time, refused.connection, first);
    pair.run();
    let later = waiting.command(0, &write(32, 16), false, true, 8192);
    waiting.send_command(&mut pair, &later, &[]);
    assert!(waiting.receive(&mut pair).is_empty(), "no budget is left");
    pair.target
        .handle_received(pair.time, refused.connection, rest);
    pair.run();
    assert_eq!(waiting.receive_one(&mut pair).opcode(), Opcode::R2t);
    let sense = Answer::of(refused.receive(&mut pair), command.itt).sense();
    assert_eq!(sense, hakaru_wire::scsi::Sense::LBA_OUT_OF_RANGE);
}

#[test]
fn unsolicited_data_beyond_the_budget_is_answered_with_task_set_full() {
    let mut pair = small_budget();
    let mut initiator = pair.log_in(&[("InitialR2T", "No")]);
    pair.stalled = true;
    for lba in 0..2 {
        let command = initiator.command(0, &write(lba * 16, 16), false, true, 8192);
        initiator.send_command(&mut pair, &command, &pattern(8192, 1));
    }
    let third = initiator.command(0, &write(32, 16), false, true, 8192);
    initiator.send_command(&mut pair, &third, &pattern(8192, 1));
    assert_eq!(
        Answer::of(initiator.receive(&mut pair), third.itt).status,
        0x28
    );
    let fourth = ScsiCommand {
        is_final: false,
        ..initiator.command(0, &write(32, 16), false, true, 8192)
    };
    initiator.send_command(&mut pair, &fourth, &[]);
    assert!(initiator.receive(&mut pair).is_empty());
    initiator.send_data_out(
        &mut pair,
        unsolicited(&fourth, 0, 0, true),
        &pattern(8192, 1),
    );
    assert_eq!(
        Answer::of(initiator.receive(&mut pair), fourth.itt).status,
        0x28
    );
    pair.release();
    assert_eq!(initiator.receive(&mut pair).len(), 2);
    assert!(pair.lus[&0][32 * 512..].iter().all(|byte| *byte == 0));
    assert_nothing_reserved(&pair);
}

#[test]
fn sessions_that_vanish_in_the_middle_of_writes_give_their_budget_to_others() {
    let mut pair = small_budget();
    let mut waiting = pair.log_in_as(
        "iqn.2026-01.net.example:w",
        9,
        &[("InitialR2T", "Yes"), ("ImmediateData", "No")],
    );
    let mut vanished: Vec<Initiator> = (0..2)
        .map(|n| pair.log_in_as("iqn.2026-01.net.example:gone", n, &[("InitialR2T", "No")]))
        .collect();
    for initiator in &mut vanished {
        for lba in 0..2 {
            let command = ScsiCommand {
                is_final: false,
                ..initiator.command(0, &write(lba, 16), false, true, 8192)
            };
            initiator.send_command(&mut pair, &command, &pattern(512, 1));
        }
    }
    let command = waiting.command(0, &write(0, 16), false, true, 8192);
    waiting.send_command(&mut pair, &command, &[]);
    assert!(waiting.receive(&mut pair).is_empty());
    for initiator in &vanished {
        pair.target.handle_closed(pair.time, initiator.connection);
    }
    pair.run();
    assert_eq!(waiting.receive_one(&mut pair).opcode(), Opcode::R2t);
    pair.target.handle_closed(pair.time, waiting.connection);
    assert_nothing_reserved(&pair);
}

#[test]
fn a_command_may_be_held_with_its_data_until_its_turn() {
    let (mut pair, mut initiator) = logged_in(&[]);
    let first = initiator.command(0, &write(0, 1), false, true, 512);
    let second = initiator.command(0, &write(0, 1), false, true, 512);
    initiator.send_command(&mut pair, &second, &pattern(512, 2));
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 512.0);
    initiator.send_command(&mut pair, &first, &pattern(512, 1));
    assert_eq!(initiator.receive(&mut pair).len(), 2);
    assert_eq!(
        pair.lus[&0][..512],
        pattern(512, 2),
        "the order is that of CmdSN"
    );
    let early = ScsiCommand {
        cmd_sn: CmdSn(initiator.cmd_sn + 5),
        ..initiator.command(0, &write(0, 1), false, true, 512)
    };
    initiator.send_command(&mut pair, &early, &pattern(512, 3));
    pair.target.handle_closed(pair.time, initiator.connection);
    assert_nothing_reserved(&pair);
}

#[test]
fn a_session_that_withholds_its_data_is_ended_after_a_minute() {
    let (mut pair, mut initiator) = logged_in(&[("InitialR2T", "Yes"), ("ImmediateData", "No")]);
    let command = initiator.command(0, &write(0, 1), false, true, 512);
    initiator.send_command(&mut pair, &command, &[]);
    r2t_of(&initiator.receive_one(&mut pair));
    for _ in 0..12 {
        pair.advance(4.9);
        initiator.run(&mut pair, 0, &[0], 0).good();
    }
    assert!(!pair.is_closed(initiator.connection), "58.8 s");
    pair.advance(1.4);
    assert!(pair.is_closed(initiator.connection), "60.2 s");
    assert_nothing_reserved(&pair);
}

#[test]
fn a_write_that_waited_for_the_budget_for_over_a_minute_has_a_minute_for_its_data() {
    let mut pair = small_budget();
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
    let mut holders = [("a", 1), ("b", 2)]
        .map(|(name, isid)| pair.log_in_as(&format!("iqn.2026-01.net.example:{name}"), isid, &[]));
    let mut late = pair.log_in_as("iqn.2026-01.net.example:late", 3, &keys);
    pair.stalled = true;
    for (holder, lba) in [(0, 0), (0, 16), (1, 32)] {
        let initiator = &mut holders[holder];
        let command = initiator.command(0, &write(lba, 16), false, true, 8192);
        initiator.send_command(&mut pair, &command, &pattern(8192, 1));
    }
    let command = late.command(0, &write(48, 16), false, true, 8192);
    late.send_command(&mut pair, &command, &[]);
    let ready = |pair: &mut Pair, initiator: &mut Initiator| {
        initiator.run(pair, 0, &[0], 0).good();
    };
    for _ in 0..14 {
        pair.advance(4.9);
        for initiator in holders.iter_mut().chain([&mut late]) {
            ready(&mut pair, initiator);
        }
    }
    pair.release();
    let r2t = r2t_of(&late.receive_one(&mut pair));
    pair.advance(4.9);
    assert!(!pair.is_closed(late.connection), "4.9 s after the R2T");
    late.send_data_out(&mut pair, answer_to(&r2t), &pattern(8192, 1));
    Answer::of(late.receive(&mut pair), command.itt).good();
    assert_nothing_reserved(&pair);
}

#[test]
fn a_ping_beyond_the_budget_is_rejected() {
    let mut pair = small_budget();
    let mut initiator = pair.log_in(&[]);
    let ping = hakaru_wire::iscsi::NopOut {
        immediate: true,
        itt: Itt(5),
        ttt: Ttt::RESERVED,
        data_segment_length: 20_000,
        ..Default::default()
    };
    let mut header = [0; 48];
    ping.emit(&mut header);
    initiator.send(&mut pair, &header, &[7; 20_000]);
    let reject = initiator.receive_one(&mut pair);
    let reason = Reject::parse(&reject.bhs).unwrap().reason;
    assert_eq!(reason, RejectReason::LongOperationReject);
}
