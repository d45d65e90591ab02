//! T-01 and T-03: ABORT TASK. An aborted command gets no status, and an aborted write changes
//! nothing after the answer to the function.

use std::collections::{HashMap, HashSet};

use hakaru_iscsi_target::Limits;
use hakaru_wire::iscsi::{
    Itt, Opcode, ScsiCommand, TaskManagementFunction as Function, TaskManagementResult as Outcome,
};
use hakaru_wire::scsi::{Cdb, Transfer};

use super::scene::{
    ACCESS_S, BLOCK_BYTES, Random, block, manage, outcome, read, serve_one, write, write_unsent,
};
use crate::pair::{Initiator, Pair, answer_to, config, r2t_of};

const DEPTH: u64 = 128;
/// Maximum duration of a function in 99.9 % of cases, seconds. In this test no function takes
/// longer.
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

/// Fills the queue, lets the storage end some of the commands, and aborts half of them in random
/// order.
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
    let requested_at = pair.time;
    // Contents of each block when the abort of its write was answered.
    let mut contents_at_answer: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut results = 0;
    loop {
        for pdu in initiator.receive(pair) {
            let Some(result) = outcome(&pdu) else {
                assert!(answered.insert(pdu.bhs.itt()), "a command has two statuses");
                continue;
            };
            results += 1;
            let at = functions[&pdu.bhs.itt()];
            let took = (pair.time.0 - requested_at.0) as f64 / 1e9;
            assert!(took <= ANSWER_S_MAX, "{took} s");
            match result {
                Outcome::Complete => assert!(!answered.contains(&commands[at].itt)),
                Outcome::NoSuchTask => assert!(answered.contains(&commands[at].itt)),
                other => panic!("{other:?}"),
            }
            contents_at_answer.insert(at as u64, block(pair, at as u64));
            // No status may follow Function complete, because the initiator considers the task
            // ended.
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
        "not all other commands were answered"
    );
    for (lba, contents) in contents_at_answer {
        assert_eq!(
            block(pair, lba),
            contents,
            "block {lba} changed after the answer"
        );
    }
    results as u64
}

pub fn in_every_stage() -> u64 {
    const ROUNDS: u64 = 1000;
    for n in 0..ROUNDS {
        waiting_for_data(n);
        waiting_for_space(n);
        with_the_storage(n);
        on_disk(n);
    }
    4 * ROUNDS
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
    assert_eq!(
        result,
        Some(Outcome::Complete),
        "the storage executes nothing"
    );
    initiator.send_data_out(&mut pair, answer_to(&r2t), &[1; BLOCK_BYTES]);
    assert!(initiator.receive(&mut pair).is_empty());
    assert_eq!(block(&pair, n), [0; BLOCK_BYTES]);
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

/// Aborts a write that waits for its first R2T because the write budget is used up.
fn waiting_for_space(n: u64) {
    const BUDGET_BYTES: u32 = 64 << 10;
    let mut config = config();
    config.limits = Limits {
        transfer_bytes_max: BUDGET_BYTES,
        session_write_buffer_bytes_max: BUDGET_BYTES.into(),
        write_buffer_bytes_max: BUDGET_BYTES.into(),
        ..Limits::default()
    };
    let mut pair = Pair::with(config);
    let mut initiator = pair.log_in(&[("InitialR2T", "Yes"), ("ImmediateData", "No")]);
    let transfer = Cdb::Write(Transfer {
        lba: 1024,
        blocks: BUDGET_BYTES / BLOCK_BYTES as u32,
        ..Transfer::default()
    });
    let first = initiator.command(0, &transfer.emit(), false, true, BUDGET_BYTES);
    initiator.send_command(&mut pair, &first, &[]);
    let r2t = r2t_of(&initiator.receive_one(&mut pair));
    let waiting = write_unsent(&mut initiator, &mut pair, n);
    assert!(
        initiator.receive(&mut pair).is_empty(),
        "there is no room for the write"
    );
    let result = abort(&mut initiator, &mut pair, &waiting);
    assert_eq!(result, Some(Outcome::Complete));
    initiator.send_data_out(&mut pair, answer_to(&r2t), &vec![7; BUDGET_BYTES as usize]);
    let answers = initiator.receive(&mut pair);
    assert_eq!(
        answers.len(),
        1,
        "the first write continues, the other has ended: {answers:?}"
    );
    assert_eq!(answers[0].bhs.itt(), first.itt);
    assert_eq!(block(&pair, n), [0; BLOCK_BYTES]);
    assert_eq!(pair.counter("sessions", "write_buffer_bytes_now"), 0.0);
}

/// Aborts a write that the storage executes. The block may still be written, but not after the
/// answer.
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
    assert_eq!(
        block(&pair, n),
        [1; BLOCK_BYTES],
        "an answered write persists"
    );
}
