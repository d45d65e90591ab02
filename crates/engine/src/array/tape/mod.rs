//! The tape library of an array: the LUs of its changer and drives, and the store of its
//! cartridges, which is that of the changer's LU.
//!
//! | file | contents |
//! |---|---|
//! | `config.rs` | checks of the configuration |
//! | `folder.rs` `pool.rs` | the cartridges in a folder or a pool |
//! | `slots.rs` `declared.rs` | the slots that these start in, and their declared properties |
//! | `generation.rs` | generations of the contract |
//! | `file.rs` `volume.rs` | a cartridge's file or volume, for blocking access |
//! | `stored.rs` | creation and reading of a cartridge on either |
//! | `blocking.rs` | accesses of the shell itself |
//! | `tap.rs` `offline.rs` | export and import, also of pools that no array uses |
mod blocking;
mod config;
mod declared;
mod file;
mod folder;
mod generation;
mod offline;
mod pool;
mod slots;
mod stored;
mod tap;
mod volume;

use std::path::Path;
use std::sync::Arc;

use hakaru_contract::TapeLibraryConfig;
use hakaru_iscsi_target::{InquiryNames, IoOp, IoResult, LuDescription, TapeLibrary, Target};
use hakaru_runtime::Reactor;
use hakaru_runtime::memory::SparseMemory;
use hakaru_store::{MemoryStore, PartStore, Place, Store, VolumeParts};
use hakaru_tape::timing::{Parameters, TimedDrive};
use hakaru_tape::{LibraryConfig, Placed, Recovered};
use serde_json::{Value, json};

pub use self::config::check;
pub use self::tap::{export, import};

use self::blocking::perform;
use self::config::ratio;
use self::generation::generation;
use self::volume::BLOCK_BYTES;
use super::storage::{Lu, LuMemory, Storage};
use crate::failure::{Failure, OrEnvironment};

