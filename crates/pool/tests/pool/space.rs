//! P-01 to P-06 and P-11: space in the pool, as scripted exchanges with the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Disks, Driver, PAGE};
use hakaru_pool::disk::MemoryDisk;
use hakaru_pool::{Event, Failure, PoolConfig, Range, VolumeId};

/// Returns a pool with groups of the given numbers of data pages.
fn pool(groups: &[u64]) -> Driver {
    let disks = Disks {
        metadata: Arc::new(MemoryDisk::new(0)),
        groups: BTreeMap::new(),
    };
    let mut driver = Driver::create(PoolConfig::default(), disks).unwrap();
    for (index, pages) in groups.iter().enumerate() {
        grow(&mut driver, &format!("g{index}"), *pages);
    }
    driver
}

fn grow(driver: &mut Driver, name: &str, pages: u64) {
    let size_bytes = (pages + 1) * PAGE;
    driver
        .grow(name, Arc::new(MemoryDisk::new(0)), size_bytes)
        .unwrap();
    driver.settle();
}

fn reopen(driver: Driver) -> Driver {
    let disks = driver.disks.clone();
    drop(driver);
    Driver::open(PoolConfig::default(), disks).unwrap()
}

fn fill(driver: &mut Driver, volume: VolumeId, pages: core::ops::Range<u64>) {
    for page in pages {
        driver
            .write(volume, page * PAGE, &[page as u8 + 1; 512], false)
            .unwrap();
    }
}

#[test]
fn flushed_data_survives_reopening() {
    let mut driver = pool(&[8, 8]);
    let volume = driver.create_volume("v", 1 << 40, None).unwrap();
    driver
        .write(volume, 3 * PAGE - 512, &[7; 1024], false)
        .unwrap();
    driver.flush().unwrap();
    let mut driver = reopen(driver);
    assert_eq!(driver.pool.volume_named("v"), Some(volume));
    let data = driver.read(volume, 3 * PAGE - 1024, 2048).unwrap();
    assert_eq!(data, [[0; 512], [7; 512], [7; 512], [0; 512]].concat());
    driver.assert_clean();
}

#[test]
fn pages_come_from_the_groups_in_turn() {
    let mut driver = pool(&[8, 8]);
    let volume = driver.create_volume("v", 1 << 30, None).unwrap();
    fill(&mut driver, volume, 0..8);
    let used: Vec<u64> = driver
        .pool
        .groups()
        .map(|group| group.used_bytes / PAGE)
        .collect();
    assert_eq!(used, [4, 4]);
}

#[test]
fn runs_show_how_fragmented_volumes_are() {
    let mut driver = pool(&[16, 16]);
    let volume = driver.create_volume("v", 1 << 30, None).unwrap();
    let other = driver.create_volume("w", 1 << 30, None).unwrap();
    fill(&mut driver, volume, 0..8);
    let status = driver.pool.status();
    assert_eq!((status.mapped_bytes / PAGE, status.runs), (8, 2));
    // Two volumes that are written in turn share each group's pages: pages of the first are in one
    // group, those of the other in the other group.
    for page in 0..4 {
        fill(&mut driver, volume, 8 + page..9 + page);
        fill(&mut driver, other, page..page + 1);
    }
    let status = driver.pool.status();
    assert_eq!((status.mapped_bytes / PAGE, status.runs), (16, 3));
    // A page between others returns to another place.
    driver.unmap(volume, &[(2 * PAGE, PAGE)], true).unwrap();
    fill(&mut driver, other, 100..101);
    fill(&mut driver, volume, 2..3);
    let fragmented = driver.pool.status();
    assert!(fragmented.runs > status.runs, "{fragmented:?}");
    driver.flush().unwrap();
    assert_eq!(reopen(driver).pool.status().runs, fragmented.runs);
}

#[test]
fn a_full_pool_refuses_exactly_the_writes_that_need_space() {
    let mut driver = pool(&[4]);
    let volume = driver.create_volume("v", 1 << 30, None).unwrap();
    fill(&mut driver, volume, 0..4);
    // Half of the range is mapped. A refused write does not change that half either.
    let before = driver.read(volume, 3 * PAGE, 2 * PAGE as usize).unwrap();
    assert_eq!(
        driver.write(volume, 3 * PAGE, &vec![9; 2 * PAGE as usize], false),
        Err(Failure::Full)
    );
    assert_eq!(
        driver.read(volume, 3 * PAGE, 2 * PAGE as usize).unwrap(),
        before
    );
    driver.write(volume, 0, &[9; 4096], true).unwrap();
    driver.flush().unwrap();
    assert_eq!(driver.read(volume, 0, 4096).unwrap(), [9; 4096]);
    driver.assert_clean();
}

