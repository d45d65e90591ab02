//! The return of LU memory that is lent to the kernel, also at the end of a session.

use std::time::Duration;

use crate::pair::{Answer, Initiator, LU_BYTES, Pair, logged_in, pattern, read};
use hakaru_iscsi_target::{Lent, LuDescription, Returned};
use hakaru_wire::iscsi::{Itt, NopOut, StatSn};

const BLOCKS: u32 = 256;
const BYTES: u32 = BLOCKS * 512;

fn lending_session() -> (Pair, Initiator) {
    let (mut pair, initiator) = logged_in(&[]);
    pair.lend = true;
    pair.lus.insert(0, pattern(LU_BYTES, 3));
    (pair, initiator)
}

fn lent(lba: u64, length_bytes: u64) -> Lent {
    Lent {
        lun: 0,
        offset_bytes: lba * 512,
        length_bytes,
    }
}

/// Reads `BLOCKS` blocks.
fn read_at(pair: &mut Pair, initiator: &mut Initiator, lba: u64) {
    let data = initiator.run_cdb(pair, 0, read(lba, BLOCKS), BYTES).good();
    assert!(data == pair.lus[&0][lba as usize * 512..][..BYTES as usize]);
}

/// Acknowledges all statuses received so far.
fn acknowledge(pair: &mut Pair, initiator: &mut Initiator) {
    let ping = NopOut {
        immediate: true,
        itt: Itt::RESERVED,
        exp_stat_sn: initiator.exp_stat_sn,
        ..NopOut::default()
    };
    let mut header = [0; 48];
    ping.emit(&mut header);
    initiator.send(pair, &header, &[]);
}

fn returned(pair: &mut Pair) -> Vec<Returned> {
    std::iter::from_fn(|| pair.target.poll_returned()).collect()
}

/// Merges adjacent ranges, because the pieces into which a read was cut do not matter.
fn merged(returned: Vec<Returned>) -> Vec<Lent> {
    let mut ranges: Vec<Lent> = Vec::new();
    for part in returned {
        let Returned::Read(part) = part else {
            panic!("no connection was closed");
        };
        match ranges.last_mut() {
            Some(last) if last.offset_bytes + last.length_bytes == part.offset_bytes => {
                last.length_bytes += part.length_bytes;
            }
            _ => ranges.push(part),
        }
    }
    ranges
}

#[test]
fn memory_is_returned_when_the_initiator_acknowledges_the_status() {
    let (mut pair, mut initiator) = lending_session();
    read_at(&mut pair, &mut initiator, 16);
    assert_eq!(returned(&mut pair), []);
    acknowledge(&mut pair, &mut initiator);
    assert_eq!(merged(returned(&mut pair)), [lent(16, BYTES.into())]);
    assert_eq!(pair.counter("port/0", "tx_lent_bytes"), f64::from(BYTES));
}

#[test]
fn only_memory_of_reads_whose_status_was_acknowledged_is_returned() {
    let (mut pair, mut initiator) = lending_session();
    read_at(&mut pair, &mut initiator, 0);
    let after_first = initiator.exp_stat_sn;
    read_at(&mut pair, &mut initiator, 1024);
    // The second command has acknowledged the status of the first.
    assert_eq!(merged(returned(&mut pair)), [lent(0, BYTES.into())]);
    let after_second = std::mem::replace(&mut initiator.exp_stat_sn, after_first);
    acknowledge(&mut pair, &mut initiator);
    assert_eq!(returned(&mut pair), []);
    initiator.exp_stat_sn = after_second;
    acknowledge(&mut pair, &mut initiator);
    assert_eq!(merged(returned(&mut pair)), [lent(1024, BYTES.into())]);
}

