//! Logical unit numbers as eight bytes (SAM-5 section 4.7).

/// The eight bytes of a LUN field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lun(pub u64);

impl Lun {
    /// Maximum number that [`Lun::new`] accepts: 14 bits of flat space addressing.
    pub const NUMBER_MAX: u16 = 0x3fff;

    /// Encodes a number: peripheral device addressing up to 255, flat space addressing above.
    ///
    /// # Panics
    /// Panics above [`Lun::NUMBER_MAX`].
    pub const fn new(number: u16) -> Lun {
        assert!(
            number <= Lun::NUMBER_MAX,
            "LUN does not fit a single-level address"
        );
        let first = if number < 256 {
            number
        } else {
            0x4000 | number
        };
        Lun((first as u64) << 48)
    }

    /// Returns the number of a single-level LUN in peripheral (bus 0) or flat space addressing.
    /// `None` for every other form.
    pub const fn number(self) -> Option<u16> {
        let first = (self.0 >> 48) as u16;
        if self.0 & 0x0000_ffff_ffff_ffff != 0 {
            return None;
        }
        match first >> 14 {
            0 if first < 256 => Some(first),
            1 => Some(first & Lun::NUMBER_MAX),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_the_field() {
        for number in 0..=Lun::NUMBER_MAX {
            assert_eq!(Lun::new(number).number(), Some(number));
        }
        assert_eq!(Lun::new(5), Lun(0x0005_0000_0000_0000));
        assert_eq!(Lun::new(256), Lun(0x4100_0000_0000_0000));
    }

    #[test]
    fn multi_level_extended_and_foreign_bus_addresses_have_no_number() {
        for raw in [
            1,
            0x0100_0000_0000_0000,
            0x0005_0001_0000_0000,
            0xc101_0000_0000_0000,
            0x8001_0000_0000_0000,
        ] {
            assert_eq!(Lun(raw).number(), None, "{raw:#x}");
        }
        assert_eq!(
            Lun(0x4005_0000_0000_0000).number(),
            Some(5),
            "flat space addressing also encodes small numbers"
        );
    }
}
