//! The study `vm-sweep` in virtual time: VMs with closed-loop loads, the path of their requests
//! (`path.rs`), and one array.
//!
//! Used by the test `faithful` and the example `vm_sweep`. VM `i` (from 0) is on group
//! `i mod groups`. The images of the VMs of a group are stored consecutively on its LU, 64 GiB
//! each, and each VM accesses its entire image.
#![allow(dead_code, unused_imports)] // Each of the two users needs only a part.
mod path;
mod published;

use std::collections::BTreeMap;

use hakaru_contract::drive::{ArrayModel, Model};
use hakaru_drive::{Array, Op};
use hakaru_units::{GIB, KIB, MIB, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub use self::path::Path;
use self::path::{Access, Hosts};
pub use self::published::{PUBLISHED, Published, SEQUENTIAL_VMS};

/// Placement of the VMs' working sets on their groups.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Length of the range that a VM accesses.
    pub region_bytes: u64,
    /// Distance between the images of a group.
    pub spacing_bytes: u64,
}

/// Placement of the study.
pub const PLACEMENT: Placement = Placement {
    region_bytes: 64 * GIB,
    spacing_bytes: 64 * GIB,
};

/// Returns the preset under calibration.
pub fn jdsf_2011() -> ArrayModel {
    hakaru_drive::resolve(&Model::Preset {
        name: "jdsf-2011".to_owned(),
    })
    .expect("a preset is valid")
    .expect("it is an array")
}

/// Patterns of the study, both with 70 % reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Random32K,
    Sequential1M,
}

/// Pattern, intensity and duration of the load of each VM.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub pattern: Pattern,
    /// Number of requests outstanding per VM.
    pub queue_depth: u32,
    pub path: Path,
    pub warmup_s: f64,
    pub measure_s: f64,
}

/// Results of one VM count.
#[derive(Clone, Debug, Default)]
pub struct Point {
    pub iops: f64,
    pub read_iops: f64,
    pub mib_per_s: f64,
    /// From the guest's issue of a request to its completion.
    pub mean_latency_ms: f64,
    pub mean_read_latency_ms: f64,
    pub mean_write_latency_ms: f64,
    pub max_latency_ms: f64,
    /// Increase of the array's counters per second, by entity and name.
    pub rates: BTreeMap<(String, String), f64>,
}

impl Point {
    /// Returns the increase per second of a counter of the array, 0 if it has no such counter.
    pub fn rate(&self, entity: &str, name: &str) -> f64 {
        let key = (entity.to_owned(), name.to_owned());
        self.rates.get(&key).copied().unwrap_or(0.0)
    }

    /// Returns the utilisation of the busiest resource whose name begins with `prefix`, 0 to 1.
    pub fn utilisation(&self, prefix: &str) -> f64 {
        self.rates
            .iter()
            .filter(|((entity, name), _)| entity.starts_with(prefix) && name == "busy_ns")
            .map(|(_, busy_ns)| busy_ns / 1e9)
            .fold(0.0, f64::max)
    }

    /// Returns the utilisation of the busiest drive, 0 to 1.
    pub fn busiest_drive(&self) -> f64 {
        self.utilisation("drive/")
    }

    /// Returns the utilisation of the controller, 0 to 1.
    pub fn controller(&self) -> f64 {
        self.utilisation("controller")
    }

    /// Returns the data read and written, MB/s.
    pub fn mb_per_s(&self) -> f64 {
        self.mib_per_s * MIB as f64 / 1e6
    }
}

