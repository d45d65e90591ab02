//! The tape library of an array: the LUs of its changer and drives, and the store of its
//! cartridges, which is that of the changer's LU.
use hakaru_contract::{TapeGeneration, TapeLibraryConfig};
use hakaru_iscsi_target::{LuDescription, TapeLibrary};
use hakaru_runtime::memory::SparseMemory;
use hakaru_store::{MemoryStore, Place, Store};
use hakaru_tape::{Generation, LibraryConfig, Placed};

use super::storage::{Lu, LuMemory, Storage};
use crate::failure::{Failure, OrEnvironment};

/// Block length of the store, bytes.
const BLOCK_BYTES: u32 = 512;

/// Opens the store of the cartridges. Returns the SCSI descriptions of changer and drives.
///
/// # Errors
/// The memory is not available.
pub fn open(
    config: &TapeLibraryConfig,
    storage: &mut Storage,
) -> Result<Vec<LuDescription>, Failure> {
    let changer = LuDescription::changer(config.lun, describe(config));
    let size_bytes = changer.size_bytes;
    let memory = SparseMemory::new(size_bytes).or_environment(
        format_args!("reserve {size_bytes} bytes of memory for the cartridges"),
        "set `sysctl vm.overcommit_memory=0`, or reduce capacity_bytes or the number of cartridges",
    )?;
    storage.core.attach(
        config.lun,
        Lu {
            store: Store::Memory(MemoryStore::new(LuMemory(memory))),
            size_bytes,
            block_bytes: BLOCK_BYTES,
            place: Place::default(),
            identity: None,
            unmaps: 0,
        },
    );
    let drives = config.drives.iter();
    let drives = drives.map(|drive| LuDescription::tape_drive(drive.lun));
    Ok(std::iter::once(changer).chain(drives).collect())
}

fn describe(config: &TapeLibraryConfig) -> TapeLibrary {
    TapeLibrary {
        library: LibraryConfig {
            drives: config
                .drives
                .iter()
                .map(|drive| match drive.generation {
                    TapeGeneration::Lto3 => Generation::Lto3,
                    TapeGeneration::Lto4 => Generation::Lto4,
                    TapeGeneration::Lto5 => Generation::Lto5,
                    TapeGeneration::Lto6 => Generation::Lto6,
                })
                .collect(),
            slots: config.slots,
            import_export: config.import_export,
            cartridges: config
                .cartridges
                .iter()
                .map(|cartridge| Placed {
                    barcode: cartridge.barcode.clone(),
                    slot: cartridge.slot,
                    write_protected: cartridge.write_protected,
                })
                .collect(),
            capacity_bytes: config.capacity_bytes,
            early_warning_bytes: config.early_warning_bytes,
        },
        drive_luns: config.drives.iter().map(|drive| drive.lun).collect(),
    }
}
