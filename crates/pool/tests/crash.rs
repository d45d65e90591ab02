//! power cuts. Every workload of one and two operations is cut off just before
//! every flush, with every subset of the unflushed operations. The remaining disks must open as a
//! pool and contain all durable data.

mod support;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hakaru_pool::PoolConfig;
use hakaru_pool::disk::{Disk, MemoryDisk, Recorder};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use support::oracle::{BLOCK, Model, stamps};
use support::recovery::{disks, fill, of_memory, recover, recover_planted, use_up};
use support::{Driver, PAGE, Planted, scale};

const PAGE_BLOCKS: u64 = PAGE / BLOCK as u64;
/// Data pages of each group.
const GROUP_PAGES: u64 = 8;
/// Limit of unflushed writes up to which every subset is tried.
const UNITS_MAX: u32 = 12;

/// Only one in this many recovered pools is filled and opened once more, because that takes
/// longest.
const USE_UP_EACH: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// A write to a mapped page.
    Overwrite,
    /// A write from a mapped page into an unmapped one.
    FirstWrite,
    FuaWrite,
    /// An unmapping of a page and half of the next.
    Unmap,
    Flush,
    Snapshot,
    /// A clone, and a write to it.
    CloneAndWrite,
    Grow,
    Create,
    Delete,
}

const OPS: [Op; 10] = [
    Op::Overwrite,
    Op::FirstWrite,
    Op::FuaWrite,
    Op::Unmap,
    Op::Flush,
    Op::Snapshot,
    Op::CloneAndWrite,
    Op::Grow,
    Op::Create,
    Op::Delete,
];

/// A pool under a workload, with the valid contents after a crash at each position of the log.
struct Run {
    driver: Driver,
    recorder: Recorder,
    model: Model,
    /// Models with the position of the log from which each is valid.
    models: Vec<(usize, Model)>,
    spare: Vec<Arc<dyn Disk>>,
    value: u64,
}

/// Returns the flushed disks with which every workload starts: volume `a` with two pages and a
/// third that was unmapped, `b` with one.
fn base() -> (Vec<MemoryDisk>, Model) {
    let memory: Vec<Arc<MemoryDisk>> = (0..4).map(|_| Arc::new(MemoryDisk::new(0))).collect();
    let mut all = disks(memory.iter().map(|disk| disk.clone() as Arc<dyn Disk>));
    let group = all.groups.remove("g0").unwrap();
    let mut driver = Driver::create(PoolConfig::default(), all).unwrap();
    driver.grow("g0", group, (GROUP_PAGES + 1) * PAGE).unwrap();
    let mut model = Model::default();
    for (name, blocks) in [("a", 5 * PAGE_BLOCKS + 2), ("b", 2 * PAGE_BLOCKS)] {
        model.create(name, blocks);
        let id = driver
            .create_volume(name, blocks * BLOCK as u64, None)
            .unwrap();
        model.created(name, id);
    }
    for (name, first, blocks, value) in [
        ("a", 0, 2 * PAGE_BLOCKS, 1),
        ("b", 3, PAGE_BLOCKS - 3, 2),
        ("a", 2 * PAGE_BLOCKS, PAGE_BLOCKS, 3),
    ] {
        model.write(name, first, blocks, value);
        let id = model.volumes[name].id.unwrap();
        driver
            .write(
                id,
                first * BLOCK as u64,
                &stamps(value, first, blocks),
                false,
            )
            .unwrap();
    }
    model.write("a", 2 * PAGE_BLOCKS, PAGE_BLOCKS, 0);
    let a = model.volumes["a"].id.unwrap();
    driver.unmap(a, &[(2 * PAGE, PAGE)], false).unwrap();
    driver.flush().unwrap();
    driver.settle();
    model.settle_all();
    drop(driver);
    (memory.iter().map(|disk| (**disk).clone()).collect(), model)
}

impl Run {
    fn new(base: &(Vec<MemoryDisk>, Model), planted: Planted) -> Run {
        let recorder = Recorder::new();
        let recorded: Vec<Arc<dyn Disk>> = base
            .0
            .iter()
            .map(|disk| Arc::new(recorder.disk(disk)) as Arc<dyn Disk>)
            .collect();
        let all = disks(recorded.iter().take(2).cloned());
        let mut driver = Driver::open(PoolConfig::default(), all).unwrap();
        driver.planted = planted;
        Run {
            driver,
            models: vec![(0, base.1.clone())],
            model: base.1.clone(),
            recorder,
            spare: recorded[2..].iter().rev().cloned().collect(),
            value: 10,
        }
    }

