//! The check of a number in the configuration against its bounds.
use crate::failure::Failure;

/// Checks that a value is within its bounds.
///
/// # Errors
/// It is not. The message names the field, its value and its bounds.
pub fn bound(field: &str, value: u64, low: u64, high: u64) -> Result<(), Failure> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let message = format!("{field} is {value}; it must be {low} to {high}");
    Err(Failure::usage(message, "correct the configuration"))
}
