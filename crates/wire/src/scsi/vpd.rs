//! Vital product data pages (SPC-4 section 7.8, SBC-3 section 6.6).
use super::{emit_ascii, parse_ascii};
use crate::iscsi::WireError;
use crate::octets::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// Page codes.
pub mod page {
    /// Supported VPD pages.
    pub const SUPPORTED_PAGES: u8 = 0x00;
    /// Unit serial number.
    pub const UNIT_SERIAL_NUMBER: u8 = 0x80;
    /// Device identification.
    pub const DEVICE_IDENTIFICATION: u8 = 0x83;
    /// Third-party copy ([`crate::scsi::CopyLimits::emit_page`]).
    pub const THIRD_PARTY_COPY: u8 = 0x8f;
    /// Block limits.
    pub const BLOCK_LIMITS: u8 = 0xb0;
    /// Block device characteristics.
    pub const BLOCK_DEVICE_CHARACTERISTICS: u8 = 0xb1;
    /// Logical block provisioning.
    pub const LOGICAL_BLOCK_PROVISIONING: u8 = 0xb2;
}

/// A vital product data page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vpd {
    /// 00h: codes of the supported pages, ascending.
    SupportedPages(Vec<u8>),
    /// 80h: serial number, ASCII.
    UnitSerialNumber(String),
    /// 83h: names of the LU and of the port.
    DeviceIdentification(Vec<Designator>),
    /// B0h: block limits.
    BlockLimits(BlockLimits),
    /// B1h: block device characteristics.
    BlockDeviceCharacteristics(BlockDeviceCharacteristics),
    /// B2h: logical block provisioning.
    LogicalBlockProvisioning(LogicalBlockProvisioning),
}

/// Form of a designator (SPC-4 table 589).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DesignatorKind {
    /// Vendor-specific.
    Vendor = 0,
    /// T10 vendor identification, then text unique for the vendor; ASCII.
    T10Vendor = 1,
    /// EUI-64, 8, 12 or 16 bytes.
    Eui64 = 2,
    /// NAA, 8 or 16 bytes.
    Naa = 3,
    /// Relative target port: 2 reserved bytes, then its number.
    RelativeTargetPort = 4,
    /// Target port group: 2 reserved bytes, then its number.
    TargetPortGroup = 5,
    /// Logical unit group.
    LogicalUnitGroup = 6,
    /// MD5 of the LU.
    Md5 = 7,
    /// SCSI name string: UTF-8, NUL-terminated, padded to a multiple of four bytes.
    ScsiName = 8,
}

/// A name of an LU, a target port or a target device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Designator {
    /// Form of the designator.
    pub kind: DesignatorKind,
    /// Association: 0 the LU, 1 the target port, 2 the target device.
    pub association: u8,
    /// CODE SET: 1 binary, 2 ASCII, 3 UTF-8.
    pub code_set: u8,
    /// The name. Only its first 255 bytes are emitted.
    pub bytes: Vec<u8>,
}

impl Designator {
    /// Creates an NAA 6h designator (IEEE registered extended) of an LU: the low 24 bits of
    /// `company`, the low 36 bits of `vendor_specific`, then `extension`.
    pub fn naa_6(company: u32, vendor_specific: u64, extension: u64) -> Designator {
        let mut bytes = vec![0; 16];
        put_u64(
            &mut bytes,
            0,
            6 << 60 | u64::from(company & 0xff_ffff) << 36 | (vendor_specific & 0xf_ffff_ffff),
        );
        put_u64(&mut bytes, 8, extension);
        Designator {
            kind: DesignatorKind::Naa,
            association: 0,
            code_set: 1,
            bytes,
        }
    }

    /// Creates a T10 vendor identification of an LU in ASCII: `vendor` padded or truncated to eight
    /// characters, then `id`, truncated at 244.
    pub fn t10_vendor(vendor: &str, id: &str) -> Designator {
        let mut bytes = vec![b' '; 8 + id.len().min(244)];
        emit_ascii(&mut bytes[..8], vendor);
        emit_ascii(&mut bytes[8..], id);
        Designator {
            kind: DesignatorKind::T10Vendor,
            association: 0,
            code_set: 2,
            bytes,
        }
    }

