//! The controller and the port of an array, which serve in order of arrival.
use hakaru_units::Time;

use crate::request::Op;
use crate::usage::Usage;

/// A resource that serves one request at a time in order of arrival: the controller, or one
/// direction of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    free_at: Time,
    pub(crate) usage: Usage,
}

impl Server {
    /// Queues a request that takes `service_ns`. Returns the end of its service.
    pub(crate) fn submit(&mut self, now: Time, service_ns: u64) -> Time {
        self.usage.arrive(now);
        self.free_at = Time(self.free_at.max(now).0 + service_ns);
        self.free_at
    }
}

/// A port, which carries data in both directions at once.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    ns_per_byte: f64,
    receive: Server,
    send: Server,
}

impl Port {
    /// Creates an idle port.
    pub(crate) fn new(ns_per_byte: f64) -> Port {
        Port {
            ns_per_byte,
            receive: Server::default(),
            send: Server::default(),
        }
    }

    /// Queues the transfer of a request's data: received for a write, sent for a read. Returns the
    /// end of the transfer. `None` if the request has no data.
    pub(crate) fn submit(&mut self, now: Time, op: Op, bytes: u64) -> Option<Time> {
        let ns = self.transfer_ns(bytes);
        Some(self.direction(op)?.submit(now, ns))
    }

    /// Counts a transfer that has ended.
    pub(crate) fn leave(&mut self, now: Time, op: Op, bytes: u64) {
        let ns = self.transfer_ns(bytes);
        if let Some(server) = self.direction(op) {
            server.usage.leave(now, op, bytes, ns);
        }
    }

    /// Returns the counters of both directions as of `now`.
    pub(crate) fn usage(&mut self, now: Time) -> Usage {
        self.receive.usage.advance(now);
        self.send.usage.advance(now);
        self.receive.usage.both_directions(&self.send.usage)
    }

    fn direction(&mut self, op: Op) -> Option<&mut Server> {
        match op {
            Op::Write => Some(&mut self.receive),
            Op::Read => Some(&mut self.send),
            Op::Unmap | Op::Flush => None,
        }
    }

    fn transfer_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.ns_per_byte) as u64
    }
}
