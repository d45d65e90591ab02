//! Moves and exchanges of cartridges.

use std::ops::RangeInclusive;

use super::elements::{Holder, Library, SLOTS};
use crate::cartridge::Cartridge;
use crate::drive::Drive;
use crate::journal::Record;

/// An address of a request to move cartridges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The source.
    Source,
    /// The destination; of an exchange, the first one.
    Destination,
    /// The second destination of an exchange.
    SecondDestination,
}

/// Error of a move. The cartridges stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// No element has this address, or the element holds no cartridges.
    InvalidAddress(Role),
    /// The element has no cartridge that could be moved.
    Empty(Role),
    /// The element has a cartridge, and none can be put there.
    Full(Role),
    /// An element is open.
    Open,
    /// A cartridge is being written, or a drive is busy.
    Busy,
}

/// Moves that were made.
#[derive(Debug, Default)]
pub struct Moved {
    /// Drives from which a loaded cartridge was taken, from 0, in the order of the moves.
    pub unloaded: Vec<usize>,
    /// Drives into which a cartridge was put, which loaded it.
    pub loaded: Vec<usize>,
    /// Records that make what drives have written durable, to be written before the command ends.
    pub records: Vec<Record>,
}

impl Library {
    /// Moves a cartridge. A drive ejects it first, or loads it. A move to its own element changes
    /// nothing.
    ///
    /// # Errors
    /// See [`MoveError`].
    pub fn move_medium(&mut self, source: u16, destination: u16) -> Result<Moved, MoveError> {
        let from = self.find(source, Role::Source)?;
        let to = self.find(destination, Role::Destination)?;
        self.check_reach(&[from, to])?;
        self.check_source(from, Role::Source)?;
        if from == to {
            return Ok(Moved::default());
        }
        if self.cartridge_in(to).is_some() {
            return Err(MoveError::Full(Role::Destination));
        }
        let mut moved = Moved::default();
        if let Some(cartridge) = self.take(from, &mut moved) {
            self.put(to, cartridge, source, &mut moved);
        }
        Ok(moved)
    }

    /// Moves the cartridge of the first destination to the second one, which may be the source, and
    /// then that of the source to the first destination. Either both are moved or none.
    ///
    /// # Errors
    /// See [`MoveError`]. If source and first destination are one element, it is empty when its
    /// cartridge would be moved. If both destinations are one element, it is full.
    pub fn exchange_medium(
        &mut self,
        source: u16,
        first: u16,
        second: u16,
    ) -> Result<Moved, MoveError> {
        let from = self.find(source, Role::Source)?;
        let to = self.find(first, Role::Destination)?;
        let last = self.find(second, Role::SecondDestination)?;
        self.check_reach(&[from, to, last])?;
        self.check_source(to, Role::Destination)?;
        self.check_source(from, Role::Source)?;
        if from == to {
            return Err(MoveError::Empty(Role::Source));
        }
        if last != from && self.cartridge_in(last).is_some() {
            return Err(MoveError::Full(Role::SecondDestination));
        }
        let mut moved = Moved::default();
        let (displaced, moving) = (self.take(to, &mut moved), self.take(from, &mut moved));
        if let (Some(displaced), Some(moving)) = (displaced, moving) {
            self.put(last, displaced, first, &mut moved);
            self.put(to, moving, source, &mut moved);
        }
        Ok(moved)
    }

    /// Returns the element with an address, which must hold cartridges.
    fn find(&self, address: u16, role: Role) -> Result<Holder, MoveError> {
        let holder = self
            .holder(address)
            .filter(|holder| *holder != Holder::Transport);
        holder.ok_or(MoveError::InvalidAddress(role))
    }

    fn check_reach(&self, holders: &[Holder]) -> Result<(), MoveError> {
        if holders.iter().any(|holder| self.is_open(*holder)) {
            return Err(MoveError::Open);
        }
        Ok(())
    }

    /// Checks that an element has a cartridge, which can be taken now.
    fn check_source(&self, holder: Holder, role: Role) -> Result<(), MoveError> {
        let cartridge = self.cartridge_in(holder).ok_or(MoveError::Empty(role))?;
        let drive = match holder {
            Holder::Drive(index) => Some(&self.drives[index]),
            _ => None,
        };
        if cartridge.is_busy() || drive.is_some_and(Drive::is_busy) {
            return Err(MoveError::Busy);
        }
        Ok(())
    }

