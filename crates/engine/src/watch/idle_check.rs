//! Check that the kernel delivers events that occur while a CPU is idle.
//!
//! A timer of TCP often fires on an idle CPU, so its events belong to the CPU's idle task. On some
//! kernels, `perf_event_open` silently drops all events of the idle task of some CPUs (seen on a
//! 6.18 of a cloud provider, on one CPU of two). A trace that misses timeouts must not pass for a
//! complete one.
//!
//! The check counts two events per CPU: the switch to the idle task, recorded by the task that was
//! running, and the switch back, recorded by the idle task. A CPU with switches to the idle task
//! but none back loses the idle task's events. A CPU that is always busy has neither event and
//! loses nothing. It stays undecided until it has been idle.
use std::collections::HashMap;
use std::time::Duration;

use hakaru_runtime::process::on_cpu;
use hakaru_runtime::trace::ring::{TraceRings, Tracepoint};
use hakaru_runtime::trace::tracefs::Tracefs;
use hakaru_watch::trace::{Format, records};

const RING_BYTES: usize = 64 << 10;
/// Number of sleeps per CPU. Each enters and leaves the idle task once.
const SLEEPS: usize = 4;
const SLEEP: Duration = Duration::from_micros(500);

/// Undecided CPUs, and the result for the other CPUs.
pub struct IdleCheck {
    /// Counted switches; `None` once every CPU is decided, or if the check is impossible.
    switches: Option<Switches>,
    /// Number of CPUs whose events are lost while they are idle.
    unheard: usize,
}

struct Switches {
    into_idle: TraceRings,
    out_of_idle: TraceRings,
    /// Switches to and from the idle task, by undecided CPU.
    counts: HashMap<u32, (usize, usize)>,
}

impl IdleCheck {
    /// Starts the check, and decides at once on the CPUs that it can. This thread sleeps on each
    /// CPU that it may use, about 2 ms per CPU.
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
        check.update();
        check
    }

    /// Decides on the CPUs that have been idle meanwhile.
    pub fn update(&mut self) {
        let Some(switches) = &mut self.switches else {
            return;
        };
        switches.count();
        switches.counts.retain(|_, (entered, left)| {
            // The CPU may still be in its last idle period.
            let decided = *left > 0 || *entered > 1;
            self.unheard += usize::from(decided && *left == 0);
            !decided
        });
        if switches.counts.is_empty() {
            self.switches = None;
        }
    }

    /// Returns the number of CPUs whose events are lost while they are idle.
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

    /// Counts entries before exits, because every counted entry except the last has its exit by
    /// then.
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
