//! Counters of a VM.

use crate::pattern::{Access, Op};
use hakaru_iscsi_session::Phases;

/// Cumulative counters of one VM (or a sum of several). Names and meanings are those of
/// `docs/reference/metrics.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Successful reads.
    pub reads: u64,
    /// Successful writes.
    pub writes: u64,
    /// Bytes of successful reads.
    pub read_bytes: u64,
    /// Bytes of successful writes.
    pub write_bytes: u64,
    /// Sum of the latencies of successful reads.
    pub read_latency_ns_sum: u64,
    /// Sum of the latencies of successful writes.
    pub write_latency_ns_sum: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Integral of requests outstanding over time, in request-nanoseconds. An open-loop request
    /// counts from its intended instant.
    pub outstanding_ns: u64,
    /// Integral over time of the number of requests that wait in the guest for the ring of its
    /// disk, in request-nanoseconds. A request waits until its last command enters the ring.
    pub guest_queued_ns: u64,
    /// Integral over time of the number of commands that wait in the host for their session, in
    /// command-nanoseconds.
    pub host_queued_ns: u64,
    /// Requests in flight now.
    pub in_flight_now: u64,
    /// Open-loop requests issued more than 1 ms after they were due.
    pub late: u64,
    /// Sum of the delays between the due and the issue instants of open-loop requests. Latencies
    /// include it.
    pub late_ns_sum: u64,
    /// Open-loop requests that were due in the measuring phase and were not issued before its end.
    pub unissued: u64,
    /// Number of BUSY and TASK SET FULL answers, each followed by a retry.
    pub busy: u64,
    /// Completed commands. A request is one command unless it was split.
    pub commands: u64,
    /// R2Ts received for the completed commands.
    pub r2ts: u64,
    /// Sum of the commands' times from submission until the first byte was sent.
    pub command_wait_ns_sum: u64,
    /// Sum of the writes' times spent waiting for the next R2T with nothing to send.
    pub wait_r2t_ns_sum: u64,
    /// Sum of the writes' times between an R2T and its first data.
    pub r2t_to_data_ns_sum: u64,
    /// Sum of the writes' times spent sending data.
    pub write_data_transfer_ns_sum: u64,
    /// Sum of the writes' times from the last data to the status.
    pub write_data_to_response_ns_sum: u64,
    /// Sum of the reads' times until the first data.
    pub command_to_data_ns_sum: u64,
    /// Sum of the reads' times spent receiving data.
    pub read_data_transfer_ns_sum: u64,
    /// Sum of the reads' times from the last data to the status.
    pub read_data_to_response_ns_sum: u64,
}

