//! Status and sense data (SAM-5 section 5.3, SPC-4 section 4.5): how a device reports errors.
use crate::octets::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// SCSI status byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u8);

impl Status {
    /// The command completed.
    pub const GOOD: Status = Status(0x00);
    /// Sense data has the details.
    pub const CHECK_CONDITION: Status = Status(0x02);
    /// The condition of the command was met: all blocks of a PRE-FETCH fit the cache.
    pub const CONDITION_MET: Status = Status(0x04);
    /// The LU is busy.
    pub const BUSY: Status = Status(0x08);
    /// Another initiator has reserved the LU.
    pub const RESERVATION_CONFLICT: Status = Status(0x18);
    /// The task set is full.
    pub const TASK_SET_FULL: Status = Status(0x28);
    /// Auto contingent allegiance is active.
    pub const ACA_ACTIVE: Status = Status(0x30);
    /// Another initiator aborted the task.
    pub const TASK_ABORTED: Status = Status(0x40);
}

/// Sense key (SPC-4 table 48).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SenseKey {
    /// No error.
    #[default]
    NoSense = 0x0,
    /// Completed after recovery.
    RecoveredError = 0x1,
    /// Not accessible now.
    NotReady = 0x2,
    /// Medium error.
    MediumError = 0x3,
    /// Hardware error.
    HardwareError = 0x4,
    /// Invalid command.
    IllegalRequest = 0x5,
    /// A change of state that the initiator must be notified of.
    UnitAttention = 0x6,
    /// The data is protected against the command.
    DataProtect = 0x7,
    /// Blank medium.
    BlankCheck = 0x8,
    /// Vendor-specific.
    VendorSpecific = 0x9,
    /// EXTENDED COPY was aborted.
    CopyAborted = 0xa,
    /// Aborted; may be retried.
    AbortedCommand = 0xb,
    /// Reserved.
    Reserved = 0xc,
    /// End of the medium.
    VolumeOverflow = 0xd,
    /// A comparison of data failed.
    Miscompare = 0xe,
    /// Completed.
    Completed = 0xf,
}

impl SenseKey {
    const ALL: [SenseKey; 16] = {
        use SenseKey::*;
        [
            NoSense,
            RecoveredError,
            NotReady,
            MediumError,
            HardwareError,
            IllegalRequest,
            UnitAttention,
            DataProtect,
            BlankCheck,
            VendorSpecific,
            CopyAborted,
            AbortedCommand,
            Reserved,
            VolumeOverflow,
            Miscompare,
            Completed,
        ]
    };

    /// Returns the value of the low four bits.
    pub fn from_code(code: u8) -> SenseKey {
        SenseKey::ALL[usize::from(code & 0x0f)]
    }
}

/// Additional sense code and qualifier (SPC-4 annex F).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AdditionalSense {
    /// ADDITIONAL SENSE CODE.
    pub code: u8,
    /// ADDITIONAL SENSE CODE QUALIFIER.
    pub qualifier: u8,
}

/// The invalid field of a CDB or parameter list (sense-key specific data of ILLEGAL REQUEST, SPC-4
/// section 4.5.2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldPointer {
    /// Whether the field is in the CDB. Otherwise it is in the parameter list.
    pub in_cdb: bool,
    /// First byte of the field, from 0.
    pub byte: u16,
    /// Most significant bit of the field within the byte, if the field is smaller than a byte.
    pub bit: Option<u8>,
}

/// Conditions of a sequential-access device (SSC-3 section 4.2.17), beside the sense key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamConditions {
    /// FILEMARK: a filemark was read or reached.
    pub filemark: bool,
    /// EOM: the beginning or the (early warning of the) end of the medium was reached.
    pub end_of_medium: bool,
    /// ILI: a block has another length than the requested one.
    pub incorrect_length: bool,
}