    /// Creates a SCSI name string of the LU (`association` 0), the target port (1) or the target
    /// device (2). `name` is truncated at 251 bytes.
    pub fn scsi_name(association: u8, name: &str) -> Designator {
        let mut bytes = name.as_bytes()[..name.len().min(251)].to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(4), 0);
        Designator {
            kind: DesignatorKind::ScsiName,
            association,
            code_set: 3,
            bytes,
        }
    }

    /// Creates the designator of a port by its number within the device, from 1.
    pub fn relative_target_port(number: u16) -> Designator {
        let [high, low] = number.to_be_bytes();
        Designator {
            kind: DesignatorKind::RelativeTargetPort,
            association: 1,
            code_set: 1,
            bytes: vec![0, 0, high, low],
        }
    }

    /// Creates the designator of the target port group that contains the port.
    pub fn target_port_group(number: u16) -> Designator {
        Designator {
            kind: DesignatorKind::TargetPortGroup,
            ..Designator::relative_target_port(number)
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        let bytes = &self.bytes[..self.bytes.len().min(255)];
        // PROTOCOL IDENTIFIER 5h (iSCSI) with PIV, which is valid only for ports and devices.
        let (protocol, piv) = if self.association == 0 {
            (0, 0)
        } else {
            (0x50, 0x80)
        };
        out.extend_from_slice(&[
            protocol | (self.code_set & 0x0f),
            piv | (self.association & 3) << 4 | self.kind as u8,
            0,
            bytes.len() as u8,
        ]);
        out.extend_from_slice(bytes);
    }

    /// Parses the first designator of `bytes` and returns it (`None` for an unknown form) with the
    /// remaining bytes. Returns `None` at the end or if the designator is truncated.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Option<Designator>, &[u8])> {
        let (head, rest) = bytes.split_at_checked(4)?;
        let (name, rest) = rest.split_at_checked(usize::from(head[3]))?;
        use DesignatorKind::*;
        let kinds = [
            Vendor,
            T10Vendor,
            Eui64,
            Naa,
            RelativeTargetPort,
            TargetPortGroup,
            LogicalUnitGroup,
            Md5,
            ScsiName,
        ];
        let designator = kinds
            .get(usize::from(head[1] & 0x0f))
            .map(|&kind| Designator {
                kind,
                association: head[1] >> 4 & 3,
                code_set: head[0] & 0x0f,
                bytes: name.to_vec(),
            });
        Some((designator, rest))
    }
}

/// Block limits. 0 means "not reported" in every field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockLimits {
    /// WSNZ: WRITE SAME of 0 blocks is refused.
    pub write_same_non_zero: bool,
    /// Maximum length of COMPARE AND WRITE, blocks.
    pub maximum_compare_and_write_length: u8,
    /// Granularity of efficient transfer lengths, blocks.
    pub optimal_transfer_length_granularity: u16,
    /// Maximum length of a transfer, blocks.
    pub maximum_transfer_length: u32,
    /// Optimal length of a transfer, blocks.
    pub optimal_transfer_length: u32,
    /// Maximum length of PRE-FETCH, blocks.
    pub maximum_prefetch_length: u32,
    /// Maximum number of blocks of one UNMAP.
    pub maximum_unmap_lba_count: u32,
    /// Maximum number of descriptors of one UNMAP.
    pub maximum_unmap_block_descriptor_count: u32,
    /// Granularity of UNMAP, blocks.
    pub optimal_unmap_granularity: u32,
    /// First block aligned to the granularity, if reported.
    pub unmap_granularity_alignment: Option<u32>,
    /// Maximum length of WRITE SAME, blocks.
    pub maximum_write_same_length: u64,
    /// Maximum length of WRITE ATOMIC, blocks; 0 if the command is not supported.
    pub maximum_atomic_transfer_length: u32,
    /// Alignment of the first block of WRITE ATOMIC, blocks; 0 and 1 mean none.
    pub atomic_alignment: u32,
    /// Granularity of the length of WRITE ATOMIC, blocks; 0 and 1 mean none.
    pub atomic_transfer_length_granularity: u32,
}

