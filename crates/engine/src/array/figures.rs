//! Figures of pools, volumes and LUs, as `ready` and `status` report them.
use hakaru_pool::VolumeId;
use hakaru_store::Store;
use serde_json::{Value, json};

use super::storage::{Lu, Storage};

/// Returns the figures of a pool, its groups and its volumes.
pub fn pool_figures(storage: &Storage, number: usize) -> Value {
    let pool = &storage.core.pools()[number];
    let core = pool.core();
    let status = core.status();
    let groups: Vec<Value> = core
        .groups()
        .map(|group| {
            json!({
                "name": group.name,
                "size_bytes": group.size_bytes,
                "capacity_bytes": group.capacity_bytes,
                "used_bytes": group.used_bytes,
                "free_bytes": group.free_bytes,
            })
        })
        .collect();
    let volumes: Vec<Value> = core
        .volumes()
        .map(|volume| volume_figures(storage, number, volume.id))
        .collect();
    json!({
        "name": pool.name(),
        "page_bytes": status.page_bytes,
        "capacity_bytes": status.capacity_bytes,
        "used_bytes": status.used_bytes,
        "free_bytes": status.free_bytes,
        "freeing_bytes": status.freeing_bytes,
        "lost_bytes": status.lost_bytes,
        "provisioned_bytes": status.provisioned_bytes,
        "overcommit": status.overcommit,
        "threshold_bytes": status.threshold_bytes,
        "generation": status.generation,
        "read_only": status.read_only,
        "metadata_is_low": status.metadata_is_low,
        "groups": groups,
        "volumes": volumes,
    })
}

/// Returns the figures of a volume, and the LUNs under which it is served.
pub fn volume_figures(storage: &Storage, number: usize, volume: VolumeId) -> Value {
    let core = storage.core.pools()[number].core();
    let luns: Vec<u8> = storage.core.luns_of(number, volume).collect();
    let Some(status) = core.volume(volume) else {
        return Value::Null;
    };
    let origin = status.origin.and_then(|origin| core.volume(origin));
    json!({
        "name": status.name,
        "size_bytes": status.size_bytes,
        "quota_bytes": status.quota_bytes,
        "mapped_bytes": status.mapped_bytes,
        "exclusive_bytes": core.exclusive_bytes(volume),
        "read_only": status.read_only,
        "origin": origin.map(|origin| origin.name),
        "luns": luns,
    })
}

/// Returns the figures of all pools.
pub fn pools_figures(storage: &Storage) -> Vec<Value> {
    let numbers = 0..storage.core.pools().len();
    numbers
        .map(|number| pool_figures(storage, number))
        .collect()
}

/// Returns the figures of all LUs.
pub fn lus_figures(storage: &Storage) -> Vec<Value> {
    let lus = storage.core.lus();
    lus.map(|(lun, lu)| lu_figures(storage, lun, lu)).collect()
}

fn lu_figures(storage: &Storage, lun: u8, lu: &Lu) -> Value {
    let (kind, pool, volume) = match &lu.store {
        Store::Memory(_) => ("memory", None, None),
        Store::File(_) | Store::Parts(_) => ("file", None, None),
        // Each cartridge is a volume of its own, listed with its pool.
        Store::Volumes(parts) => {
            let pool = &storage.core.pools()[parts.pool()];
            ("thin", Some(pool.name()), None)
        }
        Store::Thin { pool, volume } => {
            let pool = &storage.core.pools()[*pool];
            let volume = pool.core().volume(*volume).map(|volume| volume.name);
            ("thin", Some(pool.name()), volume)
        }
    };
    json!({
        "lun": lun,
        "size_bytes": lu.size_bytes,
        "block_bytes": lu.block_bytes,
        "kind": kind,
        "pool": pool,
        "volume": volume,
    })
}
