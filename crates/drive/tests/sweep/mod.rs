//! The study `vm-sweep` without a network: VMs with closed-loop loads on one array, in virtual
//! time.
//!
//! Used by the test `faithful` and the example `vm_sweep`. VM `i` (from 0) is on group
//! `i mod groups`. The images of the VMs of a group are stored consecutively on its LU, 64 GiB
//! each, and each VM accesses a test file of 2 GiB in its image.
#![allow(dead_code)] // Each of the two users needs only a part.
use hakaru_contract::drive::{ArrayModel, Model};
use hakaru_drive::{Array, Op, Request};
use hakaru_units::{GIB, KIB, MIB, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Placement of the VMs' working sets on their groups.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// Length of a VM's test file.
    pub region_bytes: u64,
    /// Distance between the images of a group.
    pub spacing_bytes: u64,
}

/// Placement of the study.
pub const PLACEMENT: Placement = Placement {
    region_bytes: 2 * GIB,
    spacing_bytes: 64 * GIB,
};

/// One row of the published table.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    pub vms: usize,
    pub iops: f64,
    pub mean_latency_ms: f64,
}

/// Japan Data Storage Forum, iSCSI working group, 2011-10-17, table of graph 1: random 32 KiB, 70 %
/// reads, 32 requests outstanding per VM.
pub const PUBLISHED: [Published; 9] = [
    published(1, 1082.0, 30.0),
    published(4, 2746.0, 47.0),
    published(6, 3170.0, 60.0),
    published(7, 3280.0, 68.0),
    published(8, 2996.0, 85.0),
    published(10, 2560.0, 125.0),
    published(12, 2506.0, 153.0),
    published(14, 2488.0, 181.0),
    published(16, 2316.0, 222.0),
];

const fn published(vms: usize, iops: f64, mean_latency_ms: f64) -> Published {
    Published {
        vms,
        iops,
        mean_latency_ms,
    }
}

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
    pub warmup_s: f64,
    pub measure_s: f64,
}

/// Results of one VM count.
#[derive(Clone, Debug, Default)]
pub struct Point {
    pub iops: f64,
    pub read_iops: f64,
    pub mib_per_s: f64,
    pub mean_latency_ms: f64,
    pub mean_read_latency_ms: f64,
    pub mean_write_latency_ms: f64,
    pub max_latency_ms: f64,
    /// Utilisation of the busiest drive, 0 to 1.
    pub busiest_drive: f64,
    /// Utilisation of the controller, 0 to 1.
    pub controller: f64,
}

struct Vm {
    group: u32,
    region: u64,
    next_sequential: u64,
    rng: Pcg64,
}

#[derive(Clone, Copy)]
struct Outstanding {
    vm: usize,
    op: Op,
    since: Time,
}

/// Sums over requests that completed during the measurement.
#[derive(Default)]
struct Tally {
    /// Reads and writes.
    count: [u64; 2],
    latency_ns: [u64; 2],
    max_ns: u64,
}

/// Loads a fresh array with `vms` VMs and measures it.
pub fn run(model: &ArrayModel, placement: Placement, load: Load, vms: usize, seed: u64) -> Point {
    let mut array = Array::new(model, seed).expect("the model is within bounds");
    let mut fleet = Fleet::new(model.groups.len(), placement, load, vms, seed);
    for id in 0..fleet.outstanding.len() {
        fleet.issue(&mut array, id as u64, Time::ZERO);
    }
    let begin = Time::from_secs_f64(load.warmup_s);
    let end = Time::from_secs_f64(load.warmup_s + load.measure_s);
    advance(&mut array, begin, |array, id, at| {
        fleet.issue(array, id, at);
    });
    let before = busy_ns(&mut array, begin);
    let mut tally = Tally::default();
    advance(&mut array, end, |array, id, at| {
        let Outstanding { op, since, .. } = fleet.outstanding[id as usize];
        tally.count(op, at.ns_since(since));
        fleet.issue(array, id, at);
    });
    let after = busy_ns(&mut array, end);
    let busiest = after
        .1
        .iter()
        .zip(&before.1)
        .map(|(a, b)| a - b)
        .fold(0.0, f64::max);
    tally.point(load, after.0 - before.0, busiest)
}

