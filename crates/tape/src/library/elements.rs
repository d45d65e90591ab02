//! The elements of a tape library, which hold cartridges (SMC-3).

use crate::cartridge::Cartridge;
use crate::config::LibraryConfig;
use crate::drive::Drive;
use crate::journal::Record;

/// Address of the transport.
pub const TRANSPORT: u16 = 0x0001;
pub(super) const DRIVES: u16 = 0x0100;
pub(super) const IMPORT_EXPORT: u16 = 0x0300;
pub(super) const SLOTS: u16 = 0x0400;

/// Kind of an element: ELEMENT TYPE CODE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ElementKind {
    /// Medium transport.
    Transport = 1,
    /// Storage.
    Slot = 2,
    /// Import and export.
    ImportExport = 3,
    /// Data transfer.
    Drive = 4,
}

impl ElementKind {
    /// All kinds, ascending by code.
    pub const ALL: [ElementKind; 4] = [
        ElementKind::Transport,
        ElementKind::Slot,
        ElementKind::ImportExport,
        ElementKind::Drive,
    ];
}

/// An element, as READ ELEMENT STATUS reports it.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// Address.
    pub address: u16,
    /// Kind.
    pub kind: ElementKind,
    /// The cartridge in it.
    pub cartridge: Option<&'a Cartridge>,
    /// Number of the drive, from 0.
    pub drive: Option<usize>,
    /// Whether it is open, so that the transport cannot reach it.
    pub open: bool,
}

/// Where an element keeps its cartridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Transport,
    Drive(usize),
    Slot(usize),
    ImportExport(usize),
}

/// A tape library.
#[derive(Debug)]
pub struct Library {
    pub(super) drives: Vec<Drive>,
    pub(super) slots: Vec<Option<Cartridge>>,
    pub(super) import_export: Vec<Option<Cartridge>>,
    /// Whether each import and export slot is open.
    pub(super) open: Vec<bool>,
    pub(super) moves: u64,
}

impl Library {
    /// Creates a library.
    ///
    /// # Panics
    /// A bound of [`LibraryConfig`] is exceeded, or two cartridges are in one slot.
    #[must_use]
    pub fn new(config: &LibraryConfig) -> Library {
        assert!(config.drives.len() < 256 && config.import_export < 256 && config.slots <= 60_000);
        let empty = |count: u16| std::iter::repeat_with(|| None).take(count.into());
        let mut slots: Vec<Option<Cartridge>> = empty(config.slots).collect();
        for (number, placed) in config.cartridges.iter().enumerate() {
            let slot = &mut slots[usize::from(placed.slot) - 1];
            assert!(slot.is_none(), "slot {} is given twice", placed.slot);
            *slot = Some(config.cartridge(number, placed));
        }
        Library {
            drives: config
                .drives
                .iter()
                .zip(0..)
                .map(|(generation, number)| {
                    let mut drive = Drive::new(*generation);
                    (drive.timed, drive.number) = (config.timed, number);
                    drive.ratio = config.ratio;
                    drive
                })
                .collect(),
            slots,
            import_export: empty(config.import_export).collect(),
            open: vec![false; config.import_export.into()],
            moves: 0,
        }
    }

    /// Returns a drive.
    #[must_use]
    pub fn drive(&self, index: usize) -> Option<&Drive> {
        self.drives.get(index)
    }

    /// Returns a drive.
    pub fn drive_mut(&mut self, index: usize) -> Option<&mut Drive> {
        self.drives.get_mut(index)
    }

    /// Returns the number of moves.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Returns the first address and the number of the elements of a kind.
    #[must_use]
    pub fn range(&self, kind: ElementKind) -> (u16, u16) {
        match kind {
            ElementKind::Transport => (TRANSPORT, 1),
            ElementKind::Slot => (SLOTS, self.slots.len() as u16),
            ElementKind::ImportExport => (IMPORT_EXPORT, self.import_export.len() as u16),
            ElementKind::Drive => (DRIVES, self.drives.len() as u16),
        }
    }

