//! Times of a trial that are not judged, because processors of the tester's machine stopped.
use std::ops::Range;

use hakaru_contract::trial::ProcessorStops;
use hakaru_units::Time;

use crate::pace::Pace;

/// Times of a trial that are not judged: disjoint, in their order, in ns after its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excluded {
    times: Vec<Range<u64>>,
    /// Number of stops within the trial.
    stops: u64,
    /// The longest of them, ns, with its part outside the trial.
    longest_ns: u64,
}

impl Excluded {
    /// Excludes each stop, and as much time after it: frames that came meanwhile are handled then,
    /// beside those that are due. `stops` are those of all processors, in any order; the trial
    /// starts at `start` and takes `duration_ns`.
    #[must_use]
    pub fn new(stops: &[Range<Time>], start: Time, duration_ns: u64) -> Excluded {
        let after = |at: Time| at.as_ns().saturating_sub(start.as_ns()).min(duration_ns);
        let (mut times, mut longest_ns) = (Vec::new(), 0);
        for stop in stops {
            let length = stop.end.ns_since(stop.start);
            let end = Time(stop.end.as_ns().saturating_add(length));
            let time = after(stop.start)..after(end);
            if !time.is_empty() {
                times.push(time);
                longest_ns = length.max(longest_ns);
            }
        }
        let stops = times.len() as u64;
        times.sort_by_key(|time| time.start);
        let mut merged: Vec<Range<u64>> = Vec::new();
        for time in times {
            match merged.last_mut() {
                Some(last) if time.start <= last.end => last.end = last.end.max(time.end),
                _ => merged.push(time),
            }
        }
        Excluded {
            times: merged,
            stops,
            longest_ns,
        }
    }

    /// Returns the sum of the times, ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.times.iter().map(|time| time.end - time.start).sum()
    }

    /// Returns the numbers of the frames of a stream that are due in these times.
    pub(crate) fn numbers(&self, pace: Pace) -> impl Iterator<Item = Range<u64>> {
        self.times
            .iter()
            .map(move |time| pace.due_before(time.start)..pace.due_before(time.end))
    }

    /// Returns what the outcome of the trial says about its stops.
    #[must_use]
    pub fn describe(&self) -> ProcessorStops {
        ProcessorStops {
            count: self.stops,
            longest_ns: self.longest_ns,
            excluded_ns: self.total_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(5_000);

    fn excluded(stops: &[(u64, u64)]) -> Vec<Range<u64>> {
        let stops: Vec<_> = stops.iter().map(|&(a, b)| Time(a)..Time(b)).collect();
        Excluded::new(&stops, START, 1_000).times
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one time is excluded")]
    fn stops_exclude_twice_their_length_within_the_trial_and_are_merged() {
        assert_eq!(excluded(&[]), []);
        assert_eq!(excluded(&[(5_100, 5_110)]), [100..120]);
        assert_eq!(excluded(&[(5_115, 5_200), (5_100, 5_110)]), [100..285]);
        assert_eq!(
            excluded(&[(5_300, 5_301), (5_100, 5_110)]),
            [100..120, 300..302]
        );
        let stops = [Time(4_000)..Time(4_300), Time(5_100)..Time(5_110)];
        let described = Excluded::new(&stops, START, 1_000).describe();
        assert_eq!((described.count, described.longest_ns), (1, 10));
        // Before, around and after the trial.
        assert_eq!(
            excluded(&[(4_000, 4_400), (4_990, 5_000), (6_000, 6_001)]),
            [0..10]
        );
        assert_eq!(excluded(&[(4_000, 9_000)]), [0..1_000]);
    }

    #[test]
    fn numbers_are_those_due_in_the_times() {
        let times = Excluded {
            times: vec![0..1, 1_500_000_000..3_000_000_001],
            ..Excluded::default()
        };
        let pace = Pace::new(1.0).expect("a rate above 0");
        assert_eq!(times.numbers(pace).collect::<Vec<_>>(), [0..1, 2..4]);
        assert_eq!(times.total_ns(), 1_500_000_002);
    }
}
