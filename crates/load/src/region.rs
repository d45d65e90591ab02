//! The extent of a VM's region, checked against the volume once its size is known.
use hakaru_contract::initiator::{Pattern, Region};
use hakaru_contract::{ConfigError, refuse};
use hakaru_iscsi_session::Volume;

use crate::pattern::Extent;

/// Returns the extent of `region` on `volume`, for requests of `pattern`. `field` is the VM's path
/// in the configuration.
///
/// # Errors
/// The region reaches beyond the volume or is smaller than a request, or an offset or length is not
/// a multiple of the block size.
pub fn resolve_region(
    field: &str,
    region: &Region,
    pattern: &Pattern,
    volume: &Volume,
) -> Result<Extent, ConfigError> {
    let extent = extent_of(field, region, volume)?;
    let block = u64::from(volume.block_bytes);
    for (i, size) in pattern.sizes.iter().enumerate() {
        let field = format!("{field}.pattern.sizes[{i}].bytes");
        check_size(field, size.bytes.into(), block, extent.length_bytes)?;
    }
    if let Some(align) = pattern.align_bytes {
        check_multiple(format!("{field}.pattern.align_bytes"), align.into(), block)?;
    }
    Ok(extent)
}

/// Returns the extent of `region`. A length of 0 reaches to the end of the volume.
fn extent_of(field: &str, region: &Region, volume: &Volume) -> Result<Extent, ConfigError> {
    let block = u64::from(volume.block_bytes);
    let capacity = volume.capacity_bytes;
    let available = capacity.saturating_sub(region.offset_bytes);
    let length_bytes = if region.length_bytes == 0 {
        available / block * block
    } else {
        region.length_bytes
    };
    let field = format!("{field}.region");
    if length_bytes > available || length_bytes == 0 {
        let problem = format!("reaches beyond the volume, which has {capacity} bytes");
        return refuse(field, problem, "shrink the region or enlarge the volume");
    }
    if !region.offset_bytes.is_multiple_of(block) || !length_bytes.is_multiple_of(block) {
        let problem = format!("is not a multiple of the volume's block, {block} bytes");
        let hint = format!("use multiples of {block} for offset and length");
        return refuse(field, problem, hint);
    }
    Ok(Extent {
        offset_bytes: region.offset_bytes,
        length_bytes,
    })
}

fn check_size(field: String, bytes: u64, block: u64, region_bytes: u64) -> Result<(), ConfigError> {
    check_multiple(field.clone(), bytes, block)?;
    if bytes > region_bytes {
        let problem = format!("{bytes} does not fit the region of {region_bytes} bytes");
        return refuse(field, problem, "enlarge the region");
    }
    Ok(())
}

fn check_multiple(field: String, bytes: u64, block: u64) -> Result<(), ConfigError> {
    if bytes.is_multiple_of(block) {
        return Ok(());
    }
    let problem = format!("{bytes} is not a multiple of the volume's block, {block} bytes");
    refuse(field, problem, format!("use a multiple of {block}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_contract::initiator::SizeWeight;

    fn pattern() -> Pattern {
        Pattern {
            sizes: vec![SizeWeight {
                bytes: 4096,
                weight: 1,
            }],
            read_percent: 70,
            random_percent: 100,
            align_bytes: None,
        }
    }

    #[test]
    fn region_of_length_zero_reaches_to_the_end_of_the_volume() {
        let region = Region {
            offset_bytes: 4096,
            length_bytes: 0,
        };
        let volume = Volume {
            block_bytes: 512,
            capacity_bytes: 1 << 20,
        };
        let extent = resolve_region("vms[0]", &region, &pattern(), &volume).unwrap();
        assert_eq!(
            extent,
            Extent {
                offset_bytes: 4096,
                length_bytes: (1 << 20) - 4096
            }
        );
    }

    #[test]
    fn region_that_the_volume_cannot_hold_is_refused() {
        let resolve = |offset_bytes, length_bytes, block_bytes, capacity_bytes| {
            let volume = Volume {
                block_bytes,
                capacity_bytes,
            };
            let region = Region {
                offset_bytes,
                length_bytes,
            };
            resolve_region("vms[0]", &region, &pattern(), &volume).map_err(|e| e.field)
        };
        assert_eq!(
            resolve(0, 2 << 20, 512, 1 << 20),
            Err("vms[0].region".into())
        );
        assert_eq!(
            resolve(u64::MAX - 511, 1 << 20, 512, 1 << 20),
            Err("vms[0].region".into())
        );
        assert_eq!(
            resolve(1 << 20, 0, 512, 1 << 20),
            Err("vms[0].region".into())
        );
        assert_eq!(
            resolve(512, 8192, 4096, 1 << 20),
            Err("vms[0].region".into())
        );
        assert_eq!(
            resolve(0, 2048, 512, 1 << 20),
            Err("vms[0].pattern.sizes[0].bytes".into())
        );
        assert_eq!(
            resolve(0, 1 << 20, 8192, 1 << 20),
            Err("vms[0].pattern.sizes[0].bytes".into())
        );
    }
}
