//! Little-endian fields of messages whose length comes from a peer: every read is checked.

/// Offset of the body, which follows the header, bytes.
const BODY_AT: usize = 64;

/// Reason why a message is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A field or a buffer lies behind the end of the message.
    #[error("a message of {length} bytes ends before byte {end}")]
    Truncated {
        /// First byte behind the field.
        end: usize,
        /// Length of the message.
        length: usize,
    },
    /// A field has a value that MS-SMB2 does not allow, or that this client does not support.
    #[error("{0}")]
    Invalid(&'static str),
}

/// Checked reads at byte offsets of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn slice(self, at: usize, length: usize) -> Result<&'a [u8], WireError> {
        let end = at.saturating_add(length);
        let truncated = WireError::Truncated {
            end,
            length: self.0.len(),
        };
        self.0.get(at..end).ok_or(truncated)
    }

    pub(crate) fn array<const N: usize>(self, at: usize) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(at, N)?);
        Ok(array)
    }

    pub(crate) fn u8(self, at: usize) -> Result<u8, WireError> {
        Ok(self.slice(at, 1)?[0])
    }

    pub(crate) fn u16(self, at: usize) -> Result<u16, WireError> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(self, at: usize) -> Result<u32, WireError> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(self, at: usize) -> Result<u64, WireError> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// Reads a buffer that an offset and a length describe. An empty buffer may have any offset.
    pub(crate) fn buffer(self, at: usize, length: usize) -> Result<&'a [u8], WireError> {
        if length == 0 {
            return Ok(&[]);
        }
        self.slice(at, length)
    }

    /// Checks the StructureSize of a body, which begins behind the header.
    pub(crate) fn structure(self, size: u16) -> Result<(), WireError> {
        if self.u16(BODY_AT)? != size {
            return Err(WireError::Invalid("unexpected StructureSize"));
        }
        Ok(())
    }
}

/// Appends little-endian fields.
pub(crate) struct Emit<'a>(pub &'a mut Vec<u8>);

impl Emit<'_> {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a buffer that MS-SMB2 counts as at least one byte.
    pub(crate) fn buffer(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes(if bytes.is_empty() { &[0] } else { bytes })
    }

    pub(crate) fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_behind_the_end_reports_both_lengths() {
        let fields = Fields(&[1, 2, 3]);
        assert_eq!(fields.u16(1), Ok(0x0302));
        let truncated = |end| Err(WireError::Truncated { end, length: 3 });
        assert_eq!(fields.u16(2), truncated(4));
        assert_eq!(
            fields.slice(2, usize::MAX).map(<[u8]>::len),
            Err(WireError::Truncated {
                end: usize::MAX,
                length: 3
            })
        );
        assert_eq!(fields.buffer(900, 0), Ok(&[][..]));
    }
}
