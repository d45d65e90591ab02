//! Repeated `kill -9` of the array while two drives write.
//!
//! Each drive writes blocks and filemarks, synchronises, moves on its tape, and is unloaded. The
//! array is killed after a random number of responses. Then it is restarted, and both tapes are
//! read twice: each must be a prefix of what was written that has everything synchronised. The
//! cartridges are in a folder, or in a pool, whose metadata must be sound after each kill.
//!
//! `HAKARU_KILLS` is the number of kills: default 6, or 200 if `HAKARU_LONG` is set. `HAKARU_SEED`
//! selects another run, default 1.
use std::sync::mpsc::{self, Sender};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use crate::drive::{self, BLOCK_MAX, DRIVE, End, SLOT};
use crate::oracle::{Change, Object, Oracle, block, object_of};
use crate::support::array::{Array, Scratch, check, config, group, pool};
use crate::support::client::Client;

const DRIVES: u16 = 2;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// One initiator with one drive.
struct Writer {
    client: Client,
    number: u16,
    oracle: Oracle,
    random: Pcg64,
    responses: Sender<()>,
    position: usize,
    end: usize,
    counts: Counts,
}

/// Numbers of commands that were answered.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    blocks: u64,
    synchronised: u64,
    overwritten: u64,
    full: u64,
}

impl Writer {
    fn lun(&self) -> u8 {
        self.number as u8 + 1
    }

    /// Runs until the connection is lost.
    fn run(mut self) -> (Oracle, Counts) {
        let (slot, drive) = (SLOT + self.number, DRIVE + self.number);
        drive::move_medium(&mut self.client, slot, drive);
        let lun = self.lun();
        drive::plain(&mut self.client, lun, &[0x11, 3, 0, 0, 0, 0]);
        self.position = self.end;
        while self.step().is_some() {
            // The receiver no longer exists once the array is about to be killed.
            let _ = self.responses.send(());
        }
        (self.oracle, self.counts)
    }

    /// Executes one command. Returns `None` once the connection is lost.
    fn step(&mut self) -> Option<()> {
        let lun = self.lun();
        match self.random.random_range(0..100) {
            0..60 => {
                let stamp = self.random.random();
                let length = self.random.random_range(8..BLOCK_MAX);
                let object = Object::Block { stamp, length };
                self.change(Some((object, 1)));
                let end = drive::write(&mut self.client, lun, &block(stamp, length));
                self.counts.blocks += 1;
                self.changed(end, 1)
            }
            60..75 => {
                let count = self.random.random_range(0..3_u32);
                let immediate = self.random.random();
                if count > 0 {
                    self.change(Some((Object::Mark, count as usize)));
                }
                let end = drive::filemarks(&mut self.client, lun, count, immediate);
                let synchronises = !immediate && end.done();
                self.changed(end, count as usize)?;
                if synchronises {
                    self.synchronised();
                }
                Some(())
            }
            75..85 => {
                // Usually the tape is written at its end.
                let to = match self.random.random_range(0..4) {
                    0 => self.random.random_range(0..=self.end),
                    _ => self.end,
                };
                let end = drive::locate(&mut self.client, lun, to as u32);
                self.position = to;
                self.synchronises(end)
            }
            85..88 => {
                self.change(None);
                let end = drive::erase(&mut self.client, lun);
                self.end = self.position;
                self.synchronises(end)
            }
            88..92 => {
                let end = drive::rewind(&mut self.client, lun);
                self.position = 0;
                self.synchronises(end)?;
                let end = drive::locate(&mut self.client, lun, self.end as u32);
                self.position = self.end;
                self.synchronises(end)
            }
            92..96 => {
                let end = drive::unload(&mut self.client, lun);
                self.synchronises(end)?;
                self.position = 0;
                let end = drive::load(&mut self.client, lun);
                self.synchronises(end)
            }
            _ => {
                let (slot, drive) = (SLOT + self.number, DRIVE + self.number);
                let end = drive::move_medium(&mut self.client, drive, slot);
                self.synchronises(end)?;
                self.position = 0;
                let end = drive::move_medium(&mut self.client, slot, drive);
                self.synchronises(end)
            }
        }
    }

    /// Notes a change that is about to be requested.
    fn change(&mut self, written: Option<(Object, usize)>) {
        if written.is_none() && self.position == self.end {
            return;
        }
        self.counts.overwritten += u64::from(self.position < self.end);
        let at = self.position;
        self.oracle.change(Change { at, written });
    }

    /// Notes the end of a command that writes `count` objects.
    fn changed(&mut self, end: End, count: usize) -> Option<()> {
        if let End::Lost = end {
            return None;
        }
        if count == 0 {
            end.good();
            return Some(());
        }
        if end.done() {
            self.position += count;
            self.end = self.position;
            return Some(());
        }
        // The tape is full, and is written again from the beginning.
        assert_eq!(end.sense().key, hakaru_wire::scsi::SenseKey::VolumeOverflow);
        self.oracle.refuse();
        self.end = self.position;
        self.counts.full += 1;
        let lun = self.lun();
        let end = drive::rewind(&mut self.client, lun);
        self.position = 0;
        self.synchronises(end)
    }

