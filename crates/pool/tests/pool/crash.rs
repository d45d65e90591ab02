//! power cuts. Every workload of one and two operations is cut off just before
//! every flush, with every subset of the unflushed operations, in a pool with space to spare and in
//! full ones. The remaining disks must open as a pool and contain all durable data.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::recovery::{disks, fill, of_memory, recover, recover_planted, use_up};
use crate::support::workload::{Base, Op, Run};
use crate::support::{Planted, scale};
use hakaru_pool::disk::{Disk, Recorder};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Data pages of each group.
const GROUP_PAGES: u64 = 8;
/// Pages that are free when a workload starts: more than a workload of two operations needs.
const FREE_PAGES: u64 = 5;

/// One in this many recovered pools is filled and opened once more, because that takes longest.
const USE_UP_EACH: usize = 8;

/// Operations whose pairs are tried with space to spare.
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

/// Operations that compete for the last pages of a pool.
const FULL_OPS: [Op; 11] = [
    Op::Overwrite,
    Op::FirstWrite,
    Op::FuaWrite,
    Op::Unmap,
    Op::Flush,
    Op::Snapshot,
    Op::Clone,
    Op::WriteClone,
    Op::UnmapClone,
    Op::Grow,
    Op::Delete,
];

/// Data pages of the group, and free pages when a workload starts.
const FULL_POOLS: [(u64, u64); 3] = [(4, 0), (4, 1), (5, 2)];

/// The initial pool of a workload, and the images that are tried after each crash.
struct Setup {
    base: Base,
    /// Data pages of a new group.
    grow_pages: u64,
    planted: Planted,
    /// Number of unflushed writes up to which every subset is tried.
    units_max: u32,
    /// Number of subsets tried if there are more writes, and number of torn images.
    samples: usize,
}

impl Setup {
    fn roomy() -> Setup {
        Setup {
            base: Base::new(GROUP_PAGES, FREE_PAGES),
            grow_pages: GROUP_PAGES,
            planted: Planted::default(),
            units_max: 12,
            samples: scale(4, 64),
        }
    }

    fn full(group_pages: u64, free_pages: u64) -> Setup {
        Setup {
            base: Base::new(group_pages, free_pages),
            grow_pages: 1,
            planted: Planted::default(),
            units_max: 6,
            samples: scale(2, 8),
        }
    }

    fn run(&self) -> Run {
        Run::new(&self.base, self.grow_pages, self.planted)
    }
}

/// Runs a workload and cuts it off at every position. Returns the number of crashes and the first
/// violation.
fn cut_off(setup: &Setup, workload: &[Op], random: &mut Pcg64) -> (usize, Option<String>) {
    let mut run = setup.run();
    for op in workload {
        if let Err(wrong) = run.perform(*op) {
            return (0, Some(format!("{workload:?}: {wrong}")));
        }
    }
    run.driver.settle();
    let mut crashes = 0_usize;
    for position in run.recorder.crash_points(0) {
        let model = run.model_at(position);
        let crash = run.recorder.crash(position);
        for image in crash.images(setup.units_max, setup.samples, &mut || random.next_u64()) {
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

/// Returns every workload of up to `length` of these operations.
fn workloads(ops: &[Op], length: usize) -> Vec<Vec<Op>> {
    let mut all: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
    let mut longest = all.clone();
    for _ in 1..length {
        let extended = |workload: &Vec<Op>| {
            let workload = workload.clone();
            ops.iter().map(move |op| [&workload[..], &[*op]].concat())
        };
        longest = longest.iter().flat_map(extended).collect();
        all.extend_from_slice(&longest);
    }
    all
}

/// Runs all workloads on all processors. Returns the number of crashes, and the violations by
/// workload.
fn cut_off_all(setup: &Setup, workloads: &[Vec<Op>]) -> (usize, Vec<String>) {
    let next = AtomicUsize::new(0);
    let results = Mutex::new((0, Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(workload) = workloads.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut random = Pcg64::seed_from_u64(workload.len() as u64);
                    let (crashes, wrong) = cut_off(setup, workload, &mut random);
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
    let pairs = workloads(&OPS, 2);
    let (crashes, wrong) = cut_off_all(&Setup::roomy(), &pairs);
    println!("{} workloads, {crashes} crashes", pairs.len());
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
    let (crashes, wrong) = cut_off_all(&Setup::roomy(), &longer);
    println!("{} workloads, {crashes} crashes", longer.len());
    assert_eq!(wrong, Vec::<String>::new());
}

/// The pool must refuse exactly the requests that need more pages than exist.
#[test]
fn a_full_pool_refuses_only_requests_without_room_and_a_refusal_has_no_effect() {
    for (group_pages, free_pages) in FULL_POOLS {
        let setup = Setup::full(group_pages, free_pages);
        let mut refused = 0;
        for workload in workloads(&FULL_OPS, scale(3, 4)) {
            let mut run = setup.run();
            for op in &workload {
                if let Err(wrong) = run.perform(*op) {
                    panic!("{workload:?} with {free_pages} free pages: {wrong}");
                }
            }
            refused += run.refused;
        }
        assert!(
            refused > 0,
            "a pool with {free_pages} free pages was never full"
        );
    }
}

#[test]
fn no_crash_of_a_full_pool_loses_or_mixes_anything() {
    for (group_pages, free_pages) in FULL_POOLS {
        let workloads = workloads(&FULL_OPS, scale(2, 3));
        let (crashes, wrong) = cut_off_all(&Setup::full(group_pages, free_pages), &workloads);
        println!(
            "{free_pages} free pages: {} workloads, {crashes} crashes",
            workloads.len()
        );
        assert_eq!(wrong, Vec::<String>::new());
    }
}

#[test]
fn a_planted_missing_sync_is_detected() {
    let mut setup = Setup::roomy();
    setup.planted.no_sync = true;
    let (_, wrong) = cut_off_all(&setup, &[vec![Op::FirstWrite, Op::Flush]]);
    assert!(wrong.len() == 1 && wrong[0].contains("block"), "{wrong:?}");
}

#[test]
fn a_planted_missing_discard_is_detected() {
    let mut setup = Setup::roomy();
    setup.planted.no_discard = true;
    let mut run = setup.run();
    run.perform(Op::Unmap).unwrap();
    run.perform(Op::Flush).unwrap();
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
    let mut run = Setup::roomy().run();
    run.perform(Op::FirstWrite).unwrap();
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
    let setup = Setup::roomy();
    let mut random = Pcg64::seed_from_u64(3);
    for round in 0..20 {
        let mut run = setup.run();
        for _ in 0..3 {
            let op = OPS[random.random_range(0..OPS.len())];
            if op != Op::Grow {
                run.perform(op).unwrap();
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
