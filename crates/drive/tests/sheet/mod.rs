//! Comparison of the flash presets with the data sheets that they were fitted to. Used by the test
//! `ssd` and the example `ssd_sheet`.
#![allow(dead_code)] // Each of the two users needs only a part.
use hakaru_contract::drive::{ArrayModel, Controller, Drive, Group, Model, Raid, Ssd};
use hakaru_drive::{Array, Op, Request};
use hakaru_units::{KIB, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Returns an array of one drive behind a controller that takes no time.
pub fn alone(drive: Drive) -> ArrayModel {
    ArrayModel {
        controller: Controller {
            command_us: 0.0,
            data_us_per_mib: 0.0,
            latency_us: 0.0,
        },
        port: None,
        cache: None,
        groups: vec![Group {
            raid: Raid::Raid0,
            drives: 1,
            stripe_unit_bytes: 1 << 20,
            extents: None,
            drive,
        }],
    }
}

/// Returns the parameters of a preset.
pub fn preset(name: &str) -> Ssd {
    let named = Drive::Preset {
        name: name.to_owned(),
    };
    let array = hakaru_drive::resolve(&Model::Array(alone(named)));
    match array.expect("valid").expect("an array").groups[0]
        .drive
        .clone()
    {
        Drive::Ssd(ssd) => ssd,
        other => panic!("{other:?} is not a flash drive"),
    }
}

/// A closed-loop load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub op: Op,
    pub random: bool,
    pub bytes: u64,
    /// Number of requests outstanding.
    pub depth: u64,
    /// Number of requests before the measurement, so that buffers are full.
    pub warm: u64,
    /// Number of requests measured.
    pub count: u64,
}

/// Results of a load.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub per_s: f64,
    pub mean_us: f64,
}

/// Runs a load over the entire drive.
pub fn run(drive: Drive, load: Load) -> Outcome {
    let mut array = Array::new(&alone(drive), 1).expect("within bounds");
    let mut rng = Pcg64::seed_from_u64(1);
    let places = array.group_capacity_bytes(0).expect("it exists") / load.bytes;
    let mut since = vec![Time::ZERO; load.depth as usize];
    let mut issue = |array: &mut Array, now: Time, n: u64, slot: u64| {
        let place = if load.random {
            rng.random_range(0..places)
        } else {
            n % places
        };
        array.handle_request(
            now,
            Request {
                id: slot,
                group: 0,
                op: load.op,
                offset_bytes: place * load.bytes,
                length_bytes: load.bytes,
                fua: false,
                received_bytes: None,
                unmapped: false,
            },
        );
    };
    for slot in 0..load.depth {
        issue(&mut array, Time::ZERO, slot, slot);
    }
    let (mut done, mut latency_ns, mut begin, mut end) = (0, 0, Time::ZERO, Time::ZERO);
    while done < load.warm + load.count {
        let at = array.poll_timeout().expect("requests are outstanding");
        array.handle_timeout(at);
        while let Some(completion) = array.poll_completion() {
            done += 1;
            end = completion.at;
            if done == load.warm {
                begin = end;
            } else if done > load.warm {
                latency_ns += end.ns_since(since[completion.id as usize]);
            }
            since[completion.id as usize] = end;
            issue(&mut array, end, done + load.depth, completion.id);
        }
    }
    Outcome {
        per_s: load.count as f64 / (end.ns_since(begin) as f64 / 1e9),
        mean_us: latency_ns as f64 / load.count as f64 / 1e3,
    }
}

/// A line of a data sheet: the load and its published figure.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub preset: &'static str,
    pub name: &'static str,
    pub load: Load,
    /// Published figure, in `unit`. `None` if the sheet omits it.
    pub sheet: Option<f64>,
    pub unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Iops,
    MegabytesPerSecond,
    Microseconds,
}

impl Line {
    /// Returns the model's figure, in the unit of the line.
    pub fn model(&self) -> f64 {
        let mut drive = preset(self.preset);
        // Data sheets give the rate of sequential writes to a drive that was written in order.
        drive.preconditioned = self.load.random || self.load.op == Op::Read;
        let outcome = run(Drive::Ssd(drive), self.load);
        match self.unit {
            Unit::Iops => outcome.per_s,
            Unit::MegabytesPerSecond => outcome.per_s * self.load.bytes as f64 / 1e6,
            Unit::Microseconds => outcome.mean_us,
        }
    }
}

