//! Command descriptor blocks (SPC-4 and SBC-3): what a disk is asked to do.
//!
//! The sizes of one command are unified: READ(6), (10), (12) and (16) are one [`Cdb::Read`]. `parse` refuses what is not implemented with the sense data
//! that a disk owes for it; the rest of SBC has its place in [`Cdb`] and in the `match` of [`Cdb::parse`].
use super::{FieldPointer, Sense};
use crate::octets::{put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at};

/// Operation codes.
#[allow(missing_docs)] // Each is the name of the command.
pub mod opcode {
    pub const TEST_UNIT_READY: u8 = 0x00;
    pub const REQUEST_SENSE: u8 = 0x03;
    pub const READ_6: u8 = 0x08;
    pub const WRITE_6: u8 = 0x0a;
    pub const INQUIRY: u8 = 0x12;
    pub const MODE_SENSE_6: u8 = 0x1a;
    pub const START_STOP_UNIT: u8 = 0x1b;
    pub const READ_CAPACITY_10: u8 = 0x25;
    pub const READ_10: u8 = 0x28;
    pub const WRITE_10: u8 = 0x2a;
    pub const SYNCHRONIZE_CACHE_10: u8 = 0x35;
    pub const MODE_SENSE_10: u8 = 0x5a;
    pub const READ_16: u8 = 0x88;
    pub const WRITE_16: u8 = 0x8a;
    pub const SYNCHRONIZE_CACHE_16: u8 = 0x91;
    /// With service action 10h: READ CAPACITY(16).
    pub const SERVICE_ACTION_IN_16: u8 = 0x9e;
    pub const REPORT_LUNS: u8 = 0xa0;
    pub const READ_12: u8 = 0xa8;
    pub const WRITE_12: u8 = 0xaa;
}

const READ_CAPACITY_16_ACTION: u8 = 0x10;

/// Blocks to read or write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// First block.
    pub lba: u64,
    /// Number of blocks. 0 moves nothing and is no error (the 6-byte form's 0 has become 256).
    pub blocks: u32,
    /// FUA: past the cache.
    pub fua: bool,
    /// DPO: do not keep in the cache.
    pub dpo: bool,
    /// RDPROTECT or WRPROTECT, 0 to 7.
    pub protect: u8,
}

/// PC field of MODE SENSE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PageControl {
    /// As they are.
    #[default]
    Current = 0,
    /// Ones where a bit may be changed.
    Changeable = 1,
    /// As they were made.
    Default = 2,
    /// As they are kept over power-off.
    Saved = 3,
}

/// MODE SENSE(6) or (10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSense {
    /// Ten-byte form, whose header is 8 bytes long instead of 4.
    pub ten: bool,
    /// DBD: no block descriptor is wanted.
    pub disable_block_descriptors: bool,
    /// LLBAA (ten-byte form): a long block descriptor may be sent.
    pub long_lba: bool,
    /// Which values.
    pub control: PageControl,
    /// Page; 3Fh for all.
    pub page: u8,
    /// Subpage; FFh for all.
    pub subpage: u8,
    /// Bytes at most.
    pub allocation_length: u16,
}