    /// Records the model that is valid from here on.
    fn mark(&mut self) {
        self.models
            .push((self.recorder.position(), self.model.clone()));
    }

    fn write(&mut self, name: &str, first: u64, blocks: u64, fua: bool) {
        let Some(id) = self.model.volumes.get(name).and_then(|volume| volume.id) else {
            return;
        };
        self.value += 1;
        self.model.write(name, first, blocks, self.value);
        self.mark();
        let data = stamps(self.value, first, blocks);
        self.driver
            .write(id, first * BLOCK as u64, &data, fua)
            .unwrap();
        if fua {
            self.model.settle(name, first, blocks);
            self.mark();
        }
    }

    fn copy(&mut self, name: &str, read_only: bool) {
        self.model.copy("a", name);
        self.mark();
        let a = self.model.volumes["a"].id.unwrap();
        let id = self.driver.copy_volume(a, name, read_only).unwrap();
        self.model.created(name, id);
        self.mark();
    }

    fn perform(&mut self, op: Op) {
        let turn = self.models.len();
        match op {
            Op::Overwrite => self.write("a", 5, 3, false),
            Op::FirstWrite => self.write("a", 3 * PAGE_BLOCKS - 2, 3, false),
            Op::FuaWrite => self.write("b", PAGE_BLOCKS - 1, 2, true),
            Op::Unmap => {
                let blocks = PAGE_BLOCKS + PAGE_BLOCKS / 2;
                self.model.write("a", 0, blocks, 0);
                self.mark();
                let a = self.model.volumes["a"].id.unwrap();
                self.driver
                    .unmap(a, &[(0, blocks * BLOCK as u64)], false)
                    .unwrap();
            }
            Op::Flush => {
                self.driver.flush().unwrap();
                self.model.settle_all();
                self.mark();
            }
            Op::Snapshot => self.copy(&format!("s{turn}"), true),
            Op::CloneAndWrite => {
                let name = format!("k{turn}");
                self.copy(&name, false);
                self.write(&name, PAGE_BLOCKS - 1, 2, false);
            }
            Op::Grow => {
                let name = ["g2", "g1"][self.spare.len() - 1];
                let disk = self.spare.pop().unwrap();
                self.driver
                    .grow(name, disk, (GROUP_PAGES + 1) * PAGE)
                    .unwrap();
            }
            Op::Create => {
                let name = format!("c{turn}");
                self.model.create(&name, PAGE_BLOCKS);
                self.mark();
                let id = self.driver.create_volume(&name, PAGE, None).unwrap();
                self.model.created(&name, id);
                self.mark();
            }
            Op::Delete => {
                // The newest copy, or `b`.
                let names: Vec<String> = self.model.volumes.keys().cloned().collect();
                let Some(name) = names.iter().rev().find(|name| *name != "a") else {
                    return;
                };
                let volume = self.model.volumes.get_mut(name).unwrap();
                volume.going = true;
                let id = volume.id.unwrap();
                self.mark();
                self.driver.delete(id).unwrap();
                self.model.volumes.remove(name);
                self.mark();
            }
        }
    }

    /// Returns the model at a position of the log; the later one if an operation ended there
    /// without a record.
    fn model_at(&self, position: usize) -> &Model {
        let (_, model) = self
            .models
            .iter()
            .rev()
            .find(|(from, _)| *from <= position)
            .unwrap();
        model
    }
}

/// Runs a workload and cuts it off at every position. Returns the number of crashes and the first
/// violation.
fn cut_off(
    base: &(Vec<MemoryDisk>, Model),
    workload: &[Op],
    planted: Planted,
    samples: usize,
    random: &mut Pcg64,
) -> (usize, Option<String>) {
    let mut run = Run::new(base, planted);
    for op in workload {
        run.perform(*op);
    }
    run.driver.settle();
    let mut crashes = 0_usize;
    for position in run.recorder.crash_points(0) {
        let model = run.model_at(position);
        let crash = run.recorder.crash(position);
        for image in crash.images(UNITS_MAX, samples, &mut || random.next_u64()) {
            crashes += 1;
            let recovered = recover(of_memory(&image), model).and_then(|(driver, content)| {
                if crashes.is_multiple_of(USE_UP_EACH) {
                    use_up(driver, model, &content)?;
                }
                Ok(())
            });
            if let Err(wrong) = recovered {
                return (
                    crashes,
                    Some(format!("{workload:?} cut off at {position}: {wrong}")),
                );
            }
        }
    }
    (crashes, None)
}

/// Returns every workload of up to two operations.
fn workloads() -> Vec<Vec<Op>> {
    let pairs = OPS
        .iter()
        .flat_map(|first| OPS.iter().map(|second| vec![*first, *second]));
    OPS.iter().map(|op| vec![*op]).chain(pairs).collect()
}

