//! `/proc/net/dev`: the network interfaces of one namespace.
use crate::Visit;

/// Counters, with their columns after the colon.
const COUNTERS: [(&str, usize); 8] = [
    ("rx_bytes", 0),
    ("rx_packets", 1),
    ("rx_errors", 2),
    ("rx_dropped", 3),
    ("tx_bytes", 8),
    ("tx_packets", 9),
    ("tx_errors", 10),
    ("tx_dropped", 11),
];
const COLUMNS: usize = 16;

/// Reports every interface as `nic/NAME`. A line with fewer than the sixteen columns of Linux 2.2
/// and later is skipped entirely, because assigning its numbers would be a guess.
pub fn parse_net_dev(text: &str, visit: &mut Visit<'_>) {
    for line in text.lines() {
        // A name may have a colon (an alias, eth0:1); the numbers have none.
        let Some((name, numbers)) = line.rsplit_once(':') else {
            continue;
        };
        let numbers: Option<Vec<u64>> = numbers
            .split_ascii_whitespace()
            .map(|word| word.parse().ok())
            .collect();
        let Some(numbers) = numbers.filter(|numbers| numbers.len() >= COLUMNS) else {
            continue;
        };
        let entity = format!("nic/{}", name.trim());
        for (counter, column) in COUNTERS {
            visit(&entity, counter, numbers[column] as f64);
        }
    }
}
