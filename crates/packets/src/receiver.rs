//! The receiving side of a port: what arrived.
use std::ops::Range;

use hakaru_stats::Histogram;
use hakaru_units::Time;

use crate::excluded::Excluded;
use crate::frame::{Arrival, Tag, parse};
use crate::pace::Pace;
use crate::plan::Plan;
use crate::seen::Seen;
use crate::trial::{Rate, Trial};

/// Counts the frames that arrive at one port.
#[derive(Debug)]
pub struct Receiver {
    mark: u32,
    /// Streams towards this port, by their index in the configuration.
    streams: Vec<Option<Receiving>>,
    /// Number of the current trial. `None` between trials.
    trial: Option<u16>,
    totals: Totals,
    /// Totals at the start of the trial. Late frames are counted from the end of the trial before.
    before: Totals,
}

/// A stream being received.
#[derive(Debug)]
struct Receiving {
    flows: u16,
    pace: Option<Pace>,
    seen: Seen,
    /// For each flow one more than the highest number received, or 0.
    next_expected: Vec<u32>,
    received: Received,
}

/// Counts of one stream that was received.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Received {
    /// Index of the stream in the configuration.
    pub stream: usize,
    /// Distinct intact frames of the trial.
    pub frames: u64,
    /// Size of these frames with FCS, bytes.
    pub bytes: u64,
    /// Further copies of them.
    pub duplicated: u64,
    /// Those of them whose number was lower than one of the same flow before (RFC 4737).
    pub reordered: u64,
    /// Damaged frames.
    pub corrupted: u64,
    /// Instants of the first and the last frame.
    pub first_and_last: Option<(Time, Time)>,
    /// Times from sending to reception.
    pub latency: Histogram,
    /// Frames due in the times that are not judged.
    pub excluded: ExcludedFrames,
}

/// Frames of a stream that are due in the times that are not judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcludedFrames {
    /// Their numbers, in their order.
    pub numbers: Vec<Range<u64>>,
    /// How many of them did not arrive.
    pub missing: u64,
}

impl ExcludedFrames {
    /// Returns their number.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.numbers.iter().map(|n| n.end - n.start).sum()
    }

    /// Returns how many of `others`, in their order, are among them.
    pub(crate) fn among(&self, others: &[Range<u64>]) -> u64 {
        let mut count = 0;
        for own in &self.numbers {
            let first = others.partition_point(|other| other.end <= own.start);
            for other in others[first..]
                .iter()
                .take_while(|other| other.start < own.end)
            {
                count += other.end.min(own.end) - other.start.max(own.start);
            }
        }
        count
    }
}

/// Cumulative counts of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Distinct intact frames.
    pub frames: u64,
    /// Size of these frames with FCS, bytes.
    pub bytes: u64,
    /// Further copies of them.
    pub duplicated: u64,
    /// Damaged frames.
    pub corrupted: u64,
    /// Frames that belong to no stream towards this port.
    pub foreign: u64,
    /// Frames of an earlier trial.
    pub late: u64,
}

/// Counts of a port in one trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReceivedByPort {
    /// Counts of the streams towards the port.
    pub streams: Vec<Received>,
    /// Frames that belong to no stream towards the port.
    pub foreign: u64,
    /// Frames of earlier trials that arrived after the end of the previous one.
    pub late: u64,
}

impl Receiver {
    /// Creates the receiver of a port, by its index in the configuration. `mark` is that of the
    /// process.
    #[must_use]
    pub fn new(plan: &Plan, port: usize, mark: u32) -> Receiver {
        let streams = plan.streams().iter().enumerate().map(|(index, stream)| {
            (stream.to == port).then(|| Receiving {
                flows: stream.flows,
                pace: None,
                seen: Seen::default(),
                next_expected: Vec::new(),
                received: Received {
                    stream: index,
                    ..Received::default()
                },
            })
        });
        Receiver {
            mark,
            streams: streams.collect(),
            trial: None,
            totals: Totals::default(),
            before: Totals::default(),
        }
    }