/// Runs all workloads on all processors. Returns the number of crashes, and the violations by
/// workload.
fn cut_off_all(workloads: &[Vec<Op>], planted: Planted, samples: usize) -> (usize, Vec<String>) {
    let base = base();
    let next = AtomicUsize::new(0);
    let results = Mutex::new((0, Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(workload) = workloads.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut random = Pcg64::seed_from_u64(workload.len() as u64);
                    let (crashes, wrong) = cut_off(&base, workload, planted, samples, &mut random);
                    let mut results = results.lock().unwrap();
                    results.0 += crashes;
                    results.1.extend(wrong);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn no_crash_in_any_workload_of_two_operations_loses_or_mixes_anything() {
    let (crashes, wrong) = cut_off_all(&workloads(), Planted::default(), scale(4, 64));
    println!("{} workloads, {crashes} crashes", workloads().len());
    assert!(
        crashes > 10_000,
        "{crashes} crashes are too few to have tried every subset"
    );
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn longer_random_workloads_lose_and_mix_nothing() {
    let mut random = Pcg64::seed_from_u64(7);
    let longer: Vec<Vec<Op>> = (0..6)
        .map(|_| {
            let mut grown = 0;
            let draw = || OPS[random.random_range(0..OPS.len())];
            std::iter::repeat_with(draw)
                .filter(|op| {
                    grown += usize::from(*op == Op::Grow);
                    *op != Op::Grow || grown <= 2
                })
                .take(5)
                .collect()
        })
        .collect();
    let (crashes, wrong) = cut_off_all(&longer, Planted::default(), scale(4, 64));
    println!("{} workloads, {crashes} crashes", longer.len());
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_planted_missing_sync_is_detected() {
    let planted = Planted {
        no_sync: true,
        ..Planted::default()
    };
    let (_, wrong) = cut_off_all(&[vec![Op::FirstWrite, Op::Flush]], planted, 4);
    assert!(wrong.len() == 1 && wrong[0].contains("block"), "{wrong:?}");
}

#[test]
fn a_planted_missing_discard_is_detected() {
    let planted = Planted {
        no_discard: true,
        ..Planted::default()
    };
    let base = base();
    let mut run = Run::new(&base, planted);
    run.perform(Op::Unmap);
    run.perform(Op::Flush);
    run.driver.settle();
    assert!(
        fill(&mut run.driver).is_err(),
        "a page was recycled with its old data"
    );
}

#[test]
fn a_planted_missing_discard_at_opening_is_detected() {
    let planted = Planted {
        no_discard: true,
        ..Planted::default()
    };
    let base = base();
    let mut run = Run::new(&base, Planted::default());
    run.perform(Op::FirstWrite);
    let end = run.recorder.position();
    // The data reached the disk; the map that references its page did not.
    let image = run.recorder.crash(end).image(&mut |_| true);
    let (mut driver, _) = recover_planted(of_memory(&image), run.model_at(end), planted).unwrap();
    assert!(
        fill(&mut driver).is_err(),
        "a page was allocated with data that was never flushed"
    );
}

/// the machine crashes repeatedly while the pool is being opened.
#[test]
fn crashes_during_recovery_change_nothing() {
    let base = base();
    let mut random = Pcg64::seed_from_u64(3);
    for round in 0..20 {
        let mut run = Run::new(&base, Planted::default());
        for _ in 0..3 {
            let op = OPS[random.random_range(0..OPS.len())];
            if op != Op::Grow {
                run.perform(op);
            }
        }
        let points = run.recorder.crash_points(0);
        let position = points[random.random_range(0..points.len())];
        let model = run.model_at(position).clone();
        let crash = run.recorder.crash(position);
        let mut image = crash.torn_image(&mut || random.next_u64() & 1 == 0);
        let mut first = None;
        for again in 0..scale(10, 200) {
            let recorder = Recorder::new();
            let recorded = image
                .iter()
                .map(|disk| Arc::new(recorder.disk(disk)) as Arc<dyn Disk>);
            let (driver, content) = recover(disks(recorded), &model)
                .unwrap_or_else(|wrong| panic!("round {round}, opened {again} times: {wrong}"));
            drop(driver);
            assert_eq!(
                *first.get_or_insert_with(|| content.clone()),
                content,
                "round {round}"
            );
            let points = recorder.crash_points(0);
            let crash = recorder.crash(points[random.random_range(0..points.len())]);
            image = crash.torn_image(&mut || random.next_u64() & 1 == 0);
        }
    }
}
