//! Properties of a cartridge that the configuration declares.
use hakaru_contract::CartridgeConfig;
use hakaru_tape::{Generation, Header};

use super::generation::generation;
use crate::failure::Failure;

/// Properties that a new cartridge gets, and an existing one as well. `None` leaves a property of an
/// existing cartridge as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared {
    /// Whether its write-protect tab is to be set.
    pub write_protected: Option<bool>,
    /// Its generation, which an existing cartridge gets once.
    pub generation: Option<Generation>,
}

impl Declared {
    /// Returns the properties that the configuration declares.
    pub fn of(cartridge: &CartridgeConfig) -> Declared {
        Declared {
            write_protected: cartridge.write_protected,
            generation: cartridge.generation.map(generation),
        }
    }

    /// Describes a new cartridge.
    pub fn header(self, barcode: &str, capacity_bytes: u64) -> Header {
        let write_protected = self.write_protected.unwrap_or(false);
        Header {
            generation: self.generation,
            ..Header::new(barcode.to_owned(), write_protected, capacity_bytes)
        }
    }

    /// Returns the header of an existing cartridge with these properties.
    ///
    /// # Errors
    /// The cartridge is of another generation, which cannot change.
    pub fn applied(self, header: &Header) -> Result<Header, Failure> {
        if let (Some(declared), Some(actual)) = (self.generation, header.generation)
            && declared != actual
        {
            let barcode = &header.barcode;
            let message = format!(
                "tape_library: {barcode} is an LTO-{} cartridge, not one of LTO-{}",
                actual.number(),
                declared.number()
            );
            let hint = "correct its `generation`, or give the new cartridge another barcode";
            return Err(Failure::usage(message, hint));
        }
        Ok(Header {
            write_protected: self.write_protected.unwrap_or(header.write_protected),
            generation: self.generation.or(header.generation),
            ..header.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_declared_stays_as_it_is() {
        let header = Header {
            generation: Some(Generation::Lto4),
            ..Header::new("HAK001L4".to_owned(), true, 1 << 20)
        };
        let unchanged = Declared::default().applied(&header);
        assert_eq!(unchanged.unwrap(), header);
        let declared = Declared {
            write_protected: Some(false),
            generation: Some(Generation::Lto4),
        };
        let changed = declared.applied(&header).unwrap();
        let (protected, generation) = (changed.write_protected, changed.generation);
        assert_eq!((protected, generation), (false, Some(Generation::Lto4)));
    }

    #[test]
    fn generation_is_given_once() {
        let declared = |generation| Declared {
            generation: Some(generation),
            ..Declared::default()
        };
        let without = Header::new("HAK001L4".to_owned(), false, 1 << 20);
        let given = declared(Generation::Lto4).applied(&without).unwrap();
        assert_eq!(given.generation, Some(Generation::Lto4));
        let failure = declared(Generation::Lto5).applied(&given).unwrap_err();
        let message = "HAK001L4 is an LTO-4 cartridge, not one of LTO-5";
        assert!(failure.message.contains(message), "{}", failure.message);
        let new = declared(Generation::Lto6).header("HAK002L6", 1 << 20);
        assert_eq!(new.generation, Some(Generation::Lto6));
    }
}
