//! Properties of LTO generations.

/// A generation of LTO drives and cartridges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// LTO-3, 400 GB.
    Lto3,
    /// LTO-4, 800 GB.
    Lto4,
    /// LTO-5, 1500 GB.
    Lto5,
    /// LTO-6, 2500 GB.
    Lto6,
}

/// A recording format, as REPORT DENSITY SUPPORT describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Density {
    /// Density code of mode data.
    pub code: u8,
    /// Bits per millimetre of a track.
    pub bits_per_mm: u32,
    /// Number of data tracks.
    pub tracks: u16,
    /// Native capacity, 10^6 bytes.
    pub capacity_mb: u32,
    /// Name of the format.
    pub name: &'static str,
    /// Description.
    pub description: &'static str,
}

impl Generation {
    /// All generations, ascending.
    pub const ALL: [Generation; 4] = [
        Generation::Lto3,
        Generation::Lto4,
        Generation::Lto5,
        Generation::Lto6,
    ];

    /// Returns the number of the generation.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Generation::Lto3 => 3,
            Generation::Lto4 => 4,
            Generation::Lto5 => 5,
            Generation::Lto6 => 6,
        }
    }

    /// Returns the generation with this number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Generation> {
        let mut all = Generation::ALL.into_iter();
        all.find(|generation| generation.number() == number)
    }

    /// Whether a drive of this generation reads cartridges of another one: its own, and the two
    /// before.
    #[must_use]
    pub const fn reads(self, cartridge: Generation) -> bool {
        matches!(self.number().checked_sub(cartridge.number()), Some(0..=2))
    }

    /// Whether a drive of this generation writes cartridges of another one, in the format of the
    /// cartridge: its own, and the one before.
    #[must_use]
    pub const fn writes(self, cartridge: Generation) -> bool {
        matches!(self.number().checked_sub(cartridge.number()), Some(0..=1))
    }

    /// Returns the generations of cartridges that a drive of this generation reads, ascending.
    pub fn readable(self) -> impl Iterator<Item = Generation> {
        let all = Generation::ALL.into_iter();
        all.filter(move |cartridge| self.reads(*cartridge))
    }

    /// Returns the recording format of the generation.
    #[must_use]
    pub const fn density(self) -> Density {
        let (code, bits_per_mm, tracks, capacity_mb, name, description) = match self {
            Generation::Lto3 => (0x44, 9638, 704, 400_000, "U-316", "Ultrium 3/16T"),
            Generation::Lto4 => (0x46, 12_725, 896, 800_000, "U-416", "Ultrium 4/16T"),
            Generation::Lto5 => (0x58, 15_142, 1280, 1_500_000, "U-516", "Ultrium 5/16T"),
            Generation::Lto6 => (0x5a, 15_143, 2176, 2_500_000, "U-616", "Ultrium 6/16T"),
        };
        Density {
            code,
            bits_per_mm,
            tracks,
            capacity_mb,
            name,
            description,
        }
    }

    /// Returns the PRODUCT IDENTIFICATION of a drive.
    #[must_use]
    pub const fn product(self) -> &'static str {
        match self {
            Generation::Lto3 => "TAPE LTO-3",
            Generation::Lto4 => "TAPE LTO-4",
            Generation::Lto5 => "TAPE LTO-5",
            Generation::Lto6 => "TAPE LTO-6",
        }
    }

    /// Returns the length of the tape, m. `docs/reference/array.md` states its source.
    #[must_use]
    pub const fn length_m(self) -> u32 {
        match self {
            Generation::Lto3 => 680,
            Generation::Lto4 => 820,
            Generation::Lto5 | Generation::Lto6 => 846,
        }
    }

    /// Returns the name of the format of a cartridge (VOLUME PERSONALITY).
    #[must_use]
    pub const fn personality(self) -> &'static str {
        match self {
            Generation::Lto3 => "Ultrium-3",
            Generation::Lto4 => "Ultrium-4",
            Generation::Lto5 => "Ultrium-5",
            Generation::Lto6 => "Ultrium-6",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_reads_two_generations_back_and_writes_one() {
        use Generation::{Lto3, Lto4, Lto5, Lto6};
        let written = |drive: Generation| {
            let all = Generation::ALL.into_iter();
            all.filter(|cartridge| drive.writes(*cartridge))
                .collect::<Vec<_>>()
        };
        for (drive, read, writes) in [
            (Lto3, &[Lto3][..], &[Lto3][..]),
            (Lto4, &[Lto3, Lto4], &[Lto3, Lto4]),
            (Lto5, &[Lto3, Lto4, Lto5], &[Lto4, Lto5]),
            (Lto6, &[Lto4, Lto5, Lto6], &[Lto5, Lto6]),
        ] {
            assert_eq!(drive.readable().collect::<Vec<_>>(), read, "{drive:?}");
            assert_eq!(written(drive), writes, "{drive:?}");
        }
    }

    #[test]
    fn generations_and_their_density_codes_ascend() {
        assert!(Generation::ALL.is_sorted());
        assert!(Generation::ALL.is_sorted_by_key(|generation| generation.density().code));
        let numbered = (0..=u8::MAX).filter_map(Generation::of_number);
        assert_eq!(numbered.collect::<Vec<_>>(), Generation::ALL);
    }
}
