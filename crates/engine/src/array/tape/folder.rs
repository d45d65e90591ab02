//! The cartridges in a folder, and the slots that they are in.
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use hakaru_contract::TapeLibraryConfig;
use hakaru_tape::Recovered;

use super::config::{is_barcode, taken_bytes};
use super::file::{self, CartridgeFile};
use super::slots::{self, Wanted};
use crate::array::path_hint::path_hint;
use crate::array::storage::OpenFile;
use crate::failure::Failure;

/// End of the names of cartridges.
const SUFFIX: &str = "tape";

/// A cartridge of the library.
pub struct Placed {
    /// Slot, from 1.
    pub slot: u16,
    /// Its file.
    pub file: OpenFile,
    /// Its contents.
    pub recovered: Recovered,
}

/// Opens the cartridges that the configuration names, and creates those that do not exist. Opens
/// every other one in the folder, for the first free slots.
///
/// # Errors
/// The folder cannot be created or read, it has more cartridges than the library has slots, or one
/// cannot be opened ([`file::open_or_create`]).
pub fn open(folder: &Path, config: &TapeLibraryConfig) -> Result<Vec<Placed>, Failure> {
    let found = fs::create_dir_all(folder)
        .and_then(|()| list(folder))
        .map_err(|error| {
            let message = format!("cannot use the folder {}: {error}", folder.display());
            Failure::environment(message, path_hint(&error))
        })?;
    let place = folder.display().to_string();
    let wanted = slots::assign(config, &found, &place, "move cartridges out of the folder")?;
    let opened = wanted.into_iter().map(|wanted| {
        let Wanted {
            barcode,
            slot,
            declared,
        } = wanted;
        let path = folder.join(barcode).with_extension(SUFFIX);
        let new = declared.header(barcode, taken_bytes(config));
        let CartridgeFile {
            file, recovered, ..
        } = file::open_or_create(&path, &new, declared)?;
        if recovered.header.barcode != barcode {
            let message = format!(
                "{} has the barcode {}",
                path.display(),
                recovered.header.barcode
            );
            let hint = "rename the file, so that two cartridges cannot have one barcode";
            return Err(Failure::usage(message, hint));
        }
        Ok(Placed {
            slot,
            file,
            recovered,
        })
    });
    opened.collect()
}

/// Returns the barcodes of the cartridges in a folder, ascending.
fn list(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut barcodes = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(OsStr::to_str);
        if path.extension() == Some(OsStr::new(SUFFIX))
            && let Some(name) = name.filter(|name| is_barcode(name))
        {
            barcodes.insert(name.to_owned());
        }
    }
    Ok(barcodes)
}
