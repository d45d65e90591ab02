//! `hakaru-engine check`: checks a pool that no array has open.
use std::path::Path;

use serde_json::{Value, json};

use super::{pools, storage};
use crate::failure::Failure;

/// Checks the pool of a directory, of which not a byte is changed: figures and findings as JSON,
/// and whether there is no finding.
///
/// # Errors
/// There is no pool, it is in use, or too damaged to be checked.
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