const fn random(op: Op, depth: u64) -> Load {
    // Enough writes to fill the buffer several times over.
    let (warm, count) = match op {
        Op::Write => (20_000, 100_000),
        _ => (100, 40_000),
    };
    Load {
        op,
        random: true,
        bytes: 4 * KIB,
        depth,
        warm,
        count,
    }
}

const fn sequential(op: Op) -> Load {
    Load {
        op,
        random: false,
        bytes: 128 * KIB,
        depth: 32,
        warm: 1000,
        count: 10_000,
    }
}

/// Writes that are few enough to fit into the buffer, so that they measure a single write.
const LONE_WRITES: Load = Load {
    warm: 10,
    count: 1000,
    ..random(Op::Write, 1)
};

const fn line(
    preset: &'static str,
    name: &'static str,
    load: Load,
    sheet: Option<f64>,
    unit: Unit,
) -> Line {
    Line {
        preset,
        name,
        load,
        sheet,
        unit,
    }
}

const SATA: &str = "sata-ssd-960";
const NVME: &str = "nvme-ssd-2000";

/// Lines from the Intel SSD DC S4500/S4600 Series product specification (S4600) and from the table
/// for the Intel P4500, 2.0 TB, in the Lenovo product guide LP0774.
pub const SHEETS: [Line; 17] = [
    line(
        SATA,
        "4 KiB random read, QD1",
        random(Op::Read, 1),
        Some(110.0),
        Unit::Microseconds,
    ),
    line(
        SATA,
        "4 KiB random read, QD1",
        random(Op::Read, 1),
        None,
        Unit::Iops,
    ),
    line(
        SATA,
        "4 KiB random read, QD32",
        random(Op::Read, 32),
        Some(72_000.0),
        Unit::Iops,
    ),
    line(
        SATA,
        "4 KiB random write, lone",
        LONE_WRITES,
        Some(52.0),
        Unit::Microseconds,
    ),
    line(
        SATA,
        "4 KiB random write, QD1",
        random(Op::Write, 1),
        None,
        Unit::Iops,
    ),
    line(
        SATA,
        "4 KiB random write, QD32",
        random(Op::Write, 32),
        Some(65_000.0),
        Unit::Iops,
    ),
    line(
        SATA,
        "128 KiB sequential read, QD32",
        sequential(Op::Read),
        Some(500.0),
        Unit::MegabytesPerSecond,
    ),
    line(
        SATA,
        "128 KiB sequential write, QD32",
        sequential(Op::Write),
        Some(490.0),
        Unit::MegabytesPerSecond,
    ),
    line(
        NVME,
        "4 KiB random read, QD1",
        random(Op::Read, 1),
        Some(85.0),
        Unit::Microseconds,
    ),
    line(
        NVME,
        "4 KiB random read, QD1",
        random(Op::Read, 1),
        None,
        Unit::Iops,
    ),
    line(
        NVME,
        "4 KiB random read, QD32",
        random(Op::Read, 32),
        None,
        Unit::Iops,
    ),
    line(
        NVME,
        "4 KiB random read, QD256",
        random(Op::Read, 256),
        Some(490_000.0),
        Unit::Iops,
    ),
    line(
        NVME,
        "4 KiB random write, lone",
        LONE_WRITES,
        Some(20.0),
        Unit::Microseconds,
    ),
    line(
        NVME,
        "4 KiB random write, QD1",
        random(Op::Write, 1),
        None,
        Unit::Iops,
    ),
    line(
        NVME,
        "4 KiB random write, QD32",
        random(Op::Write, 32),
        Some(38_000.0),
        Unit::Iops,
    ),
    line(
        NVME,
        "128 KiB sequential read, QD32",
        sequential(Op::Read),
        Some(3200.0),
        Unit::MegabytesPerSecond,
    ),
    line(
        NVME,
        "128 KiB sequential write, QD32",
        sequential(Op::Write),
        Some(1050.0),
        Unit::MegabytesPerSecond,
    ),
];