/// Loads a fresh array with `vms` VMs and measures it.
pub fn run(model: &ArrayModel, placement: Placement, load: Load, vms: usize, seed: u64) -> Point {
    let mut array = Array::new(model, seed).expect("the model is within bounds");
    let mut hosts = Hosts::new(load.path, vms, model.groups.len());
    let mut guests: Vec<Guest> = (0..vms)
        .map(|vm| Guest::new(vm, model.groups.len(), placement, load.pattern, seed))
        .collect();
    for (vm, guest) in guests.iter_mut().enumerate() {
        for _ in 0..load.queue_depth {
            hosts.issue(Time::ZERO, vm, guest.next());
        }
    }
    let begin = Time::from_secs_f64(load.warmup_s);
    let end = Time::from_secs_f64(load.warmup_s + load.measure_s);
    let mut tally = Tally::default();
    let mut before = None;
    loop {
        let at = hosts.next_event(&array).expect("the loop is closed");
        if at >= begin && before.is_none() {
            before = Some(counters(&mut array, begin));
        }
        if at >= end {
            break;
        }
        while let Some(done) = hosts.poll(&mut array, at) {
            if at >= begin {
                tally.count(done.op, at.ns_since(done.since));
            }
            hosts.issue(at, done.vm, guests[done.vm].next());
        }
    }
    let mut rates = counters(&mut array, end);
    for (key, value) in &mut rates {
        let began_at = before.as_ref().map_or(0.0, |before| before[key]);
        *value = (*value - began_at) / load.measure_s;
    }
    tally.point(load, rates)
}

/// The load generator in a VM.
struct Guest {
    pattern: Pattern,
    group: u32,
    region: u64,
    region_bytes: u64,
    next_sequential: u64,
    rng: Pcg64,
}

impl Guest {
    fn new(vm: usize, groups: usize, placement: Placement, pattern: Pattern, seed: u64) -> Guest {
        Guest {
            pattern,
            group: (vm % groups) as u32,
            region: (vm / groups) as u64 * placement.spacing_bytes,
            region_bytes: placement.region_bytes,
            next_sequential: 0,
            rng: Pcg64::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(vm as u64)),
        }
    }

    /// Returns the next request.
    fn next(&mut self) -> Access {
        let (length_bytes, at) = match self.pattern {
            Pattern::Random32K => {
                let length = 32 * KIB;
                let blocks = self.region_bytes / length;
                (length, self.rng.random_range(0..blocks) * length)
            }
            Pattern::Sequential1M => {
                let at = self.next_sequential;
                self.next_sequential = (at + MIB) % self.region_bytes;
                (MIB, at)
            }
        };
        let is_read = self.rng.random_range(0..100) < 70;
        Access {
            group: self.group,
            op: if is_read { Op::Read } else { Op::Write },
            offset_bytes: self.region + at,
            length_bytes,
        }
    }
}

/// Returns all counters of the array.
fn counters(array: &mut Array, now: Time) -> BTreeMap<(String, String), f64> {
    let mut all = BTreeMap::new();
    array.visit_counters(now, &mut |entity, name, value| {
        all.insert((entity.to_owned(), name.to_owned()), value);
    });
    all
}

/// Sums over requests that completed during the measurement: reads, writes.
#[derive(Default)]
struct Tally {
    count: [u64; 2],
    latency_ns: [u64; 2],
    max_ns: u64,
}

impl Tally {
    fn count(&mut self, op: Op, latency_ns: u64) {
        let kind = usize::from(op == Op::Write);
        self.count[kind] += 1;
        self.latency_ns[kind] += latency_ns;
        self.max_ns = self.max_ns.max(latency_ns);
    }

    fn point(&self, load: Load, rates: BTreeMap<(String, String), f64>) -> Point {
        let [reads, writes] = self.count.map(|n| n as f64);
        let [read_ns, write_ns] = self.latency_ns.map(|n| n as f64);
        let request_mib = match load.pattern {
            Pattern::Random32K => 1.0 / 32.0,
            Pattern::Sequential1M => 1.0,
        };
        Point {
            iops: (reads + writes) / load.measure_s,
            read_iops: reads / load.measure_s,
            mib_per_s: (reads + writes) * request_mib / load.measure_s,
            mean_latency_ms: (read_ns + write_ns) / (reads + writes) / 1e6,
            mean_read_latency_ms: read_ns / reads / 1e6,
            mean_write_latency_ms: write_ns / writes / 1e6,
            max_latency_ms: self.max_ns as f64 / 1e6,
            rates,
        }
    }
}
