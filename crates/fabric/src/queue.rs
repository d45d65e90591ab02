//! An egress queue: which frames of a train have room, which are dropped or marked early.
use std::collections::VecDeque;

use hakaru_stats::{Histogram, Latency};
use hakaru_units::Time;
use rand::RngExt as _;
use rand_pcg::Pcg64;

use crate::counters::Drops;
use crate::packet::Train;
use hakaru_contract::fabric::{Discipline, Queue};

/// Frames that wait for a serialiser.
#[derive(Debug)]
pub(crate) struct EgressQueue {
    waiting: VecDeque<Train>,
    /// Of what waits and of what is being sent: a frame leaves the memory when its last byte was sent.
    bytes: u64,
    limit_bytes: u64,
    discipline: Discipline,
    average: Average,
    /// Longest since [`EgressQueue::take_peak`].
    peak_bytes: u64,
    /// Bytes that each frame met when it came, whether it found room or not; made when the first one comes, since it is large.
    depths: Option<Box<Latency>>,
}

/// The average length that RED goes by.
#[derive(Debug, Default)]
struct Average {
    bytes: f64,
    /// Since when the queue has been empty.
    empty_since: Option<Time>,
    /// Frames since the last one that was dropped or marked.
    spared: u32,
}

/// How long a queue may get.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// However long: its source is told to stop instead.
    Endless,
    /// Its own bound.
    Own,
    /// And, of memory shared with others, `alpha` times what is free: `left_bytes` less its own length.
    Shared { alpha: f64, left_bytes: u64 },
}

impl Room {
    /// For a queue of `bytes` with a bound of its own of `own_bytes`.
    pub(crate) fn limit_bytes(self, own_bytes: u64, bytes: u64) -> u64 {
        match self {
            Room::Endless => u64::MAX,
            Room::Own => own_bytes,
            Room::Shared { alpha, left_bytes } => {
                let free = left_bytes.saturating_sub(bytes);
                // What is free bounds it too: alpha may be above 1.
                own_bytes
                    .min((alpha * free as f64) as u64)
                    .min(bytes + free)
            }
        }
    }
}

/// What became of a train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) taken: u32,
    pub(crate) marked: u32,
    pub(crate) drops: Drops,
}

/// What becomes of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
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

    /// Of what waits and of what is being sent.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) const fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// The least length at which something happens to frames.
    pub(crate) fn threshold_bytes(&self) -> u64 {
        let early = match self.discipline {
            Discipline::TailDrop => u64::MAX,
            Discipline::Red { min_bytes, .. } => min_bytes,
            Discipline::Mark { above_bytes } => above_bytes,
        };
        self.limit_bytes.min(early)
    }

    /// The longest it was since this was asked last.
    pub(crate) fn take_peak(&mut self) -> u64 {
        core::mem::replace(&mut self.peak_bytes, self.bytes)
    }

    /// Ends the interval: the depths that its frames met, unless there were none.
    pub(crate) fn take_depths(&mut self) -> Option<Histogram> {
        let depths = self.depths.as_mut()?.take_interval(true, Histogram::clone);
        Some(depths).filter(|depths| !depths.is_empty())
    }

    /// The depths of all intervals that were taken.
    pub(crate) fn depths(&self) -> Option<&Histogram> {
        self.depths.as_deref().map(Latency::total)
    }

    /// A frame comes.
    fn meet(&mut self, depth_bytes: u64) {
        // The histogram counts whatever has a unit; these are bytes, an empty queue its least value, 1.
        self.depths.get_or_insert_default().record_ns(depth_bytes);
    }

    fn take_all(&mut self, train: Train) -> Admission {
        let (taken, each) = (train.count, u64::from(train.longest_bytes()));
        for index in 0..taken {
            self.meet(self.bytes + each * u64::from(index));
        }
        self.push(train);
        Admission {
            taken,
            ..Admission::default()
        }
    }

    /// Takes the frames that there is room for. `limit_bytes`: how long the queue may get now.
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
            return self.take_all(train);
        }
        let mut admission = Admission::default();
        let mut next = Some(train);
        while let Some(frame) = next.as_mut().map(Train::take_one) {
            next = next.filter(|rest| rest.count > 0);
            self.meet(self.bytes);
            let fate = self.fate(now, &frame, room, serve_ns, rng);
            self.settle(fate, frame, &mut admission);
        }
        admission
    }

    fn settle(&mut self, fate: Fate, mut frame: Train, admission: &mut Admission) {
        match fate {
            Fate::NoRoom => admission.drops.buffer += 1,
            Fate::Early => admission.drops.early += 1,
            Fate::Taken { marked } => {
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
            Some(back) if back.goes_on_in(&train) => back.count += train.count,
            _ => self.waiting.push_back(train),
        }
    }

    /// What becomes of a frame.
    fn fate(
        &mut self,
        now: Time,
        frame: &Train,
        room: Room,
        serve_ns: f64,
        rng: &mut Pcg64,
    ) -> Fate {
        let length = self.bytes;
        if length + frame.bytes() > room.limit_bytes(self.limit_bytes, length) {
            return Fate::NoRoom;
        }
        let capable = frame.packet.allows_marks();
        match self.discipline {
            Discipline::TailDrop => Fate::Taken { marked: false },
            Discipline::Mark { above_bytes } => Fate::Taken {
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
                    (false, _) => Fate::Taken { marked: false },
                    (true, true) => Fate::Taken { marked: true },
                    (true, false) => Fate::Early,
                }
            }
        }
    }

    /// The next frames to send: those of the first train that go within `budget_bytes`, at least one.
    pub(crate) fn next(&mut self, budget_bytes: u64) -> Option<Train> {
        let front = self.waiting.front_mut()?;
        let fitting = (budget_bytes / u64::from(front.longest_bytes())).max(1);
        if fitting < u64::from(front.count) {
            return Some(front.take_front(fitting as u32));
        }
        self.waiting.pop_front()
    }

    /// These bytes were sent.
    pub(crate) fn sent(&mut self, now: Time, bytes: u64) {
        self.bytes -= bytes;
        if self.bytes == 0 {
            self.average.empty_since = Some(now);
        }
    }
}

impl Average {
    /// Whether a frame that finds `length` bytes is to be dropped or marked (Floyd and Jacobson 1993, section 4 and 11).
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
        // While the queue was empty the average went down as if small frames had passed.
        if let Some(since) = self.empty_since.take() {
            let passed = now.ns_since(since) as f64 / serve_ns.max(1.0);
            self.bytes *= (1.0 - weight).powf(passed);
        }
        self.bytes += weight * (length - self.bytes);
        if self.bytes < min {
            self.spared = 0;
            return false;
        }
        self.spared += 1;
        let base = probability * (self.bytes - min) / (max - min).max(1.0);
        // Spreads the hits evenly between frames.
        let spread = base / (1.0 - (f64::from(self.spared) * base).min(1.0 - 1e-9));
        let hit = self.bytes >= max || rng.random::<f64>() < spread;
        if hit {
            self.spared = 0;
        }
        hit
    }
}