/// Opens the store of the cartridges. Returns the SCSI descriptions of changer and drives.
///
/// # Errors
/// The memory, the folder or the pool is not available, a cartridge is damaged or in use, or there
/// are more cartridges than slots.
pub fn open(
    config: &TapeLibraryConfig,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<Vec<LuDescription>, Failure> {
    let mut library = describe(config);
    storage.core.set_tape_drives(timed(config)?);
    let cartridges = &mut library.library.cartridges;
    let store = match (&config.folder, &config.pool) {
        (None, None) => None,
        (Some(folder), _) => {
            let mut files = Vec::new();
            cartridges.clear();
            for cartridge in folder::open(Path::new(folder), config)? {
                files.push(storage.add_file(cartridge.file));
                cartridges.push(placed(cartridge.slot, cartridge.recovered));
            }
            let part_bytes = part_bytes(&library);
            Some(Store::Parts(PartStore::new(part_bytes, files)))
        }
        (None, Some(pool)) => {
            let (pool, opened) = pool::open(pool, config, storage, reactor)?;
            let mut volumes = Vec::new();
            cartridges.clear();
            for cartridge in opened {
                volumes.push(cartridge.volume);
                cartridges.push(placed(cartridge.slot, cartridge.recovered));
            }
            let page_bytes = storage.core.pools()[pool].core().page_bytes();
            let part_bytes = part_bytes(&library);
            let parts = VolumeParts::new(pool, page_bytes, part_bytes, volumes);
            Some(Store::Volumes(parts))
        }
    };
    let changer = LuDescription {
        names: names(&config.vendor, &config.product),
        ..LuDescription::changer(config.lun, library)
    };
    let size_bytes = changer.size_bytes;
    let store = match store {
        Some(store) => store,
        None => Store::Memory(MemoryStore::new(LuMemory(
            SparseMemory::new(size_bytes).or_environment(
                format_args!("reserve {size_bytes} bytes of memory for the cartridges"),
                "set `sysctl vm.overcommit_memory=0`, reduce capacity_bytes or the number of cartridges, or set a folder or a pool",
            )?,
        ))),
    };
    storage.core.attach(
        config.lun,
        Lu {
            store,
            size_bytes,
            block_bytes: BLOCK_BYTES,
            place: Place::default(),
            identity: None,
            unmaps: 0,
        },
    );
    let drives = config.drives.iter();
    let drives = drives.map(|drive| LuDescription {
        names: names(&drive.vendor, &drive.product),
        ..LuDescription::tape_drive(drive.lun)
    });
    Ok(std::iter::once(changer).chain(drives).collect())
}

fn names(vendor: &Option<String>, product: &Option<String>) -> InquiryNames {
    InquiryNames {
        vendor: vendor.clone(),
        product: product.clone(),
    }
}

/// Returns a cartridge that was read from its store.
fn placed(slot: u16, recovered: Recovered) -> Placed {
    let header = &recovered.header;
    Placed {
        barcode: header.barcode.clone(),
        slot,
        write_protected: header.write_protected,
        generation: header.generation,
        recovered: Some(Arc::new(recovered)),
    }
}

/// Returns the distance of the cartridges on their store. A library without any has a store as
/// well.
fn part_bytes(library: &TapeLibrary) -> u64 {
    library.library.part_bytes().max(BLOCK_BYTES.into())
}

/// Returns the times of the drives; none if their motions take no time.
fn timed(config: &TapeLibraryConfig) -> Result<Vec<TimedDrive>, Failure> {
    let Some(times) = &config.times else {
        return Ok(Vec::new());
    };
    let drives = config.drives.iter().map(|drive| {
        TimedDrive::new(Parameters {
            compression: times.compression,
            ..Parameters::of(generation(drive.generation))
        })
    });
    let drives: Result<Vec<_>, _> = drives.collect();
    drives.map_err(|error| {
        let message = format!("tape_library: times: {error}");
        Failure::usage(message, "choose a value within these bounds")
    })
}

/// Returns the parameters of the times of each drive for `ready`; empty if motions take no time.
pub fn facts(config: Option<&TapeLibraryConfig>) -> Vec<Value> {
    let timed = config.filter(|library| library.times.is_some());
    let drives = timed.into_iter().flat_map(|library| &library.drives);
    drives
        .map(|drive| {
            let parameters = Parameters::of(generation(drive.generation));
            json!({
                "lun": drive.lun,
                "generation": drive.generation,
                "rate_min_bytes_per_s": parameters.rate_min_bytes_per_s,
                "rate_max_bytes_per_s": parameters.rate_max_bytes_per_s,
                "buffer_bytes": parameters.buffer_bytes,
                "backhitch_s": parameters.backhitch_s,
            })
        })
        .collect()
}

fn describe(config: &TapeLibraryConfig) -> TapeLibrary {
    TapeLibrary {
        library: LibraryConfig {
            drives: config
                .drives
                .iter()
                .map(|drive| generation(drive.generation))
                .collect(),
            timed: config.times.is_some(),
            slots: config.slots,
            import_export: config.import_export,
            cartridges: config
                .cartridges
                .iter()
                .map(|cartridge| Placed {
                    barcode: cartridge.barcode.clone(),
                    slot: cartridge.slot,
                    write_protected: cartridge.write_protected.unwrap_or(false),
                    generation: cartridge.generation.map(generation),
                    recovered: None,
                })
                .collect(),
            capacity_bytes: config.capacity_bytes,
            early_warning_bytes: config.early_warning_bytes,
            ratio: ratio(config),
        },
        drive_luns: config.drives.iter().map(|drive| drive.lun).collect(),
    }
}

/// Makes everything that the drives have written durable. To be called when the array ends.
///
/// # Errors
/// A cartridge cannot be written.
pub fn finish(
    target: &mut Target,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<(), Failure> {
    let Some((lun, records)) = target.synchronise_tapes() else {
        return Ok(());
    };
    for record in records {
        let offset_bytes = record.offset_bytes;
        let flush = record.flush.then_some(IoOp::FlushPart { offset_bytes });
        let write = IoOp::Write {
            offset_bytes,
            data: record.bytes,
            fua: true,
        };
        for op in flush.into_iter().chain([write]) {
            if let IoResult::Failed(_) = perform(lun, op, storage, reactor)? {
                return Err(Failure::environment(
                    "a cartridge cannot be written; what was not synchronised on it is lost",
                    "free space in the folder or the pool of the cartridges, and see dmesg",
                ));
            }
        }
        record.ticket.done();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hakaru_tape::{Generation, Ratio};

    #[test]
    fn library_has_the_generations_and_the_compression_of_the_configuration() {
        let config = json!({
            "lun": 0,
            "drives": [{"lun": 1, "generation": "lto5"}, {"lun": 2, "generation": "lto6"}],
            "slots": 2,
            "cartridges": [
                {"barcode": "HAK001L4", "slot": 1, "generation": "lto4"},
                {"barcode": "HAK002L5", "slot": 2},
            ],
            "capacity_bytes": 4 << 20,
            "early_warning_bytes": 1 << 20,
            "times": {"compression": 2.5},
        });
        let config: TapeLibraryConfig = serde_json::from_value(config).unwrap();
        let TapeLibrary { library, .. } = describe(&config);
        assert_eq!(library.drives, [Generation::Lto5, Generation::Lto6]);
        let generations: Vec<Option<Generation>> = library
            .cartridges
            .iter()
            .map(|placed| placed.generation)
            .collect();
        assert_eq!(generations, [Some(Generation::Lto4), None]);
        assert_eq!((library.ratio, library.timed), (Ratio::of(2.5), true));
        // Two cartridges of 10 MiB of initiators.
        assert_eq!(library.store_bytes(), 20 << 20);
    }
}
