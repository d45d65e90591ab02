//! The controller and the port of an array, which serve in order of arrival.
use hakaru_units::Time;

use crate::request::Op;
use crate::usage::Usage;
use hakaru_contract::drive as config;

/// A resource that serves one request at a time in order of arrival: the controller, or
/// a port or one direction of it.
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

/// A port. Its directions carry data at the same time, or share one server.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    ns_per_byte: f64,
    command_ns: f64,
    /// Received data, and data sent if the directions share a server.
    receive: Server,
    send: Option<Server>,
    /// Counters of both directions together.
    usage: Usage,
}

impl Port {
    /// Creates an idle port.
    pub(crate) fn new(config: &config::Port) -> Port {
        Port {
            ns_per_byte: 1e9 / config.rate_bytes_per_s,
            command_ns: config.command_us * 1e3,
            receive: Server::default(),
            send: (!config.shared).then(Server::default),
            usage: Usage::default(),
        }
    }

    /// Queues the transfer of a request's data: received for a write, sent for a read. Returns the
    /// end of the transfer. `None` if the request has no data.
    pub(crate) fn submit(&mut self, now: Time, op: Op, bytes: u64) -> Option<Time> {
        let ns = self.transfer_ns(bytes);
        let end = self.direction(op)?.submit(now, ns);
        self.usage.arrive(now);
        Some(end)
    }

    /// Counts a transfer that has ended.
    pub(crate) fn leave(&mut self, now: Time, op: Op, bytes: u64) {
        let ns = self.transfer_ns(bytes);
        if let Some(server) = self.direction(op) {
            server.usage.leave(now, op, bytes, ns);
            self.usage.leave(now, op, bytes, ns);
        }
    }

    /// Calls `visit` for every counter as of `now`. Directions that transfer at the same time have
    /// their own busy times. The busier one over a window limits the port, and only the growth of
    /// each shows which one that is.
    pub(crate) fn visit_counters(
        &mut self,
        now: Time,
        entity: &str,
        visit: &mut dyn FnMut(&str, &str, f64),
    ) {
        self.usage.advance(now);
        self.usage.visit(entity, visit);
        if let Some(send) = &mut self.send {
            self.receive.usage.advance(now);
            send.usage.advance(now);
            visit(entity, "receive_busy_ns", self.receive.usage.busy_ns as f64);
            visit(entity, "send_busy_ns", send.usage.busy_ns as f64);
        }
    }

    fn direction(&mut self, op: Op) -> Option<&mut Server> {
        match op {
            Op::Write => Some(&mut self.receive),
            Op::Read => Some(self.send.as_mut().unwrap_or(&mut self.receive)),
            Op::Unmap | Op::Flush => None,
        }
    }

    /// Returns the time of a transfer. A request without data takes none.
    fn transfer_ns(&self, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        (self.command_ns + bytes as f64 * self.ns_per_byte) as u64
    }
}
