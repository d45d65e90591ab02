//! T-02 and T-11: functions that end the tasks of several sessions, and the unit attentions of each
//! session.

use std::collections::HashSet;

use hakaru_wire::iscsi::{
    Itt, ScsiCommand, TaskManagementFunction as Function, TaskManagementResult as Outcome,
};
use hakaru_wire::scsi::Sense;

use super::scene::{Random, manage, outcome, read, serve_one, write};
use crate::pair::control::{attentions, log_in_at};
use crate::pair::{INITIATOR, Initiator, Pair};

const INITIATORS: usize = 4;
const ROUNDS: u64 = 60;
const ANSWER_S_MAX: f64 = 5.0;

pub fn under_load() -> u64 {
    let functions = [
        Function::LogicalUnitReset,
        Function::TargetWarmReset,
        Function::ClearTaskSet,
    ];
    let mut random = Random(2);
    let mut pair = Pair::new();
    let mut initiators: Vec<Initiator> = (0..INITIATORS as u32)
        .map(|n| pair.log_in_as(&format!("{INITIATOR}-{n}"), n + 1, &[]))
        .collect();
    for function in functions {
        for round in 0..ROUNDS {
            let sender = random.below(INITIATORS);
            one_round(&mut pair, &mut initiators, sender, function, &mut random);
            // One function per second.
            pair.advance(1.0);
            assert!(round < ROUNDS);
        }
    }
    functions.len() as u64 * ROUNDS
}

fn one_round(
    pair: &mut Pair,
    initiators: &mut [Initiator],
    sender: usize,
    function: Function,
    random: &mut Random,
) {
    pair.stalled = true;
    let mut on_unit: Vec<Vec<ScsiCommand>> = Vec::new();
    let mut elsewhere: Vec<Vec<ScsiCommand>> = Vec::new();
    for (n, initiator) in initiators.iter_mut().enumerate() {
        let first = n as u64 * 16;
        let writes = (first..first + 8).map(|lba| write(initiator, pair, lba, 1));
        on_unit.push(writes.collect());
        let reads = (0..4).map(|lba| read(initiator, pair, 5, lba));
        elsewhere.push(reads.collect());
    }
    let before = pair.time;
    let itt = manage(&mut initiators[sender], pair, function, 0, None);
    let everything = function == Function::TargetWarmReset;
    let mut answered: Vec<HashSet<Itt>> = vec![HashSet::new(); initiators.len()];
    let mut result = None;
    loop {
        for (n, initiator) in initiators.iter_mut().enumerate() {
            for pdu in initiator.receive(pair) {
                match outcome(&pdu) {
                    Some(response) => {
                        assert_eq!((n, pdu.bhs.itt()), (sender, itt));
                        let took = (pair.time.0 - before.0) as f64 / 1e9;
                        assert!(took <= ANSWER_S_MAX, "{took} s");
                        result = Some(response);
                    }
                    None => assert!(answered[n].insert(pdu.bhs.itt())),
                }
            }
        }
        if !serve_one(pair, random) {
            break;
        }
    }
    assert_eq!(result, Some(Outcome::Complete));
    pair.stalled = false;
    for (n, initiator) in initiators.iter_mut().enumerate() {
        let has_answer = |command: &&ScsiCommand| answered[n].contains(&command.itt);
        assert_eq!(on_unit[n].iter().filter(has_answer).count(), 0);
        let others = if everything { 0 } else { elsewhere[n].len() };
        assert_eq!(elsewhere[n].iter().filter(has_answer).count(), others);
        let (attentions_0, attentions_5) = match function {
            Function::ClearTaskSet if n == sender => (vec![], vec![]),
            Function::ClearTaskSet => (vec![Sense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR], vec![]),
            Function::LogicalUnitReset => (vec![Sense::BUS_DEVICE_RESET_FUNCTION], vec![]),
            _ => (
                vec![Sense::BUS_DEVICE_RESET_FUNCTION],
                vec![Sense::BUS_DEVICE_RESET_FUNCTION],
            ),
        };
        assert_eq!(
            attentions(initiator, pair, 0),
            attentions_0,
            "{function:?}, initiator {n}"
        );
        assert_eq!(
            attentions(initiator, pair, 5),
            attentions_5,
            "{function:?}, initiator {n}"
        );
    }
}

/// Resets an LU by each of two sessions in turn, which one initiator port has on two portals.
pub fn on_one_of_two_paths() -> u64 {
    let mut random = Random(3);
    let mut pair = Pair::new();
    let mut paths = [
        log_in_at(&mut pair, 0, INITIATOR, 1),
        log_in_at(&mut pair, 1, INITIATOR, 1),
    ];
    for sender in [0, 1] {
        pair.stalled = true;
        let lost: Vec<ScsiCommand> = paths
            .iter_mut()
            .zip(0..)
            .map(|(path, lba)| write(path, &mut pair, lba, 1))
            .collect();
        manage(
            &mut paths[sender],
            &mut pair,
            Function::LogicalUnitReset,
            0,
            None,
        );
        while serve_one(&mut pair, &mut random) {}
        pair.stalled = false;
        for (path, lost) in paths.iter_mut().zip(&lost) {
            let pdus = path.receive(&mut pair);
            assert!(pdus.iter().all(|pdu| pdu.bhs.itt() != lost.itt));
            assert_eq!(
                attentions(path, &mut pair, 0),
                [Sense::BUS_DEVICE_RESET_FUNCTION]
            );
            assert_eq!(attentions(path, &mut pair, 0), []);
        }
        // The other path reads data that one path writes after the reset.
        let command = write(&mut paths[sender], &mut pair, 9, 0x40 + sender as u8);
        assert_eq!(paths[sender].receive_one(&mut pair).bhs.itt(), command.itt);
        read(&mut paths[1 - sender], &mut pair, 0, 9);
        let read_back = paths[1 - sender].receive(&mut pair);
        assert_eq!(read_back[0].data, [0x40 + sender as u8; 512]);
    }
    2
}