/// START STOP UNIT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartStopUnit {
    /// Answer at once.
    pub immediate: bool,
    /// POWER CONDITION; 0: START and LOEJ decide.
    pub power_condition: u8,
    /// NO_FLUSH: leave the cache as it is.
    pub no_flush: bool,
    /// LOEJ: load or eject the medium.
    pub load_eject: bool,
    /// Start rather than stop.
    pub start: bool,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cdb {
    /// TEST UNIT READY.
    TestUnitReady,
    /// REQUEST SENSE.
    RequestSense {
        /// DESC: descriptor format.
        descriptor_format: bool,
        /// Bytes at most.
        allocation_length: u8,
    },
    /// INQUIRY.
    Inquiry {
        /// The vital product data page that is wanted; `None`: standard data.
        page: Option<u8>,
        /// Bytes at most.
        allocation_length: u16,
    },
    /// MODE SENSE.
    ModeSense(ModeSense),
    /// START STOP UNIT.
    StartStopUnit(StartStopUnit),
    /// READ CAPACITY(10).
    ReadCapacity10,
    /// READ CAPACITY(16).
    ReadCapacity16 {
        /// Bytes at most.
        allocation_length: u32,
    },
    /// READ.
    Read(Transfer),
    /// WRITE.
    Write(Transfer),
    /// SYNCHRONIZE CACHE.
    SynchronizeCache {
        /// First block.
        lba: u64,
        /// Number of blocks; 0: to the end.
        blocks: u32,
        /// Answer at once.
        immediate: bool,
    },
    /// REPORT LUNS.
    ReportLuns {
        /// SELECT REPORT: 0 addressable, 1 well-known only, 2 all.
        select_report: u8,
        /// Bytes at most.
        allocation_length: u32,
    },
}

/// Why a CDB is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdbError {
    /// Not a command of ours.
    #[error("operation code {0:#04x} is not supported")]
    UnsupportedOpcode(u8),
    /// A field is wrong.
    #[error("invalid field in CDB byte {byte}")]
    InvalidField {
        /// Byte of the field.
        byte: u16,
        /// Most significant bit of the field, where it is less than a byte.
        bit: Option<u8>,
    },
    /// Fewer bytes than the command has.
    #[error("CDB is cut short")]
    Short,
}

impl CdbError {
    /// The sense data of the CHECK CONDITION that answers it.
    pub fn sense(self) -> Sense {
        match self {
            CdbError::UnsupportedOpcode(_) => Sense::INVALID_COMMAND_OPERATION_CODE,
            CdbError::InvalidField { byte, bit } => {
                Sense::INVALID_FIELD_IN_CDB.with_field(FieldPointer {
                    in_cdb: true,
                    byte,
                    bit,
                })
            }
            CdbError::Short => Sense::INVALID_FIELD_IN_CDB,
        }
    }
}

fn invalid(byte: u16, bit: u8) -> CdbError {
    CdbError::InvalidField {
        byte,
        bit: Some(bit),
    }
}

/// Length of a CDB by the group of its operation code (SPC-4 section 4.2.5.1); `None` for variable-length and vendor-specific ones.
fn length_of(opcode: u8) -> Option<usize> {
    match opcode >> 5 {
        0 => Some(6),
        1 | 2 => Some(10),
        4 => Some(16),
        5 => Some(12),
        _ => None,
    }
}

impl Cdb {
    /// Reads a command; `bytes` may be longer than the command is, as iSCSI's 16 are.
    ///
    /// # Errors
    /// An operation code or service action that is not listed here; a field that must be zero, NACA among them; too few bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Cdb, CdbError> {
        let opcode = *bytes.first().ok_or(CdbError::Short)?;
        let length = length_of(opcode).ok_or(CdbError::UnsupportedOpcode(opcode))?;
        let cdb = bytes.get(..length).ok_or(CdbError::Short)?;
        let command = parse_known(opcode, cdb)?;
        // CONTROL, always the last byte: NACA would promise auto contingent allegiance, which INQUIRY's NORMACA denies.
        if cdb[length - 1] & 0x04 != 0 {
            return Err(invalid(length as u16 - 1, 2));
        }
        Ok(command)
    }
}

