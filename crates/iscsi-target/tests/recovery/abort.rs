//! T-01 and T-03: ABORT TASK. An aborted command has no status, and an aborted write changes nothing after the function's answer.

use std::collections::{HashMap, HashSet};

use hakaru_iscsi_target::Limits;
use hakaru_wire::iscsi::{
    Itt, Opcode, ScsiCommand, TaskManagementFunction as Function, TaskManagementResult as Outcome,
};
use hakaru_wire::scsi::{Cdb, Transfer};

use crate::pair::{Initiator, Pair, answer_to, config, r2t_of};
use crate::scene::{
    ACCESS_S, BLOCK_BYTES, Random, block, manage, outcome, read, serve_one, write, write_unsent,
};

const DEPTH: u64 = 128;
/// Longest a function may take in 99.9 % of cases; here none takes longer.
const ANSWER_S_MAX: f64 = 1.0;

pub fn of_random_commands() -> u64 {
    const ABORTS: u64 = 10_000;
    let mut random = Random(1);
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    let mut tried = 0;
    let mut round = 0_u8;
    while tried < ABORTS {
        round = round.wrapping_add(1).max(1);
        tried += abort_among(&mut pair, &mut initiator, &mut random, round);
    }
    tried
}

/// Fills the queue, lets the storage end some of it, and aborts half, in the order of chance.
fn abort_among(pair: &mut Pair, initiator: &mut Initiator, random: &mut Random, round: u8) -> u64 {
    pair.stalled = true;
    let commands: Vec<ScsiCommand> = (0..DEPTH)
        .map(|lba| match random.below(4) {
            0 => read(initiator, pair, 0, lba),
            _ => write(initiator, pair, lba, round),
        })
        .collect();
    for _ in 0..random.below(DEPTH as usize / 2) {
        serve_one(pair, random);
    }
    let mut answered: HashSet<Itt> = HashSet::new();
    for pdu in initiator.receive(pair) {
        answered.insert(pdu.bhs.itt());
    }
    let mut order: Vec<usize> = (0..commands.len()).collect();
    random.shuffle(&mut order);
    let functions: HashMap<Itt, usize> = order[..commands.len() / 2]
        .iter()
        .map(|at| {
            let command = &commands[*at];
            let itt = manage(initiator, pair, Function::AbortTask, 0, Some(command));
            (itt, *at)
        })
        .collect();
    let asked_at = pair.time;
    // What the block held when the abort of its write was answered.
    let mut as_answered: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut results = 0;
    loop {
        for pdu in initiator.receive(pair) {
            let Some(result) = outcome(&pdu) else {
                assert!(answered.insert(pdu.bhs.itt()), "one status for one command");
                continue;
            };
            results += 1;
            let at = functions[&pdu.bhs.itt()];
            let took = (pair.time.0 - asked_at.0) as f64 / 1e9;
            assert!(took <= ANSWER_S_MAX, "{took} s");
            match result {
                Outcome::Complete => assert!(!answered.contains(&commands[at].itt)),
                Outcome::NoSuchTask => assert!(answered.contains(&commands[at].itt)),
                other => panic!("{other:?}"),
            }
            as_answered.insert(at as u64, block(pair, at as u64));
            // After "function complete" no status may follow: the initiator counts the task as ended.
            answered.insert(commands[at].itt);
        }
        if !serve_one(pair, random) {
            break;
        }
    }
    assert_eq!(results, functions.len());
    assert_eq!(
        answered.len(),
        commands.len(),
        "the others were all answered"
    );
    for (lba, then) in as_answered {
        assert_eq!(
            block(pair, lba),
            then,
            "block {lba} changed after the answer"
        );
    }
    results as u64
}

pub fn in_every_stage() -> u64 {
    const EACH: u64 = 1000;
    for n in 0..EACH {
        waiting_for_data(n);
        waiting_for_space(n);
        with_the_storage(n);
        on_disk(n);
    }
    4 * EACH
}

fn abort(initiator: &mut Initiator, pair: &mut Pair, command: &ScsiCommand) -> Option<Outcome> {
    manage(initiator, pair, Function::AbortTask, 0, Some(command));
    initiator.receive(pair).iter().find_map(outcome)
}

fn waiting_for_data(n: u64) {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[("InitialR2T", "Yes"), ("ImmediateData", "No")]);
    let command = write_unsent(&mut initiator, &mut pair, n);
    let r2t = r2t_of(&initiator.receive_one(&mut pair));
    let result = abort(&mut initiator, &mut pair, &command);
    assert_eq!(result, Some(Outcome::Complete), "nothing is under way");
    initiator.send_data_out(&mut pair, answer_to(&r2t), &[1; BLOCK_BYTES]);
    assert!(initiator.receive(&mut pair).is_empty());
    assert_eq!(block(&pair, n), [0; BLOCK_BYTES]);
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

/// The target's budget for write data is used up: the next write waits before its first R2T.
fn waiting_for_space(n: u64) {
    const WHOLE: u32 = 64 << 10;
    let mut config = config();
    config.limits = Limits {
        transfer_bytes_max: WHOLE,
        session_write_buffer_bytes_max: WHOLE.into(),
        write_buffer_bytes_max: WHOLE.into(),
        ..Limits::default()
    };
    let mut pair = Pair::with(config);
    let mut initiator = pair.log_in(&[("InitialR2T", "Yes"), ("ImmediateData", "No")]);
    let transfer = Cdb::Write(Transfer {
        lba: 1024,
        blocks: WHOLE / BLOCK_BYTES as u32,
        ..Transfer::default()
    });
    let first = initiator.command(0, &transfer.emit(), false, true, WHOLE);
    initiator.send_command(&mut pair, &first, &[]);
    let r2t = r2t_of(&initiator.receive_one(&mut pair));
    let waiting = write_unsent(&mut initiator, &mut pair, n);
    assert!(
        initiator.receive(&mut pair).is_empty(),
        "there is no room for it"
    );
    let result = abort(&mut initiator, &mut pair, &waiting);
    assert_eq!(result, Some(Outcome::Complete));
    initiator.send_data_out(&mut pair, answer_to(&r2t), &vec![7; WHOLE as usize]);
    let answers = initiator.receive(&mut pair);
    assert_eq!(
        answers.len(),
        1,
        "the first goes on, the other is gone: {answers:?}"
    );
    assert_eq!(answers[0].bhs.itt(), first.itt);
    assert_eq!(block(&pair, n), [0; BLOCK_BYTES]);
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

/// It may still be written, but not after the answer.
fn with_the_storage(n: u64) {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    pair.stalled = true;
    let command = write(&mut initiator, &mut pair, n, 1);
    assert_eq!(abort(&mut initiator, &mut pair, &command), None);
    pair.advance(ACCESS_S);
    pair.release();
    let answers = initiator.receive(&mut pair);
    assert_eq!(answers.len(), 1, "no status: {answers:?}");
    assert_eq!(outcome(&answers[0]), Some(Outcome::Complete));
}

fn on_disk(n: u64) {
    let mut pair = Pair::new();
    let mut initiator = pair.log_in(&[]);
    let command = write(&mut initiator, &mut pair, n, 1);
    assert_eq!(
        initiator.receive_one(&mut pair).opcode(),
        Opcode::ScsiResponse
    );
    let result = abort(&mut initiator, &mut pair, &command);
    assert_eq!(result, Some(Outcome::NoSuchTask));
    assert_eq!(block(&pair, n), [1; BLOCK_BYTES], "what was answered stays");
}
