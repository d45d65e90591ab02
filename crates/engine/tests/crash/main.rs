//! P-07: repeated `kill -9` of the array under load, on one pool.
//!
//! Eight initiators write, flush, write with FUA and unmap on one thin LU, while the operator takes
//! and deletes snapshots. The array is killed after a random number of responses. Then the pool is
//! checked, the array is restarted, and all data is read twice. Each block must hold one of the
//! values that [`oracle`] allows, and a snapshot must be unchanged.
//!
//! `HAKARU_KILLS` is the number of kills: default 10, or 200 if `HAKARU_LONG` is set, as in `make
//! crash`. `HAKARU_SEED` selects another run, default 1.
mod load;
mod oracle;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use load::{Initiator, ResponseCounts};
use oracle::Oracle;
use support::array::{Array, Scratch, check, config, thin};
use support::client::Client;

const INITIATORS: u32 = 8;
/// Size of the LU, bytes.
const LU_BYTES: u64 = 1 << 40;
/// Blocks of each initiator's region. The regions lie at the start of the LU.
const REGION_BLOCKS: u64 = 2048;
const BLOCKS: u64 = REGION_BLOCKS * INITIATORS as u64;
/// Blocks read by one command.
const READ_BLOCKS: u64 = 512;
/// Maximum number of snapshots at a time. Each is read through an additional LU.
const SNAPSHOTS_MAX: usize = 3;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// State of the test across the kills.
struct Trial {
    rng: Pcg64,
    config: Value,
    directory: std::path::PathBuf,
    regions: Vec<Oracle>,
    /// Stamps of each snapshot, once it has been read.
    snapshots: BTreeMap<String, Option<Vec<u64>>>,
    snapshots_created: u64,
    /// Order given just before the kill, whose outcome is unknown.
    doubtful: Option<Value>,
    counts: ResponseCounts,
    reopened_max: Duration,
}

impl Trial {
    fn new(scratch: &Scratch, group_bytes: u64, page_bytes: u64, seed: u64) -> Trial {
        let directory = scratch.join("pool");
        let pool = json!({
            "name": "pool",
            "directory": directory,
            "page_bytes": page_bytes,
            "groups": [
                {"name": "a", "size_bytes": group_bytes / 2},
                {"name": "b", "size_bytes": group_bytes / 2},
            ],
        });
        Trial {
            rng: Pcg64::seed_from_u64(seed),
            config: config(json!([thin(0, "v", LU_BYTES)]), json!([pool])),
            directory,
            regions: (0..u64::from(INITIATORS))
                .map(|n| Oracle::new(n * REGION_BLOCKS, REGION_BLOCKS))
                .collect(),
            snapshots: BTreeMap::new(),
            snapshots_created: 0,
            doubtful: None,
            counts: ResponseCounts::default(),
            reopened_max: Duration::ZERO,
        }
    }

    /// Loads the array until a random number of responses has arrived, and kills it.
    fn load_and_kill(&mut self, mut array: Array) {
        let response_count = self.rng.random_range(100..1500_u64);
        let (responses, received) = mpsc::channel();
        let initiators: Vec<_> = std::mem::take(&mut self.regions)
            .into_iter()
            .enumerate()
            .map(|(number, oracle)| {
                let seed = self.rng.random();
                let client = Client::login(array.portal(), number as u32 + 1);
                let responses = responses.clone();
                std::thread::spawn(move || Initiator::new(client, oracle, seed, responses).run())
            })
            .collect();
        drop(responses);
        for _ in 0..response_count {
            received.recv().expect("initiators run until the kill");
            if self.rng.random_range(0..100) == 0 {
                self.change_snapshots(&mut array);
            }
        }
        if self.rng.random_range(0..2) == 0 {
            let order = self.next_order();
            array.order(&order);
            self.doubtful = Some(order);
            // The kill then falls before, during or after the execution of the order.
            for _ in 0..self.rng.random_range(0..20) {
                received.recv().expect("initiators run until the kill");
            }
        }
        array.kill();
        for initiator in initiators {
            let (oracle, counts) = initiator.join().expect("no initiator detected an error");
            self.regions.push(oracle);
            self.counts.add(&counts);
        }
    }

    /// Takes a snapshot, or deletes the oldest.
    fn change_snapshots(&mut self, array: &mut Array) {
        let order = self.next_order();
        array
            .manage(order.clone())
            .expect("snapshots can be taken and deleted even in a full pool");
        self.record(&order);
    }

    fn next_order(&mut self) -> Value {
        if self.snapshots.len() == SNAPSHOTS_MAX {
            let oldest = self.snapshots.keys().next().expect("snapshots exist");
            return json!({"kind": "delete", "pool": "pool", "volume": oldest});
        }
        self.snapshots_created += 1;
        let name = format!("s{:06}", self.snapshots_created);
        json!({"kind": "snapshot", "pool": "pool", "volume": "v", "name": name})
    }

