//! READ ELEMENT STATUS parameter data (SMC-3 section 6.11), as an initiator reads it.
use crate::iscsi::WireError;
use crate::octets::{u16_at, u24_at, u32_at};

/// Length of a volume tag: identifier, reserved bytes and sequence number.
const TAG_BYTES: usize = 36;
/// Characters of the identifier of a volume tag.
const IDENTIFIER_BYTES: usize = 32;

/// An element of a medium changer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementStatus {
    /// ELEMENT TYPE CODE: 1 transport, 2 storage, 3 import/export, 4 drive.
    pub element_type: u8,
    /// Address.
    pub address: u16,
    /// FULL: a cartridge is in it.
    pub full: bool,
    /// Element from which the cartridge was last moved, if SVALID is set.
    pub source: Option<u16>,
    /// PRIMARY VOLUME TAG without padding: the barcode of the cartridge. Empty without a tag.
    pub barcode: String,
}

/// Reads the received part of the element status. A truncated descriptor ends the list.
///
/// # Errors
/// Fewer than eight bytes; descriptors too short for their fields.
pub fn parse_elements(bytes: &[u8]) -> Result<Vec<ElementStatus>, WireError> {
    let (header, mut rest) = bytes
        .split_at_checked(8)
        .ok_or(WireError::Short("element status"))?;
    rest = &rest[..rest.len().min(u24_at(header, 5) as usize)];
    let mut elements = Vec::new();
    while let Some((page, after)) = rest.split_at_checked(8) {
        let (element_type, has_tag) = (page[0] & 0x0f, page[1] & 0x80 != 0);
        let length = usize::from(u16_at(page, 2));
        if length < 12 + if has_tag { TAG_BYTES } else { 0 } {
            return Err(WireError::Field("ELEMENT DESCRIPTOR LENGTH"));
        }
        let page_bytes = (u32_at(page, 4) & 0x00ff_ffff) as usize;
        let (descriptors, next) = after.split_at(after.len().min(page_bytes));
        for descriptor in descriptors.chunks_exact(length) {
            elements.push(ElementStatus {
                element_type,
                address: u16_at(descriptor, 0),
                full: descriptor[2] & 1 != 0,
                source: (descriptor[9] & 0x80 != 0).then(|| u16_at(descriptor, 10)),
                barcode: if has_tag {
                    barcode(&descriptor[12..][..IDENTIFIER_BYTES])
                } else {
                    String::new()
                },
            });
        }
        rest = next;
    }
    Ok(elements)
}

/// Returns the printable ASCII characters of an identifier, which spaces or zeros pad.
fn barcode(identifier: &[u8]) -> String {
    let characters = identifier.iter().filter(|byte| byte.is_ascii_graphic());
    characters.map(|&byte| char::from(byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A drive that holds the cartridge of slot 0401h, and an empty slot.
    fn status() -> Vec<u8> {
        let mut out = vec![0x01, 0, 0, 2, 0, 0, 0, 0];
        for (kind, address, barcode) in [(4, 0x0100_u16, "HAK001L5"), (2, 0x0401, "")] {
            out.extend_from_slice(&[kind, 0x80, 0, 52, 0, 0, 0, 52]);
            out.extend_from_slice(&address.to_be_bytes());
            let full = u8::from(!barcode.is_empty());
            out.extend_from_slice(&[full, 0, 0, 0, 0, 0, 0, full << 7, full << 2, full]);
            let mut tag = [b' '; TAG_BYTES];
            tag[..barcode.len()].copy_from_slice(barcode.as_bytes());
            out.extend_from_slice(&tag);
            out.extend_from_slice(&[0; 4]);
        }
        out[7] = (out.len() - 8) as u8;
        out
    }

    #[test]
    fn elements_have_their_barcodes_and_the_slots_that_cartridges_came_from() {
        let elements = parse_elements(&status()).unwrap();
        let drive = ElementStatus {
            element_type: 4,
            address: 0x0100,
            full: true,
            source: Some(0x0401),
            barcode: "HAK001L5".into(),
        };
        let slot = ElementStatus {
            element_type: 2,
            address: 0x0401,
            full: false,
            source: None,
            barcode: String::new(),
        };
        assert_eq!(elements, [drive, slot]);
        let mut short = status();
        short[11] = 40;
        assert!(parse_elements(&short).is_err());
    }

    proptest! {
        #[test]
        fn no_answer_of_a_changer_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..120) {
            let _ = parse_elements(&bytes);
            let status = status();
            if let Ok(elements) = parse_elements(&status[..cut.min(status.len())]) {
                prop_assert!(elements.len() <= 2);
            }
        }
    }
}