impl StreamConditions {
    /// Returns the bits as both formats have them.
    fn bits(self) -> u8 {
        u8::from(self.filemark) << 7
            | u8::from(self.end_of_medium) << 6
            | u8::from(self.incorrect_length) << 5
    }

    fn from_bits(bits: u8) -> StreamConditions {
        StreamConditions {
            filemark: bits & 0x80 != 0,
            end_of_medium: bits & 0x40 != 0,
            incorrect_length: bits & 0x20 != 0,
        }
    }
}

/// Sense data. It is small and `Copy`, because it is passed by value from the drive to the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sense {
    /// Sense key.
    pub key: SenseKey,
    /// Additional sense code.
    pub additional: AdditionalSense,
    /// INFORMATION: for most errors of a disk, the LBA; of a tape drive, the part of the request
    /// that was not done. A negative value is in two's complement.
    pub information: Option<u64>,
    /// Invalid field, for ILLEGAL REQUEST.
    pub field: Option<FieldPointer>,
    /// PROGRESS INDICATION, for NOT READY: progress of the current operation in units of 1/65 536.
    pub progress: Option<u16>,
    /// Conditions of a sequential-access device.
    pub stream: StreamConditions,
    /// Whether the error belongs to an earlier command, which ended with GOOD (response codes 71h
    /// and 73h).
    pub deferred: bool,
}