#[test]
fn a_deallocated_page_serves_the_next_write_without_a_flush() {
    let mut driver = pool(&[4]);
    let volume = driver.create_volume("v", 1 << 30, None).unwrap();
    fill(&mut driver, volume, 0..4);
    driver.unmap(volume, &[(PAGE, PAGE)], false).unwrap();
    driver.write(volume, 9 * PAGE, &[5; 512], false).unwrap();
    let page = driver.read(volume, 9 * PAGE, PAGE as usize).unwrap();
    assert!(
        page[..512] == [5; 512] && page[512..].iter().all(|byte| *byte == 0),
        "the page's old data is not visible"
    );
    driver.assert_clean();
}

#[test]
fn growing_a_full_pool_lets_writes_proceed() {
    let mut driver = pool(&[2]);
    let volume = driver.create_volume("v", 1 << 30, None).unwrap();
    fill(&mut driver, volume, 0..2);
    assert_eq!(
        driver.write(volume, 5 * PAGE, &[1; 512], false),
        Err(Failure::Full)
    );
    grow(&mut driver, "more", 2);
    fill(&mut driver, volume, 5..7);
    let mut driver = reopen(driver);
    assert_eq!(driver.pool.groups().count(), 2);
    assert_eq!(
        driver.read(volume, 0, 512).unwrap(),
        [1; 512],
        "the commit that grew the pool covers earlier writes"
    );
}

#[test]
fn the_file_of_a_group_in_use_is_not_recreated() {
    let mut driver = pool(&[2]);
    let volume = driver.create_volume("v", 1 << 30, None).unwrap();
    driver.write(volume, 0, &[7; 512], true).unwrap();
    let disk = driver.disks.groups["g0"].clone();
    let refused = driver
        .pool
        .prepare_group(disk.as_ref(), 3 * PAGE)
        .unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(driver.read(volume, 0, 512).unwrap(), [7; 512]);
}

#[test]
fn a_volume_at_its_quota_does_not_starve_another() {
    let mut driver = pool(&[8]);
    let a = driver.create_volume("a", 1 << 30, Some(2 * PAGE)).unwrap();
    let b = driver.create_volume("b", 1 << 30, None).unwrap();
    fill(&mut driver, a, 0..2);
    assert_eq!(
        driver.write(a, 7 * PAGE, &[1; 512], false),
        Err(Failure::Quota)
    );
    driver.write(a, PAGE, &[1; 512], false).unwrap();
    fill(&mut driver, b, 0..6);
    driver.unmap(a, &[(0, PAGE)], false).unwrap();
    driver.write(a, 7 * PAGE, &[1; 512], false).unwrap();
    driver.assert_clean();
}

#[test]
fn the_threshold_is_reported_once_per_crossing() {
    let mut driver = pool(&[100]);
    let volume = driver.create_volume("v", 1 << 30, None).unwrap();
    fill(&mut driver, volume, 0..69);
    driver.settle();
    assert_eq!(driver.events, []);
    fill(&mut driver, volume, 69..80);
    driver.unmap(volume, &[(0, 12 * PAGE)], false).unwrap();
    fill(&mut driver, volume, 0..10);
    driver.settle();
    assert_eq!(
        driver.events,
        [Event::ThresholdCrossed],
        "68 % is not far enough below"
    );
    driver.unmap(volume, &[(0, 20 * PAGE)], false).unwrap();
    fill(&mut driver, volume, 0..20);
    driver.settle();
    let (crossed, cleared) = (Event::ThresholdCrossed, Event::ThresholdCleared);
    assert_eq!(driver.events, [crossed, cleared, crossed]);
}

#[test]
fn a_snapshot_keeps_old_data_and_shares_unchanged_pages() {
    let mut driver = pool(&[8]);
    let origin = driver.create_volume("o", 1 << 30, None).unwrap();
    fill(&mut driver, origin, 0..3);
    let snapshot = driver.copy_volume(origin, "s", true).unwrap();
    driver.write(origin, 100, &[0xAA; 50], false).unwrap();
    driver.unmap(origin, &[(2 * PAGE, PAGE)], false).unwrap();
    assert_eq!(driver.read(snapshot, 0, 512).unwrap(), [1; 512]);
    assert_eq!(driver.read(snapshot, 2 * PAGE, 512).unwrap(), [3; 512]);
    let changed = driver.read(origin, 0, 512).unwrap();
    assert_eq!(
        (changed[99], changed[100], changed[149], changed[150]),
        (1, 0xAA, 0xAA, 1)
    );
    assert_eq!(
        driver.write(snapshot, 0, &[1], false),
        Err(Failure::Snapshot)
    );
    driver.settle();
    assert_eq!(driver.pool.status().used_bytes, 4 * PAGE);
    assert_eq!(driver.pool.exclusive_bytes(snapshot), Some(2 * PAGE));
    assert_eq!(driver.pool.exclusive_bytes(origin), Some(PAGE));
    driver.delete(snapshot).unwrap();
    driver.settle();
    assert_eq!(driver.pool.status().used_bytes, 2 * PAGE);
    assert_eq!(driver.pool.status().freeing_bytes, 0);
    driver.assert_clean();
}

