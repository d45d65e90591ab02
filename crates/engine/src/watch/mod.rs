//! The `watch` engine: reads the counters of the node it runs in, once per interval.
//!
//! Interfaces and TCP are those of its network namespace (`--netns`). CPUs, interrupts, memory and pressure belong to the machine,
//! whatever the namespace; one watch per machine reads them.
use std::collections::BTreeMap;
use std::fs;

use hakaru_contract::WatchConfig;
use hakaru_runtime::{Events, Reactor, clock, process};
use hakaru_watch::{Visit, cpu, interrupts, memory, net, tcp};
use serde_json::json;

use crate::control::{Control, Counters, Order};
use crate::failure::{Failure, OrEnvironment};
use crate::sampling::Schedule;

/// Runs the engine until `stop`.
///
/// # Errors
/// The interval is out of bounds; procfs is not there.
pub fn run(config: &WatchConfig, reactor: &Reactor, control: &mut Control) -> Result<(), Failure> {
    let mut samples = Schedule::new(config.sample_interval_ms)?;
    let sources = readable_sources(config.machine)?;
    let files: Vec<&str> = sources.iter().map(|source| source.path).collect();
    control.ready(BTreeMap::from([("files".to_owned(), json!(files))]));
    let mut events = Events::with_capacity(4);
    loop {
        control.wait(reactor, &mut events, samples.next())?;
        for event in events.iter() {
            control.handle_event(event)?;
        }
        let now = clock::now();
        while let Some(order) = control.poll_order() {
            match order {
                Order::Start(at) => samples.start(at.max(now)),
                Order::Stop => {
                    sample(&sources, control);
                    control.result(clock::now(), BTreeMap::new(), Vec::new());
                    return Ok(());
                }
            }
        }
        if samples.due(now) {
            sample(&sources, control);
        }
    }
}

/// A file and how it is parsed.
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
        parse: tcp::parse_snmp,
    },
    Source {
        path: "/proc/self/net/netstat",
        parse: tcp::parse_snmp,
    },
];

static MACHINE: [Source; 7] = [
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

/// The files that will be read. Without the interfaces there is nothing to watch; any other file may be missing (kernels
/// without pressure accounting, containers that hide the machine), and then its counters are.
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

fn sample(sources: &[&Source], control: &Control) {
    let at = clock::now();
    let mut counters = Counters::new();
    for source in sources {
        // A file that vanishes meanwhile leaves a gap in its series.
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
    control.sample(at, counters, Vec::new());
}
