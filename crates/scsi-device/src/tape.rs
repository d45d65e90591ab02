//! The tape library behind the LUs of its changer and its drives.

use hakaru_tape::{Drive, Library};

use crate::config::TapeLibrary;

/// A tape library and the LUs that stand for its parts.
#[derive(Debug)]
pub struct Tape {
    /// LU of the changer, whose bytes hold the cartridges.
    pub changer_lun: u8,
    /// LUs of the drives.
    pub drive_luns: Vec<u8>,
    /// Elements, drives and cartridges.
    pub library: Library,
}

impl Tape {
    /// Creates a library.
    ///
    /// # Panics
    /// As [`Library::new`]; the number of LUs of drives is not that of the drives.
    pub fn new(changer_lun: u8, description: &TapeLibrary) -> Tape {
        assert_eq!(
            description.drive_luns.len(),
            description.library.drives.len(),
            "each drive has an LU"
        );
        Tape {
            changer_lun,
            drive_luns: description.drive_luns.clone(),
            library: Library::new(&description.library),
        }
    }

    /// Returns the number of the drive behind an LU, from 0.
    pub fn number(&self, lun: u8) -> Option<usize> {
        self.drive_luns.iter().position(|drive| *drive == lun)
    }

    /// Returns the drive behind an LU.
    pub fn drive(&self, lun: u8) -> Option<&Drive> {
        self.library.drive(self.number(lun)?)
    }

    /// Returns the drive behind an LU.
    pub fn drive_mut(&mut self, lun: u8) -> Option<&mut Drive> {
        let number = self.number(lun)?;
        self.library.drive_mut(number)
    }
}
