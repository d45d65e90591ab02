//! Whether the kernel hands over what happens while a CPU has nothing to do.
//!
//! A timer of TCP often fires on an idle CPU, so its events are those of the CPU's idle task. There are kernels whose `perf_event_open` hands over
//! none of some CPU's idle task, without a word (seen on a 6.18 of a cloud provider, on one CPU of two). A trace that misses timeouts must not be
//! taken for one that has them all, so it is tried: a CPU switches to its idle task, told by the task that was running, and back again, told by the
//! idle task. Only the first being heard proves the second deaf. A CPU that is always busy does neither, and nothing is lost on it; it stays
//! in question until it has had a rest.
use std::collections::HashMap;
use std::time::Duration;

use hakaru_runtime::process::on_cpu;
use hakaru_runtime::trace::ring::{TraceRings, Tracepoint};
use hakaru_runtime::trace::tracefs::Tracefs;
use hakaru_watch::trace::{Format, records};

const RING_BYTES: usize = 64 << 10;
/// An idle CPU is entered and left once in each.
const SLEEPS: usize = 4;
const SLEEP: Duration = Duration::from_micros(500);

/// CPUs in question, and what was found of the others.
pub struct IdleCheck {
    /// `None` once every CPU is known, or where it cannot be tried.
    switches: Option<Switches>,
    unheard: usize,
}

struct Switches {
    into_idle: TraceRings,
    out_of_idle: TraceRings,
    /// Of the CPUs in question, so far.
    counts: HashMap<u32, (usize, usize)>,
}

impl IdleCheck {
    /// Tries every CPU at once: this thread sleeps on each that it may use, some 2 ms.
    pub fn begin(tracefs: &Tracefs) -> IdleCheck {
        let text = tracefs.read("events/sched/sched_switch/format");
        let id = text.ok().and_then(|text| Some(Format::parse(&text)?.id));
        let mut check = IdleCheck {
            switches: id.and_then(Switches::open),
            unheard: 0,
        };
        if let Some(switches) = &check.switches {
            for cpu in switches.into_idle.cpus() {
                let _ = on_cpu(cpu, || {
                    (0..SLEEPS).for_each(|_| std::thread::sleep(SLEEP));
                });
            }
        }
        check.look();
        check
    }

    /// Decides on those that have had a rest since.
    pub fn look(&mut self) {
        let Some(switches) = &mut self.switches else {
            return;
        };
        switches.count();
        switches.counts.retain(|_, (entered, left)| {
            // The last entry may not have been left yet.
            let decided = *left > 0 || *entered > 1;
            self.unheard += usize::from(decided && *left == 0);
            !decided
        });
        if switches.counts.is_empty() {
            self.switches = None;
        }
    }

    /// CPUs of which nothing is heard while they are idle.
    pub fn unheard(&self) -> usize {
        self.unheard
    }
}

impl Switches {
    fn open(id: u16) -> Option<Switches> {
        let open = |filter| TraceRings::open(&[Tracepoint { id, filter }], RING_BYTES).ok();
        let (into_idle, out_of_idle) = (open("next_pid==0")?, open("prev_pid==0")?);
        out_of_idle.enable().ok()?;
        into_idle.enable().ok()?;
        let counts = into_idle.cpus().map(|cpu| (cpu, (0, 0))).collect();
        Some(Switches {
            into_idle,
            out_of_idle,
            counts,
        })
    }

    /// Entries first: one that is counted has been left by the time that the exits are, or is the last.
    fn count(&mut self) {
        let counts = &mut self.counts;
        self.into_idle.drain(&mut |cpu, bytes| {
            if let Some(count) = counts.get_mut(&cpu) {
                count.0 += records(bytes).count();
            }
        });
        self.out_of_idle.drain(&mut |cpu, bytes| {
            if let Some(count) = counts.get_mut(&cpu) {
                count.1 += records(bytes).count();
            }
        });
    }
}