    /// Begins a trial. From now on frames of all other trials are late.
    pub fn begin(&mut self, trial: &Trial) {
        self.trial = Some(trial.number());
        // Frames that arrive between two trials are late, and the second trial reports them.
        self.before = Totals {
            late: self.before.late,
            ..self.totals
        };
        for receiving in self.streams.iter_mut().flatten() {
            let stream = receiving.received.stream;
            receiving.seen = Seen::new(trial.frames_max(stream));
            receiving.pace = match trial.rate(stream) {
                Rate::Paced(pace) => Some(pace),
                Rate::Unlimited | Rate::Silent => None,
            };
            receiving.next_expected = vec![0; receiving.flows.into()];
            receiving.received = Received {
                stream,
                ..Received::default()
            };
        }
    }

    /// Counts a frame that arrived at `at`, without FCS. Any bytes are accepted.
    pub fn handle_frame(&mut self, at: Time, frame: &[u8]) {
        match parse(frame, self.mark) {
            Arrival::Foreign => self.totals.foreign += 1,
            Arrival::Damaged { stream } => {
                let expected = self.streams.get_mut(usize::from(stream));
                match expected.and_then(Option::as_mut) {
                    Some(receiving) => {
                        receiving.received.corrupted += 1;
                        self.totals.corrupted += 1;
                    }
                    None => self.totals.foreign += 1,
                }
            }
            Arrival::Intact { tag, bytes } => {
                let expected = self.streams.get_mut(usize::from(tag.stream));
                match expected.and_then(Option::as_mut) {
                    Some(_) if self.trial != Some(tag.trial) => self.totals.late += 1,
                    Some(receiving) => receiving.count(tag, at, bytes, &mut self.totals),
                    None => self.totals.foreign += 1,
                }
            }
        }
    }

    /// Returns the cumulative counts.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Ends the trial and returns its counts. Frames of this trial that arrive from now on are
    /// late. `excluded`: the times that are not judged.
    pub fn finish(&mut self, excluded: &Excluded) -> ReceivedByPort {
        self.trial = None;
        let streams = self.streams.iter_mut().flatten().map(|receiving| {
            receiving.exclude(excluded);
            receiving.seen = Seen::default();
            let stream = receiving.received.stream;
            let empty = Received {
                stream,
                ..Received::default()
            };
            std::mem::replace(&mut receiving.received, empty)
        });
        let counts = ReceivedByPort {
            streams: streams.collect(),
            foreign: self.totals.foreign - self.before.foreign,
            late: self.totals.late - self.before.late,
        };
        self.before = self.totals;
        counts
    }
}

impl Receiving {
    fn exclude(&mut self, excluded: &Excluded) {
        let Some(pace) = self.pace else {
            return;
        };
        let numbers: Vec<_> = excluded.numbers(pace).collect();
        self.received.excluded = ExcludedFrames {
            missing: numbers.iter().map(|range| self.seen.missing(range)).sum(),
            numbers,
        };
    }

    fn count(&mut self, tag: Tag, at: Time, bytes: u16, totals: &mut Totals) {
        match self.seen.insert(tag.number) {
            // No frame of this trial has that number, so the tag is damaged in a way that the
            // checksum misses.
            None => {
                self.received.corrupted += 1;
                totals.corrupted += 1;
                return;
            }
            Some(false) => {
                self.received.duplicated += 1;
                totals.duplicated += 1;
                return;
            }
            Some(true) => {}
        }
        totals.frames += 1;
        totals.bytes += u64::from(bytes);
        let received = &mut self.received;
        received.frames += 1;
        received.bytes += u64::from(bytes);
        received.first_and_last = Some(match received.first_and_last {
            Some((first, last)) => (first.min(at), last.max(at)),
            None => (at, at),
        });
        received.latency.record_ns(tag.latency_ns(at));
        let next_expected = &mut self.next_expected[(tag.number % u32::from(self.flows)) as usize];
        if tag.number < *next_expected {
            received.reordered += 1;
        } else {
            // The limit on the frames of a trial excludes an overflow.
            *next_expected = tag.number + 1;
        }
    }
}
