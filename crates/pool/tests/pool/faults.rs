//! every operation on every disk fails once. Each error is reported, no acknowledged data is
//! lost, and the pool accepts no change after a failed sync or commit. P-08: the file system of the
//! metadata is full.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::oracle::{BLOCK, Model, stamps};
use crate::support::recovery::{disks, of_memory, recover};
use crate::support::{Disks, Driver, PAGE};
use hakaru_pool::disk::{Fault, Faults, FaultyDisk, MemoryDisk};
use hakaru_pool::{Event, Failure, Outcome, PoolConfig, Request, VolumeId};

const BLOCKS: u64 = 4 * PAGE / BLOCK as u64;

/// Returns a pool on disks that fail as scheduled, and the memory disks below them.
fn faulty() -> (Driver, Vec<Arc<MemoryDisk>>, Arc<Faults>, VolumeId) {
    let faults = Faults::none();
    let memory: Vec<Arc<MemoryDisk>> = (0..2).map(|_| Arc::new(MemoryDisk::new(0))).collect();
    let over = |disk: &Arc<MemoryDisk>| Arc::new(FaultyDisk::new(disk.clone(), faults.clone()));
    let mut all = disks(memory.iter().map(|disk| over(disk) as _));
    let group = all.groups.remove("g0").unwrap();
    let mut driver = Driver::create(PoolConfig::default(), all).unwrap();
    driver.grow("g0", group, 24 * PAGE).unwrap();
    let volume = driver
        .create_volume("v", BLOCKS * BLOCK as u64, None)
        .unwrap();
    driver.settle();
    (driver, memory, faults, volume)
}

/// Writes, snapshots, copies, unmaps and flushes, and updates the model of valid contents. Returns
/// the failures.
fn workload(driver: &mut Driver, model: &mut Model, volume: VolumeId) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut value = 0;
    for turn in 0..8_u64 {
        for (first, blocks, fua) in [(turn * 20, 30, false), (128 + turn * 45, 2, turn % 2 == 0)] {
            value += 1;
            model.write("v", first, blocks, value);
            let data = stamps(value, first, blocks);
            match driver.write(volume, first * BLOCK as u64, &data, fua) {
                Ok(()) if fua => model.settle("v", first, blocks),
                Ok(()) => {}
                Err(failure) => failures.push(failure),
            }
            model.uncertain = !failures.is_empty();
        }
        match turn {
            0 | 3 => {
                let name = format!("s{turn}");
                model.copy("v", &name);
                match driver.copy_volume(volume, &name, true) {
                    Ok(id) => model.created(&name, id),
                    Err(failure) => failures.push(failure),
                }
            }
            1 | 5 => {
                model.write("v", 100, 100, 0);
                failures.extend(
                    driver
                        .unmap(volume, &[(100 * BLOCK as u64, 100 * BLOCK as u64)], false)
                        .err(),
                );
            }
            _ => {}
        }
        model.uncertain = !failures.is_empty();
        match driver.flush() {
            Ok(()) => model.settle_all(),
            Err(failure) => failures.push(failure),
        }
        model.uncertain = !failures.is_empty();
    }
    failures
}

fn model(volume: VolumeId) -> Model {
    let mut model = Model::default();
    model.create("v", BLOCKS);
    model.created("v", volume);
    model
}

#[test]
fn every_single_fault_is_reported_and_loses_no_flushed_data() {
    let operations = {
        let (mut driver, _, faults, volume) = faulty();
        let before = faults.done();
        assert_eq!(workload(&mut driver, &mut model(volume), volume), []);
        driver.settle();
        faults.done() - before
    };
    assert!(operations > 100, "{operations}");
    let (mut tried, mut read_only) = (0, 0);
    for fault in [Fault::Io, Fault::NoSpace, Fault::Short] {
        for n in 0..operations {
            let (mut driver, memory, faults, volume) = faulty();
            let mut model = model(volume);
            faults.plan(n, fault);
            let failures = workload(&mut driver, &mut model, volume);
            driver.settle();
            if faults.struck() == 0 {
                continue;
            }
            tried += 1;
            if driver.pool.is_read_only() {
                read_only += 1;
                assert!(driver.events.contains(&Event::ReadOnly));
                assert_eq!(driver.flush(), Err(Failure::ReadOnly));
                assert_eq!(driver.write(volume, 0, &[1], false), Err(Failure::ReadOnly));
                assert!(driver.read(volume, 0, BLOCK).is_ok(), "reads continue");
            } else if failures.is_empty() {
                // A failed discard makes its pages unusable, but no request failed.
                assert!(
                    driver.pool.status().lost_bytes > 0,
                    "{fault:?} at {n} was not reported"
                );
            }
            driver.assert_clean();
            drop(driver);
            let image: Vec<MemoryDisk> = memory.iter().map(|disk| (**disk).clone()).collect();
            if let Err(wrong) = recover(of_memory(&image), &model) {
                panic!("{fault:?} at {n} of {operations}: {wrong}; failures {failures:?}");
            }
        }
    }
    println!("{tried} faults, {read_only} of them made the pool read-only");
    assert!(read_only > 20 && read_only < tried);
}