/// Characteristics of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockDeviceCharacteristics {
    /// 0: not reported; 1: non-rotating; 0401h to FFFEh: revolutions per minute.
    pub medium_rotation_rate: u16,
    /// NOMINAL FORM FACTOR: 0 for not reported, 2 for 3.5 inch, 3 for 2.5 inch.
    pub nominal_form_factor: u8,
    /// WABEREQ: result of a read after a block erase; 0 not reported, 1 success, 2 and 3 an error.
    pub after_block_erase: u8,
    /// WACEREQ: result of a read after a cryptographic erase, with the same codes.
    pub after_cryptographic_erase: u8,
}

/// Provisioning of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogicalBlockProvisioning {
    /// THRESHOLD EXPONENT: a threshold set is 2^n blocks; 0: no thresholds.
    pub threshold_exponent: u8,
    /// LBPU: UNMAP is supported.
    pub unmap: bool,
    /// LBPWS: WRITE SAME(16) with UNMAP is supported.
    pub write_same_16: bool,
    /// LBPWS10: WRITE SAME(10) with UNMAP is supported.
    pub write_same_10: bool,
    /// LBPRZ: deallocated blocks read as zeros.
    pub deallocated_reads_zero: bool,
    /// ANC_SUP: blocks can be anchored.
    pub anchor: bool,
    /// PROVISIONING TYPE: 0 full or not reported, 1 resource, 2 thin.
    pub provisioning_type: u8,
}

const LIMITS_LENGTH: usize = 0x3c;

impl Vpd {
    /// Returns the page code.
    pub fn page_code(&self) -> u8 {
        match self {
            Vpd::SupportedPages(_) => page::SUPPORTED_PAGES,
            Vpd::UnitSerialNumber(_) => page::UNIT_SERIAL_NUMBER,
            Vpd::DeviceIdentification(_) => page::DEVICE_IDENTIFICATION,
            Vpd::BlockLimits(_) => page::BLOCK_LIMITS,
            Vpd::BlockDeviceCharacteristics(_) => page::BLOCK_DEVICE_CHARACTERISTICS,
            Vpd::LogicalBlockProvisioning(_) => page::LOGICAL_BLOCK_PROVISIONING,
        }
    }

