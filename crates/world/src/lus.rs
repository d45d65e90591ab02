//! The LUs of a world: validates and opens them, and describes them to the target.
use hakaru_contract::drive::ArrayModel;
use hakaru_drive::{Array, ModelError};
use hakaru_scsi_device::LuDescription;
use hakaru_store::{Lu, MemoryStore, Place, Storage, Store};

use crate::config::{LuSetup, WorldConfig};
use crate::memory::WorldMemory;

/// Opens the storage with every LU of the configuration.
///
/// # Errors
/// The model has an impossible parameter.
pub(crate) fn open(config: &WorldConfig) -> Result<Storage<WorldMemory>, ModelError> {
    let model = config.model.as_ref();
    let model = model.map(|model| Array::new(model, config.seed));
    let mut storage = Storage::new(model.transpose()?);
    for lu in &config.lus {
        let memory = WorldMemory::new(lu.size_bytes, config.verify_run.is_some());
        let opened = Lu {
            store: Store::Memory(MemoryStore::new(memory)),
            size_bytes: lu.size_bytes,
            block_bytes: lu.block_bytes,
            place: Place {
                group: lu.group,
                offset_bytes: lu.group_offset_bytes,
            },
            identity: None,
            unmaps: 0,
        };
        storage.attach(lu.lun, opened);
    }
    Ok(storage)
}

/// Returns the first LU that exceeds the group it is placed on.
pub(crate) fn misplaced(lus: &[LuSetup], model: &Array) -> Option<LuSetup> {
    let fits = |lu: &&LuSetup| {
        let end = lu.group_offset_bytes.checked_add(lu.size_bytes);
        let capacity = model.group_capacity_bytes(lu.group);
        end.zip(capacity)
            .is_some_and(|(end, capacity)| end <= capacity)
    };
    lus.iter().find(|lu| !fits(lu)).copied()
}

/// Returns the LUs as SCSI reports them.
pub(crate) fn descriptions(config: &WorldConfig) -> Vec<LuDescription> {
    let model = config.model.as_ref();
    let write_cache = model.is_some_and(ArrayModel::has_volatile_write_cache);
    let describe = |lu: &LuSetup| LuDescription {
        block_bytes: lu.block_bytes,
        write_cache,
        ..LuDescription::new(lu.lun, lu.size_bytes)
    };
    config.lus.iter().map(describe).collect()
}
