//! `hakaru-engine check`: checks a pool that is not in use.
use std::path::Path;

use serde_json::{Value, json};

use super::{pools, storage};
use crate::failure::Failure;

/// Checks the pool in a directory without changing it. Returns figures and findings as JSON, and
/// whether the pool is sound, that is, without findings.
///
/// # Errors
/// The directory contains no pool, or the pool is in use or too damaged to be checked.
pub fn check_pool(directory: &Path) -> Result<(Value, bool), Failure> {
    let checked = storage::check(directory).map_err(|e| pools::failure(&e))?;
    let findings: Vec<Value> = checked
        .findings
        .iter()
        .map(|finding| {
            json!({
                "object": finding.object.to_string(),
                "fault": finding.fault.to_string(),
            })
        })
        .collect();
    let sound = findings.is_empty();
    let report = json!({
        "directory": directory,
        "generation": checked.generation,
        "volumes": checked.volumes,
        "mapped_pages": checked.entries,
        "findings": findings,
    });
    Ok((report, sound))
}