#[inline]
fn parse_known(opcode: u8, cdb: &[u8]) -> Result<Cdb, CdbError> {
    Ok(match opcode {
        opcode::READ_10 => Cdb::Read(transfer(
            cdb,
            u64::from(u32_at(cdb, 2)),
            u32::from(u16_at(cdb, 7)),
        )),
        opcode::WRITE_10 => Cdb::Write(transfer(
            cdb,
            u64::from(u32_at(cdb, 2)),
            u32::from(u16_at(cdb, 7)),
        )),
        opcode::READ_16 => Cdb::Read(transfer(cdb, u64_at(cdb, 2), u32_at(cdb, 10))),
        opcode::WRITE_16 => Cdb::Write(transfer(cdb, u64_at(cdb, 2), u32_at(cdb, 10))),
        opcode::READ_12 => Cdb::Read(transfer(cdb, u64::from(u32_at(cdb, 2)), u32_at(cdb, 6))),
        opcode::WRITE_12 => Cdb::Write(transfer(cdb, u64::from(u32_at(cdb, 2)), u32_at(cdb, 6))),
        opcode::READ_6 => Cdb::Read(transfer_6(cdb)),
        opcode::WRITE_6 => Cdb::Write(transfer_6(cdb)),
        opcode::TEST_UNIT_READY => Cdb::TestUnitReady,
        opcode::REQUEST_SENSE => Cdb::RequestSense {
            descriptor_format: cdb[1] & 1 != 0,
            allocation_length: cdb[4],
        },
        opcode::INQUIRY => parse_inquiry(cdb)?,
        opcode::MODE_SENSE_6 | opcode::MODE_SENSE_10 => {
            Cdb::ModeSense(parse_mode_sense(opcode, cdb))
        }
        opcode::START_STOP_UNIT => Cdb::StartStopUnit(StartStopUnit {
            immediate: cdb[1] & 1 != 0,
            power_condition: cdb[4] >> 4,
            no_flush: cdb[4] & 4 != 0,
            load_eject: cdb[4] & 2 != 0,
            start: cdb[4] & 1 != 0,
        }),
        opcode::READ_CAPACITY_10 => parse_read_capacity_10(cdb)?,
        opcode::SERVICE_ACTION_IN_16 => match cdb[1] & 0x1f {
            READ_CAPACITY_16_ACTION => Cdb::ReadCapacity16 {
                allocation_length: u32_at(cdb, 10),
            },
            _ => return Err(invalid(1, 4)),
        },
        opcode::SYNCHRONIZE_CACHE_10 => Cdb::SynchronizeCache {
            lba: u64::from(u32_at(cdb, 2)),
            blocks: u32::from(u16_at(cdb, 7)),
            immediate: cdb[1] & 2 != 0,
        },
        opcode::SYNCHRONIZE_CACHE_16 => Cdb::SynchronizeCache {
            lba: u64_at(cdb, 2),
            blocks: u32_at(cdb, 10),
            immediate: cdb[1] & 2 != 0,
        },
        opcode::REPORT_LUNS => match cdb[2] {
            select_report @ 0..=2 => Cdb::ReportLuns {
                select_report,
                allocation_length: u32_at(cdb, 6),
            },
            _ => return Err(CdbError::InvalidField { byte: 2, bit: None }),
        },
        _ => return Err(CdbError::UnsupportedOpcode(opcode)),
    })
}

#[inline]
fn transfer(cdb: &[u8], lba: u64, blocks: u32) -> Transfer {
    Transfer {
        lba,
        blocks,
        fua: cdb[1] & 0x08 != 0,
        dpo: cdb[1] & 0x10 != 0,
        protect: cdb[1] >> 5,
    }
}

/// 21 bits of LBA, and a length of which 0 means 256 (SBC-3 section 5.10).
fn transfer_6(cdb: &[u8]) -> Transfer {
    let blocks = if cdb[4] == 0 { 256 } else { u32::from(cdb[4]) };
    Transfer {
        lba: u64::from(u24_at(cdb, 1) & 0x1f_ffff),
        blocks,
        ..Transfer::default()
    }
}

