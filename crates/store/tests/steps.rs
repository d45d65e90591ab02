//! Long accesses to memory are carried out step by step, so that a shell can serve its sockets in
//! between. Accesses that the model holds keep the volume of their LU.
use hakaru_contract::drive::{ArrayModel, Controller, Drive, Group, Port, Raid};
use hakaru_drive::Array;
use hakaru_pool::VolumeId;
use hakaru_scsi_device::{Extent, Io, IoFailure, IoId, IoOp, IoResult};
use hakaru_send_queue::Key;
use hakaru_store::{ChunkedMemory, Lu, MemoryStore, Place, Storage, Store};
use hakaru_units::Time;

const SIZE: u64 = 64 << 20;
/// Work of one step, bytes.
const STEP: u64 = 1 << 20;

/// Returns a storage with two LUs in memory.
fn storage(model: Option<Array>) -> Storage<ChunkedMemory> {
    let mut storage = Storage::new(model);
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

/// Returns the model of an array with one drive, whose controller needs `command_us` per command.
fn model(command_us: f64) -> Array {
    let model = ArrayModel {
        controller: Controller {
            command_us,
            data_us_per_mib: 0.0,
            latency_us: 0.0,
        },
        port: Some(Port {
            rate_bytes_per_s: 1e9,
            shared: false,
            command_us: 0.0,
        }),
        cache: None,
        groups: vec![Group {
            raid: Raid::Raid0,
            drives: 1,
            stripe_unit_bytes: 64 << 10,
            extents: None,
            drive: Drive::Preset {
                name: "nvme-ssd-2000".into(),
            },
        }],
    };
    Array::new(&model, 1).expect("the preset exists")
}

fn submit(storage: &mut Storage<ChunkedMemory>, lun: u8, index: u32, op: IoOp) {
    let key = Key {
        index,
        generation: 0,
    };
    let id = IoId(key);
    let received_bytes = match &op {
        IoOp::WriteSame { block, .. } => Some(block.len() as u64),
        _ => None,
    };
    let io = Io {
        id,
        lun,
        op,
        received_bytes,
    };
    storage.submit(Time::ZERO, io, &mut |_| Vec::new());
}

fn done(storage: &mut Storage<ChunkedMemory>) -> Vec<(u32, IoResult)> {
    let results = std::iter::from_fn(|| storage.poll_done());
    results.map(|(id, result)| (id.0.index, result)).collect()
}

#[test]
fn a_read_does_not_wait_for_fills_that_came_before_it() {
    const FILLS: u32 = 127;
    const FILL_BYTES: u64 = 256 << 10;
    let mut storage = storage(None);
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
        panic!("only the read must have ended: {first:?}");
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

#[test]
fn accesses_that_the_model_completes_at_one_instant_are_carried_out_over_several_calls() {
    const READS: u32 = 16;
    const READ_BYTES: u64 = 1 << 20;
    /// Bytes carried out per call.
    const CALL: u64 = 4 << 20;
    let mut storage = storage(Some(model(0.0)));
    for index in 0..READS {
        let read = IoOp::Read {
            offset_bytes: u64::from(index) * READ_BYTES,
            length_bytes: READ_BYTES as u32,
            in_place: false,
        };
        submit(&mut storage, 0, index, read);
    }
    let all_complete = Time::from_secs_f64(60.0);
    let mut ended = Vec::new();
    while ended.len() < READS as usize {
        storage.handle_timeout(all_complete, &mut |_| Vec::new());
        let call = done(&mut storage);
        assert_eq!(call.len() as u64, CALL / READ_BYTES);
        ended.extend(call.into_iter().map(|(index, _)| index));
        assert!(
            ended.len() == READS as usize || storage.poll_timeout() == Some(Time::ZERO),
            "accesses are left, but no call is due"
        );
    }
    ended.sort_unstable();
    assert_eq!(ended, (0..READS).collect::<Vec<u32>>());
}

/// The drives write the whole range, and the port has received one block.
#[test]
fn write_same_costs_the_port_one_block() {
    let mut storage = storage(Some(model(0.0)));
    let range = Extent {
        offset_bytes: 0,
        length_bytes: STEP,
    };
    let write_same = IoOp::WriteSame {
        range,
        block: vec![7; 512],
        unmap: false,
        fua: false,
    };
    submit(&mut storage, 0, 0, write_same);
    storage.handle_timeout(Time::from_secs_f64(1.0), &mut |_| Vec::new());
    assert_eq!(done(&mut storage).len(), 1);
    let mut counters = std::collections::BTreeMap::new();
    let mut keep = |entity: &str, name: &str, value: f64| {
        counters.insert(format!("{entity} {name}"), value);
    };
    storage.visit_counters(Time::from_secs_f64(1.0), &mut keep);
    assert_eq!(counters["port/0 write_bytes"], 512.0);
    assert_eq!(counters["group/0 write_bytes"], STEP as f64);
}

/// A LUN may be given to another volume while the model holds an access to the LU that had it. The
/// pool of this storage does not exist, so an access that reached a volume would panic.
#[test]
fn an_access_that_the_model_holds_never_reaches_another_volume_under_the_same_lun() {
    let thin = |volume| Lu {
        store: Store::Thin {
            pool: 0,
            volume: VolumeId(volume),
        },
        size_bytes: SIZE,
        block_bytes: 512,
        place: Place::default(),
        identity: None,
        unmaps: 0,
    };
    let all = Extent {
        offset_bytes: 0,
        length_bytes: SIZE,
    };
    let write_same = IoOp::WriteSame {
        range: all,
        block: vec![0; 512],
        unmap: true,
        fua: false,
    };
    for op in [IoOp::Unmap { ranges: vec![all] }, write_same] {
        let mut storage = Storage::<ChunkedMemory>::new(Some(model(1000.0)));
        storage.attach(7, thin(1));
        submit(&mut storage, 7, 0, op);
        storage.detach(7);
        storage.attach(7, thin(2));
        storage.handle_timeout(Time::from_secs_f64(1.0), &mut |_| Vec::new());
        let ended = done(&mut storage);
        let [(0, IoResult::Failed(IoFailure::Internal))] = ended.as_slice() else {
            panic!("{ended:?}");
        };
        assert_eq!(storage.lu(7).expect("LU 7").unmaps, 0);
    }
}
