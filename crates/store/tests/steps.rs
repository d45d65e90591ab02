//! Long accesses to memory are carried out step by step, so that a shell can serve its sockets in
//! between.
use hakaru_scsi_device::{Extent, Io, IoId, IoOp, IoResult};
use hakaru_send_queue::Key;
use hakaru_store::{ChunkedMemory, Lu, MemoryStore, Place, Storage, Store};
use hakaru_units::Time;

const SIZE: u64 = 64 << 20;
/// Work of one step, bytes.
const STEP: u64 = 1 << 20;

fn storage() -> Storage<ChunkedMemory> {
    let mut storage = Storage::new(None);
    for lun in 0..2 {
        let lu = Lu {
            store: Store::Memory(MemoryStore::new(ChunkedMemory::new(SIZE))),
            size_bytes: SIZE,
            block_bytes: 512,
            place: Place::default(),
            identity: None,
            unmaps: 0,
        };
        storage.attach(lun, lu);
    }
    storage
}

fn submit(storage: &mut Storage<ChunkedMemory>, lun: u8, index: u32, op: IoOp) {
    let key = Key {
        index,
        generation: 0,
    };
    let id = IoId(key);
    storage.submit(Time::ZERO, Io { id, lun, op }, &mut |_| Vec::new());
}

fn done(storage: &mut Storage<ChunkedMemory>) -> Vec<(u32, IoResult)> {
    let results = std::iter::from_fn(|| storage.poll_done());
    results.map(|(id, result)| (id.0.index, result)).collect()
}

#[test]
fn a_read_does_not_wait_for_fills_that_came_before_it() {
    const FILLS: u32 = 127;
    const FILL_BYTES: u64 = 256 << 10;
    let mut storage = storage();
    for index in 0..FILLS {
        let range = Extent {
            offset_bytes: u64::from(index) * FILL_BYTES,
            length_bytes: FILL_BYTES,
        };
        let op = IoOp::WriteSame {
            range,
            block: vec![7; 512],
            unmap: false,
            fua: false,
        };
        submit(&mut storage, 0, index, op);
    }
    let read = IoOp::Read {
        offset_bytes: 0,
        length_bytes: 512,
        in_place: false,
    };
    submit(&mut storage, 1, FILLS, read);
    let first = done(&mut storage);
    let [(FILLS, IoResult::ReadData(_))] = first.as_slice() else {
        panic!("only the read has ended: {first:?}");
    };
    let mut ended = Vec::new();
    while storage.poll_timeout() == Some(Time::ZERO) {
        storage.handle_timeout(Time::ZERO, &mut |_| Vec::new());
        let step = done(&mut storage);
        assert!(step.len() as u64 <= STEP / FILL_BYTES, "{step:?}");
        ended.extend(step.into_iter().map(|(index, _)| index));
    }
    ended.sort_unstable();
    assert_eq!(ended, (0..FILLS).collect::<Vec<u32>>());
}
