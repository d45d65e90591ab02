//! Scripts of waiting requests: for copies, snapshots and space; and their cancellation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Disks, Driver, PAGE};
use hakaru_pool::disk::MemoryDisk;
use hakaru_pool::{
    Access, Action, ActionFailure, ActionKind, Failure, Outcome, PoolConfig, Request, RequestId,
    VolumeId,
};
use hakaru_units::Time;

fn pool(pages: u64) -> (Driver, VolumeId) {
    pool_with(PoolConfig::default(), pages)
}

fn pool_with(config: PoolConfig, pages: u64) -> (Driver, VolumeId) {
    let disks = Disks {
        metadata: Arc::new(MemoryDisk::new(0)),
        groups: BTreeMap::new(),
    };
    let mut driver = Driver::create(config, disks).unwrap();
    driver
        .grow("g0", Arc::new(MemoryDisk::new(0)), (pages + 1) * PAGE)
        .unwrap();
    let volume = driver.create_volume("v", 1 << 30, None).unwrap();
    driver.settle();
    (driver, volume)
}

fn write(volume: VolumeId, page: u64) -> Request {
    Request::Write {
        volume,
        offset_bytes: page * PAGE,
        length_bytes: 512,
        fua: false,
    }
}

fn snapshot(volume: VolumeId, name: &str) -> Request {
    Request::Snapshot {
        volume,
        name: name.into(),
        read_only: true,
        quota_bytes: None,
    }
}

