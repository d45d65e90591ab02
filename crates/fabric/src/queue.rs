//! An egress queue, which admits the frames of a train that fit, and drops or marks some of them
//! early.
use std::collections::VecDeque;

use hakaru_stats::{Histogram, Latency};
use hakaru_units::Time;
use rand::RngExt as _;
use rand_pcg::Pcg64;

use crate::counters::Drops;
use crate::train::Train;
use hakaru_contract::fabric::{Discipline, Queue};

/// Frames that wait for a serialiser.
#[derive(Debug)]
pub(crate) struct EgressQueue {
    waiting: VecDeque<Train>,
    /// Number of bytes that wait or are being sent. A frame leaves the memory when its last byte
    /// was sent.
    bytes: u64,
    limit_bytes: u64,
    discipline: Discipline,
    average: Average,
    /// Longest queue since the last [`EgressQueue::take_peak`].
    peak_bytes: u64,
    /// Queue lengths that frames met on arrival, admitted or not. Allocated at the first frame,
    /// because the histogram is large.
    depths: Option<Box<Latency>>,
}

/// Average queue length, for RED.
#[derive(Debug, Default)]
struct Average {
    bytes: f64,
    /// Instant at which the queue became empty. `None` if it is not empty.
    empty_since: Option<Time>,
    /// Number of frames spared since the last drop or mark.
    spared: u32,
}

/// Kind of limit of a queue's length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// No limit. The shell stops reading the interface instead.
    Unlimited,
    /// The queue's own limit.
    Own,
    /// The queue's own limit, and `alpha` times the free part of a shared memory. `left_bytes` is
    /// the part that other queues leave; this queue's length reduces it further.
    Shared { alpha: f64, left_bytes: u64 },
}

impl Room {
    /// Returns the limit of a queue with length `bytes` and own limit `own_bytes`.
    pub(crate) fn limit_bytes(self, own_bytes: u64, bytes: u64) -> u64 {
        match self {
            Room::Unlimited => u64::MAX,
            Room::Own => own_bytes,
            Room::Shared { alpha, left_bytes } => {
                let free = left_bytes.saturating_sub(bytes);
                // Alpha may be above 1, so the free memory is a limit too.
                own_bytes
                    .min((alpha * free as f64) as u64)
                    .min(bytes + free)
            }
        }
    }
}

/// Number of frames of a train that were admitted, marked and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) taken: u32,
    pub(crate) marked: u32,
    pub(crate) drops: Drops,
}

/// Decision on one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Taken { marked: bool },
    NoRoom,
    Early,
}

impl EgressQueue {
    pub(crate) fn new(config: &Queue) -> EgressQueue {
        EgressQueue {
            waiting: VecDeque::new(),
            bytes: 0,
            limit_bytes: config.bytes,
            discipline: config.discipline,
            average: Average {
                empty_since: Some(Time::ZERO),
                ..Average::default()
            },
            peak_bytes: 0,
            depths: None,
        }
    }

    /// Returns the number of bytes that wait or are being sent.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) const fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Returns the smallest length at which frames may be dropped or marked, bytes.
    pub(crate) fn threshold_bytes(&self) -> u64 {
        let early = match self.discipline {
            Discipline::TailDrop => u64::MAX,
            Discipline::Red { min_bytes, .. } => min_bytes,
            Discipline::Mark { above_bytes } => above_bytes,
        };
        self.limit_bytes.min(early)
    }

    /// Returns the longest queue since the last call, bytes.
    pub(crate) fn take_peak(&mut self) -> u64 {
        core::mem::replace(&mut self.peak_bytes, self.bytes)
    }

    /// Ends the interval. Returns the queue lengths that its frames met. `None` if no frame
    /// arrived.
    pub(crate) fn take_depths(&mut self) -> Option<Histogram> {
        let depths = self.depths.as_mut()?.take_interval(true, Histogram::clone);
        Some(depths).filter(|depths| !depths.is_empty())
    }

    /// Returns the queue lengths of all completed intervals.
    pub(crate) fn depths(&self) -> Option<&Histogram> {
        self.depths.as_deref().map(Latency::total)
    }

    /// Records the depth that a frame meets on arrival.
    fn record_depth(&mut self, depth_bytes: u64) {
        // The values are bytes, despite the name of the method. An empty queue counts as the
        // histogram's smallest value, 1.
        self.depths.get_or_insert_default().record_ns(depth_bytes);
    }

    /// Admits an entire train.
    fn admit_all(&mut self, train: Train) -> Admission {
        let (taken, each) = (train.count, u64::from(train.longest_bytes()));
        for index in 0..taken {
            self.record_depth(self.bytes + each * u64::from(index));
        }
        self.push(train);
        Admission {
            taken,
            ..Admission::default()
        }
    }

    /// Admits the frames of a train that fit. `serve_ns` is the transmission time of a frame of
    /// typical size, for RED.
    pub(crate) fn take(
        &mut self,
        now: Time,
        train: Train,
        room: Room,
        serve_ns: f64,
        rng: &mut Pcg64,
    ) -> Admission {
        if self.discipline == Discipline::TailDrop
            && self.bytes + train.bytes()
                <= room.limit_bytes(self.limit_bytes, self.bytes + train.bytes())
        {
            return self.admit_all(train);
        }
        let mut admission = Admission::default();
        let mut next = Some(train);
        while let Some(frame) = next.as_mut().map(Train::take_one) {
            next = next.filter(|rest| rest.count > 0);
            self.record_depth(self.bytes);
            let decision = self.decide(now, &frame, room, serve_ns, rng);
            self.admit(decision, frame, &mut admission);
        }
        admission
    }

