//! The sending side of a port: which frame is next and when, and what was sent.
use std::ops::Range;

use hakaru_stats::Histogram;
use hakaru_units::Time;

use crate::pace::Pace;
use crate::trial::{Rate, Trial};

/// Maximum number of ranges in `Sent::unsent_numbers`, which bounds its memory to 1 MiB.
pub const UNSENT_RANGES_MAX: usize = 65_536;

/// The streams that one port sends in one trial.
#[derive(Debug)]
pub struct Sender {
    end: Time,
    late_limit_ns: u64,
    streams: Vec<Sending>,
}

/// A stream being sent.
#[derive(Debug)]
struct Sending {
    start: Time,
    pace: Option<Pace>,
    /// Number of frames in the trial, or the most that a stream without a pace may send.
    total: u64,
    /// Number of the next frame.
    next: u64,
    /// Due instant of the next frame.
    due: Time,
    sent: Sent,
}

/// Counts of one stream that was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sent {
    /// Index of the stream in the configuration.
    pub stream: usize,
    /// Frames that were handed over.
    pub frames: u64,
    /// Frames that were due and not sent.
    pub unsent: u64,
    /// Their numbers, in their order. After [`UNSENT_RANGES_MAX`] ranges, later ones are left out.
    pub unsent_numbers: Vec<Range<u64>>,
    /// Size of the frames handed over, with FCS, bytes.
    pub bytes: u64,
    /// Instants of the first and the last frame handed over.
    pub first_and_last: Option<(Time, Time)>,
    /// Delays of frames behind their due instants. Empty for a stream without a pace.
    pub lateness: Histogram,
    /// Greatest of these delays, exact to the nanosecond.
    pub lateness_ns_max: u64,
}

/// A frame that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Index of the stream in the configuration.
    pub stream: usize,
    /// Number of the frame in its stream.
    pub number: u32,
    /// Due instant. `None` for a stream without a pace.
    pub at: Option<Time>,
    /// Index of the stream in its sender.
    slot: usize,
}

/// Next step of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this frame now.
    Send(Due),
    /// Nothing is due before this instant.
    Wait(Time),
    /// The trial is over.
    Finished,
}

impl Sender {
    /// Creates the sender of a port for a trial that starts at `start`. `streams` are the indices of
    /// the streams that leave there.
    #[must_use]
    pub fn new(trial: &Trial, streams: &[usize], start: Time) -> Sender {
        let sending = |stream: &usize| {
            let pace = match trial.rate(*stream) {
                Rate::Paced(pace) => Some(pace),
                Rate::Unlimited => None,
                Rate::Silent => return None,
            };
            let sent = Sent {
                stream: *stream,
                ..Sent::default()
            };
            Some(Sending {
                start,
                pace,
                total: trial.frames_max(*stream),
                next: 0,
                due: start,
                sent,
            })
        };
        Sender {
            end: Time(start.as_ns().saturating_add(trial.duration_ns())),
            late_limit_ns: trial.late_limit_ns(),
            streams: streams.iter().filter_map(sending).collect(),
        }
    }

    /// Returns the next step at `now`. A returned frame counts as taken: the shell reports its fate
    /// with [`Sender::handed_over`] or [`Sender::abandoned`]. Frames that are later than the limit
    /// are skipped and counted as not sent.
    pub fn poll(&mut self, now: Time) -> Step {
        let oldest = Time(now.as_ns().saturating_sub(self.late_limit_ns));
        let mut first: Option<usize> = None;
        for slot in 0..self.streams.len() {
            let stream = &mut self.streams[slot];
            stream.skip_before(oldest);
            let is_open = match stream.pace {
                Some(_) => stream.next < stream.total,
                None => stream.next < stream.total && now < self.end,
            };
            if !is_open {
                continue;
            }
            // Among streams without a pace, the one that sent least is next.
            let key = |slot: usize| (self.streams[slot].due, self.streams[slot].next_if_unpaced());
            if first.is_none_or(|first| key(slot) < key(first)) {
                first = Some(slot);
            }
        }
        let Some(slot) = first else {
            return Step::Finished;
        };
        let stream = &mut self.streams[slot];
        if stream.due > now {
            return Step::Wait(stream.due);
        }
        let due = Due {
            stream: stream.sent.stream,
            // `Trial` limits the number of frames.
            number: stream.next as u32,
            at: stream.pace.map(|_| stream.due),
            slot,
        };
        stream.advance(stream.next + 1);
        Step::Send(due)
    }

    /// Records that a frame of `bytes` bytes with FCS was handed over at `at`.
    pub fn handed_over(&mut self, due: &Due, at: Time, bytes: u16) {
        let sent = &mut self.streams[due.slot].sent;
        sent.frames += 1;
        sent.bytes += u64::from(bytes);
        sent.first_and_last = Some(match sent.first_and_last {
            Some((first, last)) => (first.min(at), last.max(at)),
            None => (at, at),
        });
        if let Some(due) = due.at {
            let late_ns = at.ns_since(due);
            sent.lateness.record_ns(late_ns);
            sent.lateness_ns_max = sent.lateness_ns_max.max(late_ns);
        }
    }

    /// Records that a frame will never be handed over.
    pub fn abandoned(&mut self, due: &Due) {
        if due.at.is_some() {
            let number = u64::from(due.number);
            self.streams[due.slot].sent.leave_out(number..number + 1);
        }
    }