    fn take(&mut self, holder: Holder, moved: &mut Moved) -> Option<Cartridge> {
        let mut cartridge = match holder {
            Holder::Transport => None,
            Holder::Drive(index) => {
                let drive = &mut self.drives[index];
                drive.settle();
                if drive.loaded().is_ok() {
                    moved.unloaded.push(index);
                }
                drive.remove()
            }
            Holder::Slot(index) => self.slots[index].take(),
            Holder::ImportExport(index) => self.import_export[index].take(),
        }?;
        cartridge.settle();
        moved.records.extend(cartridge.synchronise());
        Some(cartridge)
    }

    /// Puts a cartridge into an empty element. A cartridge remembers the slot from which it came
    /// into a drive, even if it then moves from drive to drive.
    fn put(&mut self, holder: Holder, mut cartridge: Cartridge, source: u16, moved: &mut Moved) {
        let slots: RangeInclusive<u16> = SLOTS..=u16::MAX;
        if slots.contains(&source) {
            cartridge.source = Some(source);
        }
        self.moves += 1;
        match holder {
            Holder::Transport => unreachable!("the transport keeps no cartridge"),
            Holder::Drive(index) => {
                self.drives[index].insert(cartridge);
                moved.loaded.push(index);
            }
            Holder::Slot(index) => self.slots[index] = Some(cartridge),
            Holder::ImportExport(index) => self.import_export[index] = Some(cartridge),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::elements::tests::library;
    use super::super::elements::{DRIVES, ElementKind, IMPORT_EXPORT, TRANSPORT};
    use super::*;

    /// Returns address, last digit of the barcode, and source of each cartridge.
    fn cartridges(library: &Library) -> Vec<(u16, u8, Option<u16>)> {
        let kinds = ElementKind::ALL.into_iter();
        let elements = kinds.flat_map(|kind| library.elements(kind));
        elements
            .filter_map(|element| {
                let cartridge = element.cartridge?;
                let digit = cartridge.barcode.as_bytes()[5] - b'0';
                Some((element.address, digit, cartridge.source))
            })
            .collect()
    }

    #[test]
    fn a_cartridge_is_moved_and_remembers_its_slot() {
        let mut library = library();
        let moved = library.move_medium(SLOTS, DRIVES + 1).unwrap();
        assert_eq!((moved.unloaded, moved.loaded), (vec![], vec![1]));
        let drive = library.drive(1).unwrap();
        assert_eq!(drive.loaded().unwrap().barcode, "HAK001L5");
        let moved = library.move_medium(DRIVES + 1, DRIVES).unwrap();
        assert_eq!((moved.unloaded, moved.loaded), (vec![1], vec![0]));
        let cartridge = library.drive(0).unwrap().cartridge().unwrap();
        assert_eq!(cartridge.source, Some(SLOTS));
        library.move_medium(DRIVES, IMPORT_EXPORT).unwrap();
        let expected = [(SLOTS + 1, 2, None), (IMPORT_EXPORT, 1, Some(SLOTS))];
        assert_eq!(cartridges(&library), expected);
        assert_eq!(library.moves(), 3);
    }

    #[test]
    fn impossible_moves_change_nothing() {
        let mut library = library();
        let before = cartridges(&library);
        for (source, destination, error) in [
            (SLOTS + 2, DRIVES, MoveError::Empty(Role::Source)),
            (SLOTS, SLOTS + 1, MoveError::Full(Role::Destination)),
            (
                SLOTS,
                SLOTS + 3,
                MoveError::InvalidAddress(Role::Destination),
            ),
            (
                DRIVES + 2,
                SLOTS + 2,
                MoveError::InvalidAddress(Role::Source),
            ),
            (
                SLOTS,
                TRANSPORT,
                MoveError::InvalidAddress(Role::Destination),
            ),
            (0, SLOTS + 2, MoveError::InvalidAddress(Role::Source)),
        ] {
            assert_eq!(library.move_medium(source, destination).unwrap_err(), error);
        }
        assert!(library.move_medium(SLOTS, SLOTS).is_ok());
        assert_eq!((cartridges(&library), library.moves()), (before, 0));
    }

    #[test]
    fn an_exchange_moves_two_cartridges_and_keeps_their_slots() {
        let mut library = library();
        library.move_medium(SLOTS, DRIVES).unwrap();
        // The cartridge of the drive goes to an empty slot, and another one is loaded.
        let moved = library
            .exchange_medium(SLOTS + 1, DRIVES, SLOTS + 2)
            .unwrap();
        assert_eq!((moved.unloaded, moved.loaded), (vec![0], vec![0]));
        let (first, second) = (Some(SLOTS), Some(SLOTS + 1));
        let expected = [(SLOTS + 2, 1, first), (DRIVES, 2, second)];
        assert_eq!(cartridges(&library), expected);
        assert!(library.drive(0).unwrap().loaded().is_ok());
        // Two cartridges change places.
        let moved = library
            .exchange_medium(SLOTS + 2, DRIVES, SLOTS + 2)
            .unwrap();
        assert_eq!((moved.unloaded, moved.loaded), (vec![0], vec![0]));
        let expected = [(SLOTS + 2, 2, second), (DRIVES, 1, Some(SLOTS + 2))];
        assert_eq!(cartridges(&library), expected);
        // So they do between drives, and each drive loads one.
        library.move_medium(SLOTS + 2, DRIVES + 1).unwrap();
        let moved = library.exchange_medium(DRIVES, DRIVES + 1, DRIVES).unwrap();
        assert_eq!((moved.unloaded, moved.loaded), (vec![1, 0], vec![0, 1]));
        let slot = Some(SLOTS + 2);
        assert_eq!(
            cartridges(&library),
            [(DRIVES, 2, slot), (DRIVES + 1, 1, slot)]
        );
        assert_eq!(library.moves(), 8);
    }

    #[test]
    fn impossible_exchanges_change_nothing() {
        let mut library = library();
        library.move_medium(SLOTS, DRIVES).unwrap();
        let before = cartridges(&library);
        let (filled, empty) = (SLOTS + 1, SLOTS + 2);
        for (addresses, error) in [
            ([empty, DRIVES, SLOTS], MoveError::Empty(Role::Source)),
            ([filled, empty, SLOTS], MoveError::Empty(Role::Destination)),
            ([filled, filled, empty], MoveError::Empty(Role::Source)),
            (
                [filled, DRIVES, DRIVES],
                MoveError::Full(Role::SecondDestination),
            ),
            (
                [DRIVES, filled, filled],
                MoveError::Full(Role::SecondDestination),
            ),
            ([7, DRIVES, empty], MoveError::InvalidAddress(Role::Source)),
            (
                [filled, 7, empty],
                MoveError::InvalidAddress(Role::Destination),
            ),
            (
                [filled, DRIVES, 7],
                MoveError::InvalidAddress(Role::SecondDestination),
            ),
            (
                [filled, DRIVES, TRANSPORT],
                MoveError::InvalidAddress(Role::SecondDestination),
            ),
        ] {
            let [source, first, second] = addresses;
            let refused = library.exchange_medium(source, first, second);
            assert_eq!(refused.unwrap_err(), error, "{addresses:04x?}");
        }
        assert_eq!((cartridges(&library), library.moves()), (before, 1));
        // A drive that still moves data keeps its cartridge, as either one of the two.
        let ticket = library.drive_mut(0).unwrap().hold();
        for [source, first] in [[filled, DRIVES], [DRIVES, filled]] {
            let refused = library.exchange_medium(source, first, source);
            assert_eq!(refused.unwrap_err(), MoveError::Busy);
        }
        drop(ticket);
        library.exchange_medium(filled, DRIVES, filled).unwrap();
    }

    #[test]
    fn an_open_element_is_out_of_reach() {
        let mut library = library();
        assert_eq!(library.set_open(SLOTS, true), None);
        assert_eq!(library.set_open(IMPORT_EXPORT, true), Some(false));
        let refused = library.move_medium(SLOTS, IMPORT_EXPORT);
        assert_eq!(refused.unwrap_err(), MoveError::Open);
        let refused = library.exchange_medium(SLOTS, SLOTS + 1, IMPORT_EXPORT);
        assert_eq!(refused.unwrap_err(), MoveError::Open);
        assert_eq!(library.set_open(IMPORT_EXPORT, false), Some(true));
        library.move_medium(SLOTS, IMPORT_EXPORT).unwrap();
    }
}
