//! The checked order of a trial.
use std::collections::BTreeSet;

use hakaru_contract::{ConfigError, TrialOrder, refuse};

use crate::pace::Pace;

/// Maximum number of frames of a stream in a trial; the receiver needs a bit for each.
const FRAMES_MAX: u64 = 1_000_000_000;
/// Highest rate that a stream without a pace is expected to reach, frames per ms.
const UNLIMITED_PER_MS: u64 = 20_000;

/// Rate of a stream in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// A constant rate.
    Paced(Pace),
    /// As fast as possible.
    Unlimited,
    /// No frames.
    Silent,
}

/// A checked order.
#[derive(Clone, Debug)]
pub struct Trial {
    id: u64,
    number: u16,
    duration_ns: u64,
    settle_ns: u64,
    late_limit_ns: u64,
    rates: Vec<Rate>,
}

impl Trial {
    /// Checks an order. `ports` has the sending port of each stream.
    pub(crate) fn new(
        order: &TrialOrder,
        number: u16,
        ports: &[usize],
    ) -> Result<Trial, ConfigError> {
        let bounds = [
            (
                "duration_ns",
                order.duration_ns,
                1_000_000,
                3_600_000_000_000,
            ),
            ("settle_ns", order.settle_ns, 0, 60_000_000_000),
            ("late_limit_ns", order.late_limit_ns, 100_000, 1_000_000_000),
        ];
        for (field, value, from, to) in bounds {
            if !(from..=to).contains(&value) {
                return refuse(field, value.to_string(), format!("use {from} to {to}"));
            }
        }
        if order.rates.len() != ports.len() {
            let problem = format!("{} for {} streams", order.rates.len(), ports.len());
            return refuse("rates", problem, "give one rate for each stream, in order");
        }
        for (index, rate) in order.rates.iter().enumerate() {
            let in_bounds = rate.is_none_or(|rate| (0.0..=1e9).contains(&rate));
            let field = format!("rates[{index}]");
            if !in_bounds {
                let problem = rate.unwrap_or_default().to_string();
                return refuse(field, problem, "use 0 to 1e9, or null for the maximum");
            }
        }
        let trial = Trial {
            number,
            ..Trial::unchecked(order)
        };
        for (index, rate) in trial.rates.iter().enumerate() {
            let field = format!("rates[{index}]");
            match rate {
                Rate::Paced(pace) if pace.due_before(trial.duration_ns) > FRAMES_MAX => {
                    let problem = format!("more than {FRAMES_MAX} frames");
                    return refuse(field, problem, "shorten the trial or lower the rate");
                }
                _ => {}
            }
        }
        let with = |wanted: fn(&Rate) -> bool| {
            let matching = trial.rates.iter().zip(ports);
            matching
                .filter(|(rate, _)| wanted(rate))
                .map(|(_, port)| *port)
                .collect::<BTreeSet<_>>()
        };
        let unlimited = with(|rate| matches!(rate, Rate::Unlimited));
        let paced = with(|rate| matches!(rate, Rate::Paced(_)));
        if !unlimited.is_disjoint(&paced) {
            return refuse(
                "rates",
                "a port has streams with a rate and streams without",
                "give all streams that leave a port null (or 0), or give all a rate",
            );
        }
        Ok(trial)
    }

    /// Returns the trial of an order that is within its bounds.
    pub(crate) fn unchecked(order: &TrialOrder) -> Trial {
        let rate = |rate: &Option<f64>| match rate {
            None => Rate::Unlimited,
            Some(rate) => Pace::new(*rate).map_or(Rate::Silent, Rate::Paced),
        };
        Trial {
            id: order.id,
            number: 0,
            duration_ns: order.duration_ns,
            settle_ns: order.settle_ns,
            late_limit_ns: order.late_limit_ns,
            rates: order.rates.iter().map(rate).collect(),
        }
    }

    /// Returns the number of the order.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number in the tags of this trial's frames.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the time in which frames are due, ns.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.duration_ns
    }

    /// Returns the time for frames under way after the last one was sent, ns.
    #[must_use]
    pub fn settle_ns(&self) -> u64 {
        self.settle_ns
    }

    /// Returns the longest delay of a frame, ns.
    #[must_use]
    pub fn late_limit_ns(&self) -> u64 {
        self.late_limit_ns
    }

    /// Returns the rate of a stream.
    ///
    /// # Panics
    /// If there is no such stream.
    #[must_use]
    pub fn rate(&self, stream: usize) -> Rate {
        self.rates[stream]
    }

    /// Returns the number of frames of a stream, or of a stream without a pace the most that it may
    /// send.
    ///
    /// # Panics
    /// If there is no such stream.
    #[must_use]
    pub fn frames_max(&self, stream: usize) -> u64 {
        match self.rates[stream] {
            Rate::Paced(pace) => pace.due_before(self.duration_ns),
            Rate::Unlimited => {
                let per_trial = self.duration_ns.div_ceil(1_000_000) * UNLIMITED_PER_MS;
                per_trial.min(FRAMES_MAX)
            }
            Rate::Silent => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> TrialOrder {
        TrialOrder {
            id: 9,
            duration_ns: 1_000_000_000,
            rates: vec![Some(1000.0), None, Some(0.0)],
            settle_ns: 0,
            late_limit_ns: 1_000_000,
        }
    }

    /// One change to the order and the field that the refusal must name.
    type Case = (fn(&mut TrialOrder), &'static str);

    #[test]
    fn every_refusal_names_its_field() {
        let ports = [0, 1, 1];
        let trial = Trial::new(&order(), 3, &ports).unwrap();
        assert_eq!(
            [0, 1, 2].map(|stream| trial.frames_max(stream)),
            [1000, 20_000_000, 0]
        );
        let cases: [Case; 9] = [
            (|o| o.duration_ns = 0, "duration_ns"),
            (|o| o.settle_ns = 60_000_000_001, "settle_ns"),
            (|o| o.late_limit_ns = 99_999, "late_limit_ns"),
            (|o| o.rates.truncate(2), "rates"),
            (|o| o.rates[2] = Some(5.0), "rates"),
            (|o| o.rates[0] = Some(-1.0), "rates[0]"),
            (|o| o.rates[0] = Some(f64::NAN), "rates[0]"),
            (|o| o.rates[2] = Some(1.1e9), "rates[2]"),
            (
                |o| (o.rates[0], o.duration_ns) = (Some(1e9), 1_000_000_001),
                "rates[0]",
            ),
        ];
        for (change, field) in cases {
            let mut order = order();
            change(&mut order);
            assert_eq!(Trial::new(&order, 3, &ports).unwrap_err().field, field);
        }
    }
}
