//! `/proc/meminfo` and `/proc/pressure/*`: memory and resource pressure of the machine.
use crate::Visit;

/// Counters, with their names in the file.
const COUNTERS: [(&str, &str); 6] = [
    ("mem_total_bytes_now", "MemTotal:"),
    ("mem_available_bytes_now", "MemAvailable:"),
    ("mem_free_bytes_now", "MemFree:"),
    ("mem_cached_bytes_now", "Cached:"),
    ("mem_dirty_bytes_now", "Dirty:"),
    ("mem_writeback_bytes_now", "Writeback:"),
];

/// Reports total, available, free, cached, dirty memory and memory being written back, as
/// `machine`.
pub fn parse_meminfo(text: &str, visit: &mut Visit<'_>) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(found) = words.next() else {
            continue;
        };
        let Some((name, _)) = COUNTERS.iter().find(|(_, label)| *label == found) else {
            continue;
        };
        // "kB" in this file means KiB (proc_meminfo(5)).
        if let (Some(Ok(kib)), Some("kB")) = (words.next().map(str::parse::<u64>), words.next()) {
            visit("machine", name, kib as f64 * 1024.0);
        }
    }
}

/// Reports the `some` total of a pressure file as `machine`, `pressure_RESOURCE_ns`: time in which
/// at least one task waited for `resource` (`cpu`, `io` or `memory`). The file counts microseconds.
pub fn parse_pressure(resource: &str, text: &str, visit: &mut Visit<'_>) {
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("some ") else {
            continue;
        };
        let total = rest
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("total="));
        if let Some(Ok(us)) = total.map(str::parse::<u64>) {
            visit(
                "machine",
                &format!("pressure_{resource}_ns"),
                us as f64 * 1e3,
            );
        }
    }
}
