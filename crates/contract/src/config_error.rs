//! The refusal of a configuration.

/// A configuration that is refused: the field, the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct ConfigError {
    /// Path of the field, as `vms[3].pattern.sizes[0].bytes`.
    pub field: String,
    /// The value and the bound that it breaks.
    pub what: String,
    /// How to correct it.
    pub hint: String,
}

/// Refuses `field`.
///
/// # Errors
/// Always.
pub fn refuse<T>(
    field: impl Into<String>,
    what: impl Into<String>,
    hint: impl Into<String>,
) -> Result<T, ConfigError> {
    Err(ConfigError {
        field: field.into(),
        what: what.into(),
        hint: hint.into(),
    })
}
