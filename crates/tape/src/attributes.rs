//! Host attributes: what programs write into the memory of a cartridge (SPC-4 section 7.4.2.4).

use std::collections::BTreeMap;

/// Format of the value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AttributeFormat {
    /// An integer.
    Binary = 0,
    /// ASCII, left-aligned and padded with spaces.
    Ascii = 1,
    /// Text in the character set of attribute 0805h.
    Text = 2,
}

/// An attribute that programs may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAttribute {
    /// ATTRIBUTE IDENTIFIER.
    pub identifier: u16,
    /// FORMAT.
    pub format: AttributeFormat,
    /// Bytes of its value.
    pub length_bytes: u16,
}

const fn attribute(identifier: u16, format: AttributeFormat, length_bytes: u16) -> HostAttribute {
    HostAttribute {
        identifier,
        format,
        length_bytes,
    }
}

/// The attributes that programs may write, ascending: application vendor, name and version, user
/// medium text label, date and time last written, text localization identifier, barcode, owning
/// host, media pool, partition text label.
pub const HOST_ATTRIBUTES: [HostAttribute; 10] = [
    attribute(0x0800, AttributeFormat::Ascii, 8),
    attribute(0x0801, AttributeFormat::Ascii, 32),
    attribute(0x0802, AttributeFormat::Ascii, 8),
    attribute(0x0803, AttributeFormat::Text, 160),
    attribute(0x0804, AttributeFormat::Ascii, 12),
    attribute(0x0805, AttributeFormat::Binary, 1),
    attribute(0x0806, AttributeFormat::Ascii, 32),
    attribute(0x0807, AttributeFormat::Text, 80),
    attribute(0x0808, AttributeFormat::Text, 160),
    attribute(0x0809, AttributeFormat::Ascii, 16),
];

impl HostAttribute {
    /// Returns the attribute with this identifier.
    #[must_use]
    pub fn of(identifier: u16) -> Option<HostAttribute> {
        let mut all = HOST_ATTRIBUTES.into_iter();
        all.find(|attribute| attribute.identifier == identifier)
    }
}

/// Values of host attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAttributes(BTreeMap<u16, Vec<u8>>);

/// Bytes before a value: identifier and length.
const HEAD_BYTES: usize = 4;

impl HostAttributes {
    /// Returns the value of an attribute, if it has one.
    #[must_use]
    pub fn get(&self, identifier: u16) -> Option<&[u8]> {
        self.0.get(&identifier).map(Vec::as_slice)
    }

    /// Sets the value of an attribute. An empty value removes it.
    ///
    /// # Panics
    /// There is no such attribute, or its value has another length.
    pub fn set(&mut self, identifier: u16, value: &[u8]) {
        let attribute = HostAttribute::of(identifier).expect("a host attribute");
        if value.is_empty() {
            self.0.remove(&identifier);
            return;
        }
        assert_eq!(value.len(), usize::from(attribute.length_bytes));
        self.0.insert(identifier, value.to_vec());
    }

    /// Returns the values as they are on the store, without checksum.
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (identifier, value) in &self.0 {
            out.extend_from_slice(&identifier.to_le_bytes());
            out.extend_from_slice(&(value.len() as u16).to_le_bytes());
            out.extend_from_slice(value);
        }
        out
    }

    /// Parses values. `None` if they are not those of host attributes.
    pub(crate) fn parse(bytes: &[u8]) -> Option<HostAttributes> {
        let (mut values, mut rest) = (HostAttributes::default(), bytes);
        while let Some((head, after)) = rest.split_at_checked(HEAD_BYTES) {
            let attribute = HostAttribute::of(u16::from_le_bytes([head[0], head[1]]))?;
            let length = u16::from_le_bytes([head[2], head[3]]);
            if length != attribute.length_bytes {
                return None;
            }
            let (value, next) = after.split_at_checked(length.into())?;
            values.set(attribute.identifier, value);
            rest = next;
        }
        rest.is_empty().then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_were_written_and_others_are_refused() {
        let mut values = HostAttributes::default();
        for attribute in HOST_ATTRIBUTES {
            let fill = attribute.identifier as u8;
            values.set(
                attribute.identifier,
                &vec![fill; attribute.length_bytes.into()],
            );
        }
        values.set(0x0803, &[]);
        let bytes = values.emit();
        assert_eq!(HostAttributes::parse(&bytes), Some(values));
        for end in 1..bytes.len() {
            if let Some(shorter) = HostAttributes::parse(&bytes[..end]) {
                assert_eq!(shorter.emit(), bytes[..end]);
            }
        }
        assert_eq!(HostAttributes::parse(&[0x0a, 0x08, 1, 0, 0]), None);
        assert_eq!(HostAttributes::parse(&[0x05, 0x08, 2, 0, 0, 0]), None);
    }
}
