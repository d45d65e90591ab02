//! Standard INQUIRY data (SPC-4 section 6.6.2).
use super::{emit_ascii, parse_ascii};
use crate::iscsi::WireError;
use crate::octets::{put_u16, u16_at};

/// PERIPHERAL QUALIFIER: state of the LUN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PeripheralQualifier {
    /// An LU is connected.
    #[default]
    Connected = 0,
    /// No LU is connected, but one is possible.
    NotConnected = 1,
    /// No LU is possible; the device type is 1Fh.
    NotSupported = 3,
}

/// Standard INQUIRY data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inquiry {
    /// State of the LUN.
    pub qualifier: PeripheralQualifier,
    /// PERIPHERAL DEVICE TYPE: 00h a disk, 01h a tape drive, 08h a changer, 1Fh none.
    pub device_type: u8,
    /// RMB: the medium can be removed.
    pub removable: bool,
    /// VERSION: 06h is SPC-4.
    pub version: u8,
    /// TPGS: 0 no target port groups, 1 implicit, 2 explicit, 3 both (ALUA).
    pub target_port_groups: u8,
    /// 3PC: commands of third-party copies (EXTENDED COPY) are supported.
    pub third_party_copy: bool,
    /// MULTIP: the device has several target ports.
    pub multiple_ports: bool,
    /// HISUP: LUNs may be hierarchical.
    pub hierarchical: bool,
    /// CMDQUE: commands are queued.
    pub command_queuing: bool,
    /// T10 VENDOR IDENTIFICATION: 8 ASCII characters at most.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION: 16 ASCII characters at most.
    pub product: String,
    /// PRODUCT REVISION LEVEL: 4 ASCII characters at most.
    pub revision: String,
    /// VERSION DESCRIPTORs: standards claimed, 8 at most.
    pub version_descriptors: Vec<u16>,
}

/// Version descriptors of the standards that hakaru claims (SPC-4 annex C).
impl Inquiry {
    /// SAM-5, no version claimed.
    pub const SAM_5: u16 = 0x00a0;
    /// iSCSI, no version claimed.
    pub const ISCSI: u16 = 0x0960;
    /// SPC-4, no version claimed.
    pub const SPC_4: u16 = 0x0460;
    /// SBC-3, no version claimed.
    pub const SBC_3: u16 = 0x04c0;
    /// SSC-3, no version claimed.
    pub const SSC_3: u16 = 0x0400;
    /// SMC-3, no version claimed.
    pub const SMC_3: u16 = 0x0480;
}

const LENGTH: usize = 96;

impl Inquiry {
    /// Reads the first 36 bytes and further bytes received within ADDITIONAL LENGTH.
    ///
    /// # Errors
    /// Fewer than 36 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Inquiry, WireError> {
        if bytes.len() < 36 {
            return Err(WireError::Short("INQUIRY data"));
        }
        let stated_length = 5 + usize::from(bytes[4]);
        let descriptors = bytes
            .get(58..74.min(bytes.len()).min(stated_length))
            .unwrap_or(&[]);
        Ok(Inquiry {
            qualifier: match bytes[0] >> 5 {
                0 => PeripheralQualifier::Connected,
                1 => PeripheralQualifier::NotConnected,
                _ => PeripheralQualifier::NotSupported,
            },
            device_type: bytes[0] & 0x1f,
            removable: bytes[1] & 0x80 != 0,
            version: bytes[2],
            target_port_groups: bytes[5] >> 4 & 3,
            third_party_copy: bytes[5] & 0x08 != 0,
            multiple_ports: bytes[6] & 0x10 != 0,
            hierarchical: bytes[3] & 0x10 != 0,
            command_queuing: bytes[7] & 0x02 != 0,
            vendor: parse_ascii(&bytes[8..16]),
            product: parse_ascii(&bytes[16..32]),
            revision: parse_ascii(&bytes[32..36]),
            version_descriptors: descriptors
                .chunks_exact(2)
                .map(|d| u16_at(d, 0))
                .filter(|&d| d != 0)
                .collect(),
        })
    }

    /// Writes 96 bytes; RESPONSE DATA FORMAT is 2.
    pub fn emit(&self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        out[0] = (self.qualifier as u8) << 5 | (self.device_type & 0x1f);
        out[1] = u8::from(self.removable) << 7;
        out[2] = self.version;
        out[3] = u8::from(self.hierarchical) << 4 | 2;
        out[4] = (LENGTH - 5) as u8;
        out[5] = (self.target_port_groups & 3) << 4 | u8::from(self.third_party_copy) << 3;
        out[6] = u8::from(self.multiple_ports) << 4;
        out[7] = u8::from(self.command_queuing) << 1;
        emit_ascii(&mut out[8..16], &self.vendor);
        emit_ascii(&mut out[16..32], &self.product);
        emit_ascii(&mut out[32..36], &self.revision);
        for (i, descriptor) in self.version_descriptors.iter().take(8).enumerate() {
            put_u16(&mut out, 58 + 2 * i, *descriptor);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn inquiry_data_of_a_disk_is_laid_out_as_in_spc() {
        let inquiry = Inquiry {
            version: 6,
            command_queuing: true,
            third_party_copy: true,
            multiple_ports: true,
            vendor: "HAKARU".into(),
            product: "VIRTUAL DISK".into(),
            revision: "0001".into(),
            version_descriptors: vec![Inquiry::SAM_5, Inquiry::ISCSI],
            ..Inquiry::default()
        };
        let bytes = inquiry.emit();
        assert_eq!(
            &bytes[..36],
            b"\x00\x00\x06\x02\x5b\x08\x10\x02HAKARU  VIRTUAL DISK    0001"
        );
        assert_eq!(bytes[58..64], [0, 0xa0, 0x09, 0x60, 0, 0]);
        assert_eq!(Inquiry::parse(&bytes), Ok(inquiry));
    }

    #[test]
    fn text_that_is_too_long_or_not_ascii_stays_within_its_field() {
        let inquiry = Inquiry {
            vendor: "a long vendor\u{1f4a5}".into(),
            product: "\nx".into(),
            ..Inquiry::default()
        };
        assert_eq!(&inquiry.emit()[8..20], b"a long v?x  ");
    }

    proptest! {
        #[test]
        fn no_inquiry_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(inquiry) = Inquiry::parse(&bytes) {
                prop_assert_eq!(Inquiry::parse(&inquiry.emit()), Ok(inquiry));
            }
        }
    }
}
