//! One initiator under load: eight commands in flight, no two of them on the same blocks.
use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::Sender;

use hakaru_iscsi_session::{TaskData, TaskError};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::oracle::{Mark, Oracle, stamped};
use crate::support::client::{self, Client, NO_SPACE, sense};

const IN_FLIGHT: usize = 8;
/// Blocks of the pool's smallest page.
const PAGE_BLOCKS: u64 = 128;

/// Numbers of responses by kind.
#[derive(Debug, Default)]
pub struct ResponseCounts {
    pub writes: u64,
    pub fua: u64,
    pub flushes: u64,
    pub unmaps: u64,
    pub refused: u64,
}

impl ResponseCounts {
    pub fn add(&mut self, other: &ResponseCounts) {
        self.writes += other.writes;
        self.fua += other.fua;
        self.flushes += other.flushes;
        self.unmaps += other.unmaps;
        self.refused += other.refused;
    }
}

impl fmt::Display for ResponseCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} writes, {} FUA writes, {} flushes, {} unmaps acknowledged, {} writes refused for space",
            self.writes, self.fua, self.flushes, self.unmaps, self.refused
        )
    }
}

/// A command in flight.
enum Sent {
    Write { at: u64, count: u64, fua: bool },
    Unmap { at: u64, count: u64 },
    Flush(Mark),
}

/// An initiator, and the oracle of its blocks.
pub struct Initiator {
    client: Client,
    oracle: Oracle,
    rng: Pcg64,
    responses: Sender<()>,
    in_flight: HashMap<u32, Sent>,
    counts: ResponseCounts,
    commands: u64,
    /// First stamp of this run.
    stamps: u64,
}

impl Initiator {
    /// Creates an initiator that sends a message to `responses` for each response.
    pub fn new(client: Client, oracle: Oracle, seed: u64, responses: Sender<()>) -> Initiator {
        let mut rng = Pcg64::seed_from_u64(seed);
        Initiator {
            client,
            oracle,
            responses,
            in_flight: HashMap::new(),
            counts: ResponseCounts::default(),
            commands: 0,
            // Differs from the stamps of all previous runs with high probability.
            stamps: rng.random_range(1..1_u64 << 60),
            rng,
        }
    }

    /// Runs the load until the connection to the array is lost.
    pub fn run(mut self) -> (Oracle, ResponseCounts) {
        loop {
            while self.in_flight.len() < IN_FLIGHT {
                self.send_one();
            }
            let Ok(done) = self.client.wait_any() else {
                return (self.oracle, self.counts);
            };
            self.handle_response(done.tag, done.result);
            // The receiver no longer exists once the array is about to be killed.
            let _ = self.responses.send(());
        }
    }

    fn send_one(&mut self) {
        let kind = self.rng.random_range(0..100);
        if kind < 4 {
            let mark = self.oracle.mark();
            let tag = self.client.submit(0, &client::flush(), TaskData::None);
            self.in_flight.insert(tag, Sent::Flush(mark));
            return;
        }
        let pages = self.oracle.count() / PAGE_BLOCKS;
        let (at, count) = match kind {
            // Unmapped pages are deallocated, unmapped parts of pages are zeroed.
            4..8 => (self.rng.random_range(0..pages) * PAGE_BLOCKS, PAGE_BLOCKS),
            8..12 => (
                self.rng.random_range(0..self.oracle.count() - 64),
                self.rng.random_range(1..64),
            ),
            _ => (
                self.rng.random_range(0..self.oracle.count() - 32),
                self.rng.random_range(1..32),
            ),
        };
        if !self.oracle.is_quiet(at, count) {
            return;
        }
        self.commands += 1;
        let lba = self.oracle.first() + at;
        if kind < 12 {
            self.oracle.sent(at, count, self.commands, 0);
            let data = client::unmap_data(lba, count as u32);
            let tag = self.client.submit(0, &client::unmap(), data);
            self.in_flight.insert(tag, Sent::Unmap { at, count });
            return;
        }
        let fua = kind < 20;
        let value = self.stamps + self.commands;
        self.oracle.sent(at, count, self.commands, value);
        let data: Vec<u8> = (lba..lba + count)
            .flat_map(|lba| stamped(lba, value))
            .collect();
        let cdb = client::write_16(lba, count as u32, fua);
        let tag = self.client.submit(0, &cdb, client::outgoing(&data));
        self.in_flight.insert(tag, Sent::Write { at, count, fua });
    }

    fn handle_response(&mut self, tag: u32, result: Result<u32, TaskError>) {
        let sent = self
            .in_flight
            .remove(&tag)
            .expect("each command is answered once");
        match (sent, result) {
            (Sent::Flush(mark), Ok(_)) => {
                self.counts.flushes += 1;
                self.oracle.flushed(&mark);
            }
            (Sent::Write { at, count, fua }, Ok(_)) => {
                self.counts.writes += u64::from(!fua);
                self.counts.fua += u64::from(fua);
                self.oracle.answered(at, count, fua);
            }
            (Sent::Unmap { at, count }, Ok(_)) => {
                self.counts.unmaps += 1;
                self.oracle.answered(at, count, false);
            }
            (Sent::Write { at, count, .. } | Sent::Unmap { at, count }, refused) => {
                assert_eq!(sense(refused), NO_SPACE);
                self.counts.refused += 1;
                self.oracle.refused(at, count);
            }
            (Sent::Flush(_), Err(e)) => panic!("a flush failed: {e}"),
        }
    }
}
