//! Schedule of a load: the start of its phases and the instants of its samples, counted from the
//! instant of `start`.
use std::time::Duration;

use hakaru_contract::initiator::InitiatorConfig;
use hakaru_units::Time;

use crate::failure::Failure;
use crate::sampling::Schedule;

/// A phase of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The load runs and is not measured.
    Warmup,
    /// The load runs and is measured.
    Measure,
    /// No new requests are issued.
    Drain,
}

impl Phase {
    /// Returns the name of the phase in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Warmup => "warmup",
            Phase::Measure => "measure",
            Phase::Drain => "drain",
        }
    }
}

/// Schedule of phases and samples. A border is an instant at which a sample is taken, and at which
/// a phase may begin.
#[derive(Debug)]
pub struct Phases {
    /// Phases that have not begun, with their instants. The next phase is last.
    ahead: Vec<(Time, Phase)>,
    samples: Schedule,
}

impl Phases {
    /// Creates the schedule of a load that starts at `start`. A warm-up time of zero omits that
    /// phase. With a measuring time of zero, the measuring phase lasts until [`Phases::stop`].
    ///
    /// # Errors
    /// The sample interval is out of bounds.
    pub fn new(config: &InitiatorConfig, start: Time) -> Result<Phases, Failure> {
        let measure = start + Duration::from_secs_f64(config.warmup_s);
        let drain = match config.measure_s {
            0.0 => Time::MAX,
            seconds => measure + Duration::from_secs_f64(seconds),
        };
        let mut ahead = vec![(drain, Phase::Drain), (measure, Phase::Measure)];
        if config.warmup_s > 0.0 {
            ahead.push((start, Phase::Warmup));
        }
        let mut samples = Schedule::new(config.sample_interval_ms)?;
        samples.start(start);
        Ok(Phases { ahead, samples })
    }

    /// Ends the load at the next border.
    pub fn stop(&mut self) {
        self.ahead = vec![(Time::ZERO, Phase::Drain)];
    }

    /// Begins the measuring phase at `at`, if it lies ahead and would begin later. It keeps its
    /// length.
    pub fn measure_from(&mut self, at: Time) {
        if let [drain, measure @ (_, Phase::Measure)] = &mut self.ahead[..]
            && at < measure.0
        {
            if drain.0 < Time::MAX {
                drain.0 = at + (drain.0 - measure.0);
            }
            measure.0 = at;
        }
    }

    /// Returns the next border, or `None` once the load has ended.
    pub fn next_border(&self) -> Option<Time> {
        let phase = self.ahead.last().map(|&(at, _)| at)?;
        Some(
            self.samples
                .next()
                .map_or(phase, |sample| sample.min(phase)),
        )
    }

    /// Passes a border. Returns the phase that begins there, or the last phase if several are due
    /// at once.
    pub fn pass(&mut self, now: Time) -> Option<Phase> {
        let mut entered = None;
        while let Some((_, phase)) = self.ahead.pop_if(|(at, _)| *at <= now) {
            entered = Some(phase);
        }
        self.samples.due(now);
        entered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(warmup_s: f64, measure_s: f64) -> Phases {
        let config = serde_json::from_value(serde_json::json!({
            "vms": [], "warmup_s": warmup_s, "measure_s": measure_s, "sample_interval_ms": 1000,
        }));
        Phases::new(&config.unwrap(), Time(5_000_000_000)).unwrap()
    }

    /// Returns all borders in order, in milliseconds from `start`, with the phase that begins
    /// there.
    fn borders(mut phases: Phases) -> Vec<(u64, Option<Phase>)> {
        let mut all = Vec::new();
        while let Some(at) = phases.next_border().filter(|_| all.len() < 20) {
            all.push((at.as_ns() / 1_000_000 - 5_000, phases.pass(at)));
        }
        all
    }

    #[test]
    fn samples_lie_on_the_grid_and_on_the_borders_of_phases() {
        let expected = [
            (0, Some(Phase::Warmup)),
            (1000, None),
            (1500, Some(Phase::Measure)),
            (2000, None),
            (3000, None),
            (3700, Some(Phase::Drain)),
        ];
        assert_eq!(borders(phases(1.5, 2.2)), expected);
    }

    #[test]
    fn load_without_warm_up_begins_measuring() {
        assert_eq!(
            borders(phases(0.0, 1.0)),
            [(0, Some(Phase::Measure)), (1000, Some(Phase::Drain))]
        );
    }

    #[test]
    fn warm_up_that_ends_early_leaves_the_measuring_time_as_it_is() {
        let at = |ms: u64| Time((5_000 + ms) * 1_000_000);
        let mut early = phases(3.0, 1.2);
        assert_eq!(early.pass(at(0)), Some(Phase::Warmup));
        early.measure_from(at(1_500));
        let expected = [
            (1000, None),
            (1500, Some(Phase::Measure)),
            (2000, None),
            (2700, Some(Phase::Drain)),
        ];
        assert_eq!(borders(early), expected);
    }

    #[test]
    fn warm_up_that_has_ended_or_ends_sooner_does_not_change() {
        let at = |ms: u64| Time((5_000 + ms) * 1_000_000);
        let mut sooner = phases(0.5, 1.0);
        sooner.pass(at(0));
        sooner.measure_from(at(700));
        assert_eq!(borders(sooner)[0], (500, Some(Phase::Measure)));
        let mut ended = phases(0.5, 1.0);
        ended.pass(at(0));
        ended.pass(at(500));
        ended.measure_from(at(600));
        let last = *borders(ended).last().unwrap();
        assert_eq!(last, (1500, Some(Phase::Drain)));
    }

    #[test]
    fn load_without_a_measuring_time_ends_at_stop() {
        let mut phases = phases(0.0, 0.0);
        assert_eq!(phases.pass(Time(5_000_000_000)), Some(Phase::Measure));
        assert_eq!(phases.next_border(), Some(Time(6_000_000_000)));
        phases.stop();
        assert_eq!(phases.pass(Time(5_300_000_000)), Some(Phase::Drain));
        assert_eq!(phases.next_border(), None);
    }

    #[test]
    fn samples_missed_by_a_stall_are_not_made_up_for() {
        let mut phases = phases(0.0, 100.0);
        phases.pass(Time(5_000_000_000));
        phases.pass(Time(9_400_000_000));
        assert_eq!(phases.next_border(), Some(Time(10_000_000_000)));
    }
}
