//! A ring and a driver in one memory: correct drivers, and hostile ones.
use proptest::prelude::*;
use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::*;
use crate::vhost_user::driver::{Driver, INDIRECT, NEXT, RING_BYTES, SIZE, WRITE};

const MEMORY_BYTES: usize = 0x4_0000;
/// Memory for frames.
const DATA: u64 = 0x1_0000;

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).unwrap()
}

fn started(memory: &GuestMemoryMmap, driver: &Driver<'_>, event_idx: bool) -> Ring {
    let mut ring = Ring::default();
    ring.set_size(SIZE).unwrap();
    ring.set_places(driver.places()).unwrap();
    assert!(ring.start(memory, event_idx));
    ring
}

fn take(ring: &mut Ring, memory: &GuestMemoryMmap) -> Result<Option<Taken>, Error> {
    ring.take(memory, HEADER_BYTES_MAX, Vec::with_capacity)
}

fn frame(bytes: &[u8]) -> Taken {
    Taken::Frame([7; HEADER_BYTES_MAX], bytes.to_vec())
}

#[test]
fn a_frame_is_taken_however_the_driver_cuts_it() {
    let memory = memory();
    let mut driver = Driver::new(&memory, 0);
    let mut ring = started(&memory, &driver, false);
    assert_eq!(take(&mut ring, &memory).unwrap(), None);
    let bytes: Vec<u8> = (0..100).collect();
    driver.write(DATA, &[&[7; 12], bytes.as_slice()].concat());
    // Within the header, at its end, and within the frame; then in a table of its own.
    driver.describe(0, [DATA, 5], NEXT, 3);
    driver.describe(3, [DATA + 5, 7], NEXT, 1);
    driver.describe(1, [DATA + 12, 1], NEXT, 2);
    driver.describe(2, [DATA + 13, 99], 0, 0);
    driver.offer(0);
    let table = DATA + 0x1000;
    driver.describe_in(table, 0, [DATA, 40], NEXT, 1);
    driver.describe_in(table, 1, [DATA + 40, 72], 0, 0);
    driver.describe(4, [table, 32], INDIRECT, 0);
    driver.offer(4);
    for _ in 0..2 {
        assert_eq!(take(&mut ring, &memory).unwrap(), Some(frame(&bytes)));
    }
    assert_eq!(take(&mut ring, &memory).unwrap(), None);
    assert_eq!(driver.used(), [(0, 0), (4, 0)]);
}

