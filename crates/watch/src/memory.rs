//! `/proc/meminfo` and `/proc/pressure/*`: available memory and resource pressure of the machine.
use crate::Visit;

/// Reports `MemAvailable` as `machine`, `mem_available_bytes_now`.
pub fn parse_meminfo(text: &str, visit: &mut Visit<'_>) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("MemAvailable:") {
            continue;
        }
        // "kB" in this file means KiB (proc_meminfo(5)).
        if let (Some(Ok(kib)), Some("kB")) = (words.next().map(str::parse::<u64>), words.next()) {
            visit("machine", "mem_available_bytes_now", kib as f64 * 1024.0);
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
