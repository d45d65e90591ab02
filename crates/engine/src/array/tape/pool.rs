//! The cartridges in a pool, each a volume of it, and the slots that they are in.
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};

use hakaru_contract::TapeLibraryConfig;
use hakaru_pool::{Request, VolumeId};
use hakaru_runtime::Reactor;
use hakaru_tape::{Damage, Header, Medium, ReadError, Recovered};

use super::config::{barcode_of, taken_bytes, volume_name};
use super::slots::{self, Wanted};
use super::stored::{self, Stored, complete, has_no_cartridge};
use super::volume::CartridgeVolume;
use crate::array::pools;
use crate::array::storage::Storage;
use crate::failure::Failure;

/// A cartridge of the library.
pub struct Placed {
    /// Slot, from 1.
    pub slot: u16,
    /// Its volume.
    pub volume: VolumeId,
    /// Its contents.
    pub recovered: Recovered,
}

/// Opens the cartridges that the configuration names, and creates those that do not exist. Opens
/// every other one in the pool, for the first free slots. Returns the number of the pool as well.
///
/// # Errors
/// The pool has more cartridges than the library has slots, or no space for a new one; a cartridge
/// is damaged.
pub fn open(
    name: &str,
    config: &TapeLibraryConfig,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<(usize, Vec<Placed>), Failure> {
    let pool = pools::number_of(storage, name);
    let found = list(storage, pool);
    let place = format!("pool {name:?}");
    let wanted = slots::assign(config, &found, &place, "delete volumes of cartridges")?;
    let opened = wanted
        .iter()
        .map(|cartridge| open_one(pool, config, cartridge, storage, reactor));
    let opened: Result<Vec<_>, _> = opened.collect();
    Ok((pool, opened?))
}

/// Returns the barcodes of the cartridges in a pool, ascending.
fn list(storage: &Storage, pool: usize) -> BTreeSet<String> {
    let volumes = storage.core.pools()[pool].core().volumes();
    volumes
        .filter_map(|volume| barcode_of(&volume.name).map(str::to_owned))
        .collect()
}

/// Returns the volume of a cartridge.
pub fn volume_of(storage: &Storage, pool: usize, barcode: &str) -> Option<VolumeId> {
    storage.core.pools()[pool].volume_named(&volume_name(barcode))
}

/// Creates the volume of a cartridge, whose last page is a whole one.
///
/// # Errors
/// The pool refuses it.
pub fn create_volume(
    pool: usize,
    new: &Header,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<VolumeId, Failure> {
    let name = volume_name(&new.barcode);
    let page_bytes = u64::from(storage.core.pools()[pool].core().page_bytes());
    let request = Request::Create {
        name: name.clone(),
        size_bytes: new.total_bytes().next_multiple_of(page_bytes),
        quota_bytes: None,
    };
    pools::carry_out(pool, request, &format!("volume {name:?}"), storage, reactor)?;
    Ok(volume_of(storage, pool, &new.barcode).expect("the volume exists now"))
}

fn open_one(
    pool: usize,
    config: &TapeLibraryConfig,
    wanted: &Wanted<'_>,
    storage: &mut Storage,
    reactor: &Reactor,
) -> Result<Placed, Failure> {
    let new = wanted.declared.header(wanted.barcode, taken_bytes(config));
    let volume = match volume_of(storage, pool, wanted.barcode) {
        Some(volume) => volume,
        None => create_volume(pool, &new, storage, reactor)?,
    };
    let name = storage.core.pools()[pool].name().to_owned();
    let status = storage.core.pools()[pool].core().volume(volume);
    let is_snapshot = status.is_some_and(|status| status.read_only);
    let bytes = CartridgeVolume::attach(pool, volume, config.lun, storage, reactor);
    let fail = |error| failure(&name, wanted.barcode, ReadError::Io(error));
    if !is_snapshot && has_no_cartridge(&bytes, &new).map_err(fail)? {
        complete(&bytes, &new, &Medium::default()).map_err(fail)?;
    }
    let damaged = |error| failure(&name, wanted.barcode, error);
    let mut recovered = read(&bytes).map_err(damaged)?;
    check_barcode(&recovered, &name, wanted.barcode)?;
    if is_snapshot {
        recovered.header.write_protected = true;
    } else {
        let header = wanted.declared.applied(&recovered.header)?;
        stored::set_header(&bytes, &mut recovered, header).map_err(fail)?;
        // Blocks that a crash has left behind the end of data.
        let end = recovered.header.data_bytes() + recovered.medium.used_bytes();
        bytes.give_back(end).map_err(fail)?;
    }
    Ok(Placed {
        slot: wanted.slot,
        volume,
        recovered,
    })
}

/// Reads a cartridge, and checks that the volume has room for all that may be written.
pub fn read(bytes: &CartridgeVolume<'_>) -> Result<Recovered, ReadError> {
    let recovered = stored::read(bytes)?;
    let needed = recovered.header.total_bytes();
    if bytes.length_bytes().map_err(ReadError::Io)? < needed {
        return Err(ReadError::Damaged(Damage {
            fault: "its end is missing",
            offset_bytes: needed,
        }));
    }
    Ok(recovered)
}

/// Checks that a cartridge has the barcode in the name of its volume.
fn check_barcode(recovered: &Recovered, pool: &str, barcode: &str) -> Result<(), Failure> {
    let actual = &recovered.header.barcode;
    if actual == barcode {
        return Ok(());
    }
    let volume = volume_name(barcode);
    let message = format!("the volume {volume} of pool {pool:?} is the cartridge {actual}");
    let hint = "give copies of cartridges names that do not begin with `tape-`";
    Err(Failure::usage(message, hint))
}

/// Returns the failure of an operation on a cartridge in a pool.
pub fn failure(pool: &str, barcode: &str, error: ReadError) -> Failure {
    let cause: (String, &str) = match error {
        ReadError::Io(error) => (error.to_string(), hint_of(&error)),
        ReadError::Damaged(damage) => (
            damage.to_string(),
            "nothing was changed; restore the volume from a snapshot, or delete it",
        ),
    };
    let message = format!(
        "cannot use the cartridge {barcode} in pool {pool:?}: {}",
        cause.0
    );
    Failure::environment(message, cause.1)
}

fn hint_of(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull => "grow the pool, or free space in it",
        _ => "see the previous errors and dmesg",
    }
}
