//! Description of a library, and the cartridges that it begins with.

use std::sync::Arc;

use crate::cartridge::{Cartridge, Region};
use crate::counters::Counters;
use crate::generation::Generation;
use crate::journal::Journal;
use crate::medium::Medium;
use crate::memory::Memory;
use crate::ratio::Ratio;
use crate::recorded::Recovered;

/// A cartridge of a new library.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Text on its label, 1 to 32 ASCII characters.
    pub barcode: String,
    /// Slot, from 1.
    pub slot: u16,
    /// Whether its write-protect tab is set.
    pub write_protected: bool,
    /// Generation. `None`: that of each drive that it is in.
    pub generation: Option<Generation>,
    /// The cartridge as it was read from its store, which determines its capacity. `None`: it is
    /// empty, and its contents end with the process.
    pub recovered: Option<Arc<Recovered>>,
}

/// Description of a library.
#[derive(Clone, Debug)]
pub struct LibraryConfig {
    /// Drives, at most 255.
    pub drives: Vec<Generation>,
    /// Whether the motions of the drives take time.
    pub timed: bool,
    /// Number of storage slots, at most 60 000.
    pub slots: u16,
    /// Number of import and export slots, at most 255.
    pub import_export: u16,
    /// Cartridges, each in a slot of its own.
    pub cartridges: Vec<Placed>,
    /// Capacity of each cartridge that was not read from a store, bytes on the tape.
    pub capacity_bytes: u64,
    /// Space left at which early warning begins, bytes on the tape, at most the capacity.
    pub early_warning_bytes: u64,
    /// Compression.
    pub ratio: Ratio,
}

impl LibraryConfig {
    /// Returns the distance of the cartridges on the store, in the order of
    /// [`Self::cartridges`], bytes.
    #[must_use]
    pub fn part_bytes(&self) -> u64 {
        let parts = self
            .cartridges
            .iter()
            .map(|placed| match &placed.recovered {
                Some(recovered) => recovered.header.total_bytes(),
                None => self.ratio.cartridge_bytes(self.capacity_bytes),
            });
        parts.max().unwrap_or(0)
    }

    /// Returns the bytes that the cartridges need on the store.
    #[must_use]
    pub fn store_bytes(&self) -> u64 {
        self.cartridges.len() as u64 * self.part_bytes()
    }

    /// Creates the cartridge at a number in [`Self::cartridges`].
    pub(crate) fn cartridge(&self, number: usize, placed: &Placed) -> Cartridge {
        let base_bytes = number as u64 * self.part_bytes();
        let (offset_bytes, length_bytes, medium, loads, journal, memory) = match &placed.recovered {
            None => {
                let (medium, memory) = (Medium::default(), Memory::default());
                let length_bytes = self.ratio.cartridge_bytes(self.capacity_bytes);
                (base_bytes, length_bytes, medium, 0, None, memory)
            }
            Some(recovered) => {
                let header = &recovered.header;
                let end = recovered.medium.end();
                (
                    base_bytes + header.data_bytes(),
                    header.capacity_bytes,
                    recovered.medium.clone(),
                    recovered.loads,
                    Some(Journal::new(header, base_bytes, recovered.tail, end)),
                    Memory::new(
                        recovered.attributes.clone(),
                        base_bytes,
                        recovered.memory_tail,
                    ),
                )
            }
        };
        // The earlier life of a cartridge that was in use is not recorded.
        let is_new = loads == 0 && medium.end() == 0;
        let region = Region {
            offset_bytes,
            length_bytes,
            early_warning_bytes: self
                .ratio
                .taken_bytes(self.early_warning_bytes)
                .min(length_bytes),
        };
        let barcode = placed.barcode.clone();
        Cartridge {
            loads,
            generation: placed.generation,
            life: is_new.then(Counters::default),
            memory,
            ..Cartridge::new(barcode, placed.write_protected, region, medium, journal)
        }
    }
}