#[test]
fn parts_of_pages_are_zeroed_and_the_rest_stays() {
    let mut driver = pool(&[8]);
    let volume = driver.create_volume("v", 10 * PAGE + 1024, None).unwrap();
    driver
        .write(volume, 0, &vec![1; 3 * PAGE as usize], false)
        .unwrap();
    let clone = driver.copy_volume(volume, "c", false).unwrap();
    driver
        .unmap(clone, &[(PAGE - 512, PAGE + 1024)], true)
        .unwrap();
    let data = driver.read(clone, 0, 3 * PAGE as usize).unwrap();
    let zeros = data.iter().position(|byte| *byte == 0)
        ..data.iter().rposition(|byte| *byte == 0).map(|at| at + 1);
    assert_eq!(
        zeros,
        Some(PAGE as usize - 512)..Some(2 * PAGE as usize + 512)
    );
    assert!(
        driver
            .read(volume, 0, 3 * PAGE as usize)
            .unwrap()
            .iter()
            .all(|byte| *byte == 1)
    );
    assert_eq!(driver.pool.volume(clone).unwrap().mapped_bytes, 2 * PAGE);
    // Two ranges that together cover a page, and the volume's end, which is not a page boundary.
    driver.write(volume, 10 * PAGE, &[1; 1024], false).unwrap();
    let half = PAGE / 2;
    driver
        .unmap(volume, &[(10 * PAGE, 1024), (half, half), (0, half)], false)
        .unwrap();
    assert_eq!(driver.pool.volume(volume).unwrap().mapped_bytes, 2 * PAGE);
    driver.assert_clean();
}

#[test]
fn provisioning_reports_allocated_extents() {
    let mut driver = pool(&[8]);
    let volume = driver.create_volume("v", 1 << 40, None).unwrap();
    fill(&mut driver, volume, 2..4);
    let range = |offset_bytes, length_bytes| Range {
        offset_bytes,
        length_bytes,
    };
    let extents = driver
        .pool
        .provisioning(volume, range(512, (1 << 40) - 512), 10)
        .unwrap();
    assert_eq!(
        extents,
        [
            (range(512, 2 * PAGE - 512), false),
            (range(2 * PAGE, 2 * PAGE), true),
            (range(4 * PAGE, (1 << 40) - 4 * PAGE), false),
        ]
    );
    let extents = driver
        .pool
        .provisioning(volume, range(3 * PAGE + 512, 512), 10)
        .unwrap();
    assert_eq!(extents, [(range(3 * PAGE + 512, 512), true)]);
}

#[test]
fn a_full_pool_still_changes_a_page_in_place_once_only_one_volume_maps_it() {
    let mut driver = pool(&[2]);
    let volume = driver.create_volume("v", PAGE, None).unwrap();
    fill(&mut driver, volume, 0..1);
    let writable = driver.copy_volume(volume, "k", false).unwrap();
    // The write copies the page. Only `k` maps the original then, but a crash would restore the
    // map of `v` until the next commit.
    driver.write(volume, 0, &[9; 512], false).unwrap();
    assert_eq!(driver.pool.status().free_bytes, 0);
    driver.write(writable, 512, &[8; 512], false).unwrap();
    driver.write(volume, 512, &[7; 512], false).unwrap();
    assert_eq!(
        driver.read(writable, 0, 1024).unwrap(),
        [[1; 512], [8; 512]].concat()
    );
    assert_eq!(
        driver.read(volume, 0, 1024).unwrap(),
        [[9; 512], [7; 512]].concat()
    );
    driver.assert_clean();
}

#[test]
fn a_full_pool_still_zeroes_a_part_of_a_page_once_only_one_volume_maps_it() {
    let mut driver = pool(&[2]);
    let volume = driver.create_volume("v", PAGE, None).unwrap();
    fill(&mut driver, volume, 0..1);
    let writable = driver.copy_volume(volume, "k", false).unwrap();
    driver.write(volume, 0, &[9; 512], false).unwrap();
    driver.unmap(writable, &[(0, 512)], false).unwrap();
    assert_eq!(driver.read(writable, 0, 512).unwrap(), [0; 512]);
    assert_eq!(driver.read(volume, 0, 512).unwrap(), [9; 512]);
    driver.assert_clean();
}