#[test]
fn chains_that_are_no_frames_are_returned_and_the_next_frame_is_taken() {
    let memory = memory();
    let mut driver = Driver::new(&memory, 0);
    let mut ring = started(&memory, &driver, false);
    driver.write(DATA, &[7; 64]);
    let end = MEMORY_BYTES as u64;
    let table = DATA + 0x1000;
    let damaged: [&dyn Fn(&Driver<'_>); 8] = [
        // A loop, alone and through two descriptors.
        &|driver| driver.describe(0, [DATA, 20], NEXT, 0),
        &|driver| {
            driver.describe(0, [DATA, 20], NEXT, 1);
            driver.describe(1, [DATA, 20], NEXT, 0);
        },
        // An index outside of the ring.
        &|driver| driver.describe(0, [DATA, 20], NEXT, SIZE),
        // Memory that the guest does not have.
        &|driver| driver.describe(0, [end - 10, 30], 0, 0),
        &|driver| driver.describe(0, [u64::MAX - 4, 30], 0, 0),
        // A receive buffer, a frame without a whole header, and one that is too long.
        &|driver| driver.describe(0, [DATA, 64], WRITE, 0),
        &|driver| driver.describe(0, [DATA, 11], 0, 0),
        &|driver| {
            // A table whose descriptors repeat the same 64 KiB.
            driver.describe_in(table, 0, [DATA, 0x1_0000], NEXT, 1);
            driver.describe_in(table, 1, [DATA, 0x1_0000], 0, 0);
            driver.describe(0, [table, 32], INDIRECT, 0);
        },
    ];
    for (number, describe) in damaged.iter().enumerate() {
        describe(&driver);
        driver.offer(0);
        let taken = take(&mut ring, &memory).unwrap();
        assert_eq!(taken, Some(Taken::Damaged), "case {number}");
        driver.describe(0, [DATA, 64], 0, 0);
        driver.offer(0);
        assert_eq!(take(&mut ring, &memory).unwrap(), Some(frame(&[7; 52])));
        assert_eq!(driver.used(), [(0, 0), (0, 0)]);
    }
}

#[test]
fn a_driver_that_breaks_the_ring_is_an_error() {
    let memory = memory();
    let mut driver = Driver::new(&memory, 0);
    // More chains than the ring has.
    let mut ring = started(&memory, &driver, false);
    driver.set_available(SIZE + 1);
    assert!(take(&mut ring, &memory).is_err());
    // A head that no descriptor has.
    driver.set_available(0);
    let mut ring = started(&memory, &driver, false);
    driver.offer(SIZE);
    assert!(take(&mut ring, &memory).is_err());
    // Receive buffers that cannot be written to, or lie outside of the guest's memory.
    for (at, flags) in [(DATA, 0), (MEMORY_BYTES as u64 - 8, WRITE)] {
        let mut driver = Driver::new(&memory, RING_BYTES);
        driver.set_available(0);
        let mut ring = started(&memory, &driver, false);
        driver.describe(0, [at, 100], flags, 0);
        driver.offer(0);
        let put = ring.put(&memory, [0; 12], 12, [&[1; 50], &[]], true);
        assert!(put.is_err(), "{at} {flags}");
    }
    // Sizes and places that virtio does not allow.
    let mut ring = Ring::default();
    for size in [0, 3, 2 * DESCRIPTORS_MAX] {
        assert!(ring.set_size(size).is_err(), "{size}");
    }
    assert!(ring.set_places([8, 0, 0].map(GuestAddress)).is_err());
    ring.set_size(SIZE).unwrap();
    let end = MEMORY_BYTES as u64 - 16;
    ring.set_places([0, 0x400, end].map(GuestAddress)).unwrap();
    assert!(!ring.start(&memory, false), "its end is not in the memory");
    assert!(!ring.is_ready());
}

#[test]
fn a_long_frame_fills_several_buffers_that_are_returned_together() {
    let memory = memory();
    let mut driver = Driver::new(&memory, 0);
    let mut ring = started(&memory, &driver, false);
    let body: Vec<u8> = (0..200).collect();
    let put = |ring: &mut Ring, body: &[u8], is_mergeable| {
        ring.put(&memory, [9; 12], 12, [&[1, 2, 3, 4], body], is_mergeable)
            .unwrap()
    };
    for index in 0..2 {
        driver.describe(index, [DATA + u64::from(index) * 100, 100], WRITE, 0);
        driver.offer(index);
    }
    assert_eq!(put(&mut ring, &body, true), Put::NoBuffer);
    assert_eq!(put(&mut ring, &body, false), Put::TooLong);
    assert_eq!(driver.used(), []);
    driver.describe(2, [DATA + 200, 60], WRITE | NEXT, 3);
    driver.describe(3, [DATA + 260, 40], WRITE, 0);
    driver.offer(2);
    assert_eq!(put(&mut ring, &body, true), Put::Done);
    assert_eq!(driver.used(), [(0, 100), (1, 100), (2, 16)]);
    let expected = [&[9; 10][..], &[3, 0, 1, 2, 3, 4], &body].concat();
    assert_eq!(driver.read(DATA, 216), expected);
    driver.offer(0);
    assert_eq!(put(&mut ring, &body[..84], false), Put::Done);
    assert_eq!(driver.used(), [(0, 100)]);
    assert_eq!(
        driver.read(DATA, 16),
        [&[9; 10][..], &[1, 0, 1, 2, 3, 4]].concat()
    );
}

#[test]
fn the_driver_is_notified_when_it_wants_that() {
    let memory = memory();
    for event_idx in [false, true] {
        let mut driver = Driver::new(&memory, if event_idx { RING_BYTES } else { 0 });
        let mut ring = started(&memory, &driver, event_idx);
        driver.describe(0, [DATA, 100], WRITE, 0);
        let mut put_two = |driver: &mut Driver<'_>| {
            for _ in 0..2 {
                driver.offer(0);
                assert_eq!(
                    ring.put(&memory, [0; 12], 12, [&[], &[1; 60]], true)
                        .unwrap(),
                    Put::Done
                );
            }
            let needs = ring.needs_notification(&memory).unwrap();
            assert!(
                !ring.needs_notification(&memory).unwrap(),
                "nothing was returned since"
            );
            needs
        };
        let available = driver.places()[1].0;
        assert!(put_two(&mut driver));
        if event_idx {
            // The first buffer of the two is the one that the driver waits for.
            driver.write(available + 4 + 2 * u64::from(SIZE), &2_u16.to_le_bytes());
            assert!(put_two(&mut driver));
            driver.write(available + 4 + 2 * u64::from(SIZE), &40_u16.to_le_bytes());
        } else {
            driver.write(available, &NO_INTERRUPT.to_le_bytes());
        }
        assert!(!put_two(&mut driver));
    }
}