    /// Writes the page of a disk (peripheral 00h): a four-byte header, then the fields.
    ///
    /// # Panics
    /// Panics if the page is longer than 65 535 bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = vec![0, self.page_code(), 0, 0];
        match self {
            Vpd::SupportedPages(pages) => out.extend_from_slice(pages),
            Vpd::UnitSerialNumber(serial) => {
                out.resize(4 + serial.len(), 0);
                emit_ascii(&mut out[4..], serial);
            }
            Vpd::DeviceIdentification(designators) => designators
                .iter()
                .for_each(|designator| designator.emit(&mut out)),
            Vpd::BlockLimits(limits) => out.extend_from_slice(&limits.emit()),
            Vpd::BlockDeviceCharacteristics(device) => {
                out.resize(4 + LIMITS_LENGTH, 0);
                put_u16(&mut out, 4, device.medium_rotation_rate);
                out[7] = (device.after_block_erase & 3) << 6
                    | (device.after_cryptographic_erase & 3) << 4
                    | device.nominal_form_factor & 0x0f;
            }
            Vpd::LogicalBlockProvisioning(provisioning) => {
                out.extend_from_slice(&provisioning.emit())
            }
        }
        let length = u16::try_from(out.len() - 4).expect("a page of at most 65 535 bytes");
        put_u16(&mut out, 2, length);
        out
    }

    /// Reads the received part of a page, within its stated length. Missing fields read as 0.
    ///
    /// # Errors
    /// Fewer than four bytes; a page that is not listed here.
    pub fn parse(bytes: &[u8]) -> Result<Vpd, WireError> {
        let (head, body) = bytes
            .split_at_checked(4)
            .ok_or(WireError::Short("VPD page"))?;
        let body = &body[..body.len().min(usize::from(u16_at(head, 2)))];
        let mut fixed = [0; LIMITS_LENGTH];
        let fixed_length = body.len().min(LIMITS_LENGTH);
        fixed[..fixed_length].copy_from_slice(&body[..fixed_length]);
        Ok(match head[1] {
            page::SUPPORTED_PAGES => Vpd::SupportedPages(body.to_vec()),
            page::UNIT_SERIAL_NUMBER => Vpd::UnitSerialNumber(parse_ascii(body)),
            page::DEVICE_IDENTIFICATION => {
                let mut designators = Vec::new();
                let mut rest = body;
                while let Some((designator, after)) = Designator::parse(rest) {
                    designators.extend(designator);
                    rest = after;
                }
                Vpd::DeviceIdentification(designators)
            }
            page::BLOCK_LIMITS => Vpd::BlockLimits(BlockLimits::parse(&fixed)),
            page::BLOCK_DEVICE_CHARACTERISTICS => {
                Vpd::BlockDeviceCharacteristics(BlockDeviceCharacteristics {
                    medium_rotation_rate: u16_at(&fixed, 0),
                    nominal_form_factor: fixed[3] & 0x0f,
                    after_block_erase: fixed[3] >> 6,
                    after_cryptographic_erase: fixed[3] >> 4 & 3,
                })
            }
            page::LOGICAL_BLOCK_PROVISIONING => {
                Vpd::LogicalBlockProvisioning(LogicalBlockProvisioning::parse(&fixed))
            }
            _ => return Err(WireError::Field("VPD page code")),
        })
    }
}

/// Offsets are those of SBC-3 table 208 less the four bytes of the header. SBC-4 defines the atomic
/// fields.
impl BlockLimits {
    fn emit(&self) -> [u8; LIMITS_LENGTH] {
        let mut out = [0; LIMITS_LENGTH];
        out[0] = u8::from(self.write_same_non_zero);
        out[1] = self.maximum_compare_and_write_length;
        put_u16(&mut out, 2, self.optimal_transfer_length_granularity);
        put_u32(&mut out, 4, self.maximum_transfer_length);
        put_u32(&mut out, 8, self.optimal_transfer_length);
        put_u32(&mut out, 12, self.maximum_prefetch_length);
        put_u32(&mut out, 16, self.maximum_unmap_lba_count);
        put_u32(&mut out, 20, self.maximum_unmap_block_descriptor_count);
        put_u32(&mut out, 24, self.optimal_unmap_granularity);
        put_u32(
            &mut out,
            28,
            self.unmap_granularity_alignment
                .map_or(0, |alignment| 1 << 31 | alignment & 0x7fff_ffff),
        );
        put_u64(&mut out, 32, self.maximum_write_same_length);
        put_u32(&mut out, 40, self.maximum_atomic_transfer_length);
        put_u32(&mut out, 44, self.atomic_alignment);
        put_u32(&mut out, 48, self.atomic_transfer_length_granularity);
        out
    }

    fn parse(body: &[u8; LIMITS_LENGTH]) -> BlockLimits {
        let alignment = u32_at(body, 28);
        BlockLimits {
            write_same_non_zero: body[0] & 1 != 0,
            maximum_compare_and_write_length: body[1],
            optimal_transfer_length_granularity: u16_at(body, 2),
            maximum_transfer_length: u32_at(body, 4),
            optimal_transfer_length: u32_at(body, 8),
            maximum_prefetch_length: u32_at(body, 12),
            maximum_unmap_lba_count: u32_at(body, 16),
            maximum_unmap_block_descriptor_count: u32_at(body, 20),
            optimal_unmap_granularity: u32_at(body, 24),
            unmap_granularity_alignment: (alignment >> 31 != 0).then_some(alignment & 0x7fff_ffff),
            maximum_write_same_length: u64_at(body, 32),
            maximum_atomic_transfer_length: u32_at(body, 40),
            atomic_alignment: u32_at(body, 44),
            atomic_transfer_length_granularity: u32_at(body, 48),
        }
    }
}

