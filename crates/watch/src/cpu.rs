//! `/proc/stat`: CPU time, by use.
use crate::Visit;

/// Counters, and the fields of a `cpu` line (proc_stat(5)) that they sum. `guest` and `guest_nice`,
/// the ninth and tenth, are contained in `user` and `nice` already.
const COUNTERS: [(&str, &[usize]); 7] = [
    ("user_ns", &[0, 1]),
    ("system_ns", &[2]),
    ("idle_ns", &[3]),
    ("iowait_ns", &[4]),
    ("irq_ns", &[5]),
    ("softirq_ns", &[6]),
    ("steal_ns", &[7]),
];

/// Reports the time of all CPUs together as `machine`, and of each as `cpu/N`, ns. `ticks_per_s` is
/// the unit of the file (`sysconf(_SC_CLK_TCK)`, 100 on every Linux in use), so the resolution is
/// 10 ms.
///
/// The counter of a field that the kernel lacks (`steal` before 2.6.11) is not reported.
pub fn parse_stat(text: &str, ticks_per_s: u64, visit: &mut Visit<'_>) {
    let ns_per_tick = 1e9 / ticks_per_s.max(1) as f64;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(number) = words.next().and_then(|word| word.strip_prefix("cpu")) else {
            continue;
        };
        let entity = match number {
            "" => "machine".to_owned(),
            n if n.bytes().all(|b| b.is_ascii_digit()) => format!("cpu/{n}"),
            _ => continue,
        };
        let ticks: Vec<Option<u64>> = words.map(|word| word.parse().ok()).collect();
        for (name, fields) in COUNTERS {
            let sum = fields
                .iter()
                .map(|&i| ticks.get(i).copied().flatten())
                .sum::<Option<u64>>();
            if let Some(sum) = sum {
                visit(&entity, name, sum as f64 * ns_per_tick);
            }
        }
    }
}
