//! An invalid value of a configuration, and checks shared by all parts of it.
use std::collections::BTreeSet;

use thiserror::Error;

/// An invalid value: its place, the problem, and the valid values.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}; {bounds}")]
pub struct ConfigError {
    /// Path in the configuration.
    pub place: String,
    /// The problem.
    pub problem: String,
    /// Valid values.
    pub bounds: String,
}

/// Checks that a value is within its bounds; NaN never is.
pub(super) fn within(place: &str, value: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(error(
        place,
        format!("it is {value}"),
        &format!("{low} to {high}"),
    ))
}

/// Checks that a name is new, and adds it to `names`.
pub(super) fn unique(
    names: &mut BTreeSet<String>,
    place: &str,
    name: &str,
) -> Result<(), ConfigError> {
    if names.insert(name.to_owned()) {
        return Ok(());
    }
    Err(error(
        place,
        format!("the name {name:?} is used twice"),
        "names must be unique",
    ))
}

pub(super) fn error(place: &str, problem: String, bounds: &str) -> ConfigError {
    ConfigError {
        place: place.to_owned(),
        problem,
        bounds: bounds.to_owned(),
    }
}
