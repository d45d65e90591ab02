//! Conditions that end a command of a tape drive, and their sense data.

use hakaru_wire::scsi::{CdbError, Sense, StreamConditions};

/// The condition with which a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A filemark was read or reached. `undone` is the part of the request that was not done.
    Filemark {
        /// Bytes or blocks.
        undone: u64,
    },
    /// The block has another length than the requested one. `difference` is the requested length
    /// minus the actual one in bytes; with fixed blocks, the number of blocks not read.
    IncorrectLength {
        /// Bytes or blocks.
        difference: i64,
    },
    /// The end of the recorded data was reached.
    EndOfData {
        /// Bytes, blocks or filemarks that were not passed over or read; `None` for LOCATE.
        undone: Option<u64>,
    },
    /// The beginning of the partition was reached.
    Beginning {
        /// Blocks or filemarks that were not passed over.
        undone: u64,
    },
    /// Data or filemarks were written, and little space is left.
    EarlyWarning,
    /// Data or filemarks were written, and the zone before early warning was entered
    /// ([`crate::Drive::warning_megabytes`]).
    ProgrammableWarning,
    /// The data does not fit in the rest of the partition.
    Overflow {
        /// Bytes or blocks that were not written.
        undone: u64,
    },
    /// The drive has no cartridge, or has ejected it.
    NoMedium,
    /// The cartridge is of a generation that the drive does not read.
    UnknownFormat,
    /// The cartridge is write-protected.
    WriteProtected,
    /// The cartridge is of a generation that the drive only reads.
    ReadOnlyFormat,
    /// A field of the CDB has an invalid value.
    InvalidField {
        /// Byte of the field.
        byte: u16,
        /// Most significant bit of the field, if it is less than a byte.
        bit: Option<u8>,
    },
}

impl Condition {
    /// Returns the sense data (SSC-3 table 11 and the command descriptions).
    #[must_use]
    pub fn sense(self) -> Sense {
        let filemark = StreamConditions {
            filemark: true,
            ..StreamConditions::default()
        };
        let end_of_medium = StreamConditions {
            end_of_medium: true,
            ..StreamConditions::default()
        };
        let incorrect_length = StreamConditions {
            incorrect_length: true,
            ..StreamConditions::default()
        };
        match self {
            Condition::Filemark { undone } => Sense::FILEMARK_DETECTED
                .with_stream(filemark)
                .with_information(undone),
            Condition::IncorrectLength { difference } => Sense::NO_SENSE
                .with_stream(incorrect_length)
                .with_information(difference as u64),
            Condition::EndOfData { undone } => match undone {
                Some(undone) => Sense::END_OF_DATA_DETECTED.with_information(undone),
                None => Sense::END_OF_DATA_DETECTED,
            },
            Condition::Beginning { undone } => Sense::BEGINNING_OF_PARTITION_DETECTED
                .with_stream(end_of_medium)
                .with_information(undone),
            // With additional sense 00h/00h, programs would take the write for an unlimited one.
            Condition::EarlyWarning => Sense::END_OF_PARTITION_DETECTED
                .with_stream(end_of_medium)
                .with_information(0),
            Condition::ProgrammableWarning => Sense::PROGRAMMABLE_EARLY_WARNING_DETECTED
                .with_stream(end_of_medium)
                .with_information(0),
            Condition::Overflow { undone } => Sense::PHYSICAL_END_OF_PARTITION
                .with_stream(end_of_medium)
                .with_information(undone),
            Condition::NoMedium => Sense::MEDIUM_NOT_PRESENT,
            Condition::UnknownFormat => Sense::CANNOT_READ_MEDIUM_UNKNOWN_FORMAT,
            Condition::WriteProtected => Sense::WRITE_PROTECTED,
            Condition::ReadOnlyFormat => Sense::CANNOT_WRITE_MEDIUM_INCOMPATIBLE_FORMAT,
            Condition::InvalidField { byte, bit } => CdbError::InvalidField { byte, bit }.sense(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte 0, key byte, INFORMATION, ASC and ASCQ of fixed sense data.
    fn laid_out(condition: Condition) -> (u8, u8, u32, u8, u8) {
        let sense = condition.sense().emit_fixed();
        let information = u32::from_be_bytes([sense[3], sense[4], sense[5], sense[6]]);
        (sense[0], sense[2], information, sense[12], sense[13])
    }

    #[test]
    fn sense_data_is_what_the_st_driver_relies_on() {
        let (valid, none) = (0xf0, 0x70);
        for (condition, expected) in [
            (Condition::Filemark { undone: 10 }, (valid, 0x80, 10, 0, 1)),
            (
                Condition::IncorrectLength { difference: 24 },
                (valid, 0x20, 24, 0, 0),
            ),
            (
                Condition::IncorrectLength { difference: -1 },
                (valid, 0x20, u32::MAX, 0, 0),
            ),
            (
                Condition::EndOfData { undone: Some(3) },
                (valid, 0x08, 3, 0, 5),
            ),
            (Condition::EndOfData { undone: None }, (none, 0x08, 0, 0, 5)),
            (Condition::Beginning { undone: 2 }, (valid, 0x40, 2, 0, 4)),
            (Condition::EarlyWarning, (valid, 0x40, 0, 0, 2)),
            (Condition::ProgrammableWarning, (valid, 0x40, 0, 0, 7)),
            (Condition::Overflow { undone: 7 }, (valid, 0x4d, 7, 0, 2)),
            (Condition::NoMedium, (none, 0x02, 0, 0x3a, 0)),
            (Condition::UnknownFormat, (none, 0x03, 0, 0x30, 1)),
            (Condition::WriteProtected, (none, 0x07, 0, 0x27, 0)),
            (Condition::ReadOnlyFormat, (none, 0x07, 0, 0x30, 5)),
        ] {
            assert_eq!(laid_out(condition), expected, "{condition:?}");
        }
    }
}
