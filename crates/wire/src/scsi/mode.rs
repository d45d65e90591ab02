//! MODE SENSE parameter data: headers, block descriptor, and the pages of a disk (SPC-4 section
//! 7.5, SBC-3 section 6.5).
use crate::iscsi::WireError;
use crate::octets::{put_u16, put_u24, put_u32, put_u64, u16_at, u24_at, u32_at, u64_at};

/// A mode page, without the fields that hakaru does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModePage {
    /// 01h, read-write error recovery.
    ErrorRecovery {
        /// AWRE: bad blocks are reassigned by writes.
        reassign_on_write: bool,
        /// ARRE: bad blocks are reassigned by reads.
        reassign_on_read: bool,
    },
    /// 08h, caching.
    Caching {
        /// WCE: writes complete before they are on the medium.
        write_cache: bool,
        /// RCD: reads do not use the cache.
        read_cache_disabled: bool,
    },
    /// 0Ah, control.
    Control {
        /// D_SENSE: sense data in descriptor format.
        descriptor_sense: bool,
        /// QUEUE ALGORITHM MODIFIER: 0 keeps order, 1 does not.
        queue_algorithm: u8,
        /// TAS: tasks that another initiator aborts end with TASK ABORTED.
        task_aborted_status: bool,
        /// SWP: software write protection.
        write_protect: bool,
    },
    /// 1Ch, informational exceptions control.
    InformationalExceptions {
        /// DEXCPT: exceptions are not reported.
        disabled: bool,
        /// MRIE: method of reporting; 0 for none.
        method: u8,
    },
    /// Another page.
    Unknown {
        /// PAGE CODE.
        code: u8,
        /// SUBPAGE CODE, if SPF is set.
        subpage: Option<u8>,
        /// Bytes after PAGE LENGTH.
        bytes: Vec<u8>,
    },
}

const ERROR_RECOVERY: u8 = 0x01;
const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const INFORMATIONAL_EXCEPTIONS: u8 = 0x1c;

impl ModePage {
    /// Returns the PAGE CODE.
    pub fn code(&self) -> u8 {
        match self {
            ModePage::ErrorRecovery { .. } => ERROR_RECOVERY,
            ModePage::Caching { .. } => CACHING,
            ModePage::Control { .. } => CONTROL,
            ModePage::InformationalExceptions { .. } => INFORMATIONAL_EXCEPTIONS,
            ModePage::Unknown { code, .. } => *code,
        }
    }

    /// Returns the page with every bit 0: the answer to PC = changeable if nothing can be changed.
    #[must_use]
    pub fn unchangeable(&self) -> ModePage {
        match self {
            ModePage::ErrorRecovery { .. } => ModePage::ErrorRecovery {
                reassign_on_write: false,
                reassign_on_read: false,
            },
            ModePage::Caching { .. } => ModePage::Caching {
                write_cache: false,
                read_cache_disabled: false,
            },
            ModePage::Control { .. } => ModePage::Control {
                descriptor_sense: false,
                queue_algorithm: 0,
                task_aborted_status: false,
                write_protect: false,
            },
            ModePage::InformationalExceptions { .. } => ModePage::InformationalExceptions {
                disabled: false,
                method: 0,
            },
            ModePage::Unknown {
                code,
                subpage,
                bytes,
            } => ModePage::Unknown {
                code: *code,
                subpage: *subpage,
                bytes: vec![0; bytes.len()],
            },
        }
    }

    /// Writes the page: header and fields.
    pub fn emit(&self, out: &mut Vec<u8>) {
        if let ModePage::Unknown {
            code,
            subpage,
            bytes,
        } = self
        {
            match subpage {
                Some(subpage) => {
                    out.extend_from_slice(&[0x40 | code, *subpage, 0, 0]);
                    let at = out.len() - 2;
                    put_u16(out, at, bytes.len() as u16);
                }
                None => out.extend_from_slice(&[*code, bytes.len() as u8]),
            }
            out.extend_from_slice(bytes);
            return;
        }
        let length = if self.code() == CACHING { 0x12 } else { 0x0a };
        let begin = out.len();
        out.extend_from_slice(&[self.code(), length]);
        out.resize(begin + 2 + usize::from(length), 0);
        self.emit_fields(&mut out[begin..]);
    }