#[track_caller]
fn ready(driver: &mut Driver, id: RequestId) -> Access {
    match driver.take_reply(id) {
        Some(Outcome::Ready { access, .. }) => access,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn waits(driver: &mut Driver, id: RequestId) {
    assert!(driver.take_reply(id).is_none());
}

/// Returns all pending actions.
fn actions(driver: &mut Driver) -> Vec<Action> {
    std::iter::from_fn(|| driver.pool.poll_action()).collect()
}

#[test]
fn a_snapshot_waits_for_the_writes_in_flight_and_writes_wait_for_it() {
    let (mut driver, volume) = pool(8);
    let id = driver.submit(write(volume, 0));
    let in_flight = ready(&mut driver, id);
    let pending_snapshot = driver.submit(snapshot(volume, "s"));
    let behind = driver.submit(write(volume, 1));
    driver.settle();
    waits(&mut driver, pending_snapshot);
    waits(&mut driver, behind);
    assert!(driver.read(volume, 0, 512).is_ok(), "reads do not wait");
    driver.moved(in_flight, true);
    // The write proceeds as soon as the maps are copied, before they are on stable storage.
    let access = ready(&mut driver, behind);
    waits(&mut driver, pending_snapshot);
    driver.moved(access, true);
    assert!(matches!(
        driver.reply(pending_snapshot),
        Outcome::Created(_)
    ));
    driver.assert_clean();
}

#[test]
fn writes_to_a_page_being_copied_wait_and_reads_return_the_old_data() {
    let (mut driver, volume) = pool(8);
    driver.write(volume, 0, &[1; 1024], false).unwrap();
    driver.copy_volume(volume, "s", true).unwrap();
    let first = driver.submit(write(volume, 0));
    let copy = actions(&mut driver);
    assert!(
        matches!(
            copy[..],
            [Action {
                kind: ActionKind::Copy { .. },
                ..
            }]
        ),
        "{copy:?}"
    );
    let second = driver.submit(write(volume, 0));
    waits(&mut driver, first);
    waits(&mut driver, second);
    assert_eq!(driver.read(volume, 0, 512).unwrap(), [1; 512]);
    driver.assert_clean();
    copy.into_iter().for_each(|action| driver.perform(action));
    let (first, second) = (ready(&mut driver, first), ready(&mut driver, second));
    assert_eq!(driver.pool.status().copies, 1, "one copy serves both");
    driver.moved(second, true);
    driver.moved(first, true);
    driver.assert_clean();
}

#[test]
fn a_failed_copy_fails_the_write_and_frees_its_page() {
    for (failure, reported) in [
        (ActionFailure::Io, Failure::Io),
        (ActionFailure::NoSpace, Failure::Full),
    ] {
        let (mut driver, volume) = pool(8);
        driver.write(volume, 0, &[1; 512], false).unwrap();
        driver.copy_volume(volume, "s", true).unwrap();
        let id = driver.submit(write(volume, 0));
        for action in actions(&mut driver) {
            driver
                .pool
                .handle_action_done(driver.now, action.id, Err(failure));
        }
        assert!(
            matches!(driver.take_reply(id), Some(Outcome::Failed(failure)) if failure == reported)
        );
        assert_eq!(driver.read(volume, 0, 512).unwrap(), [1; 512]);
        driver.flush().unwrap();
        driver.settle();
        let status = driver.pool.status();
        assert_eq!((status.used_bytes, status.freeing_bytes), (PAGE, 0));
        driver.assert_clean();
    }
}

#[test]
fn a_page_is_reused_only_after_the_reads_of_it_have_ended() {
    let (mut driver, volume) = pool(1);
    driver.write(volume, 0, &[1; 512], true).unwrap();
    let id = driver.submit(Request::Read {
        volume,
        offset_bytes: 0,
        length_bytes: 512,
    });
    let reading = ready(&mut driver, id);
    driver.unmap(volume, &[(0, PAGE)], true).unwrap();
    let waiting = driver.submit(write(volume, 5));
    driver.settle();
    waits(&mut driver, waiting);
    driver.moved(reading, true);
    driver.settle();
    let access = ready(&mut driver, waiting);
    driver.moved(access, true);
}

#[test]
fn a_page_is_reused_only_after_the_commit_that_freed_it_is_durable() {
    let (mut driver, volume) = pool(1);
    driver.write(volume, 0, &[1; 512], true).unwrap();
    driver.unmap(volume, &[(0, PAGE)], false).unwrap();
    let waiting = driver.submit(write(volume, 5));
    let mut seen = Vec::new();
    while driver.take_reply(waiting).is_none() {
        let action = driver.pool.poll_action().expect("the page comes back");
        seen.push(match action.kind {
            ActionKind::Commit(_) => "commit",
            ActionKind::Discard { .. } => "discard",
            ActionKind::Sync { .. } => "sync",
            ref other => panic!("{other:?}"),
        });
        driver.perform(action);
    }
    assert_eq!(seen, ["commit", "discard", "sync"]);
}

#[test]
fn a_copy_is_synced_before_the_map_that_references_it_is_committed() {
    let (mut driver, volume) = pool(8);
    driver.write(volume, 0, &[1; 512], false).unwrap();
    driver.copy_volume(volume, "s", true).unwrap();
    let id = driver.submit(write(volume, 0));
    actions(&mut driver)
        .into_iter()
        .for_each(|action| driver.perform(action));
    let not_moved_yet = ready(&mut driver, id);
    driver.submit(Request::Flush);
    let round = actions(&mut driver);
    assert!(
        matches!(
            &round[..],
            [Action {
                kind: ActionKind::Sync { .. },
                ..
            }]
        ),
        "{round:?}"
    );
    round.into_iter().for_each(|action| driver.perform(action));
    driver.moved(not_moved_yet, true);
}

/// A killed process leaves writes that can be read and are not on stable storage.
#[test]
fn the_first_flush_of_an_opened_pool_syncs_what_the_process_before_has_written() {
    let (mut driver, volume) = pool(8);
    driver.write(volume, 0, &[1; 512], true).unwrap();
    driver.write(volume, 0, &[2; 512], false).unwrap();
    let disks = driver.disks.clone();
    drop(driver);
    let mut driver = Driver::open(PoolConfig::default(), disks).unwrap();
    for synced in [true, false] {
        driver.submit(Request::Flush);
        let round = actions(&mut driver);
        let syncs = |action: &Action| matches!(action.kind, ActionKind::Sync { .. });
        assert_eq!(round.iter().any(syncs), synced, "{round:?}");
        round.into_iter().for_each(|action| driver.perform(action));
        driver.settle();
    }
}

#[test]
fn a_waiting_request_can_be_cancelled() {
    let (mut driver, volume) = pool(1);
    driver.write(volume, 0, &[1; 512], true).unwrap();
    driver.unmap(volume, &[(0, PAGE)], false).unwrap();
    let (first, second) = (
        driver.submit(write(volume, 5)),
        driver.submit(write(volume, 6)),
    );
    assert!(driver.pool.cancel(driver.now, first));
    assert!(
        !driver.pool.cancel(driver.now, first),
        "the request was cancelled before"
    );
    driver.settle();
    let access = ready(&mut driver, second);
    assert!(
        !driver.pool.cancel(driver.now, second),
        "the request no longer waits"
    );
    waits(&mut driver, first);
    driver.moved(access, true);

    // A request that is cancelled as the last one leaves no other waiting for space that is free.
    driver.unmap(volume, &[(6 * PAGE, PAGE)], false).unwrap();
    let last = driver.submit(write(volume, 7));
    waits(&mut driver, last);
    assert!(driver.pool.cancel(driver.now, last));
    driver.settle();
    assert_eq!(driver.pool.status().free_bytes, PAGE);
    let id = driver.submit(write(volume, 6));
    let access = ready(&mut driver, id);
    driver.moved(access, true);

    // Cancelling a snapshot lets the writes behind it proceed.
    let id = driver.submit(write(volume, 6));
    let in_flight = ready(&mut driver, id);
    let pending_snapshot = driver.submit(snapshot(volume, "s"));
    let behind = driver.submit(write(volume, 6));
    waits(&mut driver, behind);
    assert!(driver.pool.cancel(driver.now, pending_snapshot));
    let behind = ready(&mut driver, behind);
    driver.moved(in_flight, true);
    driver.moved(behind, true);
    driver.assert_clean();
}

#[test]
fn requests_that_wait_for_space_fail_once_none_can_come() {
    let (mut driver, volume) = pool(1);
    driver.write(volume, 0, &[1; 512], true).unwrap();
    driver.unmap(volume, &[(0, PAGE)], false).unwrap();
    let (first, second) = (
        driver.submit(write(volume, 5)),
        driver.submit(write(volume, 6)),
    );
    driver.settle();
    let access = ready(&mut driver, first);
    assert!(matches!(
        driver.take_reply(second),
        Some(Outcome::Failed(Failure::Full))
    ));
    driver.moved(access, true);
    // Overwrites never wait for space.
    driver.write(volume, 5 * PAGE, &[2; 512], false).unwrap();
}

#[test]
fn flushes_during_a_round_share_the_next_one() {
    let (mut driver, volume) = pool(8);
    driver.write(volume, 0, &[1; 512], false).unwrap();
    let first = driver.submit(Request::Flush);
    let sync = actions(&mut driver);
    driver.write(volume, 0, &[2; 512], false).unwrap();
    let later = [driver.submit(Request::Flush), driver.submit(Request::Flush)];
    assert!(actions(&mut driver).is_empty(), "one round at a time");
    sync.into_iter().for_each(|action| driver.perform(action));
    driver.settle();
    assert!(matches!(driver.take_reply(first), Some(Outcome::Done)));
    for id in later {
        assert!(matches!(driver.take_reply(id), Some(Outcome::Done)));
    }
    assert_eq!(
        driver.pool.status().commits,
        3,
        "two for the group and the volume, one for the map"
    );
}

#[test]
fn changes_are_committed_after_the_interval_without_a_flush() {
    let (mut driver, volume) = pool(8);
    driver.now += Duration::from_secs(100);
    driver.write(volume, 0, &[1; 512], false).unwrap();
    driver.unmap(volume, &[(0, PAGE)], false).unwrap();
    let at = driver.pool.poll_timeout().expect("something changed");
    assert_eq!(at, driver.now + Duration::from_secs(5));
    driver.settle();
    assert_eq!(driver.pool.status().freeing_bytes, PAGE);
    driver.pool.handle_timeout(at);
    driver.settle();
    assert_eq!(driver.pool.status().freeing_bytes, 0);
    assert_eq!(driver.pool.poll_timeout(), None);
}

#[test]
fn a_deadline_that_passes_during_a_round_is_reported_once() {
    let (mut driver, volume) = pool(8);
    driver.write(volume, 0, &[1; 512], false).unwrap();
    let id = driver.submit(Request::Flush);
    let round = actions(&mut driver);
    driver.write(volume, PAGE, &[1; 512], false).unwrap();
    let at = driver.pool.poll_timeout().expect("something changed");
    driver.pool.handle_timeout(at);
    assert_eq!(driver.pool.poll_timeout(), None);
    round.into_iter().for_each(|action| driver.perform(action));
    driver.settle();
    assert!(matches!(driver.take_reply(id), Some(Outcome::Done)));
    let status = driver.pool.status();
    assert_eq!(status.commits, 4, "the round that was due ran next");
}

#[test]
fn after_a_failed_sync_no_timer_runs_and_everything_but_reads_is_refused() {
    let (mut driver, volume) = pool(8);
    driver.write(volume, 0, &[1; 512], true).unwrap();
    driver.copy_volume(volume, "s", true).unwrap();
    let copying = driver.submit(write(volume, 0));
    let copy = actions(&mut driver);
    driver.write(volume, PAGE, &[2; 512], false).unwrap();
    let flushing = driver.submit(Request::Flush);
    for action in actions(&mut driver) {
        driver
            .pool
            .handle_action_done(driver.now, action.id, Err(ActionFailure::Io));
    }
    let refused = |outcome| matches!(outcome, Some(Outcome::Failed(Failure::ReadOnly)));
    assert!(refused(driver.take_reply(flushing)));
    copy.into_iter().for_each(|action| driver.perform(action));
    let access = ready(&mut driver, copying);
    driver.moved(access, true);
    assert_eq!(driver.pool.poll_timeout(), None);
    for request in [
        write(volume, 0),
        Request::Flush,
        snapshot(volume, "t"),
        Request::Delete { volume },
    ] {
        let id = driver.submit(request);
        assert!(refused(driver.take_reply(id)));
    }
    assert_eq!(driver.read(volume, PAGE, 512).unwrap(), [2; 512]);
    driver.assert_clean();
}

#[test]
fn names_and_sizes_out_of_bounds_are_refused() {
    let (mut driver, volume) = pool(1);
    assert_eq!(
        driver.create_volume("v", 512, None),
        Err(Failure::NameTaken)
    );
    for name in ["", ".x", "a/b", "-x", "a b", "\u{e4}", &"n".repeat(65)] {
        assert_eq!(
            driver.create_volume(name, 512, None),
            Err(Failure::NameInvalid),
            "{name}"
        );
    }
    for size_bytes in [0, 513, (256 << 40) + 512] {
        assert_eq!(
            driver.create_volume("w", size_bytes, None),
            Err(Failure::SizeInvalid)
        );
    }
    assert_eq!(
        driver.write(volume, (1 << 30) - 256, &[0; 512], false),
        Err(Failure::OutOfRange)
    );
    assert_eq!(
        driver.unmap(volume, &[(u64::MAX, 2)], false),
        Err(Failure::OutOfRange)
    );
    assert_eq!(
        driver.write(VolumeId(99), 0, &[0; 512], false),
        Err(Failure::NoVolume)
    );
    assert_eq!(
        driver.unmap(VolumeId(99), &[], false),
        Err(Failure::NoVolume)
    );
}

fn refused_with(driver: &mut Driver, id: RequestId, failure: Failure) -> bool {
    matches!(driver.take_reply(id), Some(Outcome::Failed(reported)) if reported == failure)
}

/// Returns a pool of two pages, both allocated, that holds writes for a minute.
fn full_pool_that_holds() -> (Driver, VolumeId) {
    let config = PoolConfig {
        hold_when_full: Duration::from_secs(60),
        ..PoolConfig::default()
    };
    let (mut driver, volume) = pool_with(config, 2);
    for page in 0..2 {
        driver.write(volume, page * PAGE, &[1; 512], false).unwrap();
    }
    driver.flush().unwrap();
    driver.settle();
    (driver, volume)
}

#[test]
fn a_write_is_held_for_room_and_fails_at_its_deadline() {
    let (mut driver, volume) = full_pool_that_holds();
    let began = driver.now;
    let first = driver.submit(write(volume, 5));
    driver.now = began + Duration::from_secs(20);
    let second = driver.submit(write(volume, 6));
    for (held, until) in [(first, 60), (second, 80)] {
        let until = began + Duration::from_secs(until);
        assert_eq!(driver.pool.poll_timeout(), Some(until));
        driver.now = Time(until.0 - 1);
        driver.pool.handle_timeout(driver.now);
        driver.settle();
        waits(&mut driver, held);
        driver.now = until;
        driver.pool.handle_timeout(driver.now);
        assert!(refused_with(&mut driver, held, Failure::Full));
    }
    assert!(driver.pool.is_idle());
    driver.assert_clean();
}

#[test]
fn deallocated_or_added_pages_let_held_writes_proceed() {
    let (mut driver, volume) = full_pool_that_holds();
    let held = [5, 6, 7].map(|page| driver.submit(write(volume, page)));
    // Writes to mapped pages are not held, and neither are reads.
    driver.write(volume, 0, &[2; 512], false).unwrap();
    assert_eq!(driver.read(volume, 0, 512).unwrap(), [2; 512]);
    held.iter().for_each(|held| waits(&mut driver, *held));
    driver.unmap(volume, &[(PAGE, PAGE)], false).unwrap();
    driver.settle();
    let access = ready(&mut driver, held[0]);
    driver.moved(access, true);
    waits(&mut driver, held[1]);
    driver
        .grow("g1", Arc::new(MemoryDisk::new(0)), 3 * PAGE)
        .unwrap();
    driver.settle();
    for held in &held[1..] {
        let access = ready(&mut driver, *held);
        driver.moved(access, true);
    }
    driver.flush().unwrap();
    driver.settle();
    assert_eq!(driver.pool.status().free_bytes, 0);
    driver.assert_clean();
}

#[test]
fn a_cancelled_held_write_allocates_nothing() {
    let (mut driver, volume) = full_pool_that_holds();
    let held = driver.submit(write(volume, 5));
    assert!(driver.pool.cancel(driver.now, held));
    driver.unmap(volume, &[(PAGE, PAGE)], true).unwrap();
    driver.settle();
    waits(&mut driver, held);
    assert_eq!(driver.pool.status().free_bytes, PAGE);
    assert!(driver.pool.is_idle());
}

#[test]
fn a_volume_at_its_quota_is_refused_at_once_even_if_writes_are_held() {
    let (mut driver, _) = full_pool_that_holds();
    let small = driver.create_volume("w", 1 << 20, Some(0)).unwrap();
    let id = driver.submit(write(small, 0));
    assert!(refused_with(&mut driver, id, Failure::Quota));
}
