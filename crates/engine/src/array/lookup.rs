//! Pools and volumes that an operator's order names, found or refused.
use hakaru_pool::{Failure as Refusal, VolumeId};

use super::pools;
use super::storage::Storage;
use crate::failure::Failure;

/// A volume by its names.
pub struct VolumePath {
    pub pool: String,
    pub volume: String,
}

impl VolumePath {
    /// Returns the volume as refusals name it.
    pub fn object(&self) -> String {
        volume_object(&self.volume)
    }
}

/// Returns a volume of this name as refusals name it.
pub fn volume_object(name: &str) -> String {
    format!("volume {name:?}")
}

/// Checks that a new size is a whole number of blocks of every LU of the volume.
///
/// # Errors
/// It is not; the failure names the LU.
pub fn check_blocks(
    storage: &Storage,
    pool: usize,
    volume: VolumeId,
    size_bytes: u64,
) -> Result<(), Failure> {
    for lun in storage.core.luns_of(pool, volume) {
        let block = storage.core.lu(lun).map_or(512, |lu| lu.block_bytes);
        if !size_bytes.is_multiple_of(u64::from(block)) {
            return Err(Failure::usage(
                format_args!("{size_bytes} bytes is not a whole number of LUN {lun}'s blocks"),
                format_args!("give a multiple of {block}"),
            ));
        }
    }
    Ok(())
}

/// Returns the number of a pool.
///
/// # Errors
/// The array has no pool of this name; the failure lists its pools.
pub fn pool_named(storage: &Storage, name: &str) -> Result<usize, Failure> {
    storage.core.pool_named(name).ok_or_else(|| {
        let names: Vec<&str> = storage.core.pools().iter().map(|p| p.name()).collect();
        Failure::usage(
            format_args!("there is no pool {name:?}"),
            format_args!("pools of this array: {}", names.join(", ")),
        )
    })
}

/// Returns the number of a volume's pool, and the volume.
///
/// # Errors
/// There is no such pool, or no such volume in it.
pub fn volume_named(storage: &Storage, path: &VolumePath) -> Result<(usize, VolumeId), Failure> {
    let number = pool_named(storage, &path.pool)?;
    match storage.core.pools()[number].volume_named(&path.volume) {
        Some(volume) => Ok((number, volume)),
        None => Err(pools::refused(
            &path.pool,
            &path.object(),
            Refusal::NoVolume,
        )),
    }
}