fn parse_inquiry(cdb: &[u8]) -> Result<Cdb, CdbError> {
    let vital_product_data = cdb[1] & 1 != 0;
    if cdb[1] & 2 != 0 {
        return Err(invalid(1, 1)); // CMDDT, obsolete since SPC-3.
    }
    if !vital_product_data && cdb[2] != 0 {
        return Err(CdbError::InvalidField { byte: 2, bit: None }); // SPC-4 section 6.6.1: a page without EVPD.
    }
    Ok(Cdb::Inquiry {
        page: vital_product_data.then_some(cdb[2]),
        allocation_length: u16_at(cdb, 3),
    })
}

fn parse_mode_sense(opcode: u8, cdb: &[u8]) -> ModeSense {
    let ten = opcode == opcode::MODE_SENSE_10;
    let control = [
        PageControl::Current,
        PageControl::Changeable,
        PageControl::Default,
        PageControl::Saved,
    ];
    ModeSense {
        ten,
        disable_block_descriptors: cdb[1] & 0x08 != 0,
        long_lba: ten && cdb[1] & 0x10 != 0,
        control: control[usize::from(cdb[2] >> 6)],
        page: cdb[2] & 0x3f,
        subpage: cdb[3],
        allocation_length: if ten {
            u16_at(cdb, 7)
        } else {
            u16::from(cdb[4])
        },
    }
}

/// PMI and its LBA are obsolete since SBC-3; an LBA without PMI was an error before that, and still is.
fn parse_read_capacity_10(cdb: &[u8]) -> Result<Cdb, CdbError> {
    let partial_medium = cdb[8] & 1 != 0;
    if partial_medium || u32_at(cdb, 2) == 0 {
        Ok(Cdb::ReadCapacity10)
    } else {
        Err(CdbError::InvalidField { byte: 2, bit: None })
    }
}

/// What an initiator sends. READ and WRITE take the ten-byte form where it suffices, the 16-byte form otherwise.
impl Cdb {
    /// Writes the command into iSCSI's 16 bytes, zeros behind it.
    #[inline]
    pub fn emit(&self) -> [u8; 16] {
        let mut out = [0; 16];
        match *self {
            Cdb::Read(transfer) => {
                emit_transfer(&mut out, opcode::READ_10, opcode::READ_16, transfer)
            }
            Cdb::Write(transfer) => {
                emit_transfer(&mut out, opcode::WRITE_10, opcode::WRITE_16, transfer)
            }
            Cdb::SynchronizeCache {
                lba,
                blocks,
                immediate,
            } => {
                let transfer = Transfer {
                    lba,
                    blocks,
                    ..Transfer::default()
                };
                emit_transfer(
                    &mut out,
                    opcode::SYNCHRONIZE_CACHE_10,
                    opcode::SYNCHRONIZE_CACHE_16,
                    transfer,
                );
                out[1] = u8::from(immediate) << 1;
            }
            Cdb::TestUnitReady => {}
            Cdb::RequestSense {
                descriptor_format,
                allocation_length,
            } => {
                out[..5].copy_from_slice(&[
                    opcode::REQUEST_SENSE,
                    u8::from(descriptor_format),
                    0,
                    0,
                    allocation_length,
                ]);
            }
            Cdb::Inquiry {
                page,
                allocation_length,
            } => {
                out[..3].copy_from_slice(&[
                    opcode::INQUIRY,
                    u8::from(page.is_some()),
                    page.unwrap_or(0),
                ]);
                put_u16(&mut out, 3, allocation_length);
            }
            Cdb::ModeSense(sense) => emit_mode_sense(&mut out, sense),
            Cdb::StartStopUnit(unit) => {
                out[..2].copy_from_slice(&[opcode::START_STOP_UNIT, u8::from(unit.immediate)]);
                let flags = u8::from(unit.no_flush) << 2
                    | u8::from(unit.load_eject) << 1
                    | u8::from(unit.start);
                out[4] = unit.power_condition << 4 | flags;
            }
            Cdb::ReadCapacity10 => out[0] = opcode::READ_CAPACITY_10,
            Cdb::ReadCapacity16 { allocation_length } => {
                out[..2].copy_from_slice(&[opcode::SERVICE_ACTION_IN_16, READ_CAPACITY_16_ACTION]);
                put_u32(&mut out, 10, allocation_length);
            }
            Cdb::ReportLuns {
                select_report,
                allocation_length,
            } => {
                out[..3].copy_from_slice(&[opcode::REPORT_LUNS, 0, select_report]);
                put_u32(&mut out, 6, allocation_length);
            }
        }
        out
    }

