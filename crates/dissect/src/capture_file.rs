//! Reader of a capture file, pcap or pcapng, packet by packet. Both byte orders, any time
//! resolution, and several sections and interfaces are supported.
//!
//! The bytes come from a reader that the caller opened.
use std::io::{Cursor, Read};

use hakaru_units::Time;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use thiserror::Error;

use crate::packet::Link;

const BUFFER_BYTES: usize = 1 << 20;
/// Maximum length of a block, bytes. A longer block is treated as damage.
const BLOCK_BYTES_MAX: usize = 64 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reason why a file cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CaptureFileError {
    /// The file has no bytes.
    #[error("is empty")]
    Empty,
    /// The file ends within its header.
    #[error("ends within its header")]
    TruncatedHeader,
    /// The file is compressed with gzip.
    #[error("is compressed with gzip")]
    Compressed,
    /// The file has another format.
    #[error("is neither pcap nor pcapng")]
    UnknownFormat,
    /// The reader failed.
    #[error("cannot be read")]
    Unreadable,
}

/// A packet of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Capture time as recorded in the file, usually counted from 1970.
    pub at: Time,
    /// Link layer; `None` if it is not supported.
    pub link: Option<Link>,
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Length on the wire, bytes.
    pub original_length: u32,
}

/// A capture interface of a section.
#[derive(Clone, Copy)]
struct Interface {
    link: Option<Link>,
    /// Time units per second.
    units_per_s: u128,
    offset_s: i64,
}

/// Reader of a capture file, from its beginning.
pub struct CaptureFile {
    reader: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    capacity: usize,
    packets: u64,
    without_time: u64,
    not_read: u64,
    truncated: bool,
    dropped: Option<u64>,
    last: Time,
    peeked: Option<Peeked>,
}

/// Packet that was read ahead of its use.
struct Peeked {
    at: Time,
    link: Option<Link>,
    bytes: Vec<u8>,
    original_length: u32,
}

impl CaptureFile {
    /// Checks the header of the file.
    ///
    /// # Errors
    /// The file is not a capture, or cannot be read.
    pub fn new(mut file: impl Read + Send + 'static) -> Result<CaptureFile, CaptureFileError> {
        // The parser expects the first read to return the entire header, but a read may return
        // less.
        let mut head = Vec::new();
        (&mut file)
            .take(BUFFER_BYTES as u64)
            .read_to_end(&mut head)
            .map_err(|_| CaptureFileError::Unreadable)?;
        if head.starts_with(&GZIP) {
            return Err(CaptureFileError::Compressed);
        }
        let full_input = Cursor::new(head).chain(file);
        let reader = create_reader(BUFFER_BYTES, full_input).map_err(|error| match error {
            PcapError::Eof => CaptureFileError::Empty,
            PcapError::Incomplete(_) => CaptureFileError::TruncatedHeader,
            PcapError::ReadError => CaptureFileError::Unreadable,
            _ => CaptureFileError::UnknownFormat,
        })?;
        Ok(CaptureFile {
            reader,
            interfaces: Vec::new(),
            capacity: BUFFER_BYTES,
            packets: 0,
            without_time: 0,
            not_read: 0,
            truncated: false,
            dropped: None,
            last: Time::ZERO,
            peeked: None,
        })
    }

    /// Returns the time of the next packet without consuming it; `None` at the end of the file.
    ///
    /// # Errors
    /// See [`CaptureFile::read`].
    pub fn peek_time(&mut self) -> Result<Option<Time>, CaptureFileError> {
        loop {
            if let Some(peeked) = &self.peeked {
                return Ok(Some(peeked.at));
            }
            let mut peeked = None;
            let has_packet = self.read(|packet| {
                peeked = Some(Peeked {
                    at: packet.at,
                    link: packet.link,
                    bytes: packet.bytes.to_vec(),
                    original_length: packet.original_length,
                });
            })?;
            if !has_packet {
                return Ok(None);
            }
            self.peeked = peeked;
        }
    }

