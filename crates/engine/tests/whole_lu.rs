//! M-18 of docs/reference/faults.md: UNMAP of an entire LU of 64 TiB in one command, and the
//! longest possible WRITE SAME over its written parts, while another initiator reads another LU of
//! the same pool.
//!
//! Afterwards, the written blocks read as zeros. The other initiator reads correct data throughout.
//! Its latency is printed, idle and during each command. Absolute speeds are not asserted, because
//! they depend on the machine.
//!
//! `cargo test -p hakaru-engine --release --test whole_lu -- --nocapture` prints the figures.
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use support::array::{Array, Scratch, config, pool, thin};
use support::client::{BLOCK, Client, outgoing};

const SIZE: u64 = 64 << 40;
const PAGE_BLOCKS: u64 = (64 << 10) / BLOCK as u64;
/// Number of pages of the LU that are written before, evenly spread over the LU.
const WRITTEN: u64 = 2000;
/// Maximum number of blocks of a WRITE SAME, as in VPD page B0h.
const WRITE_SAME_BLOCKS: u32 = 0xffff;
/// Shortest time for which the other initiator reads in each period.
const PERIOD: Duration = Duration::from_millis(700);
const PERIODS: [&str; 3] = ["quiet", "UNMAP", "WRITE SAME"];

#[test]
fn other_initiators_are_served_while_an_entire_lu_is_unmapped_or_overwritten() {
    let scratch = Scratch::new("whole");
    let array = Array::start(&config(
        json!([thin(0, "whole", SIZE), thin(1, "other", 1 << 30)]),
        json!([pool(&scratch.join("pool"), 2 * WRITTEN)]),
    ));
    let mut client = Client::login(array.portal(), 1);
    let block = vec![0x5a; BLOCK];
    client.write(1, 0, &block).unwrap();
    let period = Arc::new(AtomicUsize::new(0));
    let reader = {
        let (period, expected) = (Arc::clone(&period), block.clone());
        let mut other = Client::login(array.portal(), 2);
        thread::spawn(move || {
            let mut latencies = [const { Vec::new() }; PERIODS.len()];
            while let Some(measured) = latencies.get_mut(period.load(Ordering::Relaxed)) {
                let sent_at = Instant::now();
                let read = other.read(1, 0, 1).expect("the read is served");
                measured.push(sent_at.elapsed());
                assert!(read == expected, "a read returned unexpected data");
            }
            latencies
        })
    };
    let write_pages = |client: &mut Client| {
        for page in 0..WRITTEN {
            client.write(0, first_block(page), &block).unwrap();
        }
    };
    thread::park_timeout(PERIOD);
    let mut longest = [Duration::ZERO; PERIODS.len()];
    for (number, task) in [(1, unmap_all as fn(&mut Client)), (2, overwrite_written)] {
        write_pages(&mut client);
        assert_eq!(client.lba_status(0, 0)[0].2, 0, "mapped");
        period.store(number, Ordering::Relaxed);
        let began = Instant::now();
        while began.elapsed() < PERIOD {
            let sent_at = Instant::now();
            task(&mut client);
            longest[number] = longest[number].max(sent_at.elapsed());
        }
        for page in [0, WRITTEN / 2, WRITTEN - 1] {
            let read = client.read(0, first_block(page), 1).unwrap();
            assert!(read == vec![0; BLOCK], "{}: page {page}", PERIODS[number]);
        }
    }
    period.store(PERIODS.len(), Ordering::Relaxed);
    for (number, mut latencies) in reader.join().unwrap().into_iter().enumerate() {
        latencies.sort();
        let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
        println!(
            "M-18, {}: {} reads by the other initiator, p50 {:?}, p99 {:?}, longest {:?}; longest pass {:?}",
            PERIODS[number],
            latencies.len(),
            at(50),
            at(99),
            at(100),
            longest[number],
        );
    }
    assert_eq!(array.stop(), Some(0));
}

/// Returns the first block of the written page with this number.
fn first_block(page: u64) -> u64 {
    page * (SIZE / BLOCK as u64 / WRITTEN / PAGE_BLOCKS * PAGE_BLOCKS)
}

/// Unmaps every block in one command. A descriptor covers at most 2^32-1 blocks.
fn unmap_all(client: &mut Client) {
    let blocks = SIZE / BLOCK as u64;
    let mut descriptors = Vec::new();
    let mut lba = 0;
    while lba < blocks {
        let count = (blocks - lba).min(u64::from(u32::MAX)) as u32;
        descriptors.extend(lba.to_be_bytes());
        descriptors.extend(count.to_be_bytes());
        descriptors.extend([0; 4]);
        lba += u64::from(count);
    }
    let length = descriptors.len() as u16;
    let mut list = [(length + 6).to_be_bytes(), length.to_be_bytes()].concat();
    list.extend([0; 4]);
    list.extend(descriptors);
    let [high, low] = (list.len() as u16).to_be_bytes();
    let tag = client.submit(0, &[0x42, 0, 0, 0, 0, 0, 0, high, low, 0], outgoing(&list));
    let done = client.wait(tag).expect("the array answers");
    done.result.expect("UNMAP is carried out");
}

/// Sends WRITE SAME with UNMAP over each written page, with the maximum length.
fn overwrite_written(client: &mut Client) {
    for page in 0..WRITTEN {
        let range = (first_block(page), WRITE_SAME_BLOCKS);
        client.write_same(0, range, &[0; BLOCK], true).unwrap();
    }
}
