//! Destinations by their configuration.
use std::path::Path;
use std::sync::Arc;

use hakaru_contract::files::FilesDestination;

use super::directory::Directory;
use super::root::Root;
use super::smb::{Settings, Share};
use crate::failure::Failure;

/// Opens a destination. With `create`, it is created unless it exists. One read or write of a file
/// server has at most `block_bytes`.
///
/// # Errors
/// The configuration is invalid, the destination is not accessible, or its server cannot be
/// reached.
pub fn open(
    destination: &FilesDestination,
    create: bool,
    block_bytes: u32,
) -> Result<Arc<dyn Root>, Failure> {
    Ok(match destination {
        FilesDestination::Directory { path } => Arc::new(Directory::open(Path::new(path), create)?),
        FilesDestination::Smb(smb) => {
            Arc::new(Share::open(Settings::new(smb, block_bytes)?, create)?)
        }
    })
}
