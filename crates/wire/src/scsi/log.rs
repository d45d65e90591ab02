//! LOG SENSE parameter data (SPC-4 section 7.3, SBC-3 section 6.4): pages made of parameters.
use super::emit_ascii;
use crate::iscsi::WireError;
use crate::octets::{put_u16, put_u32, u16_at, u32_at};

/// Log page codes.
pub mod log_page {
    /// Supported log pages; with subpage FFh also subpages.
    pub const SUPPORTED_PAGES: u8 = 0x00;
    /// Logical block provisioning.
    pub const LOGICAL_BLOCK_PROVISIONING: u8 = 0x0c;
    /// Informational exceptions.
    pub const INFORMATIONAL_EXCEPTIONS: u8 = 0x2f;
}

/// Parameters of the logical block provisioning page.
pub mod provisioning_parameter {
    /// AVAILABLE LBA MAPPING THRESHOLD SETs.
    pub const AVAILABLE: u16 = 0x0001;
    /// USED LBA MAPPING THRESHOLD SETs.
    pub const USED: u16 = 0x0002;
}

/// Scope of a resource count (SBC-3 table 160).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResourceScope {
    /// Not reported.
    NotReported = 0,
    /// Resources of this LU alone.
    Dedicated = 1,
    /// Resources possibly shared with other LUs.
    Shared = 2,
}

/// FORMAT AND LINKING: kind of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ParameterKind {
    /// A data counter.
    Counter = 0,
    /// ASCII text.
    Text = 1,
    /// Binary fields.
    Binary = 3,
}

/// A log parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogParameter {
    /// PARAMETER CODE.
    pub code: u16,
    /// Kind of the value.
    pub kind: ParameterKind,
    /// PARAMETER VALUE.
    pub value: Vec<u8>,
}

impl LogParameter {
    /// Returns a data counter of `length_bytes` bytes, at most 8. A larger value is the largest one
    /// that fits.
    pub fn counter(code: u16, value: u64, length_bytes: usize) -> LogParameter {
        let unused = 8 - length_bytes;
        let value = value.min(u64::MAX >> (8 * unused)).to_be_bytes();
        LogParameter {
            code,
            kind: ParameterKind::Counter,
            value: value[unused..].to_vec(),
        }
    }

    /// Returns ASCII text, padded with spaces or cut to `length_bytes` bytes.
    pub fn text(code: u16, text: &str, length_bytes: usize) -> LogParameter {
        let mut value = vec![0; length_bytes];
        emit_ascii(&mut value, text);
        LogParameter {
            code,
            kind: ParameterKind::Text,
            value,
        }
    }

    /// Returns binary fields.
    pub fn binary(code: u16, value: &[u8]) -> LogParameter {
        LogParameter {
            code,
            kind: ParameterKind::Binary,
            value: value.to_vec(),
        }
    }

    /// Returns a count of the logical block provisioning page, in threshold sets.
    pub fn resource_count(code: u16, count: u32, scope: ResourceScope) -> LogParameter {
        let mut value = vec![0; 8];
        put_u32(&mut value, 0, count);
        value[4] = scope as u8;
        LogParameter::binary(code, &value)
    }

    /// Returns (count, code of the scope) of a parameter made by [`LogParameter::resource_count`].
    pub fn as_resource_count(&self) -> Option<(u32, u8)> {
        (self.value.len() >= 5).then(|| (u32_at(&self.value, 0), self.value[4] & 3))
    }
}

/// A log page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPage {
    /// 00h: supported pages, ascending.
    SupportedPages(Vec<u8>),
    /// 00h with subpage FFh: pages and subpages, ascending.
    SupportedSubpages(Vec<(u8, u8)>),
    /// A page of parameters, in ascending order.
    Parameters {
        /// PAGE CODE.
        code: u8,
        /// Parameters of the page.
        parameters: Vec<LogParameter>,
    },
}

