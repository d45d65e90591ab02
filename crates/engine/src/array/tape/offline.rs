//! A cartridge in a pool that no array uses, for export and import.
use std::path::Path;

use hakaru_contract::PoolConfig;
use hakaru_pool::{PAGE_BYTES_DEFAULT, Request};
use hakaru_runtime::file::FileQueue;
use hakaru_runtime::{Reactor, Token};
use hakaru_tape::{Header, ReadError, Recovered};

use super::pool::{create_volume, failure, read, volume_of};
use super::volume::CartridgeVolume;
use crate::array::pools;
use crate::array::storage::Storage;
use crate::array::tokens::{FILES, STORES};
use crate::failure::{Failure, OrEnvironment};

/// Number of the only pool.
const POOL: usize = 0;
/// LUN at which the cartridge is attached.
const LUN: u8 = 0;

/// A pool that is open, and a barcode.
pub struct OfflinePool {
    storage: Storage,
    reactor: Reactor,
    name: String,
    barcode: String,
}

impl OfflinePool {
    /// Opens the pool in a directory.
    ///
    /// # Errors
    /// The pool is in use, or cannot be opened.
    pub fn open(directory: &Path, barcode: String) -> Result<OfflinePool, Failure> {
        let hint = "raise the limit of open files";
        let reactor = Reactor::new().or_environment("prepare file I/O", hint)?;
        let files = FileQueue::new(&reactor, FILES).or_environment("prepare file I/O", hint)?;
        let mut storage = Storage::new(None, files, None);
        let name = directory.display().to_string();
        let config = PoolConfig {
            name: name.clone(),
            directory: name.clone(),
            page_bytes: PAGE_BYTES_DEFAULT,
            soft_threshold_percent: 100,
            hold_when_full_s: 0,
            direct: false,
            groups: Vec::new(),
        };
        storage
            .open_pool(&config, &reactor, Token(STORES))
            .map_err(|error| pools::failure(&error))?;
        Ok(OfflinePool {
            storage,
            reactor,
            name,
            barcode,
        })
    }

    /// Reads the cartridge, which exists.
    ///
    /// # Errors
    /// There is none of this barcode, or it is damaged.
    pub fn cartridge(&mut self) -> Result<(CartridgeVolume<'_>, Recovered), Failure> {
        let Some(volume) = volume_of(&self.storage, POOL, &self.barcode) else {
            let message = format!(
                "there is no cartridge {} in pool {}",
                self.barcode, self.name
            );
            return Err(Failure::environment(
                message,
                "`hakaru array status` lists the volumes tape-BARCODE",
            ));
        };
        let bytes = CartridgeVolume::attach(POOL, volume, LUN, &mut self.storage, &self.reactor);
        let recovered = read(&bytes).map_err(|e| failure(&self.name, &self.barcode, e))?;
        Ok((bytes, recovered))
    }

    /// Creates the volume of a cartridge, and has it filled. Deletes it if that fails.
    ///
    /// # Errors
    /// The cartridge exists, the pool refuses it, or `fill` has failed.
    pub fn create(
        &mut self,
        new: &Header,
        fill: impl FnOnce(&CartridgeVolume<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if volume_of(&self.storage, POOL, &self.barcode).is_some() {
            let message = format!(
                "the cartridge {} exists in pool {}",
                self.barcode, self.name
            );
            return Err(Failure::environment(message, "choose another barcode"));
        }
        let volume = create_volume(POOL, new, &mut self.storage, &self.reactor)?;
        let bytes = CartridgeVolume::attach(POOL, volume, LUN, &mut self.storage, &self.reactor);
        let filled = fill(&bytes);
        drop(bytes);
        if filled.is_err() {
            let request = Request::Delete { volume };
            let object = format!("cartridge {}", self.barcode);
            pools::carry_out(POOL, request, &object, &mut self.storage, &self.reactor)?;
        }
        filled
    }

    /// Returns the failure of an access to the cartridge.
    pub fn failure(name: &Path, barcode: &str, error: std::io::Error) -> Failure {
        failure(&name.display().to_string(), barcode, ReadError::Io(error))
    }
}
