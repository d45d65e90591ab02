//! Invariants of a pool after any crash.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use hakaru_pool::disk::{Disk, MemoryDisk};
use hakaru_pool::{Failure, PoolConfig};

use super::oracle::{BLOCK, Model, Value};
use super::{Disks, Driver, PAGE, Planted};

/// Names of the groups. The disk of group `n` has index `n + 1`; disk 0 holds the metadata.
pub const GROUPS: [&str; 3] = ["g0", "g1", "g2"];

static ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// Contents of every volume.
pub type Content = BTreeMap<String, Vec<Value>>;

/// Builds the disks of a pool, the metadata first.
pub fn disks(all: impl IntoIterator<Item = Arc<dyn Disk>>) -> Disks {
    let mut all = all.into_iter();
    Disks {
        metadata: all.next().unwrap(),
        groups: GROUPS.iter().map(|name| (*name).into()).zip(all).collect(),
    }
}

pub fn of_memory(images: &[MemoryDisk]) -> Disks {
    disks(
        images
            .iter()
            .map(|image| Arc::new(image.clone()) as Arc<dyn Disk>),
    )
}

/// Opens the disks after a crash and reads everything twice. `Err` describes the first violation.
pub fn recover(disks: Disks, model: &Model) -> Result<(Driver, Content), String> {
    recover_planted(disks, model, Planted::default())
}

pub fn recover_planted(
    disks: Disks,
    model: &Model,
    planted: Planted,
) -> Result<(Driver, Content), String> {
    let mut driver = Driver::open_planted(PoolConfig::default(), disks, planted)
        .map_err(|error| format!("refused: {error}"))?;
    let content = read_all(&mut driver, model)?;
    if content != read_all(&mut driver, model)? {
        return Err("two reads returned different data".into());
    }
    Ok((driver, content))
}

/// Fills a recovered pool and opens it once more. The data read at first must be unchanged.
pub fn use_up(mut driver: Driver, model: &Model, content: &Content) -> Result<(), String> {
    fill(&mut driver)?;
    if *content != read_all(&mut driver, model)? {
        return Err("writes to other volumes changed it".into());
    }
    driver.flush().map_err(|error| error.to_string())?;
    let disks = driver.disks.clone();
    drop(driver);
    let (_, again) = recover(disks, model)?;
    if *content != again {
        return Err("the second opening returned different data".into());
    }
    Ok(())
}

/// Checks that all required volumes exist, that no unknown volume exists, and that all contents are
/// valid.
fn read_all(driver: &mut Driver, model: &Model) -> Result<Content, String> {
    let findings = driver.pool.check();
    if !findings.is_empty() {
        return Err(format!("the check reports {findings:?}"));
    }
    let volumes: Vec<_> = driver
        .pool
        .volumes()
        .filter(|volume| volume.name != "probe")
        .collect();
    for (name, volume) in &model.volumes {
        if volume.is_durable
            && !volume.is_deleting
            && !volumes.iter().any(|existing| existing.name == *name)
        {
            return Err(format!("volume {name} is missing"));
        }
    }
    let mut content = Content::new();
    for volume in volumes {
        if !model.volumes.contains_key(&volume.name) {
            return Err(format!("volume {} should not exist", volume.name));
        }
        let data = driver
            .read(volume.id, 0, volume.size_bytes as usize)
            .map_err(|error| error.to_string())?;
        content.insert(volume.name.clone(), model.check(&volume.name, &data)?);
    }
    Ok(content)
}

/// Allocates all remaining pages and writes one block to each. The rest of each page must read as
/// zeros, and no page may be missing.
pub fn fill(driver: &mut Driver) -> Result<(), String> {
    let capacity = driver.pool.status().capacity_bytes / PAGE;
    let used = driver.pool.status().used_bytes / PAGE;
    let probe = driver
        .create_volume("probe", (capacity + 1) * PAGE, None)
        .map_err(|error| error.to_string())?;
    let mut allocated = 0;
    loop {
        match driver.write(probe, allocated * PAGE + PAGE / 2, &[0xFF; BLOCK], false) {
            Ok(()) => {
                let page = driver
                    .read(probe, allocated * PAGE, PAGE as usize)
                    .map_err(|error| error.to_string())?;
                let written = PAGE as usize / 2..PAGE as usize / 2 + BLOCK;
                if let Some(at) =
                    (0..PAGE as usize).find(|at| !written.contains(at) && page[*at] != 0)
                {
                    return Err(format!("byte {at} of an allocated page is {}", page[at]));
                }
                allocated += 1;
            }
            Err(Failure::Full) if allocated + used == capacity => return Ok(()),
            Err(error) => {
                return Err(format!(
                    "{error} after {allocated} pages; {used} of {capacity} were used"
                ));
            }
        }
    }
}