macro_rules! senses {
    ($($(#[$doc:meta])* $name:ident = $key:ident, $code:literal, $qualifier:literal;)*) => {
        $($(#[$doc])* pub const $name: Sense = Sense::new(SenseKey::$key, $code, $qualifier);)*
    };
}

impl Sense {
    senses! {
        /// No error.
        NO_SENSE = NoSense, 0x00, 0x00;
        /// The early warning or the end of the partition was reached.
        END_OF_PARTITION_DETECTED = NoSense, 0x00, 0x02;
        /// The zone before early warning, whose size an initiator has set, was reached.
        PROGRAMMABLE_EARLY_WARNING_DETECTED = NoSense, 0x00, 0x07;
        /// The beginning of the partition was reached.
        BEGINNING_OF_PARTITION_DETECTED = NoSense, 0x00, 0x04;
        /// A filemark was read or reached.
        FILEMARK_DETECTED = NoSense, 0x00, 0x01;
        /// The cartridge is being loaded.
        BECOMING_READY = NotReady, 0x04, 0x01;
        /// An operation continues after its command.
        OPERATION_IN_PROGRESS = NotReady, 0x04, 0x07;
        /// The LU is stopped; START is needed.
        INITIALIZING_COMMAND_REQUIRED = NotReady, 0x04, 0x02;
        /// The port is changing its state.
        ASYMMETRIC_ACCESS_STATE_TRANSITION = NotReady, 0x04, 0x0a;
        /// The port is in standby state.
        TARGET_PORT_IN_STANDBY_STATE = NotReady, 0x04, 0x0b;
        /// The port is not available.
        TARGET_PORT_IN_UNAVAILABLE_STATE = NotReady, 0x04, 0x0c;
        /// The medium was removed.
        MEDIUM_NOT_PRESENT = NotReady, 0x3a, 0x00;
        /// Space allocation is in progress; to be retried.
        SPACE_ALLOCATION_IN_PROGRESS = NotReady, 0x04, 0x14;
        /// An element that the command needs is open.
        A_DOOR_IS_OPEN = NotReady, 0x04, 0x18;
        /// SANITIZE is in progress.
        SANITIZE_IN_PROGRESS = NotReady, 0x04, 0x1b;
        /// The last SANITIZE failed; the LU must not be used.
        SANITIZE_COMMAND_FAILED = MediumError, 0x31, 0x03;
        /// A write failed.
        WRITE_ERROR = MediumError, 0x0c, 0x00;
        /// A read failed.
        UNRECOVERED_READ_ERROR = MediumError, 0x11, 0x00;
        /// The cartridge has a format that the drive does not read.
        CANNOT_READ_MEDIUM_UNKNOWN_FORMAT = MediumError, 0x30, 0x01;
        /// The data does not fit in the rest of the partition.
        PHYSICAL_END_OF_PARTITION = VolumeOverflow, 0x00, 0x02;
        /// The end of the recorded data was reached.
        END_OF_DATA_DETECTED = BlankCheck, 0x00, 0x05;
        /// Internal failure of the device.
        INTERNAL_TARGET_FAILURE = HardwareError, 0x44, 0x00;
        /// Unknown command.
        INVALID_COMMAND_OPERATION_CODE = IllegalRequest, 0x20, 0x00;
        /// A block is beyond the last block of the LU.
        LBA_OUT_OF_RANGE = IllegalRequest, 0x21, 0x00;
        /// The source of a move has no cartridge.
        MEDIUM_SOURCE_ELEMENT_EMPTY = IllegalRequest, 0x3b, 0x0e;
        /// The destination of a move has a cartridge.
        MEDIUM_DESTINATION_ELEMENT_FULL = IllegalRequest, 0x3b, 0x0d;
        /// The position is not the one that the command states.
        SEQUENTIAL_POSITIONING_ERROR = IllegalRequest, 0x3b, 0x00;
        /// The medium changer has no element with this address.
        INVALID_ELEMENT_ADDRESS = IllegalRequest, 0x21, 0x01;
        /// A field of the CDB is invalid.
        INVALID_FIELD_IN_CDB = IllegalRequest, 0x24, 0x00;
        /// The LU does not exist.
        LOGICAL_UNIT_NOT_SUPPORTED = IllegalRequest, 0x25, 0x00;
        /// A field of the parameter list is invalid.
        INVALID_FIELD_IN_PARAMETER_LIST = IllegalRequest, 0x26, 0x00;
        /// RELEASE of a reservation with a type or scope that it is not held with.
        INVALID_RELEASE_OF_PERSISTENT_RESERVATION = IllegalRequest, 0x26, 0x04;
        /// The device lacks resources for another registration.
        INSUFFICIENT_REGISTRATION_RESOURCES = IllegalRequest, 0x55, 0x04;
        /// The command needs another one before it.
        COMMAND_SEQUENCE_ERROR = IllegalRequest, 0x2c, 0x00;
        /// An initiator prevents removal of the medium.
        MEDIUM_REMOVAL_PREVENTED = IllegalRequest, 0x53, 0x02;
        /// The length of the parameter list differs from the stated length.
        PARAMETER_LIST_LENGTH_ERROR = IllegalRequest, 0x1a, 0x00;
        /// Mode pages cannot be saved.
        SAVING_PARAMETERS_NOT_SUPPORTED = IllegalRequest, 0x39, 0x00;
        /// The LU may not be written.
        WRITE_PROTECTED = DataProtect, 0x27, 0x00;
        /// The cartridge has a format that the drive only reads.
        CANNOT_WRITE_MEDIUM_INCOMPATIBLE_FORMAT = DataProtect, 0x30, 0x05;
        /// An initiator has protected the LU (SWP of the control mode page).
        LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED = DataProtect, 0x27, 0x02;
        /// The pool is full.
        SPACE_ALLOCATION_FAILED_WRITE_PROTECT = DataProtect, 0x27, 0x07;
        /// The medium was loaded and may have changed.
        MEDIUM_MAY_HAVE_CHANGED = UnitAttention, 0x28, 0x00;
        /// An import and export element was open.
        IMPORT_OR_EXPORT_ELEMENT_ACCESSED = UnitAttention, 0x28, 0x01;
        /// The device was reset, by any kind of reset.
        POWER_ON_RESET_OR_BUS_DEVICE_RESET = UnitAttention, 0x29, 0x00;
        /// Power was switched on.
        POWER_ON = UnitAttention, 0x29, 0x01;
        /// The LU was reset.
        BUS_DEVICE_RESET_FUNCTION = UnitAttention, 0x29, 0x03;
        /// The session was lost.
        I_T_NEXUS_LOSS = UnitAttention, 0x29, 0x07;
        /// Mode pages changed.
        MODE_PARAMETERS_CHANGED = UnitAttention, 0x2a, 0x01;
        /// Another initiator took the reservation.
        RESERVATIONS_PREEMPTED = UnitAttention, 0x2a, 0x03;
        /// The reservation was released.
        RESERVATIONS_RELEASED = UnitAttention, 0x2a, 0x04;
        /// Another initiator removed the registration.
        REGISTRATIONS_PREEMPTED = UnitAttention, 0x2a, 0x05;
        /// The access state of the port changed.
        ASYMMETRIC_ACCESS_STATE_CHANGED = UnitAttention, 0x2a, 0x06;
        /// The size of the LU changed.
        CAPACITY_DATA_CHANGED = UnitAttention, 0x2a, 0x09;
        /// Another initiator cleared the commands.
        COMMANDS_CLEARED_BY_ANOTHER_INITIATOR = UnitAttention, 0x2f, 0x00;
        /// A soft threshold of the pool was crossed.
        THIN_PROVISIONING_SOFT_THRESHOLD_REACHED = UnitAttention, 0x38, 0x07;
        /// INQUIRY data changed.
        INQUIRY_DATA_CHANGED = UnitAttention, 0x3f, 0x03;
        /// Identifying information of the device changed.
        DEVICE_IDENTIFIER_CHANGED = UnitAttention, 0x3f, 0x05;
        /// The set of LUs changed.
        REPORTED_LUNS_DATA_CHANGED = UnitAttention, 0x3f, 0x0e;
        /// Aborted without a more specific reason.
        ABORTED_COMMAND = AbortedCommand, 0x00, 0x00;
        /// Unexpected unsolicited data (RFC 7143 section 11.4.7.2).
        UNEXPECTED_UNSOLICITED_DATA = AbortedCommand, 0x0c, 0x0c;
        /// Less unsolicited data than announced (RFC 7143 section 11.4.7.2).
        NOT_ENOUGH_UNSOLICITED_DATA = AbortedCommand, 0x0c, 0x0d;
        /// Data digest error (RFC 7143 section 11.4.7.2).
        PROTOCOL_SERVICE_CRC_ERROR = AbortedCommand, 0x47, 0x05;
        /// SNACK was rejected (RFC 7143 section 11.4.7.2).
        SNACK_REJECTED = AbortedCommand, 0x11, 0x13;
        /// Aborted because the connection or session ended (iSCSI: task set cleared).
        NEXUS_LOSS_ABORT = AbortedCommand, 0x29, 0x07;
        /// Data beyond the command's length.
        DATA_PHASE_ERROR = AbortedCommand, 0x4b, 0x00;
        /// The data differs from the comparison data.
        MISCOMPARE_DURING_VERIFY = Miscompare, 0x1d, 0x00;
    }

    /// Creates sense data of a key, a code and its qualifier.
    pub const fn new(key: SenseKey, code: u8, qualifier: u8) -> Sense {
        Sense {
            key,
            additional: AdditionalSense { code, qualifier },
            information: None,
            field: None,
            progress: None,
            stream: StreamConditions {
                filemark: false,
                end_of_medium: false,
                incorrect_length: false,
            },
            deferred: false,
        }
    }

    /// Returns the sense data with conditions of a sequential-access device.
    #[must_use]
    pub const fn with_stream(mut self, stream: StreamConditions) -> Sense {
        self.stream = stream;
        self
    }

    /// Returns the sense data as those of an earlier command, which ended with GOOD.
    #[must_use]
    pub const fn as_deferred(mut self) -> Sense {
        self.deferred = true;
        self
    }

    /// Returns the sense data with another qualifier.
    #[must_use]
    pub const fn qualified(mut self, qualifier: u8) -> Sense {
        self.additional.qualifier = qualifier;
        self
    }

    /// Returns the sense data with INFORMATION. For most errors of a disk this is the LBA.
    #[must_use]
    pub const fn with_information(mut self, information: u64) -> Sense {
        self.information = Some(information);
        self
    }

    /// Returns the sense data with a field pointer.
    #[must_use]
    pub const fn with_field(mut self, field: FieldPointer) -> Sense {
        self.field = Some(field);
        self
    }

    /// Returns the sense data with a progress indication.
    #[must_use]
    pub const fn with_progress(mut self, progress: u16) -> Sense {
        self.progress = Some(progress);
        self
    }

    /// Emits fixed format (response code 70h or 71h), 18 bytes. An INFORMATION above 2^32 - 1 does not fit
    /// and is left out (VALID 0), unless it is the negative difference of an incorrect length.
    pub fn emit_fixed(&self) -> [u8; 18] {
        let mut out = [0; 18];
        out[0] = if self.deferred { 0x71 } else { 0x70 };
        out[2] = self.key as u8 | self.stream.bits();
        if let Some(information) = self.information_32() {
            out[0] |= 0x80;
            put_u32(&mut out, 3, information);
        }
        out[7] = 10;
        out[12] = self.additional.code;
        out[13] = self.additional.qualifier;
        if let Some(specific) = self.key_specific() {
            out[15..18].copy_from_slice(&specific);
        }
        out
    }

    /// Returns INFORMATION as the fixed format has it.
    fn information_32(&self) -> Option<u32> {
        let information = self.information?;
        if self.stream.incorrect_length {
            return i32::try_from(information as i64)
                .ok()
                .map(|value| value as u32);
        }
        u32::try_from(information).ok()
    }

    /// Appends descriptor format (response code 72h or 73h), 8 to 32 bytes, to `out`.
    pub fn emit_descriptor(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[
            if self.deferred { 0x73 } else { 0x72 },
            self.key as u8,
            self.additional.code,
            self.additional.qualifier,
            0,
            0,
            0,
            0,
        ]);
        if let Some(information) = self.information {
            let mut descriptor = [0x00, 0x0a, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            put_u64(&mut descriptor, 4, information);
            out.extend_from_slice(&descriptor);
        }
        if let Some(specific) = self.key_specific() {
            let mut descriptor = [0x02, 0x06, 0, 0, 0, 0, 0, 0];
            descriptor[4..7].copy_from_slice(&specific);
            out.extend_from_slice(&descriptor);
        }
        if self.stream != StreamConditions::default() {
            out.extend_from_slice(&[0x04, 0x02, 0, self.stream.bits()]);
        }
        out[begin + 7] = (out.len() - begin - 8) as u8;
    }

    /// Returns SENSE KEY SPECIFIC: SKSV, C/D, BPV, BIT POINTER and FIELD POINTER; or SKSV and
    /// PROGRESS INDICATION.
    fn key_specific(&self) -> Option<[u8; 3]> {
        let mut out = [0x80, 0, 0];
        match (self.field, self.progress) {
            (Some(field), _) => {
                out[0] |= if field.in_cdb { 0x40 } else { 0 }
                    | field.bit.map_or(0, |bit| 0x08 | (bit & 7));
                put_u16(&mut out, 1, field.byte);
            }
            (None, Some(progress)) => put_u16(&mut out, 1, progress),
            (None, None) => return None,
        }
        Some(out)
    }

    /// Parses either format, current or deferred. `None` for another response code or a missing
    /// key. Truncated fields count as absent.
    pub fn parse(bytes: &[u8]) -> Option<Sense> {
        match bytes.first()? & 0x7f {
            0x70 => parse_fixed(bytes),
            0x71 => parse_fixed(bytes).map(Sense::as_deferred),
            0x72 => parse_descriptor(bytes),
            0x73 => parse_descriptor(bytes).map(Sense::as_deferred),
            _ => None,
        }
    }

    /// Emits the data segment of a SCSI Response: SenseLength, then sense data in fixed format (RFC
    /// 7143 section 11.4.7).
    pub fn emit_response_data(&self) -> [u8; 20] {
        let mut out = [0; 20];
        put_u16(&mut out, 0, 18);
        out[2..].copy_from_slice(&self.emit_fixed());
        out
    }

    /// Emits the data segment in descriptor format.
    pub fn emit_descriptor_response_data(&self) -> Vec<u8> {
        let mut out = vec![0; 2];
        self.emit_descriptor(&mut out);
        let length = out.len() as u16 - 2;
        put_u16(&mut out, 0, length);
        out
    }

    /// Parses the sense data in the data segment of a SCSI Response.
    pub fn parse_response_data(bytes: &[u8]) -> Option<Sense> {
        let (length, rest) = bytes.split_at_checked(2)?;
        Sense::parse(rest.get(..usize::from(u16_at(length, 0)).min(rest.len()))?)
    }
}

impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let AdditionalSense { code, qualifier } = self.additional;
        write!(f, "{:?} {code:02X}h/{qualifier:02X}h", self.key)?;
        self.information.map_or(Ok(()), |information| {
            write!(f, " information {information}")
        })
    }
}

fn parse_field(bytes: &[u8]) -> Option<FieldPointer> {
    let valid = bytes.len() >= 3 && bytes[0] & 0x80 != 0;
    valid.then(|| FieldPointer {
        in_cdb: bytes[0] & 0x40 != 0,
        byte: u16_at(bytes, 1),
        bit: (bytes[0] & 0x08 != 0).then_some(bytes[0] & 7),
    })
}

fn parse_progress(bytes: &[u8]) -> Option<u16> {
    (bytes[0] & 0x80 != 0).then(|| u16_at(bytes, 1))
}

fn parse_fixed(bytes: &[u8]) -> Option<Sense> {
    let key = SenseKey::from_code(*bytes.get(2)?);
    // ADDITIONAL SENSE LENGTH, if received, bounds the valid bytes.
    let length = bytes
        .get(7)
        .map_or(8, |more| 8 + usize::from(*more))
        .min(bytes.len());
    let bytes = &bytes[..length];
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let stream = StreamConditions::from_bits(at(2));
    let information = (bytes[0] & 0x80 != 0 && bytes.len() >= 7).then(|| {
        let information = u32_at(bytes, 3);
        if stream.incorrect_length {
            i64::from(information as i32) as u64
        } else {
            information.into()
        }
    });
    let specific = bytes.get(15..18);
    let field = specific
        .filter(|_| key == SenseKey::IllegalRequest)
        .and_then(parse_field);
    let progress = specific
        .filter(|_| key == SenseKey::NotReady)
        .and_then(parse_progress);
    Some(Sense {
        key,
        additional: AdditionalSense {
            code: at(12),
            qualifier: at(13),
        },
        information,
        field,
        progress,
        stream,
        deferred: false,
    })
}

fn parse_descriptor(bytes: &[u8]) -> Option<Sense> {
    let [_, key, code, qualifier, ..] = *bytes else {
        return None;
    };
    let mut sense = Sense::new(SenseKey::from_code(key), code, qualifier);
    let length = bytes.get(7).map_or(0, |more| usize::from(*more));
    let mut rest = bytes.get(8..).unwrap_or(&[]);
    rest = &rest[..rest.len().min(length)];
    while let [kind, length, ..] = *rest {
        let Some((descriptor, after)) = rest.split_at_checked(2 + usize::from(length)) else {
            break;
        };
        match kind {
            0x00 if descriptor.len() >= 12 && descriptor[2] & 0x80 != 0 => {
                sense.information = Some(u64_at(descriptor, 4))
            }
            0x02 if sense.key == SenseKey::IllegalRequest => {
                sense.field = descriptor.get(4..7).and_then(parse_field)
            }
            0x02 if sense.key == SenseKey::NotReady => {
                sense.progress = descriptor.get(4..7).and_then(parse_progress)
            }
            0x04 if descriptor.len() >= 4 => {
                sense.stream = StreamConditions::from_bits(descriptor[3])
            }
            _ => {}
        }
        rest = after;
    }
    Some(sense)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lba_out_of_range_is_laid_out_as_in_spc() {
        let fixed = Sense::LBA_OUT_OF_RANGE
            .with_information(0x0102_0304)
            .emit_fixed();
        assert_eq!(
            fixed,
            [0xf0, 0, 5, 1, 2, 3, 4, 10, 0, 0, 0, 0, 0x21, 0, 0, 0, 0, 0]
        );
        let mut descriptor = Vec::new();
        Sense::LBA_OUT_OF_RANGE
            .with_information(0x0102_0304_0506)
            .emit_descriptor(&mut descriptor);
        assert_eq!(
            descriptor,
            [
                0x72, 5, 0x21, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 1, 2, 3, 4, 5, 6
            ]
        );
    }

    #[test]
    fn information_that_does_not_fit_the_fixed_format_is_omitted() {
        let sense = Sense::LBA_OUT_OF_RANGE.with_information(1 << 40);
        assert_eq!(Sense::parse(&sense.emit_fixed()).unwrap().information, None);
    }

    #[test]
    fn block_that_is_longer_than_requested_is_laid_out_as_in_ssc() {
        let sense = Sense::NO_SENSE
            .with_stream(StreamConditions {
                incorrect_length: true,
                ..StreamConditions::default()
            })
            .with_information(-16_i64 as u64);
        let fixed = [0xf0, 0, 0x20, 0xff, 0xff, 0xff, 0xf0, 10];
        assert_eq!(sense.emit_fixed()[..8], fixed);
        let mut descriptor = Vec::new();
        sense.emit_descriptor(&mut descriptor);
        assert_eq!(descriptor[20..], [0x04, 0x02, 0, 0x20]);
    }

    fn senses() -> impl Strategy<Value = Sense> {
        let field = (any::<bool>(), any::<u16>(), proptest::option::of(0u8..8));
        (
            0u8..16,
            any::<(u8, u8)>(),
            any::<Option<u32>>(),
            proptest::option::of(field),
            any::<Option<u16>>(),
            any::<u8>().prop_map(StreamConditions::from_bits),
            any::<bool>(),
        )
            .prop_map(
                |(key, (code, qualifier), information, field, progress, stream, deferred)| {
                    let extended = |value: u32| match stream.incorrect_length {
                        true => i64::from(value as i32) as u64,
                        false => value.into(),
                    };
                    let key = SenseKey::from_code(key);
                    let field = field
                        .filter(|_| key == SenseKey::IllegalRequest)
                        .map(|(in_cdb, byte, bit)| FieldPointer { in_cdb, byte, bit });
                    Sense {
                        key,
                        additional: AdditionalSense { code, qualifier },
                        information: information.map(extended),
                        field,
                        progress: progress.filter(|_| key == SenseKey::NotReady),
                        stream,
                        deferred,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn sense_survives_both_formats(sense in senses()) {
            prop_assert_eq!(Sense::parse(&sense.emit_fixed()), Some(sense));
            prop_assert_eq!(Sense::parse_response_data(&sense.emit_response_data()), Some(sense));
            prop_assert_eq!(Sense::parse_response_data(&sense.emit_descriptor_response_data()), Some(sense));
            let mut descriptor = Vec::new();
            sense.emit_descriptor(&mut descriptor);
            prop_assert_eq!(Sense::parse(&descriptor), Some(sense));
        }

        #[test]
        fn no_sense_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), code in 0x70u8..0x74) {
            let _ = Sense::parse(&bytes);
            let _ = Sense::parse_response_data(&bytes);
            if let Some(first) = bytes.first_mut() { *first = code; }
            let _ = Sense::parse(&bytes);
        }
    }
}