    /// The same as READ(6) or WRITE(6), where it can be said so: up to 2^21 blocks in, 1 to 256 blocks long, no flags. `None` otherwise and for other commands.
    pub fn emit_6(&self) -> Option<[u8; 16]> {
        let (opcode, transfer) = match *self {
            Cdb::Read(transfer) => (opcode::READ_6, transfer),
            Cdb::Write(transfer) => (opcode::WRITE_6, transfer),
            _ => return None,
        };
        let plain = Transfer {
            lba: transfer.lba,
            blocks: transfer.blocks,
            ..Transfer::default()
        } == transfer;
        if !plain || transfer.lba >= 1 << 21 || !(1..=256).contains(&transfer.blocks) {
            return None;
        }
        let mut out = [0; 16];
        put_u24(&mut out, 1, transfer.lba as u32);
        out[0] = opcode;
        out[4] = transfer.blocks as u8; // 256 becomes 0, which means 256.
        Some(out)
    }
}

#[inline]
fn emit_transfer(out: &mut [u8; 16], ten: u8, sixteen: u8, transfer: Transfer) {
    match (u32::try_from(transfer.lba), u16::try_from(transfer.blocks)) {
        (Ok(lba), Ok(blocks)) => {
            out[0] = ten;
            put_u32(out, 2, lba);
            put_u16(out, 7, blocks);
        }
        _ => {
            out[0] = sixteen;
            put_u64(out, 2, transfer.lba);
            put_u32(out, 10, transfer.blocks);
        }
    }
    out[1] = transfer.protect << 5 | u8::from(transfer.dpo) << 4 | u8::from(transfer.fua) << 3;
}

