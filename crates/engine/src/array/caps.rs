//! Caps on the rates of accesses, between target and storage.
//!
//! The target hands an access over once all data of its command has arrived. Data of writes that
//! wait for a cap is therefore part of the target's write budget.
use hakaru_contract::CapConfig;
use hakaru_iscsi_target::{Io, IoId, IoOp, Target};
use hakaru_throttle::{Cap, CapCounters, Scope, Throttle};
use hakaru_units::Time;

/// The configured caps and the accesses that wait for them.
pub struct Caps {
    /// Entities of the counters.
    entities: Vec<String>,
    throttle: Throttle<Io>,
}

impl Caps {
    /// Creates caps from a checked configuration.
    pub fn new(caps: &[CapConfig]) -> Caps {
        Caps {
            entities: caps.iter().map(|cap| format!("cap/{}", cap.name)).collect(),
            throttle: Throttle::new(caps.iter().map(|cap| {
                let scope = Scope {
                    lun: cap.lun,
                    initiator: cap.initiator_name.clone(),
                };
                let cap = Cap {
                    accesses_per_s: cap.iops.map(u64::from),
                    bytes_per_s: cap.bytes_per_s,
                    burst_ns: u64::from(cap.burst_ms) * 1_000_000,
                };
                (scope, cap)
            })),
        }
    }

    /// Returns an access that no cap applies to. Queues any other; [`Caps::poll_passed`] returns
    /// it, at once if no cap makes it wait.
    pub fn admit(&mut self, now: Time, io: Io, target: &Target) -> Option<Io> {
        if self.throttle.is_empty() {
            return Some(io);
        }
        let Some(bytes) = counted_bytes(&io.op) else {
            return Some(io);
        };
        let route = self.throttle.route(io.lun, target.initiator_of(io.id));
        if route.is_empty() {
            return Some(io);
        }
        self.throttle.handle_access(now, bytes, route, io);
        None
    }

    /// Returns the next access that has passed its caps.
    pub fn poll_passed(&mut self) -> Option<Io> {
        self.throttle.poll_passed()
    }

    /// Passes the accesses whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.throttle.handle_timeout(now);
    }

    /// Returns when [`Caps::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.throttle.poll_timeout()
    }

    /// Removes a waiting access whose task was aborted. Returns `None` if it does not wait here.
    pub fn cancel(&mut self, id: IoId) -> Option<Io> {
        self.throttle.remove(|io| io.id == id)
    }

    /// Visits each counter, as entity, name and value.
    pub fn visit_counters(&self, visit: &mut dyn FnMut(&str, &str, f64)) {
        for (entity, counters) in self.entities.iter().zip(self.throttle.counters()) {
            visit_named(entity, &counters, visit);
        }
    }
}

/// Visits the counters of a cap or of a class of shares.
pub fn visit_named(entity: &str, counters: &CapCounters, visit: &mut dyn FnMut(&str, &str, f64)) {
    visit(entity, "accesses", counters.accesses as f64);
    visit(entity, "bytes", counters.bytes as f64);
    visit(entity, "delayed", counters.delayed as f64);
    visit(entity, "wait_ns", counters.wait_ns as f64);
    visit(entity, "waiting_now", counters.waiting_now as f64);
}

/// Returns the bytes that an access counts with. `None` for an access to which caps and shares do
/// not apply, because it does not access the medium.
pub fn counted_bytes(op: &IoOp) -> Option<u64> {
    match op {
        IoOp::Read { length_bytes, .. } => Some(u64::from(*length_bytes)),
        IoOp::Write { data, .. } => Some(data.len() as u64),
        IoOp::WriteSame {
            unmap: false,
            range,
            ..
        } => Some(range.length_bytes),
        IoOp::WriteSame { unmap: true, .. }
        | IoOp::Unmap { .. }
        | IoOp::Flush
        | IoOp::FlushPart { .. } => Some(0),
        IoOp::Status { .. } | IoOp::Tape { .. } | IoOp::Keep { .. } => None,
    }
}
