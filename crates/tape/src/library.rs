//! A tape library: elements that hold cartridges, and a transport that moves them (SMC-3).

use std::ops::RangeInclusive;

use crate::cartridge::Cartridge;
use crate::config::LibraryConfig;
use crate::drive::Drive;
use crate::journal::Record;

/// Address of the transport.
pub const TRANSPORT: u16 = 0x0001;
const DRIVES: u16 = 0x0100;
const IMPORT_EXPORT: u16 = 0x0300;
const SLOTS: u16 = 0x0400;

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
}

/// Error of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// No element has this address, or the element holds no cartridges.
    InvalidAddress,
    /// The source has no cartridge.
    SourceEmpty,
    /// The destination has a cartridge.
    DestinationFull,
    /// The cartridge is being written.
    Busy,
}

/// A move that was made.
#[derive(Debug)]
pub struct Moved {
    /// Drive from which the cartridge was taken, from 0.
    pub from_drive: Option<usize>,
    /// Drive into which the cartridge was put.
    pub to_drive: Option<usize>,
    /// Record that makes what a drive has written durable, to be written before the command ends.
    pub record: Option<Record>,
}

/// Where an element keeps its cartridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Transport,
    Drive(usize),
    Slot(usize),
    ImportExport(usize),
}

/// A tape library.
#[derive(Debug)]
pub struct Library {
    drives: Vec<Drive>,
    slots: Vec<Option<Cartridge>>,
    import_export: Vec<Option<Cartridge>>,
    moves: u64,
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
                    drive
                })
                .collect(),
            slots,
            import_export: empty(config.import_export).collect(),
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
            }
        })
    }

    fn holder(&self, address: u16) -> Option<Holder> {
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

    fn cartridge_in(&self, holder: Holder) -> Option<&Cartridge> {
        match holder {
            Holder::Transport => None,
            Holder::Drive(index) => self.drives[index].cartridge(),
            Holder::Slot(index) => self.slots[index].as_ref(),
            Holder::ImportExport(index) => self.import_export[index].as_ref(),
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

    /// Moves a cartridge. A drive ejects it first, or loads it. A move to its own element changes
    /// nothing.
    ///
    /// # Errors
    /// See [`MoveError`]; the cartridge stays where it is.
    pub fn move_medium(&mut self, source: u16, destination: u16) -> Result<Moved, MoveError> {
        let usable = |holder: &Holder| *holder != Holder::Transport;
        let find = |address| self.holder(address).filter(usable);
        let from = find(source).ok_or(MoveError::InvalidAddress)?;
        let to = find(destination).ok_or(MoveError::InvalidAddress)?;
        let drive_of = |holder| match holder {
            Holder::Drive(index) => Some(index),
            _ => None,
        };
        let Some(moving) = self.cartridge_in(from) else {
            return Err(MoveError::SourceEmpty);
        };
        let drive = drive_of(from).map(|index| &self.drives[index]);
        if moving.is_busy() || drive.is_some_and(Drive::is_busy) {
            return Err(MoveError::Busy);
        }
        if from == to {
            return Ok(Moved {
                from_drive: None,
                to_drive: None,
                record: None,
            });
        }
        if self.cartridge_in(to).is_some() {
            return Err(MoveError::DestinationFull);
        }
        let Some(mut cartridge) = self.take(from) else {
            return Err(MoveError::SourceEmpty);
        };
        cartridge.settle();
        let record = cartridge.synchronise();
        self.put(to, cartridge, source);
        self.moves += 1;
        Ok(Moved {
            from_drive: drive_of(from),
            to_drive: drive_of(to),
            record,
        })
    }

    fn take(&mut self, holder: Holder) -> Option<Cartridge> {
        match holder {
            Holder::Transport => None,
            Holder::Drive(index) => {
                self.drives[index].settle();
                self.drives[index].remove()
            }
            Holder::Slot(index) => self.slots[index].take(),
            Holder::ImportExport(index) => self.import_export[index].take(),
        }
    }

    /// Puts a cartridge into an empty element. A cartridge remembers the slot from which it came
    /// into a drive, even if it then moves from drive to drive.
    fn put(&mut self, holder: Holder, mut cartridge: Cartridge, source: u16) {
        let slots: RangeInclusive<u16> = SLOTS..=u16::MAX;
        if slots.contains(&source) {
            cartridge.source = Some(source);
        }
        match holder {
            Holder::Transport => unreachable!("the transport keeps no cartridge"),
            Holder::Drive(index) => self.drives[index].insert(cartridge),
            Holder::Slot(index) => self.slots[index] = Some(cartridge),
            Holder::ImportExport(index) => self.import_export[index] = Some(cartridge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Placed;
    use crate::generation::Generation;

    fn library() -> Library {
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
                    recovered: None,
                })
                .collect(),
            capacity_bytes: 1 << 20,
            early_warning_bytes: 0,
        })
    }

    fn barcodes(library: &Library) -> Vec<(u16, String)> {
        let kinds = ElementKind::ALL.into_iter();
        kinds
            .flat_map(|kind| library.elements(kind))
            .filter_map(|element| Some((element.address, element.cartridge?.barcode.clone())))
            .collect()
    }

    #[test]
    fn a_cartridge_is_moved_and_remembers_its_slot() {
        let mut library = library();
        let moved = library.move_medium(SLOTS, DRIVES + 1).unwrap();
        assert_eq!((moved.from_drive, moved.to_drive), (None, Some(1)));
        let drive = library.drive(1).unwrap();
        assert_eq!(drive.loaded().unwrap().barcode, "HAK001L5");
        let moved = library.move_medium(DRIVES + 1, DRIVES).unwrap();
        assert_eq!((moved.from_drive, moved.to_drive), (Some(1), Some(0)));
        let cartridge = library.drive(0).unwrap().cartridge().unwrap();
        assert_eq!(cartridge.source, Some(SLOTS));
        library.move_medium(DRIVES, IMPORT_EXPORT).unwrap();
        let expected = [(SLOTS + 1, "HAK002L5"), (IMPORT_EXPORT, "HAK001L5")];
        assert_eq!(
            barcodes(&library),
            expected.map(|(address, barcode)| (address, barcode.to_owned()))
        );
        assert_eq!(library.moves(), 3);
    }

    #[test]
    fn impossible_moves_change_nothing() {
        let mut library = library();
        let before = barcodes(&library);
        for (source, destination, error) in [
            (SLOTS + 2, DRIVES, MoveError::SourceEmpty),
            (SLOTS, SLOTS + 1, MoveError::DestinationFull),
            (SLOTS, SLOTS + 3, MoveError::InvalidAddress),
            (DRIVES + 2, SLOTS + 2, MoveError::InvalidAddress),
            (SLOTS, TRANSPORT, MoveError::InvalidAddress),
            (0, SLOTS + 2, MoveError::InvalidAddress),
        ] {
            assert_eq!(library.move_medium(source, destination).unwrap_err(), error);
        }
        assert!(library.move_medium(SLOTS, SLOTS).is_ok());
        assert_eq!(barcodes(&library), before);
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