fn emit_mode_sense(out: &mut [u8; 16], sense: ModeSense) {
    let flags = u8::from(sense.long_lba) << 4 | u8::from(sense.disable_block_descriptors) << 3;
    let page = (sense.control as u8) << 6 | (sense.page & 0x3f);
    if sense.ten {
        out[..4].copy_from_slice(&[opcode::MODE_SENSE_10, flags, page, sense.subpage]);
        put_u16(out, 7, sense.allocation_length);
    } else {
        let length = u8::try_from(sense.allocation_length).unwrap_or(u8::MAX);
        out[..5].copy_from_slice(&[
            opcode::MODE_SENSE_6,
            flags & 0x08,
            page,
            sense.subpage,
            length,
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn transfers() -> impl Strategy<Value = Transfer> {
        let lba = prop_oneof![any::<u64>(), 0u64..1 << 33];
        let blocks = prop_oneof![any::<u32>(), 0u32..70_000];
        (lba, blocks, any::<bool>(), any::<bool>(), 0u8..8).prop_map(
            |(lba, blocks, fua, dpo, protect)| Transfer {
                lba,
                blocks,
                fua,
                dpo,
                protect,
            },
        )
    }

    fn commands() -> impl Strategy<Value = Cdb> {
        prop_oneof![
            transfers().prop_map(Cdb::Read),
            transfers().prop_map(Cdb::Write),
            any::<(u64, u32, bool)>().prop_map(|(lba, blocks, immediate)| Cdb::SynchronizeCache {
                lba,
                blocks,
                immediate
            }),
            Just(Cdb::TestUnitReady),
            Just(Cdb::ReadCapacity10),
            any::<(bool, u8)>().prop_map(|(descriptor_format, allocation_length)| {
                Cdb::RequestSense {
                    descriptor_format,
                    allocation_length,
                }
            }),
            any::<(Option<u8>, u16)>().prop_map(|(page, allocation_length)| Cdb::Inquiry {
                page,
                allocation_length
            }),
            any::<u32>().prop_map(|allocation_length| Cdb::ReadCapacity16 { allocation_length }),
            (0u8..3, any::<u32>()).prop_map(|(select_report, allocation_length)| Cdb::ReportLuns {
                select_report,
                allocation_length
            }),
            (any::<[bool; 4]>(), 0u8..16).prop_map(
                |([immediate, no_flush, load_eject, start], power_condition)| Cdb::StartStopUnit(
                    StartStopUnit {
                        immediate,
                        power_condition,
                        no_flush,
                        load_eject,
                        start
                    }
                )
            ),
            (any::<[bool; 3]>(), 0u8..4, 0u8..64, any::<(u8, u16)>()).prop_map(
                |([ten, disable, long], control, page, (subpage, length))| {
                    Cdb::ModeSense(ModeSense {
                        ten,
                        disable_block_descriptors: disable,
                        long_lba: ten && long,
                        control: [
                            PageControl::Current,
                            PageControl::Changeable,
                            PageControl::Default,
                            PageControl::Saved,
                        ][usize::from(control)],
                        page,
                        subpage,
                        allocation_length: if ten { length } else { length & 0xff },
                    })
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn commands_survive_a_round_trip(cdb in commands()) {
            prop_assert_eq!(Cdb::parse(&cdb.emit()), Ok(cdb));
        }

        #[test]
        fn six_byte_forms_say_the_same(lba in 0u64..1 << 21, blocks in 1u32..=256, write: bool) {
            let transfer = Transfer { lba, blocks, ..Transfer::default() };
            let cdb = if write { Cdb::Write(transfer) } else { Cdb::Read(transfer) };
            prop_assert_eq!(Cdb::parse(&cdb.emit_6().unwrap()[..6]), Ok(cdb));
        }

        #[test]
        fn no_bytes_panic_and_refusals_point_into_the_cdb(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Err(error) = Cdb::parse(&bytes) {
                if let CdbError::InvalidField { byte, .. } = error { prop_assert!(byte < 16); }
                prop_assert_eq!(error.sense().key, crate::scsi::SenseKey::IllegalRequest);
            }
        }
    }

    #[test]
    fn every_opcode_with_all_zeros_and_all_ones_is_answered() {
        for opcode in 0..=255u8 {
            for fill in [0, 0xff] {
                let mut bytes = [fill; 16];
                bytes[0] = opcode;
                let _ = Cdb::parse(&bytes);
                for cut in 0..16 {
                    let _ = Cdb::parse(&bytes[..cut]);
                }
            }
        }
    }

    #[test]
    fn read_16_lies_as_sbc_draws_it() {
        let cdb = Cdb::Read(Transfer {
            lba: 0x0102_0304_0506_0708,
            blocks: 9,
            fua: true,
            dpo: true,
            protect: 1,
        });
        assert_eq!(
            cdb.emit(),
            [0x88, 0x38, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0]
        );
    }

    #[test]
    fn page_code_without_evpd_is_refused_at_its_byte() {
        assert_eq!(
            Cdb::parse(&[0x12, 0, 0x83, 0, 96, 0]),
            Err(CdbError::InvalidField { byte: 2, bit: None })
        );
    }

    #[test]
    fn naca_is_refused_in_the_control_byte_of_each_length() {
        for (opcode, control) in [
            (opcode::READ_6, 5),
            (opcode::READ_10, 9),
            (opcode::READ_12, 11),
            (opcode::READ_16, 15),
        ] {
            let mut bytes = [0; 16];
            bytes[0] = opcode;
            bytes[control] = 0x04;
            assert_eq!(
                Cdb::parse(&bytes),
                Err(CdbError::InvalidField {
                    byte: control as u16,
                    bit: Some(2)
                })
            );
        }
    }
}
