//! A checked mix of operations of users, and the times between them.
use std::collections::HashSet;

use hakaru_contract::files::{FilesMix, UserOperation};
use hakaru_contract::{ConfigError, refuse};

/// Weighted operations of users.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    /// Upper bound of each operation's share, and the operation.
    shares: Vec<(f64, UserOperation)>,
    pub(crate) pace: Pace,
}

/// Rule for the begin of a user's next operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// After a think time with this mean.
    Think { mean_ns: f64 },
    /// At instants of equal distance, which differ from user to user.
    Rate { interval_ns: f64, users: u32 },
}

impl Mix {
    /// Checks a mix for a number of users.
    pub(crate) fn new(config: &FilesMix, users: u32) -> Result<Mix, ConfigError> {
        let sum: f64 = config.operations.iter().map(|each| each.weight).sum();
        let is_weight = |weight: f64| weight.is_finite() && weight > 0.0;
        if !is_weight(sum) || config.operations.iter().any(|each| !is_weight(each.weight)) {
            let hint = "use one operation or more, with finite weights above 0";
            return refuse("mix.operations", format!("{:?}", config.operations), hint);
        }
        let mut seen = HashSet::new();
        if let Some(twice) = config
            .operations
            .iter()
            .find(|each| !seen.insert(each.operation))
        {
            let problem = format!("{:?} occurs twice", twice.operation);
            return refuse("mix.operations", problem, "use each operation once");
        }
        if !(0.0..=3_600_000.0).contains(&config.think_ms) {
            let problem = config.think_ms.to_string();
            return refuse("mix.think_ms", problem, "use 0 to 3600000");
        }
        let pace = match config.rate_per_s {
            Some(rate) if !(rate > 0.0 && rate <= 1e6) => {
                return refuse("mix.rate_per_s", rate.to_string(), "use above 0 to 1000000");
            }
            Some(_) if config.think_ms > 0.0 => {
                let problem = "users that think have no rate".to_owned();
                return refuse("mix.rate_per_s", problem, "set either it or `think_ms`");
            }
            Some(rate) => Pace::Rate {
                interval_ns: f64::from(users) * 1e9 / rate,
                users,
            },
            None => Pace::Think {
                mean_ns: config.think_ms * 1e6,
            },
        };
        let mut through = 0.0;
        let shares = config.operations.iter().map(|each| {
            through += each.weight / sum;
            (through, each.operation)
        });
        Ok(Mix {
            shares: shares.collect(),
            pace,
        })
    }

    /// Returns the operation at a place between 0 and 1.
    pub(crate) fn operation(&self, place: f64) -> UserOperation {
        let index = self.shares.partition_point(|(through, _)| *through < place);
        // The last bound may be rounded to less than 1.
        self.shares[index.min(self.shares.len() - 1)].1
    }
}
