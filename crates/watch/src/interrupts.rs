//! `/proc/interrupts` and `/proc/softirqs`: interrupts, summed over all CPUs.
use std::collections::BTreeMap;

use crate::Visit;

/// Reports each interrupt that has occurred as `irq/NAME`, `count`. NAME is the action's name if
/// there is one (`virtio1-req.0`, `eth0-rx-1`), else the kernel's short name (`LOC`, `RES`, `CAL`).
/// Interrupts with the same name are summed.
pub fn parse_interrupts(text: &str, visit: &mut Visit<'_>) {
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, count_cpus);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines {
        let Some((label, rest)) = line.split_once(':') else {
            continue;
        };
        let label = label.trim();
        let mut words = rest.split_ascii_whitespace().peekable();
        let mut sum = 0_u64;
        for _ in 0..cpus {
            // ERR and MIS have a single number, regardless of the number of CPUs.
            let Some(Ok(count)) = words.peek().map(|word| word.parse::<u64>()) else {
                break;
            };
            sum = sum.saturating_add(count);
            words.next();
        }
        if sum == 0 {
            continue;
        }
        let is_numbered = !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit());
        let name = if is_numbered {
            action_name(label, words)
        } else {
            label.to_owned()
        };
        *counts.entry(name).or_default() += sum;
    }
    for (name, count) in counts {
        visit(&format!("irq/{name}"), "count", count as f64);
    }
}

/// Returns the name of a numbered interrupt. The counts are followed by the chip, the hardware
/// number with its trigger (`1-edge`), and the actions, separated by commas. A line without actions
/// is named by its number.
fn action_name<'a>(label: &str, words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    let trigger = words.iter().position(|word| {
        matches!(
            word.to_ascii_lowercase().rsplit('-').next(),
            Some("edge" | "level" | "fasteoi")
        )
    });
    let actions = match trigger {
        Some(at) => &words[at + 1..],
        // Without a trigger, the actions follow the chip and the hardware number.
        None => words.get(2..).unwrap_or_default(),
    };
    if actions.is_empty() {
        label.to_owned()
    } else {
        actions.join(" ")
    }
}

/// Reports each kind of soft interrupt that has occurred as `softirq/NAME`, `count`.
pub fn parse_softirqs(text: &str, visit: &mut Visit<'_>) {
    for line in text.lines() {
        let Some((name, counts)) = line.split_once(':') else {
            continue;
        };
        let sum: Option<u64> = counts
            .split_ascii_whitespace()
            .map(|word| word.parse::<u64>().ok())
            .sum();
        if let Some(sum) = sum.filter(|sum| *sum > 0) {
            visit(&format!("softirq/{}", name.trim()), "count", sum as f64);
        }
    }
}

/// Returns the number of CPU columns. The header names one for each online CPU.
fn count_cpus(header: &str) -> usize {
    header
        .split_ascii_whitespace()
        .filter(|word| word.starts_with("CPU"))
        .count()
}