impl LogPage {
    /// Writes the page.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        match self {
            LogPage::SupportedPages(pages) => out.extend_from_slice(pages),
            LogPage::SupportedSubpages(pages) => {
                out[0] = 0x40;
                out[1] = 0xff;
                pages
                    .iter()
                    .for_each(|(page, subpage)| out.extend_from_slice(&[*page, *subpage]));
            }
            LogPage::Parameters { code, parameters } => {
                out[0] = code & 0x3f;
                for parameter in parameters {
                    let [high, low] = parameter.code.to_be_bytes();
                    let length = parameter.value.len() as u8;
                    out.extend_from_slice(&[high, low, parameter.kind as u8, length]);
                    out.extend_from_slice(&parameter.value);
                }
            }
        }
        let length = (out.len() - 4) as u16;
        put_u16(&mut out, 2, length);
        out
    }

    /// Reads the received part of a page, within its stated length. A truncated parameter ends the
    /// list.
    ///
    /// # Errors
    /// Fewer than four bytes.
    pub fn parse(bytes: &[u8]) -> Result<LogPage, WireError> {
        let (head, rest) = bytes
            .split_at_checked(4)
            .ok_or(WireError::Short("log page"))?;
        let mut rest = &rest[..rest.len().min(usize::from(u16_at(head, 2)))];
        let code = head[0] & 0x3f;
        if code == log_page::SUPPORTED_PAGES {
            return Ok(if head[0] & 0x40 != 0 {
                LogPage::SupportedSubpages(
                    rest.chunks_exact(2)
                        .map(|pair| (pair[0], pair[1]))
                        .collect(),
                )
            } else {
                LogPage::SupportedPages(rest.to_vec())
            });
        }
        let mut parameters = Vec::new();
        while let Some((head, after)) = rest.split_at_checked(4) {
            let Some((value, after)) = after.split_at_checked(usize::from(head[3])) else {
                break;
            };
            parameters.push(LogParameter {
                code: u16_at(head, 0),
                kind: match head[2] & 3 {
                    1 => ParameterKind::Text,
                    3 => ParameterKind::Binary,
                    _ => ParameterKind::Counter,
                },
                value: value.to_vec(),
            });
            rest = after;
        }
        Ok(LogPage::Parameters { code, parameters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn provisioning_page_is_laid_out_as_in_sbc() {
        let page = LogPage::Parameters {
            code: log_page::LOGICAL_BLOCK_PROVISIONING,
            parameters: vec![LogParameter::resource_count(
                provisioning_parameter::AVAILABLE,
                0x0102,
                ResourceScope::Shared,
            )],
        };
        let bytes = page.emit();
        assert_eq!(bytes, [0x0c, 0, 0, 12, 0, 1, 3, 8, 0, 0, 1, 2, 2, 0, 0, 0]);
        assert_eq!(LogPage::parse(&bytes), Ok(page));
        let pages = LogPage::SupportedSubpages(vec![(0, 0), (0, 0xff), (0x0c, 0)]);
        assert_eq!(pages.emit(), [0x40, 0xff, 0, 6, 0, 0, 0, 0xff, 0x0c, 0]);
        assert_eq!(LogPage::parse(&pages.emit()), Ok(pages));
    }

    #[test]
    fn parameters_have_the_kind_and_the_length_of_their_value() {
        let page = LogPage::Parameters {
            code: 0x14,
            parameters: vec![
                LogParameter::counter(0, 0x0102, 4),
                LogParameter::counter(1, 1 << 40, 2),
                LogParameter::counter(2, u64::MAX, 8),
                LogParameter::text(0x40, "ab", 4),
                LogParameter::text(0x41, "abcde", 4),
            ],
        };
        let bytes = page.emit();
        assert_eq!(bytes[4..12], [0, 0, 0, 4, 0, 0, 1, 2]);
        assert_eq!(bytes[12..18], [0, 1, 0, 2, 0xff, 0xff]);
        assert_eq!(bytes[18..22], [0, 2, 0, 8]);
        assert_eq!(bytes[30..38], *b"\x00\x40\x01\x04ab  ");
        assert_eq!(bytes[38..], *b"\x00\x41\x01\x04abcd");
        assert_eq!(LogPage::parse(&bytes), Ok(page));
    }

    proptest! {
        #[test]
        fn no_page_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(page) = LogPage::parse(&bytes) {
                prop_assert_eq!(LogPage::parse(&page.emit()), Ok(page));
            }
        }
    }
}