    /// Writes the fields. Offsets are from the page's first byte, as in the standards.
    fn emit_fields(&self, page: &mut [u8]) {
        match *self {
            ModePage::ErrorRecovery {
                reassign_on_write,
                reassign_on_read,
            } => {
                page[2] = u8::from(reassign_on_write) << 7 | u8::from(reassign_on_read) << 6;
            }
            ModePage::Caching {
                write_cache,
                read_cache_disabled,
            } => {
                page[2] = u8::from(write_cache) << 2 | u8::from(read_cache_disabled);
            }
            ModePage::Control {
                descriptor_sense,
                queue_algorithm,
                task_aborted_status,
                write_protect,
            } => {
                page[2] = u8::from(descriptor_sense) << 2;
                page[3] = (queue_algorithm & 0x0f) << 4;
                page[4] = u8::from(write_protect) << 3;
                page[5] = u8::from(task_aborted_status) << 6;
            }
            ModePage::InformationalExceptions { disabled, method } => {
                page[2] = u8::from(disabled) << 3;
                page[3] = method & 0x0f;
            }
            ModePage::Unknown { .. } => {}
        }
    }

    /// Parses the first page of `bytes` and returns it with the remaining bytes. `None` at the end
    /// or if the page is truncated.
    pub fn parse(bytes: &[u8]) -> Option<(ModePage, &[u8])> {
        let (&first, code) = (bytes.first()?, bytes[0] & 0x3f);
        let long = first & 0x40 != 0;
        let (header, length) = if long {
            (4, usize::from(u16_at(bytes.get(..4)?, 2)))
        } else {
            (2, usize::from(*bytes.get(1)?))
        };
        let (page, rest) = bytes.split_at_checked(header + length)?;
        let parsed = match code {
            ERROR_RECOVERY if !long && page.len() >= 12 => ModePage::ErrorRecovery {
                reassign_on_write: page[2] & 0x80 != 0,
                reassign_on_read: page[2] & 0x40 != 0,
            },
            CACHING if !long && page.len() >= 12 => ModePage::Caching {
                write_cache: page[2] & 4 != 0,
                read_cache_disabled: page[2] & 1 != 0,
            },
            CONTROL if !long && page.len() >= 12 => ModePage::Control {
                descriptor_sense: page[2] & 4 != 0,
                queue_algorithm: page[3] >> 4,
                task_aborted_status: page[5] & 0x40 != 0,
                write_protect: page[4] & 8 != 0,
            },
            INFORMATIONAL_EXCEPTIONS if !long && page.len() >= 12 => {
                ModePage::InformationalExceptions {
                    disabled: page[2] & 8 != 0,
                    method: page[3] & 0x0f,
                }
            }
            _ => ModePage::Unknown {
                code,
                subpage: long.then(|| page[1]),
                bytes: page[header..].to_vec(),
            },
        };
        Some((parsed, rest))
    }
}

/// Size of the LU in mode data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDescriptor {
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes in a block, below 2^24 in the short form.
    pub block_length: u32,
}

/// Answer to MODE SENSE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeData {
    /// WP: the medium is write-protected.
    pub write_protected: bool,
    /// DPOFUA: DPO and FUA are supported.
    pub dpo_fua: bool,
    /// Size of the LU, unless DBD excludes it.
    pub block_descriptor: Option<BlockDescriptor>,
    /// Pages, ascending.
    pub pages: Vec<ModePage>,
}

