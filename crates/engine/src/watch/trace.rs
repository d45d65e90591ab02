//! The kernel's TCP tracepoints, opened for the watched ports.
use hakaru_runtime::trace::ring::{TraceRings, Tracepoint};
use hakaru_runtime::trace::tracefs::Tracefs;
use hakaru_watch::trace::{Format, Layouts, Record, TcpEvent, TracepointKind, records};

use super::idle_check::IdleCheck;

/// Size of the ring of each CPU, bytes. A record takes about 170 bytes, and a flow of 10 Gbit/s
/// produces 40 000 records per second. The ring therefore holds the records of half a second in
/// which this process does not run.
const RING_BYTES: usize = 4 << 20;

pub struct Trace {
    rings: TraceRings,
    layouts: Layouts,
    /// Names of the tracepoints that this kernel has.
    names: Vec<&'static str>,
    idle_check: IdleCheck,
    events: Vec<TcpEvent>,
    losses: Vec<(u64, u64)>,
    lost: u64,
    unparsed: u64,
}

impl Trace {
    /// Opens the tracepoints. The error is the reason for the failure, as text.
    pub fn open(ports: &[u16]) -> Result<Trace, String> {
        let tracefs = Tracefs::open().map_err(|e| {
            format!("the kernel's tracefs cannot be read ({e}): this needs CAP_SYS_ADMIN on the machine itself, not in a user namespace")
        })?;
        let mut layouts = Layouts::default();
        let (mut ids, mut names) = (Vec::new(), Vec::new());
        for kind in TracepointKind::ALL {
            let format = tracefs
                .read(&format!("events/{}/format", kind.path()))
                .map_err(|e| e.to_string())
                .and_then(|text| {
                    Format::parse(&text).ok_or_else(|| "its format cannot be parsed".to_owned())
                })
                .and_then(|format| {
                    let usable = layouts.add(kind, &format);
                    usable
                        .then_some(format)
                        .ok_or_else(|| "its events do not identify their sockets".to_owned())
                });
            match format {
                Ok(format) => {
                    ids.push(format.id);
                    names.push(kind.path());
                }
                Err(why) if kind == TracepointKind::Probe => {
                    return Err(format!("cannot use the tracepoint {}: {why}", kind.path()));
                }
                // Kernels before 5.16 have no event for the state of congestion control.
                Err(_) => {}
            }
        }
        let filter = TracepointKind::filter(ports);
        let points: Vec<Tracepoint<'_>> = ids
            .into_iter()
            .map(|id| Tracepoint {
                id,
                filter: &filter,
            })
            .collect();
        let rings = TraceRings::open(&points, RING_BYTES).map_err(|e| {
            format!(
                "the kernel refuses to trace ({e}): this needs CAP_PERFMON on the machine itself"
            )
        })?;
        Ok(Trace {
            rings,
            layouts,
            names,
            idle_check: IdleCheck::begin(&tracefs),
            events: Vec::new(),
            losses: Vec::new(),
            lost: 0,
            unparsed: 0,
        })
    }

    pub fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Returns the [`IdleCheck`], which must be updated regularly.
    pub fn idle_check(&mut self) -> &mut IdleCheck {
        &mut self.idle_check
    }

    /// Returns the number of CPUs whose events are lost while they are idle.
    pub fn unheard_cpus(&self) -> usize {
        self.idle_check.unheard()
    }

    pub fn rings(&self) -> &TraceRings {
        &self.rings
    }

    /// Returns the number of events that the kernel lost so far, and of events that could not be
    /// parsed.
    pub fn missing(&self) -> (u64, u64) {
        (self.lost, self.unparsed)
    }

    /// Returns the events since the last call in order of time, and the losses, each with its
    /// instant (ns) and the number of lost events.
    pub fn read(&mut self) -> (&[TcpEvent], &[(u64, u64)]) {
        let Trace {
            rings,
            layouts,
            events,
            losses,
            lost,
            unparsed,
            ..
        } = self;
        events.clear();
        losses.clear();
        rings.drain(&mut |_, bytes| {
            for record in records(bytes) {
                match record {
                    Record::Sample { at_ns, raw } => match layouts.parse(at_ns, raw) {
                        Some(event) => events.push(event),
                        None => *unparsed += 1,
                    },
                    Record::Lost { at_ns, events } => {
                        *lost += events;
                        losses.push((at_ns, events));
                    }
                }
            }
        });
        // The events of each CPU are in order, but one socket's events may come from several CPUs.
        events.sort_by_key(|event| event.at_ns);
        (events, losses)
    }
}