    /// Reads the next block. If it is a packet, passes it to `handle`. Returns `false` at the end
    /// of the file, whether the file is complete or truncated.
    ///
    /// # Errors
    /// The reader failed.
    pub fn read(&mut self, handle: impl FnOnce(Packet<'_>)) -> Result<bool, CaptureFileError> {
        if let Some(peeked) = self.peeked.take() {
            handle(Packet {
                at: peeked.at,
                link: peeked.link,
                bytes: &peeked.bytes,
                original_length: peeked.original_length,
            });
            return Ok(true);
        }
        loop {
            let length = match self.reader.next() {
                Ok((length, block)) => {
                    let mut state = BlockState {
                        interfaces: &mut self.interfaces,
                        dropped: &mut self.dropped,
                        last: &mut self.last,
                        without_time: &mut self.without_time,
                    };
                    match state.handle_block(&block) {
                        BlockContent::Packet(packet) => {
                            self.packets += 1;
                            handle(packet);
                        }
                        BlockContent::Metadata => {}
                        BlockContent::Unknown => self.not_read += 1,
                    }
                    length
                }
                Err(PcapError::Eof) => return Ok(false),
                Err(PcapError::Incomplete(_)) => {
                    if self.reader.reader_exhausted() {
                        self.truncated |= !self.reader.data().is_empty();
                        return Ok(false);
                    }
                    self.refill()?;
                    continue;
                }
                Err(PcapError::BufferTooSmall) if self.capacity < BLOCK_BYTES_MAX => {
                    self.capacity *= 2;
                    self.reader.grow(self.capacity);
                    self.refill()?;
                    continue;
                }
                Err(PcapError::ReadError) => return Err(CaptureFileError::Unreadable),
                // The file is truncated or damaged. Without the length of this block, the beginning
                // of the next is unknown.
                Err(_) => {
                    self.truncated = true;
                    return Ok(false);
                }
            };
            self.reader.consume(length);
            return Ok(true);
        }
    }

    fn refill(&mut self) -> Result<(), CaptureFileError> {
        if self.reader.refill().is_err() {
            return Err(CaptureFileError::Unreadable);
        }
        Ok(())
    }

    /// Returns the number of bytes read.
    pub fn position(&self) -> u64 {
        self.reader.consumed() as u64
    }

    /// Returns the number of packets read.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns whether the file ends within a block, or its rest cannot be decoded.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the number of packets without a time in the file; each gets the time of the packet
    /// before it.
    pub fn packets_without_time(&self) -> u64 {
        self.without_time
    }

    /// Returns the number of blocks of unknown types.
    pub fn blocks_not_read(&self) -> u64 {
        self.not_read
    }

    /// Returns the number of packets that the capturing program lost, if the file records it.
    pub fn dropped(&self) -> Option<u64> {
        self.dropped
    }
}

/// State of the reader that blocks set for the blocks after them.
struct BlockState<'a> {
    interfaces: &'a mut Vec<Interface>,
    dropped: &'a mut Option<u64>,
    last: &'a mut Time,
    without_time: &'a mut u64,
}

/// Content of a block.
enum BlockContent<'a> {
    Packet(Packet<'a>),
    Metadata,
    Unknown,
}

impl BlockState<'_> {
    fn handle_block<'b>(&mut self, block: &'b PcapBlockOwned<'b>) -> BlockContent<'b> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let units_per_s = if header.is_nanosecond_precision() {
                    1_000_000_000
                } else {
                    1_000_000
                };
                *self.interfaces = vec![Interface {
                    // The upper bits describe the FCS.
                    link: Link::from_code(header.network.0 as u32 & 0xffff),
                    units_per_s,
                    offset_s: 0,
                }];
                BlockContent::Metadata
            }
            PcapBlockOwned::Legacy(packet) => {
                let interface = self.interfaces.first().copied();
                let units = interface.map_or(1_000_000, |interface| interface.units_per_s);
                let ticks = u128::from(packet.ts_sec) * units + u128::from(packet.ts_usec);
                let bytes = &packet.data[..packet.data.len().min(packet.caplen as usize)];
                BlockContent::Packet(self.packet(interface, Some(ticks), bytes, packet.origlen))
            }
            PcapBlockOwned::NG(block) => self.handle_pcapng_block(block),
        }
    }

    fn handle_pcapng_block<'b>(&mut self, block: &'b Block<'b>) -> BlockContent<'b> {
        match block {
            Block::SectionHeader(_) => self.interfaces.clear(),
            Block::InterfaceDescription(interface) => self.interfaces.push(Interface {
                link: Link::from_code(interface.linktype.0 as u32 & 0xffff),
                units_per_s: units_per_s(interface.if_tsresol),
                offset_s: interface.if_tsoffset,
            }),
            Block::EnhancedPacket(packet) => {
                let interface = self.interfaces.get(packet.if_id as usize).copied();
                let ticks = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                return BlockContent::Packet(self.packet(
                    interface,
                    Some(ticks),
                    packet.packet_data(),
                    packet.origlen,
                ));
            }
            Block::SimplePacket(packet) => {
                let interface = self.interfaces.first().copied();
                let bytes = packet.packet_data();
                return BlockContent::Packet(self.packet(interface, None, bytes, packet.origlen));
            }
            Block::InterfaceStatistics(statistics) => {
                let dropped = [statistics.isb_ifdrop(), statistics.isb_osdrop()];
                let lost = dropped.into_iter().flatten().flatten();
                // `pcap_parser` decodes these counters as little-endian in every section.
                let lost = if statistics.block_type != pcap_parser::ISB_MAGIC {
                    lost.map(u64::swap_bytes).fold(0, u64::saturating_add)
                } else {
                    lost.fold(0, u64::saturating_add)
                };
                // Capturing programs write one statistics block per interface, at the end of a
                // capture, so the sum counts nothing twice.
                *self.dropped = Some(self.dropped.unwrap_or(0).saturating_add(lost));
            }
            Block::NameResolution(_) | Block::Custom(_) | Block::DecryptionSecrets(_) => {}
            _ => return BlockContent::Unknown,
        }
        BlockContent::Metadata
    }

    fn packet<'b>(
        &mut self,
        interface: Option<Interface>,
        ticks: Option<u128>,
        bytes: &'b [u8],
        original_length: u32,
    ) -> Packet<'b> {
        match ticks.zip(interface) {
            Some((ticks, interface)) => *self.last = interface.time(ticks),
            None => *self.without_time += 1,
        }
        Packet {
            at: *self.last,
            link: interface.and_then(|interface| interface.link),
            bytes,
            original_length,
        }
    }
}

