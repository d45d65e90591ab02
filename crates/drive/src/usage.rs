//! Counters of one resource. They are integrals over time, so that a sample at any instant is
//! exact.
use hakaru_units::Time;

use crate::request::Op;

/// Work done and time spent by one resource since the origin of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    /// Time with at least one request present, ns.
    pub(crate) busy_ns: u64,
    /// Integral over time of the number of requests that wait or are in service, ns.
    pub(crate) queue_ns: u64,
    /// Time in service, summed over requests that have ended, ns.
    pub(crate) service_ns: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    /// Requests that move no data: flushes, unmaps.
    others: u64,
    /// Number of requests that wait or are in service.
    present: u64,
    /// Instant up to which the integrals are computed.
    since: Time,
}

impl Usage {
    /// Advances the integrals to `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        let elapsed = now.ns_since(self.since);
        self.queue_ns += self.present * elapsed;
        if self.present > 0 {
            self.busy_ns += elapsed;
        }
        self.since = self.since.max(now);
    }

    /// Counts the arrival of a request.
    pub(crate) fn arrive(&mut self, now: Time) {
        self.advance(now);
        self.present += 1;
    }

    /// Counts the end of a request.
    pub(crate) fn leave(&mut self, now: Time, op: Op, bytes: u64, service_ns: u64) {
        self.advance(now);
        self.present -= 1;
        self.service_ns += service_ns;
        match op {
            Op::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Op::Write => {
                self.writes += 1;
                self.write_bytes += bytes;
            }
            Op::Unmap | Op::Flush => self.others += 1,
        }
    }

    /// Calls `visit` for every counter.
    pub(crate) fn visit(&self, entity: &str, visit: &mut dyn FnMut(&str, &str, f64)) {
        let mut counter = |name, value: u64| visit(entity, name, value as f64);
        counter("busy_ns", self.busy_ns);
        counter("ops", self.reads + self.writes + self.others);
        counter("reads", self.reads);
        counter("writes", self.writes);
        counter("read_bytes", self.read_bytes);
        counter("write_bytes", self.write_bytes);
        counter("queue_ns", self.queue_ns);
        counter("service_ns", self.service_ns);
    }
}
