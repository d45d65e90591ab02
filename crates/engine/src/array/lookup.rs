//! Lookup of the pools and volumes that an order of the operator names.
use hakaru_pool::{Failure as Refusal, VolumeId};

use super::pools;
use super::storage::Storage;
use crate::failure::Failure;

/// Names that identify a volume.
pub struct VolumePath {
    pub pool: String,
    pub volume: String,
}

impl VolumePath {
    /// Returns the description of the volume for refusals.
    pub fn object(&self) -> String {
        volume_object(&self.volume)
    }
}

/// Returns the description of the volume `name` for refusals.
pub fn volume_object(name: &str) -> String {
    format!("volume {name:?}")
}

/// Checks that a volume, which need not exist, is no cartridge of the tape library.
///
/// # Errors
/// It is one.
pub fn check_no_part(storage: &Storage, pool: usize, name: &str) -> Result<(), Failure> {
    let volume = storage.core.pools()[pool].volume_named(name);
    if volume.is_some_and(|volume| storage.core.is_part(pool, volume)) {
        return Err(Failure::usage(
            format_args!("volume {name:?} is a cartridge of the tape library"),
            "choose another volume, or change it while the array has no tape library",
        ));
    }
    Ok(())
}

/// Checks that a new size is a whole number of blocks of every LU of the volume.
///
/// # Errors
/// The size is not a multiple of the block size of an LU, which the failure names.
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
                format_args!("{size_bytes} bytes is not a whole number of blocks of LUN {lun}"),
                format_args!("use a multiple of {block}"),
            ));
        }
    }
    Ok(())
}

/// Returns the number of a pool.
///
/// # Errors
/// The array has no pool of this name. The failure lists its pools.
pub fn pool_named(storage: &Storage, name: &str) -> Result<usize, Failure> {
    storage.core.pool_named(name).ok_or_else(|| {
        let names: Vec<&str> = storage.core.pools().iter().map(|p| p.name()).collect();
        Failure::usage(
            format_args!("there is no pool {name:?}"),
            format_args!("pools of this array: {}", names.join(", ")),
        )
    })
}

/// Returns the number of a volume's pool, and the identifier of the volume.
///
/// # Errors
/// The pool or the volume does not exist.
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
