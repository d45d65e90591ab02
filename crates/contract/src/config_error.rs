//! Error of an invalid configuration.

/// A refused configuration: the field, the problem and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// Path of the field, as `vms[3].pattern.sizes[0].bytes`.
    pub field: String,
    /// The value and the bound that it violates.
    pub problem: String,
    /// How to correct the field.
    pub hint: String,
}

/// Returns the error for `field`.
///
/// # Errors
/// Always returns the error.
pub fn refuse<T>(
    field: impl Into<String>,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> Result<T, ConfigError> {
    Err(ConfigError {
        field: field.into(),
        problem: problem.into(),
        hint: hint.into(),
    })
}