    /// Ends the trial and returns the counts of the streams that this sender sent. Frames that are
    /// not due yet count as not sent.
    #[must_use]
    pub fn finish(self) -> Vec<Sent> {
        let finished = self.streams.into_iter().map(|mut stream| {
            if stream.pace.is_some() {
                stream.sent.leave_out(stream.next..stream.total);
            }
            // Frames that were taken before others were skipped may be abandoned after them.
            let numbers = &mut stream.sent.unsent_numbers;
            numbers.sort_unstable_by_key(|range| range.start);
            stream.sent
        });
        finished.collect()
    }
}

impl Sent {
    fn leave_out(&mut self, numbers: Range<u64>) {
        if numbers.is_empty() {
            return;
        }
        self.unsent += numbers.end - numbers.start;
        let ranges = self.unsent_numbers.len();
        match self.unsent_numbers.last_mut() {
            Some(last) if last.end == numbers.start => last.end = numbers.end,
            _ if ranges < UNSENT_RANGES_MAX => self.unsent_numbers.push(numbers),
            _ => {}
        }
    }
}

impl Sending {
    /// Skips the frames that were due before `oldest`.
    fn skip_before(&mut self, oldest: Time) {
        if self.due >= oldest || self.next >= self.total {
            return;
        }
        if let Some(pace) = self.pace {
            let passed = pace.due_before(oldest.ns_since(self.start)).min(self.total);
            let passed = passed.max(self.next);
            self.sent.leave_out(self.next..passed);
            self.advance(passed);
        }
    }

    fn advance(&mut self, next: u64) {
        self.next = next;
        if let Some(pace) = self.pace {
            self.due = Time(self.start.as_ns().saturating_add(pace.due_ns(next)));
        }
    }

    fn next_if_unpaced(&self) -> u64 {
        if self.pace.is_none() { self.next } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use hakaru_contract::TrialOrder;

    use super::*;

    const START: Time = Time(1_000_000_000);

    fn trial(rates: &[Option<f64>]) -> Trial {
        let order = TrialOrder {
            id: 1,
            duration_ns: 1_000_000_000,
            rates: rates.to_vec(),
            settle_ns: 0,
            late_limit_ns: 1_000_000,
        };
        Trial::unchecked(&order)
    }

    /// Sends everything, with calls every `step_ns` that each take no time. Returns the counts and
    /// the order of the frames.
    fn run(sender: &mut Sender, step_ns: u64) -> Vec<(usize, u32)> {
        let (mut now, mut order) = (START, Vec::new());
        loop {
            match sender.poll(now) {
                Step::Send(due) => {
                    assert!(due.at.is_none_or(|at| at <= now));
                    order.push((due.stream, due.number));
                    sender.handed_over(&due, now, 64);
                    if due.at.is_none() {
                        now = Time(now.as_ns() + step_ns);
                    }
                }
                Step::Wait(until) => {
                    assert!(until > now);
                    now = Time(until.as_ns().max(now.as_ns() + step_ns));
                }
                Step::Finished => return order,
            }
        }
    }

    #[test]
    fn frames_of_all_streams_are_due_in_the_order_of_their_instants() {
        let mut sender = Sender::new(
            &trial(&[Some(4.0), Some(0.0), Some(2.0)]),
            &[0, 1, 2],
            START,
        );
        let order = run(&mut sender, 1);
        assert_eq!(order, [(0, 0), (2, 0), (0, 1), (0, 2), (2, 1), (0, 3)]);
        let sent = sender.finish();
        let numbers: Vec<_> = sent
            .iter()
            .map(|s| (s.stream, s.frames, s.unsent, s.lateness_ns_max))
            .collect();
        assert_eq!(numbers, [(0, 4, 0, 0), (2, 2, 0, 0)]);
        assert_eq!(
            sent[0].first_and_last,
            Some((START, Time(START.as_ns() + 750_000_000)))
        );
    }

    #[test]
    fn frames_that_are_too_late_are_not_sent_and_are_counted() {
        let mut sender = Sender::new(&trial(&[Some(10_000.0)]), &[0], START);
        // The sender stalls for 5 ms, during which frames 0 to 50 become due. The limit is 1 ms, so
        // 40 of them are skipped.
        let now = Time(START.as_ns() + 5_000_000);
        let mut sent = Vec::new();
        while let Step::Send(due) = sender.poll(now) {
            sender.handed_over(&due, now, 64);
            sent.push(due.number);
        }
        assert_eq!(sent, (40..=50).collect::<Vec<_>>());
        let Step::Send(due) = sender.poll(Time(START.as_ns() + 5_100_000)) else {
            panic!("frame 51 is due");
        };
        sender.abandoned(&due);
        let counts = sender.finish().remove(0);
        assert_eq!(counts.frames, 11);
        assert_eq!(counts.unsent, 10_000 - 11);
        assert_eq!(counts.lateness_ns_max, 1_000_000);
        assert_eq!(counts.lateness.count(), 11);
    }

    #[test]
    fn streams_without_a_pace_alternate_until_the_end() {
        let mut sender = Sender::new(&trial(&[None, None]), &[0, 1], START);
        let order = run(&mut sender, 100_000);
        assert_eq!(order.len(), 10_000);
        assert_eq!(order[..4], [(0, 0), (1, 0), (0, 1), (1, 1)]);
        let counts = sender.finish();
        assert_eq!((counts[0].frames, counts[0].unsent), (5_000, 0));
        assert!(counts[0].lateness.is_empty());
    }
}