    fn admit(&mut self, decision: Decision, mut frame: Train, admission: &mut Admission) {
        match decision {
            Decision::NoRoom => admission.drops.buffer += 1,
            Decision::Early => admission.drops.early += 1,
            Decision::Taken { marked } => {
                admission.taken += 1;
                admission.marked += u32::from(marked);
                frame.marked |= marked;
                self.push(frame);
            }
        }
    }

    fn push(&mut self, train: Train) {
        self.bytes += train.bytes();
        self.peak_bytes = self.peak_bytes.max(self.bytes);
        self.average.empty_since = None;
        match self.waiting.back_mut() {
            Some(back) if back.is_followed_by(&train) => back.count += train.count,
            _ => self.waiting.push_back(train),
        }
    }

    /// Decides on a frame.
    fn decide(
        &mut self,
        now: Time,
        frame: &Train,
        room: Room,
        serve_ns: f64,
        rng: &mut Pcg64,
    ) -> Decision {
        let length = self.bytes;
        let fits = length + frame.bytes() <= room.limit_bytes(self.limit_bytes, length);
        let capable = frame.packet.allows_marks();
        let decision = match self.discipline {
            Discipline::TailDrop => Decision::Taken { marked: false },
            Discipline::Mark { above_bytes } => Decision::Taken {
                marked: capable && length > above_bytes,
            },
            Discipline::Red {
                min_bytes,
                max_bytes,
                percent,
                weight,
                ecn,
            } => {
                let hit = self.average.hits(
                    now,
                    length as f64,
                    (min_bytes as f64, max_bytes as f64),
                    percent / 100.0,
                    weight,
                    serve_ns,
                    rng,
                );
                match (hit, ecn && capable) {
                    (false, _) => Decision::Taken { marked: false },
                    (true, true) => Decision::Taken { marked: true },
                    (true, false) => Decision::Early,
                }
            }
        };
        // RED has counted this frame in its average, whether or not there is room for it.
        match decision {
            Decision::Taken { .. } if !fits => Decision::NoRoom,
            decision => decision,
        }
    }

    /// Removes and returns the next frames to send: those of the first train that fit into
    /// `budget_bytes`, at least one. They count as queued until [`EgressQueue::sent`].
    pub(crate) fn next(&mut self, budget_bytes: u64) -> Option<Train> {
        let front = self.waiting.front_mut()?;
        let fitting = (budget_bytes / u64::from(front.longest_bytes())).max(1);
        if fitting < u64::from(front.count) {
            return Some(front.take_front(fitting as u32));
        }
        self.waiting.pop_front()
    }

    /// Records that bytes were sent, and no longer occupy the queue.
    pub(crate) fn sent(&mut self, now: Time, bytes: u64) {
        self.bytes -= bytes;
        if self.bytes == 0 {
            self.average.empty_since = Some(now);
        }
    }
}

impl Average {
    /// Returns whether to drop or mark a frame that meets a queue of `length` bytes (Floyd and
    /// Jacobson 1993, sections 4 and 11).
    #[allow(clippy::too_many_arguments)] // The parameters of RED.
    fn hits(
        &mut self,
        now: Time,
        length: f64,
        (min, max): (f64, f64),
        probability: f64,
        weight: f64,
        serve_ns: f64,
        rng: &mut Pcg64,
    ) -> bool {
        // During an idle time the average decays as if frames of typical size had passed.
        // The queue stays empty if the frame is dropped, so the next idle time begins here;
        // `EgressQueue::push` ends it.
        if let Some(since) = &mut self.empty_since {
            let passed = now.ns_since(*since) as f64 / serve_ns.max(1.0);
            *since = now;
            self.bytes *= (1.0 - weight).powf(passed);
        }
        self.bytes += weight * (length - self.bytes);
        if self.bytes < min {
            self.spared = 0;
            return false;
        }
        self.spared += 1;
        let base = probability * (self.bytes - min) / (max - min).max(1.0);
        // The probability rises with every spared frame, which spaces drops and marks evenly.
        let spread = base / (1.0 - (f64::from(self.spared) * base).min(1.0 - 1e-9));
        let hit = self.bytes >= max || rng.random::<f64>() < spread;
        if hit {
            self.spared = 0;
        }
        hit
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    /// Transmission time of a frame of typical size, nanoseconds.
    const SERVE_NS: f64 = 12_000.0;

    #[test]
    fn the_average_of_an_empty_queue_decays_after_a_frame_was_dropped_early() {
        let mut rng = Pcg64::seed_from_u64(1);
        let (bounds, weight) = ((10_000.0, 20_000.0), 0.002);
        let mut average = Average {
            bytes: 1e6,
            empty_since: Some(Time::ZERO),
            spared: 0,
        };
        let mut hits = |average: &mut Average, at_ns: u64| {
            average.hits(Time(at_ns), 0.0, bounds, 0.1, weight, SERVE_NS, &mut rng)
        };
        assert!(hits(&mut average, 1000), "far above the upper bound");
        // The queue is still empty. In 100 ms, 8333 frames could have passed: the average falls by
        // e^16.7.
        assert!(!hits(&mut average, 100_001_000));
        assert!(average.bytes < 1.0, "{}", average.bytes);
    }
}
