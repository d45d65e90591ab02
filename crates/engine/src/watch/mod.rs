//! The `watch` engine: reads the counters of its node once per interval.
//!
//! Interfaces and TCP belong to its network namespace (`--netns`). CPUs, interrupts, disks, memory
//! and pressure belong to the machine, not to a namespace; one watch per machine reads them. Single TCP
//! connections are read at a separate interval, and a dedicated thread captures packets.
mod capture;
mod capture_files;
mod idle_check;
mod series_file;
mod tcp;
mod trace;

use std::collections::BTreeMap;
use std::fs;

use hakaru_contract::WatchConfig;
use hakaru_runtime::{Reactor, Waiter, clock, process};
use hakaru_watch::{Visit, cpu, disk, interrupts, memory, net, tcp as tcp_counters};
use serde_json::json;

use crate::control::{Control, Counters, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;
use capture::Capture;
use tcp::TcpWatcher;

/// Runs the engine until `stop`.
///
/// # Errors
/// A setting is out of bounds, procfs is not mounted, or TCP or an interface cannot be watched.
pub fn run(config: &WatchConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    let mut samples = Schedule::new(config.sample_interval_ms)?;
    let sources = readable_sources(config.machine)?;
    let files: Vec<&str> = sources.iter().map(|source| source.path).collect();
    let mut watcher = match &config.tcp {
        Some(tcp) => Some(TcpWatcher::open(tcp, reactor)?),
        None => None,
    };
    let mut facts = BTreeMap::from([("files".to_owned(), json!(files))]);
    if let Some(watcher) = &watcher {
        facts.insert("tcp".to_owned(), watcher.facts());
    }
    let mut capture = config.capture.as_ref().map(Capture::begin).transpose()?;
    if let Some(capture) = &capture {
        facts.insert("capture".to_owned(), capture.facts());
    }
    control.ready(facts);
    let mut waiter = Waiter::sleeping(4);
    loop {
        let tcp_next = watcher.as_ref().and_then(TcpWatcher::next);
        let next = samples.next().into_iter().chain(tcp_next).min();
        control.wait(reactor, &mut waiter, next)?;
        let mut trace_waits = false;
        for event in waiter.events() {
            trace_waits |= event.token == tcp::TRACE;
            control.handle_event(event)?;
        }
        while let Some(order) = control.poll_order() {
            match order {
                Order::Start(at) => {
                    let at = at.max(clock::now());
                    samples.start(at);
                    if let Some(watcher) = &mut watcher {
                        watcher.start(at)?;
                    }
                }
                Order::Stop => {
                    if let Some(watcher) = &mut watcher {
                        watcher.finish()?;
                    }
                    if let Some(Err(failure)) = capture.as_mut().map(Capture::finish) {
                        control.error(&failure, false);
                    }
                    sample(&sources, watcher.as_ref(), capture.as_ref(), control);
                    let values = result(watcher.as_ref(), capture.as_ref());
                    control.result(clock::now(), values, Vec::new());
                    return Ok(());
                }
            }
        }
        if let Some(watcher) = &mut watcher {
            watcher.handle(clock::now(), trace_waits)?;
        }
        if samples.due(clock::now()) {
            sample(&sources, watcher.as_ref(), capture.as_ref(), control);
            // A failed capture does not affect the samples.
            if let Some(failure) = capture.as_mut().and_then(Capture::poll_failure) {
                control.error(&failure, false);
            }
        }
    }
}

/// Returns the final values of the TCP watch and the capture.
fn result(watcher: Option<&TcpWatcher>, capture: Option<&Capture>) -> BTreeMap<String, f64> {
    let tcp = watcher.map(TcpWatcher::counters).unwrap_or_default();
    let cumulative = tcp.into_iter().filter(|(name, _)| !name.ends_with("_now"));
    let mut values: BTreeMap<String, f64> = cumulative
        .map(|(name, value)| (format!("tcp_{name}"), value))
        .collect();
    if let Some(capture) = capture {
        let counters = capture.counters().into_iter();
        values.extend(counters.map(|(name, value)| (format!("capture_{name}"), value)));
        values.insert("capture_clock_set_ns".to_owned(), capture.clock_set_ns());
        let cut_short = f64::from(u8::from(capture.is_cut_short()));
        values.insert("capture_cut_short".to_owned(), cut_short);
    }
    values
}

/// A file of procfs and its parser.
struct Source {
    path: &'static str,
    parse: fn(&str, &mut Visit<'_>),
}

static INTERFACES: Source = Source {
    path: "/proc/self/net/dev",
    parse: net::parse_net_dev,
};

static TCP: [Source; 2] = [
    Source {
        path: "/proc/self/net/snmp",
        parse: tcp_counters::parse_snmp,
    },
    Source {
        path: "/proc/self/net/netstat",
        parse: tcp_counters::parse_snmp,
    },
];

static MACHINE: [Source; 8] = [
    Source {
        path: "/proc/stat",
        parse: |text, visit| cpu::parse_stat(text, process::clock_ticks_per_s(), visit),
    },
    Source {
        path: "/proc/interrupts",
        parse: interrupts::parse_interrupts,
    },
    Source {
        path: "/proc/softirqs",
        parse: interrupts::parse_softirqs,
    },
    Source {
        path: "/proc/meminfo",
        parse: memory::parse_meminfo,
    },
    Source {
        path: "/proc/diskstats",
        parse: disk::parse_diskstats,
    },
    Source {
        path: "/proc/pressure/cpu",
        parse: |text, visit| memory::parse_pressure("cpu", text, visit),
    },
    Source {
        path: "/proc/pressure/io",
        parse: |text, visit| memory::parse_pressure("io", text, visit),
    },
    Source {
        path: "/proc/pressure/memory",
        parse: |text, visit| memory::parse_pressure("memory", text, visit),
    },
];

/// Returns the files to be read. The file of the interfaces is required. Any other file may be
/// missing (kernels without pressure accounting, containers that hide the machine); its counters
/// are then missing too.
fn readable_sources(machine: bool) -> Result<Vec<&'static Source>, Failure> {
    fs::read_to_string(INTERFACES.path).or_environment(
        format_args!("read {}", INTERFACES.path),
        "mount procfs on /proc",
    )?;
    let of_machine = MACHINE.iter().filter(|_| machine);
    let more = TCP
        .iter()
        .chain(of_machine)
        .filter(|source| fs::read_to_string(source.path).is_ok());
    Ok(std::iter::once(&INTERFACES).chain(more).collect())
}

fn sample(
    sources: &[&Source],
    watcher: Option<&TcpWatcher>,
    capture: Option<&Capture>,
    control: &Control,
) {
    let at = clock::now();
    let mut counters = Counters::new();
    for source in sources {
        // A file that disappears leaves a gap in its series.
        let Ok(text) = fs::read_to_string(source.path) else {
            continue;
        };
        (source.parse)(&text, &mut |entity, name, value| {
            counters
                .entry(entity.to_owned())
                .or_default()
                .insert(name.to_owned(), value);
        });
    }
    if let Some(watcher) = watcher {
        counters.insert("tcp_watch".to_owned(), watcher.counters());
    }
    if let Some(capture) = capture {
        counters.insert("capture".to_owned(), capture.counters());
    }
    control.sample(at, counters, Vec::new());
}
