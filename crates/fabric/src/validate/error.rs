//! The error of an invalid configuration, and checks shared by all parts of it.
use std::collections::BTreeSet;

use thiserror::Error;

/// An invalid value in the configuration of a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}; {bounds}")]
pub struct ConfigError {
    /// Path in the configuration.
    pub place: String,
    /// Reason why the value is invalid.
    pub problem: String,
    /// Valid values, or a remedy.
    pub bounds: String,
}

/// Checks that a value is within its bounds. NaN never is.
pub(super) fn within(place: &str, value: f64, low: f64, high: f64) -> Result<(), ConfigError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(error(
        place,
        format!("the value is {value}"),
        &format!("it must be {low} to {high}"),
    ))
}

/// Checks that a name is not in `names` yet, and adds it.
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