#[test]
fn the_rest_of_a_block_that_was_cut_is_sent_from_a_copy() {
    let (mut pair, mut initiator) = lending_session();
    pair.write_max = 1000;
    read_at(&mut pair, &mut initiator, 8);
    acknowledge(&mut pair, &mut initiator);
    let parts = returned(&mut pair);
    for part in &parts {
        let Returned::Read(part) = part else {
            panic!("no connection was closed");
        };
        assert_eq!(part.offset_bytes % 512, 0, "each piece begins with a block");
    }
    assert!(parts.len() > 100, "{}", parts.len());
}

#[test]
fn memory_of_a_connection_that_ends_is_abandoned() {
    let (mut pair, mut initiator) = lending_session();
    read_at(&mut pair, &mut initiator, 0);
    pair.target.handle_closed(pair.time, initiator.connection);
    let parts = returned(&mut pair);
    let bytes = |part: &Returned| match part {
        Returned::Abandoned(part) => part.length_bytes,
        Returned::Read(_) => panic!("no status was acknowledged"),
    };
    assert_eq!(parts.iter().map(bytes).sum::<u64>(), u64::from(BYTES));
    assert!(!pair.target.may_lend(initiator.connection, 0));
}

#[test]
fn memory_of_a_removed_lu_is_not_returned_to_a_new_lu_of_the_same_number() {
    let (mut pair, mut initiator) = lending_session();
    read_at(&mut pair, &mut initiator, 0);
    assert!(pair.target.remove_lu(pair.time, 0));
    assert!(!pair.target.may_lend(initiator.connection, 0));
    pair.target.add_lu(LuDescription::new(0, LU_BYTES as u64));
    acknowledge(&mut pair, &mut initiator);
    pair.target.handle_closed(pair.time, initiator.connection);
    assert_eq!(returned(&mut pair), []);
}

#[test]
fn an_initiator_that_never_acknowledges_status_eventually_gets_copies() {
    let (mut pair, mut initiator) = lending_session();
    let never = initiator.exp_stat_sn;
    for n in 0..600 {
        let mut command = initiator.command(0, &read(n % 64, BLOCKS).emit(), true, false, BYTES);
        command.exp_stat_sn = never;
        initiator.send_command(&mut pair, &command, &[]);
        Answer::of(initiator.receive(&mut pair), command.itt).good();
    }
    assert!(!pair.target.may_lend(initiator.connection, 0));
    assert_eq!(returned(&mut pair), []);
    let lent = pair.counter("port/0", "tx_lent_bytes");
    assert!((1.0..600.0 * f64::from(BYTES)).contains(&lent), "{lent}");
}

#[test]
fn lent_memory_is_sent_before_the_connection_is_closed() {
    let (mut pair, mut initiator) = lending_session();
    pair.blocked.insert(initiator.connection);
    let cdb = read(0, BLOCKS).emit();
    let command = initiator.command(0, &cdb, true, false, BYTES);
    initiator.send_command(&mut pair, &command, &[]);
    let id = initiator.connection;
    // Sends the header, then lends all data of the read, which is the last of the queue.
    let mut nothing = |_: u8, _: u64, _: &mut [u8]| {};
    while pair.target.transmit(id).segments().next().is_some() {
        let segment = pair.target.transmit(id).segments().next();
        let length = match segment {
            Some(hakaru_iscsi_target::Segment::Lu { length_bytes, .. }) => {
                let length = length_bytes as usize;
                pair.target.handle_lent(id, length, &mut nothing);
                if pair.target.transmit(id).segments().next().is_none() {
                    break;
                }
                length
            }
            Some(hakaru_iscsi_target::Segment::Bytes(bytes)) => bytes.len(),
            None => unreachable!("the loop condition has found a segment"),
        };
        pair.target
            .handle_transmitted(pair.time, id, length, &mut nothing);
    }
    pair.target.shut_down(pair.time);
    let left = pair.target.transmit(id).lent_bytes();
    assert!(left > 0);
    pair.target
        .handle_timeout(pair.time + Duration::from_millis(1));
    assert_eq!(
        pair.target.poll_close(),
        None,
        "the socket has not accepted the lent memory yet"
    );
    assert_ne!(initiator.exp_stat_sn, StatSn(0));
}