impl Counters {
    /// Calls `visitor` with the name and value of every counter of the contract. Names that end in
    /// `_now` are gauges.
    pub fn visit(&self, visitor: &mut dyn FnMut(&'static str, f64)) {
        let all = [
            ("reads", self.reads),
            ("writes", self.writes),
            ("read_bytes", self.read_bytes),
            ("write_bytes", self.write_bytes),
            ("read_latency_ns_sum", self.read_latency_ns_sum),
            ("write_latency_ns_sum", self.write_latency_ns_sum),
            ("errors", self.errors),
            ("outstanding_ns", self.outstanding_ns),
            ("guest_queued_ns", self.guest_queued_ns),
            ("host_queued_ns", self.host_queued_ns),
            ("in_flight_now", self.in_flight_now),
            ("late", self.late),
            ("late_ns_sum", self.late_ns_sum),
            ("unissued", self.unissued),
            ("busy", self.busy),
            ("commands", self.commands),
            ("r2ts", self.r2ts),
            ("command_wait_ns_sum", self.command_wait_ns_sum),
            ("wait_r2t_ns_sum", self.wait_r2t_ns_sum),
            ("r2t_to_data_ns_sum", self.r2t_to_data_ns_sum),
            (
                "write_data_transfer_ns_sum",
                self.write_data_transfer_ns_sum,
            ),
            (
                "write_data_to_response_ns_sum",
                self.write_data_to_response_ns_sum,
            ),
            ("command_to_data_ns_sum", self.command_to_data_ns_sum),
            ("read_data_transfer_ns_sum", self.read_data_transfer_ns_sum),
            (
                "read_data_to_response_ns_sum",
                self.read_data_to_response_ns_sum,
            ),
        ];
        all.into_iter()
            .for_each(|(name, value)| visitor(name, value as f64));
    }

    /// Counts a completed request, and its latency if it was successful.
    #[inline]
    pub(crate) fn count_request(&mut self, access: &Access, success: bool, latency_ns: u64) {
        if !success {
            self.errors += 1;
            return;
        }
        let (requests, bytes, latency_ns_sum) = match access.op {
            Op::Read => (
                &mut self.reads,
                &mut self.read_bytes,
                &mut self.read_latency_ns_sum,
            ),
            Op::Write => (
                &mut self.writes,
                &mut self.write_bytes,
                &mut self.write_latency_ns_sum,
            ),
        };
        *latency_ns_sum += latency_ns;
        *requests += 1;
        *bytes += u64::from(access.length_bytes);
    }

    /// Counts a completed command and its phases.
    #[inline]
    pub(crate) fn count_command(&mut self, op: Op, phases: &Phases) {
        self.commands += 1;
        self.command_wait_ns_sum += phases.waiting_ns;
        match op {
            Op::Write => {
                self.r2ts += u64::from(phases.r2ts);
                self.wait_r2t_ns_sum += phases.target_wait_ns;
                self.r2t_to_data_ns_sum += phases.r2t_pending_ns;
                self.write_data_transfer_ns_sum += phases.transfer_ns;
                self.write_data_to_response_ns_sum += phases.response_ns;
            }
            Op::Read => {
                self.command_to_data_ns_sum += phases.target_wait_ns;
                self.read_data_transfer_ns_sum += phases.transfer_ns;
                self.read_data_to_response_ns_sum += phases.response_ns;
            }
        }
    }

    /// Adds `other` to every counter.
    pub fn add(&mut self, other: &Counters) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.read_latency_ns_sum += other.read_latency_ns_sum;
        self.write_latency_ns_sum += other.write_latency_ns_sum;
        self.errors += other.errors;
        self.outstanding_ns += other.outstanding_ns;
        self.guest_queued_ns += other.guest_queued_ns;
        self.host_queued_ns += other.host_queued_ns;
        self.in_flight_now += other.in_flight_now;
        self.late += other.late;
        self.late_ns_sum += other.late_ns_sum;
        self.unissued += other.unissued;
        self.busy += other.busy;
        self.commands += other.commands;
        self.r2ts += other.r2ts;
        self.command_wait_ns_sum += other.command_wait_ns_sum;
        self.wait_r2t_ns_sum += other.wait_r2t_ns_sum;
        self.r2t_to_data_ns_sum += other.r2t_to_data_ns_sum;
        self.write_data_transfer_ns_sum += other.write_data_transfer_ns_sum;
        self.write_data_to_response_ns_sum += other.write_data_to_response_ns_sum;
        self.command_to_data_ns_sum += other.command_to_data_ns_sum;
        self.read_data_transfer_ns_sum += other.read_data_transfer_ns_sum;
        self.read_data_to_response_ns_sum += other.read_data_to_response_ns_sum;
    }

    /// Returns the increase since `earlier`, an earlier state of the same counters. Gauges keep
    /// their value.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            read_bytes: self.read_bytes - earlier.read_bytes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            read_latency_ns_sum: self.read_latency_ns_sum - earlier.read_latency_ns_sum,
            write_latency_ns_sum: self.write_latency_ns_sum - earlier.write_latency_ns_sum,
            errors: self.errors - earlier.errors,
            // A response that arrived before `earlier` and was read after it reduces the integral.
            outstanding_ns: self.outstanding_ns.saturating_sub(earlier.outstanding_ns),
            guest_queued_ns: self.guest_queued_ns - earlier.guest_queued_ns,
            host_queued_ns: self.host_queued_ns - earlier.host_queued_ns,
            in_flight_now: self.in_flight_now,
            late: self.late - earlier.late,
            late_ns_sum: self.late_ns_sum - earlier.late_ns_sum,
            unissued: self.unissued - earlier.unissued,
            busy: self.busy - earlier.busy,
            commands: self.commands - earlier.commands,
            r2ts: self.r2ts - earlier.r2ts,
            command_wait_ns_sum: self.command_wait_ns_sum - earlier.command_wait_ns_sum,
            wait_r2t_ns_sum: self.wait_r2t_ns_sum - earlier.wait_r2t_ns_sum,
            r2t_to_data_ns_sum: self.r2t_to_data_ns_sum - earlier.r2t_to_data_ns_sum,
            write_data_transfer_ns_sum: self.write_data_transfer_ns_sum
                - earlier.write_data_transfer_ns_sum,
            write_data_to_response_ns_sum: self.write_data_to_response_ns_sum
                - earlier.write_data_to_response_ns_sum,
            command_to_data_ns_sum: self.command_to_data_ns_sum - earlier.command_to_data_ns_sum,
            read_data_transfer_ns_sum: self.read_data_transfer_ns_sum
                - earlier.read_data_transfer_ns_sum,
            read_data_to_response_ns_sum: self.read_data_to_response_ns_sum
                - earlier.read_data_to_response_ns_sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_that_is_read_late_does_not_make_the_increase_negative() {
        let earlier = Counters {
            outstanding_ns: 5_000,
            in_flight_now: 1,
            ..Counters::default()
        };
        // Read now, and arrived 2 us before the earlier state.
        let later = Counters {
            outstanding_ns: 3_000,
            ..Counters::default()
        };
        let increase = later.since(&earlier);
        assert_eq!((increase.outstanding_ns, increase.in_flight_now), (0, 0));
    }
}
