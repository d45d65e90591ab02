//! One direction of the wire: senders take turns, one segment at a time.
use std::collections::VecDeque;

use hakaru_units::Time;

use crate::config::Wire;

/// Bytes of one host's session in transit. An empty segment is the end of the connection.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) host: usize,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Link {
    wire: Wire,
    /// Hosts with data to send in this direction, in order of their turns.
    turns: VecDeque<usize>,
    has_turn: Vec<bool>,
    sending: bool,
    in_transit: VecDeque<Segment>,
    last_arrival: Time,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
    pub(crate) bytes: u64,
    pub(crate) busy_ns: u64,
}

impl Link {
    pub(crate) fn new(wire: Wire, hosts: usize) -> Link {
        assert!(
            wire.rate_bytes_per_s > 0.0 && wire.segment_bytes > 0,
            "the rate and the segment size must be above 0"
        );
        Link {
            wire,
            turns: VecDeque::new(),
            has_turn: vec![false; hosts],
            sending: false,
            in_transit: VecDeque::new(),
            last_arrival: Time::ZERO,
            spare: Vec::new(),
            bytes: 0,
            busy_ns: 0,
        }
    }

    /// Queues a session that has data to send.
    pub(crate) fn offer(&mut self, host: usize) {
        if !std::mem::replace(&mut self.has_turn[host], true) {
            self.turns.push_back(host);
        }
    }

    /// Returns the host that may send next, if the wire is free.
    pub(crate) fn next_turn(&mut self) -> Option<usize> {
        if self.sending {
            return None;
        }
        let host = self.turns.pop_front()?;
        self.has_turn[host] = false;
        Some(host)
    }

    pub(crate) fn segment_bytes(&self) -> usize {
        self.wire.segment_bytes
    }

    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare.push(buffer);
    }

    /// Sends a segment. Returns when the wire is free again and when the segment arrives.
    pub(crate) fn send(&mut self, now: Time, segment: Segment) -> (Time, Time) {
        let length = segment.bytes.len() as u64;
        let transmit_ns = ((length as f64 / self.wire.rate_bytes_per_s * 1e9) as u64).max(1);
        self.sending = true;
        self.bytes += length;
        self.busy_ns += transmit_ns;
        self.in_transit.push_back(segment);
        let free = Time(now.0 + transmit_ns);
        self.last_arrival = free + self.wire.delay;
        (free, self.last_arrival)
    }

    /// Sends the end of a connection after all data sent before. Returns when it arrives.
    pub(crate) fn finish(&mut self, now: Time, host: usize) -> Time {
        self.in_transit.push_back(Segment {
            host,
            bytes: Vec::new(),
        });
        self.last_arrival = self.last_arrival.max(now + self.wire.delay);
        self.last_arrival
    }

    pub(crate) fn free(&mut self) {
        self.sending = false;
    }

    /// Removes and returns the oldest segment in transit.
    pub(crate) fn arrived(&mut self) -> Segment {
        self.in_transit
            .pop_front()
            .expect("an arrival was queued for every segment sent")
    }
}