/// Memory addresses that are often near the ends of the guest's memory and of the rings.
fn address() -> impl Strategy<Value = u64> {
    let near = |at: u64| (0_u64..64).prop_map(move |by| at.wrapping_add(by).wrapping_sub(32));
    prop_oneof![
        near(0),
        near(DATA),
        near(MEMORY_BYTES as u64),
        near(u64::MAX),
        any::<u64>()
    ]
}

/// A word of the driver: an index of the ring, near its end, or anything.
fn word() -> impl Strategy<Value = u16> {
    prop_oneof![0..=2 * SIZE, (u16::MAX - 2)..=u16::MAX, any::<u16>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever a driver writes, every call ends, no frame is longer than any frame can be, and the
    /// ring either continues or reports an error.
    #[test]
    fn no_ring_of_a_hostile_driver_panics(
        descriptors in prop::collection::vec(
            (address(), prop_oneof![0_u64..200, any::<u32>().prop_map(u64::from)], 0_u16..8, word()),
            2 * SIZE as usize,
        ),
        heads in prop::collection::vec(word(), SIZE as usize),
        (flags, event, base) in (word(), word(), word()),
        indices in prop::collection::vec(word(), 1..12),
        (event_idx, is_mergeable) in any::<(bool, bool)>(),
        length in 0_usize..3000,
    ) {
        let memory = memory();
        let driver = Driver::new(&memory, 0);
        for (index, (at, bytes, flags, next)) in descriptors.into_iter().enumerate() {
            driver.describe(index as u16 % SIZE, [at, bytes], flags, next);
            // Some of the descriptors of the ring lead to these.
            driver.describe_in(DATA, index as u16, [at, bytes], flags, next);
        }
        let available = driver.places()[1].0;
        driver.write(available, &flags.to_le_bytes());
        for (index, head) in heads.into_iter().enumerate() {
            driver.write(available + 4 + 2 * index as u64, &head.to_le_bytes());
        }
        driver.write(available + 4 + 2 * u64::from(SIZE), &event.to_le_bytes());
        let mut ring = started(&memory, &driver, event_idx);
        ring.set_base(base);
        let body = vec![5; length];
        for (turn, index) in indices.into_iter().enumerate() {
            driver.set_available(if turn % 2 == 0 { base.wrapping_add(index % SIZE) } else { index });
            for _ in 0..2 * SIZE {
                match take(&mut ring, &memory) {
                    Ok(Some(Taken::Frame(_, frame))) => prop_assert!(frame.len() <= PACKET_BYTES_MAX + 12),
                    Ok(Some(Taken::Damaged)) => {}
                    Ok(None) | Err(_) => break,
                }
            }
            let _ = ring.put(&memory, [0; 12], 12, [&[], &body], is_mergeable);
            let _ = ring.needs_notification(&memory);
        }
    }
}
