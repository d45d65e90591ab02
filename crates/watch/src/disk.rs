//! `/proc/diskstats`: requests, times and queue of the block devices.
use crate::Visit;

/// Unit of the sectors in this file, whatever the sectors of the device (kernel:
/// Documentation/admin-guide/iostats.rst).
const SECTOR_BYTES: f64 = 512.0;
const NS_PER_MS: f64 = 1e6;

/// Counters, with their columns after the name and the factor that gives their unit.
const COUNTERS: [(&str, usize, f64); 14] = [
    ("reads", 0, 1.0),
    ("read_bytes", 2, SECTOR_BYTES),
    ("read_latency_ns_sum", 3, NS_PER_MS),
    ("writes", 4, 1.0),
    ("write_bytes", 6, SECTOR_BYTES),
    ("write_latency_ns_sum", 7, NS_PER_MS),
    ("requests_now", 8, 1.0),
    ("busy_ns", 9, NS_PER_MS),
    ("queue_ns", 10, NS_PER_MS),
    // Linux 4.18 and later.
    ("discards", 11, 1.0),
    ("discard_bytes", 13, SECTOR_BYTES),
    ("discard_latency_ns_sum", 14, NS_PER_MS),
    // Linux 5.5 and later.
    ("flushes", 15, 1.0),
    ("flush_latency_ns_sum", 16, NS_PER_MS),
];
/// Columns of every kernel after 2.6.
const COLUMNS_MIN: usize = 11;

/// Reports each block device as `disk/NAME`, partitions too. A device without any request so far is
/// skipped, because a machine has many that are never used (`ram0`, `loop0`).
///
/// The kernel counts milliseconds, for reads and writes rounded down per request, from the time at
/// which the request was queued to its completion. A line with fewer columns than Linux 2.6 has is
/// skipped, because assigning its numbers would be a guess.
pub fn parse_diskstats(text: &str, visit: &mut Visit<'_>) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(2);
        let Some(name) = words.next() else {
            continue;
        };
        let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        let Some(numbers) = numbers.filter(|numbers| numbers.len() >= COLUMNS_MIN) else {
            continue;
        };
        if numbers.iter().all(|number| *number == 0) {
            continue;
        }
        let entity = format!("disk/{name}");
        for (counter, column, factor) in COUNTERS {
            if let Some(number) = numbers.get(column) {
                visit(&entity, counter, *number as f64 * factor);
            }
        }
    }
}
