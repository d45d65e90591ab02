//! Cartridges.

use crate::attributes::HostAttributes;
use crate::counters::Counters;
use crate::generation::Generation;
use crate::journal::{Journal, Lost, Record};
use crate::medium::Medium;
use crate::memory::Memory;

/// Entries of the index left at which early warning begins: enough for the filemarks and labels
/// with which a program ends its volume.
const EARLY_WARNING_RUNS: usize = 1024;

/// Place of a cartridge's bytes on the store, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte, a multiple of [`crate::GRANULE_BYTES`].
    pub offset_bytes: u64,
    /// Length: the bytes of initiators that the cartridge takes.
    pub length_bytes: u64,
    /// Space left at which early warning begins, bytes of initiators, at most the length.
    pub early_warning_bytes: u64,
}

/// A cartridge.
#[derive(Debug)]
pub struct Cartridge {
    /// Text on its label, 1 to 32 ASCII characters.
    pub barcode: String,
    /// Whether its write-protect tab is set.
    pub write_protected: bool,
    /// Generation. `None`: that of each drive that it is in.
    pub generation: Option<Generation>,
    /// Place of its bytes.
    pub region: Region,
    /// Its contents.
    pub medium: Medium,
    /// Its index on the store. `None`: the contents end with the process.
    pub journal: Option<Journal>,
    /// Its memory, which has the host attributes.
    pub memory: Memory,
    /// Address of the element from which it was moved into a drive.
    pub source: Option<u16>,
    /// How often it was loaded.
    pub loads: u64,
    /// Numbers of the drives that have loaded it, the last one first, at most 4.
    pub drives: Vec<u8>,
    /// Totals of its life before the last load. `None`: unknown.
    pub life: Option<Counters>,
    /// End of the bytes of the region that may occupy space on the store although no object needs
    /// them.
    pub reached_bytes: u64,
    /// Value of `reached_bytes` before the record that is being written.
    pub(crate) reached_before_bytes: u64,
    /// Whether objects were lost, and no command has reported it.
    pub(crate) lost: bool,
}

impl Cartridge {
    /// Creates a cartridge whose earlier life is unknown, without a generation of its own.
    #[must_use]
    pub fn new(
        barcode: String,
        write_protected: bool,
        region: Region,
        medium: Medium,
        journal: Option<Journal>,
    ) -> Cartridge {
        Cartridge {
            barcode,
            write_protected,
            generation: None,
            region,
            medium,
            journal,
            memory: Memory::default(),
            source: None,
            loads: 0,
            drives: Vec::new(),
            life: None,
            reached_bytes: 0,
            reached_before_bytes: 0,
            lost: false,
        }
    }

    /// Returns the bytes of initiators that can still be written at the end of data.
    #[must_use]
    pub fn left_bytes(&self) -> u64 {
        self.region.length_bytes - self.medium.used_bytes()
    }

    /// Whether the end of data is past early warning.
    #[must_use]
    pub fn is_past_early_warning(&self) -> bool {
        self.left_bytes() <= self.region.early_warning_bytes
            || self.medium.runs_left() <= EARLY_WARNING_RUNS
    }

    /// Removes every object from a position on.
    pub fn truncate(&mut self, position: u64) {
        self.cut(position);
        if let Some(journal) = &mut self.journal {
            journal.truncate(position);
        }
    }

    /// Whether a record of the index or the memory is being written.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_busy) || self.memory.is_busy()
    }

    /// Replaces the host attributes in the memory. Returns the record that makes them durable;
    /// `None` if they end with the process.
    #[must_use]
    pub fn write_attributes(&mut self, attributes: HostAttributes) -> Option<Record> {
        self.memory.write(attributes)
    }

    /// Ends the records that were written. If the store has refused one, removes the objects that
    /// it would have made durable.
    pub fn settle(&mut self) -> Option<Lost> {
        self.memory.settle();
        let journal = self.journal.as_mut()?;
        let lost = journal.settle();
        let reached_bytes = std::mem::take(&mut self.reached_before_bytes);
        if journal.is_uncertain() {
            self.reached_bytes = self.reached_bytes.max(reached_bytes);
        }
        if let Some(Lost {
            end: Some(end),
            reported,
        }) = lost
        {
            self.cut(end);
            self.lost |= !reported;
        }
        lost
    }

    fn cut(&mut self, position: u64) {
        self.reached_bytes = self.reached_bytes.max(self.medium.used_bytes());
        self.medium.truncate(position);
    }

    /// Returns the record that makes everything durable. `None` if everything is, or if the
    /// contents end with the process.
    #[must_use]
    pub fn synchronise(&mut self) -> Option<Record> {
        if self.write_protected {
            return None;
        }
        let journal = self.journal.as_mut()?;
        let record = journal.synchronise(&self.medium, self.loads)?;
        Some(self.giving_back(record))
    }

    /// Returns the record that must be durable before a block is written at the end of data: it
    /// removes the objects whose place the block takes.
    #[must_use]
    pub fn give_up(&mut self) -> Option<Record> {
        let journal = self.journal.as_mut()?;
        let record = journal.give_up(&self.medium, self.loads)?;
        Some(self.giving_back(record))
    }

    /// Lets a record give back the bytes behind the end of data.
    fn giving_back(&mut self, record: Record) -> Record {
        let used = self.medium.used_bytes();
        let (first, end) = (
            self.region.offset_bytes + used,
            self.region.offset_bytes + self.reached_bytes,
        );
        self.reached_before_bytes = self.reached_before_bytes.max(self.reached_bytes);
        self.reached_bytes = used;
        Record {
            unused: (first < end).then_some(first..end),
            ..record
        }
    }
}