impl ModeData {
    /// Writes header, block descriptor and pages. `ten` selects the header of MODE SENSE(10),
    /// `long` (LLBAA) its block descriptor of 16 bytes instead of 8. In the short descriptor, a
    /// number of blocks that does not fit is all ones.
    ///
    /// # Panics
    /// Panics if the data is too long for its length field (255 or 65 535 bytes), or if a short
    /// descriptor is required for a block length of 2^24 or more.
    pub fn emit(&self, ten: bool, long: bool) -> Vec<u8> {
        let device_specific = u8::from(self.write_protected) << 7 | u8::from(self.dpo_fua) << 4;
        let long = ten && long && self.block_descriptor.is_some();
        let mut out = if ten {
            vec![0, 0, 0, device_specific, u8::from(long), 0, 0, 0]
        } else {
            vec![0, 0, device_specific, 0]
        };
        let descriptor_at = out.len();
        if let Some(descriptor) = self.block_descriptor {
            emit_descriptor(descriptor, long, &mut out);
        }
        let descriptor_length = out.len() - descriptor_at;
        self.pages.iter().for_each(|page| page.emit(&mut out));
        if ten {
            put_u16(&mut out, 6, descriptor_length as u16);
            let length = u16::try_from(out.len() - 2).expect("mode data fits its length field");
            put_u16(&mut out, 0, length);
        } else {
            out[3] = descriptor_length as u8;
            out[0] = u8::try_from(out.len() - 1).expect("mode data fits its length field");
        }
        out
    }

    /// Reads the received part within MODE DATA LENGTH, of MODE SENSE(10) if `ten` is set. A
    /// truncated page ends the list.
    ///
    /// # Errors
    /// A truncated header or block descriptor.
    pub fn parse(bytes: &[u8], ten: bool) -> Result<ModeData, WireError> {
        let header = if ten { 8 } else { 4 };
        let short = WireError::Short("mode data");
        let head = bytes.get(..header).ok_or(short)?;
        let (stated_length, device_specific, long, descriptor_length) = if ten {
            (
                2 + usize::from(u16_at(head, 0)),
                head[3],
                head[4] & 1 != 0,
                usize::from(u16_at(head, 6)),
            )
        } else {
            (
                1 + usize::from(head[0]),
                head[2],
                false,
                usize::from(head[3]),
            )
        };
        let body = bytes
            .get(header..bytes.len().min(stated_length))
            .unwrap_or(&[]);
        let (descriptors, mut rest) = body.split_at_checked(descriptor_length).ok_or(short)?;
        let mut pages = Vec::new();
        while let Some((page, after)) = ModePage::parse(rest) {
            pages.push(page);
            rest = after;
        }
        let block_descriptor = parse_descriptor(descriptors, long);
        Ok(ModeData {
            write_protected: device_specific & 0x80 != 0,
            dpo_fua: device_specific & 0x10 != 0,
            block_descriptor,
            pages,
        })
    }
}

/// Parameter list of MODE SELECT, split into its parts (SPC-4 section 7.5.5; MODE DATA LENGTH is
/// reserved here).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSelectList<'a> {
    /// The block descriptor, if present.
    pub block_descriptor: Option<BlockDescriptor>,
    /// Consecutive pages, to be read with [`ModePage::parse`].
    pub pages: &'a [u8],
}