impl LogicalBlockProvisioning {
    fn emit(&self) -> [u8; 4] {
        let flags = [
            (self.unmap, 0x80),
            (self.write_same_16, 0x40),
            (self.write_same_10, 0x20),
            (self.deallocated_reads_zero, 0x04),
            (self.anchor, 0x02),
        ];
        let flags = flags
            .iter()
            .filter(|(set, _)| *set)
            .fold(0, |all, (_, bit)| all | bit);
        [
            self.threshold_exponent,
            flags,
            self.provisioning_type & 7,
            0,
        ]
    }

    fn parse(body: &[u8; LIMITS_LENGTH]) -> LogicalBlockProvisioning {
        LogicalBlockProvisioning {
            threshold_exponent: body[0],
            unmap: body[1] & 0x80 != 0,
            write_same_16: body[1] & 0x40 != 0,
            write_same_10: body[1] & 0x20 != 0,
            deallocated_reads_zero: body[1] & 0x04 != 0,
            anchor: body[1] & 0x02 != 0,
            provisioning_type: body[2] & 7,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_survive_a_round_trip() {
        let pages = [
            Vpd::SupportedPages(vec![0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2]),
            Vpd::UnitSerialNumber("0123456789abcdef".into()),
            Vpd::DeviceIdentification(vec![
                Designator::naa_6(0x01_4055, 0x1_2345_6789, 42),
                Designator::t10_vendor("HAKARU", "disk-0"),
                Designator::relative_target_port(1),
                Designator::scsi_name(1, "iqn.2025-01.org.hakaru:a,t,0x0001"),
            ]),
            Vpd::BlockLimits(BlockLimits {
                write_same_non_zero: true,
                optimal_transfer_length_granularity: 8,
                maximum_transfer_length: 32_768,
                unmap_granularity_alignment: Some(0),
                maximum_write_same_length: 1 << 40,
                maximum_atomic_transfer_length: 256,
                atomic_alignment: 8,
                atomic_transfer_length_granularity: 16,
                ..BlockLimits::default()
            }),
            Vpd::BlockDeviceCharacteristics(BlockDeviceCharacteristics {
                medium_rotation_rate: 15_000,
                nominal_form_factor: 2,
                after_block_erase: 1,
                after_cryptographic_erase: 2,
            }),
            Vpd::LogicalBlockProvisioning(LogicalBlockProvisioning {
                unmap: true,
                deallocated_reads_zero: true,
                provisioning_type: 2,
                ..Default::default()
            }),
        ];
        for page in pages {
            let bytes = page.emit();
            assert_eq!(usize::from(u16_at(&bytes, 2)), bytes.len() - 4);
            assert_eq!(Vpd::parse(&bytes), Ok(page));
        }
    }

    #[test]
    fn designators_are_laid_out_as_in_spc() {
        let mut bytes = Vec::new();
        Designator::naa_6(0xaabbcc, 0xd_eeff_0011, 0x2233_4455_6677_8899).emit(&mut bytes);
        assert_eq!(
            bytes,
            [
                1, 3, 0, 16, 0x6a, 0xab, 0xbc, 0xcd, 0xee, 0xff, 0x00, 0x11, 0x22, 0x33, 0x44,
                0x55, 0x66, 0x77, 0x88, 0x99
            ]
        );
        bytes.clear();
        Designator::relative_target_port(2).emit(&mut bytes);
        assert_eq!(bytes, [0x51, 0x94, 0, 4, 0, 0, 0, 2]);
    }

    proptest! {
        #[test]
        fn invalid_lengths_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), page in 0usize..6) {
            let _ = Vpd::parse(&bytes);
            if let Some(code) = bytes.get_mut(1) { *code = [0, 0x80, 0x83, 0xb0, 0xb1, 0xb2][page]; }
            if let Ok(page) = Vpd::parse(&bytes) {
                prop_assert_eq!(Vpd::parse(&page.emit()), Ok(page));
            }
        }
    }
}
