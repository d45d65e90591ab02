//! Counters of the kernel and of the threads, for samples and outcomes.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hakaru_runtime::process::ThreadCpuClock;
use hakaru_watch::net::parse_net_dev;

use super::ports::Port;
use crate::control::Counters;

/// Frames that the kernel dropped at an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Drops {
    /// After the interface accepted them.
    pub(super) tx: u64,
    /// After the interface received them.
    pub(super) rx: u64,
}

/// Returns the drops of every interface of this network namespace.
pub(super) fn drops_by_interface() -> BTreeMap<String, Drops> {
    // Without procfs the counts are unknown.
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let mut drops: BTreeMap<String, Drops> = BTreeMap::new();
    parse_net_dev(&text, &mut |entity, name, value| {
        let Some(interface) = entity.strip_prefix("nic/") else {
            return;
        };
        let of_interface = drops.entry(interface.to_owned()).or_default();
        match name {
            "tx_dropped" => of_interface.tx = value as u64,
            "rx_dropped" => of_interface.rx = value as u64,
            _ => {}
        }
    });
    drops
}

/// Returns the counters of a port and its threads. `drops` are those since the engine was ready.
pub(super) fn visit_port(port: &Port, drops: Drops, counters: &mut Counters) {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let mut values = BTreeMap::new();
    let mut add = |name: &str, value: f64| {
        values.insert(name.to_owned(), value);
    };
    if let Some(transmitter) = &port.transmitter {
        let sent = &transmitter.counters;
        add("tx_frames", load(&sent.frames));
        add("tx_bytes", load(&sent.bytes));
        add("tx_refused", load(&sent.refused));
        add("tx_dropped", drops.tx as f64);
    }
    if let Some(reception) = &port.reception {
        let received = &reception.counters;
        add("rx_frames", load(&received.frames));
        add("rx_bytes", load(&received.bytes));
        add("rx_duplicated", load(&received.duplicated));
        add("rx_corrupted", load(&received.corrupted));
        add("rx_foreign", load(&received.foreign));
        add("rx_late", load(&received.late));
        add("rx_ring_dropped", load(&received.ring_dropped));
        add("rx_dropped", drops.rx as f64);
    }
    counters.insert(format!("port/{}", port.name), values);
    let transmit = port.transmitter.as_ref().and_then(|thread| thread.cpu);
    let receive = port.reception.as_ref().and_then(|thread| thread.cpu);
    for (kind, cpu) in [("transmit", transmit), ("receive", receive)] {
        if let Some(cpu_ns) = cpu.and_then(ThreadCpuClock::cpu_ns) {
            let all = BTreeMap::from([("cpu_ns".to_owned(), cpu_ns as f64)]);
            counters.insert(format!("thread/{kind}/{}", port.name), all);
        }
    }
}