/// All VMs, and their outstanding requests by request ID.
struct Fleet {
    load: Load,
    region_bytes: u64,
    vms: Vec<Vm>,
    outstanding: Vec<Outstanding>,
}

impl Fleet {
    fn new(groups: usize, placement: Placement, load: Load, vms: usize, seed: u64) -> Fleet {
        let new_vm = |i: usize| Vm {
            group: (i % groups) as u32,
            region: (i / groups) as u64 * placement.spacing_bytes,
            next_sequential: 0,
            rng: Pcg64::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(i as u64)),
        };
        let places = (0..vms).flat_map(|vm| (0..load.queue_depth).map(move |_| vm));
        Fleet {
            load,
            region_bytes: placement.region_bytes,
            vms: (0..vms).map(new_vm).collect(),
            outstanding: places
                .map(|vm| Outstanding {
                    vm,
                    op: Op::Read,
                    since: Time::ZERO,
                })
                .collect(),
        }
    }

    /// Issues the next request under ID `id`, for the VM that owns this ID.
    fn issue(&mut self, array: &mut Array, id: u64, now: Time) {
        let slot = &mut self.outstanding[id as usize];
        let vm = &mut self.vms[slot.vm];
        let (length_bytes, at) = match self.load.pattern {
            Pattern::Random32K => {
                let length = 32 * KIB;
                (
                    length,
                    vm.rng.random_range(0..self.region_bytes / length) * length,
                )
            }
            Pattern::Sequential1M => {
                let at = vm.next_sequential;
                vm.next_sequential = (at + MIB) % self.region_bytes;
                (MIB, at)
            }
        };
        slot.op = if vm.rng.random_range(0..100) < 70 {
            Op::Read
        } else {
            Op::Write
        };
        slot.since = now;
        let (group, offset_bytes) = (vm.group, vm.region + at);
        array.handle_request(
            now,
            Request {
                id,
                group,
                op: slot.op,
                offset_bytes,
                length_bytes,
                fua: false,
            },
        );
    }
}

/// Runs the array to `until`. Calls `completed` for each completion.
fn advance(array: &mut Array, until: Time, mut completed: impl FnMut(&mut Array, u64, Time)) {
    while let Some(at) = array.poll_timeout().filter(|at| *at < until) {
        array.handle_timeout(at);
        while let Some(done) = array.poll_completion() {
            completed(array, done.id, done.at);
        }
    }
}

/// Returns the busy time of the controller and of every drive, ns.
fn busy_ns(array: &mut Array, now: Time) -> (f64, Vec<f64>) {
    let (mut controller, mut drives) = (0.0, Vec::new());
    array.visit_counters(now, &mut |entity, name, value| {
        if name == "busy_ns" && entity == "controller" {
            controller = value;
        } else if name == "busy_ns" && entity.starts_with("drive/") {
            drives.push(value);
        }
    });
    (controller, drives)
}

impl Tally {
    fn count(&mut self, op: Op, latency_ns: u64) {
        let kind = usize::from(op == Op::Write);
        self.count[kind] += 1;
        self.latency_ns[kind] += latency_ns;
        self.max_ns = self.max_ns.max(latency_ns);
    }

    fn point(&self, load: Load, controller_ns: f64, busiest_ns: f64) -> Point {
        let [reads, writes] = self.count.map(|n| n as f64);
        let [read_ns, write_ns] = self.latency_ns.map(|n| n as f64);
        let request_mib = if load.pattern == Pattern::Random32K {
            1.0 / 32.0
        } else {
            1.0
        };
        Point {
            iops: (reads + writes) / load.measure_s,
            read_iops: reads / load.measure_s,
            mib_per_s: (reads + writes) * request_mib / load.measure_s,
            mean_latency_ms: (read_ns + write_ns) / (reads + writes) / 1e6,
            mean_read_latency_ms: read_ns / reads / 1e6,
            mean_write_latency_ms: write_ns / writes / 1e6,
            max_latency_ms: self.max_ns as f64 / 1e6,
            busiest_drive: busiest_ns / load.measure_s / 1e9,
            controller: controller_ns / load.measure_s / 1e9,
        }
    }
}