#[test]
fn with_the_metadata_full_pages_are_deallocated_but_not_allocated() {
    let metadata = Arc::new(FaultyDisk::new(MemoryDisk::new(0), Faults::none()));
    let disks = Disks {
        metadata: metadata.clone(),
        groups: BTreeMap::new(),
    };
    let mut driver = Driver::create(PoolConfig::default(), disks).unwrap();
    driver
        .grow("g0", Arc::new(MemoryDisk::new(0)), 100 * PAGE)
        .unwrap();
    let volume = driver.create_volume("v", 1 << 40, None).unwrap();
    // One page under each of many leaves, so that the store has to grow.
    let far = |page: u64| page * 1000 * PAGE;
    driver.write(volume, far(0), &[7; 512], true).unwrap();
    metadata.set_capacity(1);
    let mut refused = None;
    for page in 1..90 {
        match driver.write(volume, far(page), &[7; 512], true) {
            Ok(()) => {}
            Err(failure) => {
                refused = Some((page, failure));
                break;
            }
        }
    }
    let (page, failure) = refused.expect("the store had to grow");
    assert_eq!(failure, Failure::Full);
    assert!(driver.pool.status().metadata_is_low && !driver.pool.is_read_only());
    driver.write(volume, far(0), &[8; 512], true).unwrap();
    driver.unmap(volume, &[(far(0), PAGE)], true).unwrap();
    driver.copy_volume(volume, "s", true).unwrap();
    driver.delete(volume).unwrap();
    assert!(!driver.pool.is_read_only());
    metadata.set_capacity(u64::MAX);
    driver.flush().unwrap();
    let again = driver.create_volume("w", 1 << 40, None).unwrap();
    driver.write(again, far(page), &[9; 512], true).unwrap();
    driver.assert_clean();
}

#[test]
fn a_volume_survives_a_deletion_that_could_not_be_committed() {
    let (mut driver, _, faults, volume) = faulty();
    driver.write(volume, 0, &[7; BLOCK], true).unwrap();
    let used_bytes = driver.pool.used_bytes();
    faults.plan(0, Fault::Io);
    assert_eq!(driver.delete(volume), Err(Failure::ReadOnly));
    assert!(driver.pool.is_read_only());
    assert_eq!(driver.pool.volume_named("v"), Some(volume));
    assert_eq!(driver.pool.used_bytes(), used_bytes);
    assert_eq!(driver.read(volume, 0, BLOCK).unwrap(), [7; BLOCK]);
    assert_eq!(driver.delete(volume), Err(Failure::ReadOnly));
    driver.assert_clean();
}

#[test]
fn a_volume_is_readable_until_its_deletion_is_durable_and_writes_wait_until_then() {
    let (mut driver, _, _, volume) = faulty();
    driver.write(volume, 0, &[7; BLOCK], true).unwrap();
    let delete = driver.submit(Request::Delete { volume });
    assert!(
        driver.pool.poll_reply().is_none(),
        "the deletion is not committed yet"
    );
    let read = driver.submit(Request::Read {
        volume,
        offset_bytes: 0,
        length_bytes: BLOCK as u32,
    });
    let Outcome::Ready { access, .. } = driver.reply(read) else {
        panic!("a volume is readable until its deletion is durable");
    };
    let write = driver.submit(Request::Write {
        volume,
        offset_bytes: 0,
        length_bytes: BLOCK as u32,
        fua: false,
    });
    driver.settle();
    assert!(matches!(driver.reply(delete), Outcome::Done));
    assert!(matches!(
        driver.reply(write),
        Outcome::Failed(Failure::NoVolume)
    ));
    assert_eq!(driver.read(volume, 0, BLOCK), Err(Failure::NoVolume));
    let status = driver.pool.status();
    assert!(
        status.freeing_bytes > 0,
        "the page is not reused while it is read"
    );
    driver.moved(access, true);
    driver.settle();
    assert_eq!(driver.pool.status().freeing_bytes, 0);
    driver.assert_clean();
}