impl Interface {
    /// Converts ticks to an instant, ns; instants before 1970 become 1970.
    fn time(&self, ticks: u128) -> Time {
        let ns = ticks.saturating_mul(1_000_000_000) / self.units_per_s;
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        Time(u64::try_from(ns.saturating_add(offset).max(0)).unwrap_or(u64::MAX))
    }
}

/// Converts the option if_tsresol: a power of ten, or of two if the upper bit is set.
fn units_per_s(resolution: u8) -> u128 {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 {
        10_u128.checked_pow(exponent)
    } else {
        1_u128.checked_shl(exponent)
    }
    .unwrap_or(u128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns one byte at a time.
    struct Trickle(&'static [u8]);

    impl Read for Trickle {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let length = into.len().min(1);
            self.0.read(&mut into[..length])
        }
    }

    /// A capture of one packet, with four captured bytes, 2.000005 s after 1970.
    const PCAP: [u8; 44] = [
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0, 2, 0,
        0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 60, 0, 0, 0, 1, 2, 3, 4,
    ];

    #[test]
    fn a_reader_may_return_one_byte_at_a_time() {
        let mut file = CaptureFile::new(Trickle(&PCAP)).unwrap();
        assert_eq!(file.peek_time(), Ok(Some(Time(2_000_005_000))));
        let mut seen = Vec::new();
        while file
            .read(|packet| seen.push((packet.at.0, packet.bytes.to_vec(), packet.original_length)))
            .unwrap()
        {}
        assert_eq!(seen, [(2_000_005_000, vec![1, 2, 3, 4], 60)]);
        assert!(!file.is_truncated());
        let refused = |bytes| CaptureFile::new(Trickle(bytes)).err();
        assert_eq!(refused(&[]), Some(CaptureFileError::Empty));
        assert_eq!(refused(&PCAP[..9]), Some(CaptureFileError::TruncatedHeader));
        assert_eq!(
            refused(&[0x1f, 0x8b, 8]),
            Some(CaptureFileError::Compressed)
        );
        assert_eq!(refused(&[7; 64]), Some(CaptureFileError::UnknownFormat));
    }

    #[test]
    fn time_has_any_resolution_and_may_be_shifted() {
        let at = |resolution, offset_s, ticks| {
            Interface {
                link: None,
                units_per_s: units_per_s(resolution),
                offset_s,
            }
            .time(ticks)
            .0
        };
        assert_eq!(at(6, 0, 1_500_000), 1_500_000_000);
        assert_eq!(at(9, 2, 7), 2_000_000_007);
        assert_eq!(at(0x80 | 10, 0, 1536), 1_500_000_000);
        assert_eq!(at(3, -5, 1000), 0);
        assert_eq!(at(255, i64::MAX, u128::MAX), u64::MAX);
    }
}