impl<'a> ModeSelectList<'a> {
    /// Reads a list, of MODE SELECT(10) if `ten` is set.
    ///
    /// # Errors
    /// A truncated header or block descriptor; a descriptor of an unexpected length.
    pub fn parse(list: &'a [u8], ten: bool) -> Result<ModeSelectList<'a>, WireError> {
        let short = WireError::Short("mode parameter list");
        let (head, rest) = list
            .split_at_checked(if ten { 8 } else { 4 })
            .ok_or(short)?;
        let (long, length) = if ten {
            (head[4] & 1 != 0, usize::from(u16_at(head, 6)))
        } else {
            (false, usize::from(head[3]))
        };
        if length != 0 && length != if long { 16 } else { 8 } {
            return Err(WireError::Field("BLOCK DESCRIPTOR LENGTH"));
        }
        let (descriptors, pages) = rest.split_at_checked(length).ok_or(short)?;
        Ok(ModeSelectList {
            block_descriptor: parse_descriptor(descriptors, long),
            pages,
        })
    }
}

fn emit_descriptor(descriptor: BlockDescriptor, long: bool, out: &mut Vec<u8>) {
    if long {
        let mut bytes = [0; 16];
        put_u64(&mut bytes, 0, descriptor.blocks);
        put_u32(&mut bytes, 12, descriptor.block_length);
        out.extend_from_slice(&bytes);
    } else {
        let mut bytes = [0; 8];
        put_u32(
            &mut bytes,
            0,
            u32::try_from(descriptor.blocks).unwrap_or(u32::MAX),
        );
        put_u24(&mut bytes, 5, descriptor.block_length);
        out.extend_from_slice(&bytes);
    }
}

/// Parses the first descriptor. A disk has at most one.
fn parse_descriptor(bytes: &[u8], long: bool) -> Option<BlockDescriptor> {
    if long {
        let bytes = bytes.get(..16)?;
        Some(BlockDescriptor {
            blocks: u64_at(bytes, 0),
            block_length: u32_at(bytes, 12),
        })
    } else {
        let bytes = bytes.get(..8)?;
        Some(BlockDescriptor {
            blocks: u64::from(u32_at(bytes, 0)),
            block_length: u24_at(bytes, 5),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn disk() -> ModeData {
        ModeData {
            write_protected: true,
            dpo_fua: true,
            block_descriptor: Some(BlockDescriptor {
                blocks: 1000,
                block_length: 512,
            }),
            pages: vec![
                ModePage::ErrorRecovery {
                    reassign_on_write: true,
                    reassign_on_read: false,
                },
                ModePage::Caching {
                    write_cache: true,
                    read_cache_disabled: false,
                },
                ModePage::Control {
                    descriptor_sense: false,
                    queue_algorithm: 1,
                    task_aborted_status: true,
                    write_protect: true,
                },
                ModePage::InformationalExceptions {
                    disabled: true,
                    method: 0,
                },
                ModePage::Unknown {
                    code: 0x19,
                    subpage: Some(1),
                    bytes: vec![5; 12],
                },
            ],
        }
    }

    #[test]
    fn mode_data_survives_every_header() {
        for (ten, long) in [(false, false), (true, false), (true, true)] {
            assert_eq!(ModeData::parse(&disk().emit(ten, long), ten), Ok(disk()));
        }
        let bare = ModeData {
            block_descriptor: None,
            ..disk()
        };
        assert_eq!(ModeData::parse(&bare.emit(true, true), true), Ok(bare));
    }

    #[test]
    fn caching_page_is_laid_out_as_in_sbc() {
        let data = ModeData {
            pages: vec![ModePage::Caching {
                write_cache: true,
                read_cache_disabled: false,
            }],
            ..ModeData::default()
        };
        let mut expected = vec![0x17, 0, 0, 0, 0x08, 0x12, 0x04];
        expected.resize(24, 0);
        assert_eq!(data.emit(false, false), expected);
    }

    #[test]
    fn blocks_that_do_not_fit_the_short_descriptor_are_all_ones() {
        let data = ModeData {
            block_descriptor: Some(BlockDescriptor {
                blocks: 1 << 33,
                block_length: 512,
            }),
            ..ModeData::default()
        };
        assert_eq!(
            data.emit(false, true)[4..],
            [0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]
        );
        assert_eq!(ModeData::parse(&data.emit(true, true), true), Ok(data));
    }

    proptest! {
        #[test]
        fn invalid_lengths_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), ten: bool, cut in 0usize..200) {
            let _ = ModeData::parse(&bytes, ten);
            let _ = ModeSelectList::parse(&bytes, ten);
            let valid = disk().emit(ten, true);
            let _ = ModeData::parse(&valid[..valid.len().min(cut)], ten);
        }
    }
}