    fn synchronised(&mut self) {
        self.oracle.synchronised();
        self.counts.synchronised += 1;
    }

    /// Notes the end of a command that synchronises.
    fn synchronises(&mut self, end: End) -> Option<()> {
        if let End::Lost = end {
            return None;
        }
        end.good();
        self.synchronised();
        Some(())
    }
}

fn library(pools: Value, store: &str, place: &Value) -> Value {
    let mut config = config(json!([]), pools);
    config["tape_library"] = json!({
        "lun": 0,
        "drives": [{"lun": 1, "generation": "lto5"}, {"lun": 2, "generation": "lto6"}],
        "slots": 4,
        store: place,
        "cartridges": [{"barcode": "HAK001L5", "slot": 1}, {"barcode": "HAK002L5", "slot": 2}],
        "capacity_bytes": 16 << 20,
        "early_warning_bytes": 1 << 20,
    });
    config
}

/// Reads the tapes twice, and compares them with what they may have.
fn compare(array: &Array, oracles: &mut [Oracle]) -> Vec<usize> {
    let mut client = Client::login(array.portal(), 99);
    let mut ends = Vec::new();
    for (number, oracle) in oracles.iter_mut().enumerate() {
        let (slot, drive) = (SLOT + number as u16, DRIVE + number as u16);
        drive::move_medium(&mut client, slot, drive).good();
        let mut read = || -> Vec<Object> {
            let objects = drive::read_all(&mut client, number as u8 + 1);
            objects.into_iter().map(object_of).collect()
        };
        let objects = read();
        assert!(read() == objects, "two reads return the same tape");
        ends.push(objects.len());
        oracle.compare(objects);
        drive::move_medium(&mut client, drive, slot).good();
    }
    ends
}

#[test]
fn no_synchronised_block_in_a_folder_is_lost_when_the_array_is_killed() {
    let scratch = Scratch::new("tape kills");
    let folder = json!(scratch.join("tapes"));
    kill_and_compare(&library(json!([]), "folder", &folder), || {});
}

#[test]
fn no_synchronised_block_in_a_pool_is_lost_when_the_array_is_killed() {
    let scratch = Scratch::new("tape kills in a pool");
    let directory = scratch.join("pool");
    // Both tapes fit, and an index of half of their length.
    let mut pool = pool(&directory, 512);
    pool["groups"].as_array_mut().unwrap().push(group("b", 256));
    kill_and_compare(&library(json!([pool]), "pool", &json!("pool")), || {
        let (report, code) = check(&directory);
        assert_eq!(code, Some(0), "{report}");
    });
}

/// Kills arrays of this configuration. `check` is called after each kill.
fn kill_and_compare(config: &Value, check: impl Fn()) {
    let long = std::env::var_os("HAKARU_LONG").is_some();
    let kills = setting("HAKARU_KILLS", if long { 200 } else { 6 });
    let seed = setting("HAKARU_SEED", 1);
    let mut random = Pcg64::seed_from_u64(seed);
    let mut array = Array::start(config);
    let mut oracles: Vec<Oracle> = (0..DRIVES).map(|_| Oracle::default()).collect();
    let mut ends = vec![0; DRIVES.into()];
    let mut total = Counts::default();
    for _ in 0..kills {
        let (responses, received) = mpsc::channel();
        let writers: Vec<_> = (0..DRIVES)
            .map(|number| {
                let writer = Writer {
                    client: Client::login(array.portal(), u32::from(number) + 1),
                    number,
                    oracle: std::mem::take(&mut oracles[usize::from(number)]),
                    random: Pcg64::seed_from_u64(random.random()),
                    responses: responses.clone(),
                    position: 0,
                    end: ends[usize::from(number)],
                    counts: Counts::default(),
                };
                std::thread::spawn(move || writer.run())
            })
            .collect();
        drop(responses);
        for _ in 0..random.random_range(20..400) {
            received.recv().expect("both write until the kill");
        }
        array.kill();
        for (number, writer) in writers.into_iter().enumerate() {
            let (oracle, counts) = writer.join().expect("no error was seen");
            oracles[number] = oracle;
            total.blocks += counts.blocks;
            total.synchronised += counts.synchronised;
            total.overwritten += counts.overwritten;
            total.full += counts.full;
        }
        check();
        array = Array::start(config);
        ends = compare(&array, &mut oracles);
    }
    assert_eq!(array.stop(), Some(0));
    let store = if config["tape_library"]["pool"].is_null() {
        "a folder"
    } else {
        "a pool"
    };
    println!("{kills} kills of tapes in {store} (seed {seed}): {total:?}; none lost");
    assert!(total.synchronised > 0 && total.overwritten > 0);
}