    /// Returns the elements of a kind, ascending by address.
    pub fn elements(&self, kind: ElementKind) -> impl Iterator<Item = Element<'_>> {
        let (first, count) = self.range(kind);
        (first..first + count).map(move |address| {
            let holder = self.holder(address);
            Element {
                address,
                kind,
                cartridge: holder.and_then(|holder| self.cartridge_in(holder)),
                drive: match holder {
                    Some(Holder::Drive(drive)) => Some(drive),
                    _ => None,
                },
                open: holder.is_some_and(|holder| self.is_open(holder)),
            }
        })
    }

    pub(super) fn holder(&self, address: u16) -> Option<Holder> {
        let index = |first: u16, length: usize| {
            let index = usize::from(address.checked_sub(first)?);
            (index < length).then_some(index)
        };
        // Descending, because addresses of a kind may lie above the first one of the next.
        if address == TRANSPORT {
            return Some(Holder::Transport);
        }
        index(SLOTS, self.slots.len())
            .map(Holder::Slot)
            .or_else(|| index(IMPORT_EXPORT, self.import_export.len()).map(Holder::ImportExport))
            .or_else(|| index(DRIVES, self.drives.len()).map(Holder::Drive))
    }

    pub(super) fn cartridge_in(&self, holder: Holder) -> Option<&Cartridge> {
        match holder {
            Holder::Transport => None,
            Holder::Drive(index) => self.drives[index].cartridge(),
            Holder::Slot(index) => self.slots[index].as_ref(),
            Holder::ImportExport(index) => self.import_export[index].as_ref(),
        }
    }

    pub(super) fn is_open(&self, holder: Holder) -> bool {
        matches!(holder, Holder::ImportExport(index) if self.open[index])
    }

    /// Whether an import and export slot has this address.
    #[must_use]
    pub fn is_import_export(&self, address: u16) -> bool {
        matches!(self.holder(address), Some(Holder::ImportExport(_)))
    }

    /// Opens or closes an import and export slot. Returns whether it was open before; `None` if no
    /// such slot has this address.
    pub fn set_open(&mut self, address: u16, open: bool) -> Option<bool> {
        match self.holder(address)? {
            Holder::ImportExport(index) => Some(std::mem::replace(&mut self.open[index], open)),
            _ => None,
        }
    }

    /// Whether an element has this address.
    #[must_use]
    pub fn has(&self, address: u16) -> bool {
        self.holder(address).is_some()
    }

    /// Returns the drive with an element address.
    #[must_use]
    pub fn drive_at(&self, address: u16) -> Option<usize> {
        match self.holder(address)? {
            Holder::Drive(index) => Some(index),
            _ => None,
        }
    }

    /// Returns the records that make everything that drives have written durable, also on
    /// cartridges that have left their drive since.
    pub fn synchronise(&mut self) -> Vec<Record> {
        let idle = self.drives.iter_mut().filter(|drive| !drive.is_busy());
        let in_drives = idle.filter_map(|drive| {
            drive.settle();
            drive.synchronise()
        });
        let elsewhere = self.slots.iter_mut().chain(&mut self.import_export);
        let idle = elsewhere.flatten().filter(|cartridge| !cartridge.is_busy());
        let in_slots = idle.filter_map(|cartridge| {
            cartridge.settle();
            cartridge.synchronise()
        });
        in_drives.chain(in_slots).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::Placed;
    use crate::generation::Generation;
    use crate::ratio::Ratio;

    /// Two drives, three storage slots, of which two have a cartridge, and one slot for import and
    /// export.
    pub fn library() -> Library {
        Library::new(&LibraryConfig {
            drives: vec![Generation::Lto5; 2],
            timed: false,
            slots: 3,
            import_export: 1,
            cartridges: (1..=2)
                .map(|slot| Placed {
                    barcode: format!("HAK00{slot}L5"),
                    slot,
                    write_protected: false,
                    generation: None,
                    recovered: None,
                })
                .collect(),
            capacity_bytes: 1 << 20,
            early_warning_bytes: 0,
            ratio: Ratio::ONE,
        })
    }

    #[test]
    fn regions_of_cartridges_do_not_overlap() {
        let library = library();
        let mut regions: Vec<_> = library
            .elements(ElementKind::Slot)
            .filter_map(|element| Some(element.cartridge?.region.offset_bytes))
            .collect();
        regions.dedup();
        assert_eq!(regions, [0, 1 << 20]);
    }
}
