//! Motions of tape drives end when the time of the drive says, and can be cancelled.
use hakaru_scsi_device::{Io, IoFailure, IoId, IoOp, IoResult};
use hakaru_send_queue::Key;
use hakaru_store::{ChunkedMemory, Lu, MemoryStore, Place, Storage, Store};
use hakaru_tape::Generation;
use hakaru_tape::timing::{Motion, Parameters, TimedDrive};
use hakaru_units::Time;

const SECOND: u64 = 1_000_000_000;

fn storage() -> Storage<ChunkedMemory> {
    let mut storage = Storage::new(None);
    let size_bytes = 1 << 20;
    let lu = Lu {
        store: Store::Memory(MemoryStore::new(ChunkedMemory::new(size_bytes))),
        size_bytes,
        block_bytes: 512,
        place: Place::default(),
        identity: None,
        unmaps: 0,
    };
    storage.attach(0, lu);
    let drive = TimedDrive::new(Parameters::of(Generation::Lto5)).unwrap();
    storage.set_tape_drives(vec![drive.clone(), drive]);
    storage
}

fn id(index: u32) -> IoId {
    let generation = 0;
    IoId(Key { index, generation })
}

fn begin(storage: &mut Storage<ChunkedMemory>, at: u64, index: u32, drive: u8, motion: Motion) {
    let op = IoOp::Tape { drive, motion };
    let io = Io {
        id: id(index),
        lun: 0,
        op,
        received_bytes: None,
    };
    storage.submit(Time(at), io, &mut |_| Vec::new());
}

#[test]
fn motions_of_two_drives_end_at_their_own_times() {
    let mut storage = storage();
    begin(&mut storage, SECOND, 1, 0, Motion::Load);
    begin(&mut storage, 2 * SECOND, 2, 1, Motion::Load);
    assert_eq!(storage.poll_done(), None);
    for (index, end) in [(1, 13 * SECOND), (2, 14 * SECOND)] {
        assert_eq!(storage.poll_timeout(), Some(Time(end)));
        storage.handle_timeout(Time(end - 1), &mut |_| Vec::new());
        assert_eq!(storage.poll_done(), None);
        storage.handle_timeout(Time(end), &mut |_| Vec::new());
        assert_eq!(storage.poll_done(), Some((id(index), IoResult::Done)));
    }
    // The buffer takes a write at once, and the next one when the compressor is free.
    let bytes = 140_000;
    begin(&mut storage, 20 * SECOND, 3, 0, Motion::Write { bytes });
    assert_eq!(storage.poll_timeout(), Some(Time(20 * SECOND)));
    storage.handle_timeout(Time(20 * SECOND), &mut |_| Vec::new());
    begin(&mut storage, 20 * SECOND, 4, 0, Motion::Write { bytes });
    assert_eq!(storage.poll_timeout(), Some(Time(20 * SECOND + 500_000)));
    let mut counters = std::collections::BTreeMap::new();
    let mut visit = |entity: &str, name: &str, value: f64| {
        counters.insert(format!("{entity} {name}"), value);
    };
    storage.visit_counters(Time(21 * SECOND), &mut visit);
    assert_eq!(counters["tape/0 loading_ns"], 12e9);
    assert_eq!(counters["tape/0 buffer_bytes_now"], 280_000.0);
    assert_eq!(counters["tape/1 stored_bytes"], 0.0);
}

#[test]
fn an_aborted_command_does_not_wait_for_the_tape() {
    let mut storage = storage();
    begin(&mut storage, SECOND, 1, 0, Motion::Load);
    assert!(storage.cancel(Time(2 * SECOND), id(1)));
    let failed = IoResult::Failed(IoFailure::Internal);
    assert_eq!(storage.poll_done(), Some((id(1), failed)));
    assert!(!storage.cancel(Time(2 * SECOND), id(1)));
    assert_eq!(storage.poll_timeout(), None);
}