    /// Records an order that was carried out.
    fn record(&mut self, order: &Value) {
        if order["kind"] == "delete" {
            self.snapshots.pop_first();
        } else {
            let name = order["name"].as_str().expect("a snapshot has a name");
            self.snapshots.insert(name.to_owned(), None);
        }
    }

    /// Determines whether the order given just before the kill was carried out.
    fn resolve_doubtful(&mut self, array: &mut Array) {
        let volumes = array.pool()["volumes"].clone();
        let mut names: Vec<String> = volumes
            .as_array()
            .expect("a pool has volumes")
            .iter()
            .map(|volume| {
                let name = volume["name"].as_str();
                name.expect("a volume has a name").to_owned()
            })
            .collect();
        names.retain(|name| name != "v");
        if let Some(order) = self.doubtful.take() {
            let deletes = order["kind"] == "delete";
            let name = order[if deletes { "volume" } else { "name" }].as_str();
            let exists = names.iter().any(|existing| Some(existing.as_str()) == name);
            if exists != deletes {
                self.record(&order);
            }
        }
        assert!(
            self.snapshots.keys().eq(&names),
            "{:?}, not {names:?}",
            self.snapshots.keys()
        );
    }

    /// Checks the pool, starts the array, and reads all data twice.
    fn reopen(&mut self) -> Array {
        let (report, code) = check(&self.directory);
        assert_eq!(code, Some(0), "the pool is sound after a kill: {report}");
        let began = Instant::now();
        let mut array = Array::start(&self.config);
        self.reopened_max = self.reopened_max.max(began.elapsed());
        let mut client = Client::login(array.portal(), 99);
        let first = read_stamps(&mut client, 0);
        assert!(
            first == read_stamps(&mut client, 0),
            "two reads return the same data"
        );
        let mut lost = Vec::new();
        for region in &mut self.regions {
            region.compare(&first, &mut lost);
        }
        assert!(
            lost.is_empty(),
            "{} blocks: {:?}",
            lost.len(),
            &lost[..lost.len().min(5)]
        );
        self.resolve_doubtful(&mut array);
        for (name, known) in &mut self.snapshots {
            let lu = thin(1, name, LU_BYTES);
            array
                .manage(json!({"kind": "create", "lu": lu}))
                .expect("a snapshot survives a kill");
            let stamps = read_stamps(&mut client, 1);
            match known {
                Some(known) => assert!(*known == stamps, "snapshot {name} has changed"),
                None => *known = Some(stamps),
            }
            array.manage(json!({"kind": "withdraw", "lun": 1})).unwrap();
        }
        array
    }
}

/// Returns the stamp of every block of all regions.
fn read_stamps(client: &mut Client, lun: u8) -> Vec<u64> {
    let mut stamps = Vec::with_capacity(BLOCKS as usize);
    for lba in (0..BLOCKS).step_by(READ_BLOCKS as usize) {
        let data = client
            .read(lun, lba, READ_BLOCKS as u32)
            .expect("every block can be read");
        for (at, block) in data.chunks(support::client::BLOCK).enumerate() {
            stamps.push(oracle::stamp_of(block, lba + at as u64));
        }
    }
    stamps
}

fn kill_repeatedly(name: &str, group_bytes: u64, page_bytes: u64) {
    let default_kills = if std::env::var_os("HAKARU_LONG").is_some() {
        200
    } else {
        10
    };
    let (kills, seed) = (
        setting("HAKARU_KILLS", default_kills),
        setting("HAKARU_SEED", 1),
    );
    let scratch = Scratch::new(name);
    let mut trial = Trial::new(&scratch, group_bytes, page_bytes, seed);
    let mut array = trial.open_first();
    for _ in 0..kills {
        trial.load_and_kill(array);
        array = trial.reopen();
    }
    println!(
        "{name}: {kills} kills (seed {seed}); {}; {} snapshots; 0 lost; reopened within {:.3} s",
        trial.counts,
        trial.snapshots_created,
        trial.reopened_max.as_secs_f64()
    );
    assert!(trial.reopened_max < Duration::from_secs(5));
    let counts = &trial.counts;
    assert!(counts.writes > 0 && counts.flushes > 0 && counts.fua > 0 && counts.unmaps > 0);
}

impl Trial {
    /// Starts the array for the first time, which creates the pool.
    fn open_first(&mut self) -> Array {
        Array::start(&self.config)
    }
}

/// The pool has less space than the initiators write. Some writes are refused, and the data of
/// refused writes must not appear later.
#[test]
fn nothing_is_lost_when_the_array_is_killed_with_its_pool_full() {
    kill_repeatedly("full pool", 192 * (64 << 10), 64 << 10);
}

/// The pool has metadata for 64 GiB, in sparse files.
#[test]
fn nothing_is_lost_when_the_array_is_killed_with_a_pool_of_64_gib() {
    kill_repeatedly("64 GiB pool", 64 << 30, 256 << 10);
}
