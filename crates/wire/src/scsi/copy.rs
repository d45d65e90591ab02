//! Parameter data of EXTENDED COPY(LID1) and RECEIVE COPY RESULTS (SPC-4 sections 6.3, 6.4 and
//! 6.20). Only block-to-block segments are supported, between LUs that are identified by a
//! designator of their device identification page.
use super::{CopyResults, Designator, FieldPointer, Sense, SenseKey, opcode};
use crate::octets::{put_u16, put_u32, u16_at, u24_at, u32_at, u64_at};

/// Limits of a copy, reported by RECEIVE COPY RESULTS (OPERATING PARAMETERS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// MAXIMUM CSCD DESCRIPTOR COUNT: maximum number of devices in a list.
    pub devices_max: u16,
    /// MAXIMUM SEGMENT DESCRIPTOR COUNT.
    pub segments_max: u16,
    /// MAXIMUM DESCRIPTOR LIST LENGTH, bytes of both lists together.
    pub list_bytes_max: u32,
    /// MAXIMUM SEGMENT LENGTH, bytes.
    pub segment_bytes_max: u32,
    /// TOTAL CONCURRENT COPIES.
    pub copies_max: u8,
}

/// A segment: blocks copied from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySegment {
    /// Index of the source device in the list.
    pub from: u16,
    /// Index of the destination device.
    pub to: u16,
    /// Number of blocks, in blocks of the source, or of the destination if `by_destination` is set.
    pub blocks: u16,
    /// DC: `blocks` counts blocks of the destination.
    pub by_destination: bool,
    /// First block of the source.
    pub from_lba: u64,
    /// First block of the destination.
    pub to_lba: u64,
}

/// A parameter list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyList {
    /// LIST IDENTIFIER, by which the result is requested.
    pub list: u8,
    /// Whether the result is kept. LIST ID USAGE 2 and 3 keep none; 3 ignores the identifier.
    pub keeps_result: bool,
    /// Devices by index, each with its designator and block length.
    pub devices: Vec<CopyDevice>,
    /// Segments to copy, in order.
    pub segments: Vec<CopySegment>,
}

/// A device in a parameter list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDevice {
    /// A designator of the device.
    pub designator: Designator,
    /// DISK BLOCK LENGTH, bytes.
    pub block_bytes: u32,
}

const HEADER: usize = 16;
const DEVICE: usize = 32;
const IDENTIFICATION_DEVICE: u8 = 0xe4;
const BLOCK_TO_BLOCK: u8 = 0x02;
const BLOCK_TO_BLOCK_BYTES: usize = 28;

const UNSUPPORTED_DEVICE_TYPE: Sense = Sense::INVALID_FIELD_IN_PARAMETER_LIST.qualified(0x07);
const TOO_MANY_DEVICES: Sense = Sense::INVALID_FIELD_IN_PARAMETER_LIST.qualified(0x06);
const TOO_MANY_SEGMENTS: Sense = Sense::INVALID_FIELD_IN_PARAMETER_LIST.qualified(0x08);
const UNSUPPORTED_SEGMENT_TYPE: Sense = Sense::INVALID_FIELD_IN_PARAMETER_LIST.qualified(0x09);
const UNREACHABLE: Sense = Sense::new(SenseKey::CopyAborted, 0x08, 0x04);
const INLINE_DATA_EXCEEDED: Sense = Sense::INVALID_FIELD_IN_PARAMETER_LIST.qualified(0x0b);

fn invalid_byte(byte: usize) -> Sense {
    Sense::INVALID_FIELD_IN_PARAMETER_LIST.with_field(FieldPointer {
        in_cdb: false,
        byte: byte as u16,
        bit: None,
    })
}

impl CopyList {
    /// Reads a parameter list. The caller checks that devices exist and that ranges lie within
    /// them.
    ///
    /// # Errors
    /// The sense data of a list that exceeds `limits`, is truncated or has segments other than
    /// block to block.
    pub fn parse(bytes: &[u8], limits: &CopyLimits) -> Result<CopyList, Sense> {
        let (header, rest) = bytes
            .split_at_checked(HEADER)
            .ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
        let devices_length = usize::from(u16_at(header, 2));
        let segments_length = u32_at(header, 8) as usize;
        let described = devices_length.saturating_add(segments_length);
        if described > limits.list_bytes_max as usize || described > rest.len() {
            return Err(Sense::PARAMETER_LIST_LENGTH_ERROR);
        }
        if u32_at(header, 12) != 0 {
            return Err(INLINE_DATA_EXCEEDED);
        }
        let usage = header[1] >> 3 & 3;
        let devices = parse_devices(&rest[..devices_length], limits)?;
        let segments = parse_segments(
            &rest[devices_length..described],
            HEADER + devices_length,
            devices.len(),
            limits,
        )?;
        Ok(CopyList {
            list: header[0],
            keeps_result: usage < 2,
            devices,
            segments,
        })
    }
}

fn parse_devices(bytes: &[u8], limits: &CopyLimits) -> Result<Vec<CopyDevice>, Sense> {
    if bytes.len() > DEVICE * usize::from(limits.devices_max) {
        return Err(TOO_MANY_DEVICES);
    }
    if !bytes.len().is_multiple_of(DEVICE) {
        return Err(invalid_byte(2));
    }
    let mut devices = Vec::with_capacity(bytes.len() / DEVICE);
    for (number, descriptor) in bytes.chunks_exact(DEVICE).enumerate() {
        let at = HEADER + number * DEVICE;
        if descriptor[0] != IDENTIFICATION_DEVICE {
            return Err(UNSUPPORTED_DEVICE_TYPE);
        }
        // Only disks (device type 0) are supported. SPC-4 made LU ID TYPE and NUL obsolete.
        if descriptor[1] & 0x1f != 0 {
            return Err(invalid_byte(at + 1));
        }
        let length = usize::from(descriptor[7]);
        if length == 0 || length > 20 {
            return Err(invalid_byte(at + 7));
        }
        // The layout is that of a designator of the device identification page.
        let Some((Some(designator), _)) = Designator::parse(&descriptor[4..28]) else {
            return Err(invalid_byte(at + 5));
        };
        devices.push(CopyDevice {
            designator,
            block_bytes: u24_at(descriptor, 29),
        });
    }
    Ok(devices)
}

fn parse_segments(
    mut bytes: &[u8],
    mut at: usize,
    devices: usize,
    limits: &CopyLimits,
) -> Result<Vec<CopySegment>, Sense> {
    let mut segments = Vec::new();
    while !bytes.is_empty() {
        if segments.len() == usize::from(limits.segments_max) {
            return Err(TOO_MANY_SEGMENTS);
        }
        if bytes[0] != BLOCK_TO_BLOCK {
            return Err(UNSUPPORTED_SEGMENT_TYPE);
        }
        let Some((segment, rest)) = bytes.split_at_checked(BLOCK_TO_BLOCK_BYTES) else {
            return Err(invalid_byte(8));
        };
        if usize::from(u16_at(segment, 2)) != BLOCK_TO_BLOCK_BYTES - 4 {
            return Err(invalid_byte(at + 2));
        }
        let (from, to) = (u16_at(segment, 4), u16_at(segment, 6));
        if [from, to]
            .iter()
            .any(|device| usize::from(*device) >= devices)
        {
            return Err(UNREACHABLE);
        }
        segments.push(CopySegment {
            from,
            to,
            blocks: u16_at(segment, 10),
            by_destination: segment[1] & 2 != 0,
            from_lba: u64_at(segment, 12),
            to_lba: u64_at(segment, 20),
        });
        at += BLOCK_TO_BLOCK_BYTES;
        bytes = rest;
    }
    Ok(segments)
}

impl CopyLimits {
    /// Writes the answer to RECEIVE COPY RESULTS (OPERATING PARAMETERS): 44 bytes and the list of
    /// descriptor types.
    pub fn emit(&self) -> Vec<u8> {
        let types = [BLOCK_TO_BLOCK, IDENTIFICATION_DEVICE];
        let mut out = vec![0; 44];
        put_u32(&mut out, 0, 40 + types.len() as u32);
        // SNLID: lists without an identifier are supported.
        out[4] = 1;
        put_u16(&mut out, 8, self.devices_max);
        put_u16(&mut out, 10, self.segments_max);
        put_u32(&mut out, 12, self.list_bytes_max);
        put_u32(&mut out, 16, self.segment_bytes_max);
        put_u16(&mut out, 34, u16::from(self.copies_max));
        out[36] = self.copies_max;
        // Granularity, a power of two: 2^9 bytes, a block of 512 bytes.
        out[37] = 9;
        out[43] = types.len() as u8;
        out.extend_from_slice(&types);
        out
    }
}

impl CopyLimits {
    /// Writes VPD page 8Fh (SPC-4 section 7.8.17): the commands, the parameter data, the kinds of
    /// descriptors and the bounds of copies.
    pub fn emit_page(&self) -> Vec<u8> {
        let mut out = vec![0, super::page::THIRD_PARTY_COPY, 0, 0];
        let results = [
            CopyResults::Status,
            CopyResults::OperatingParameters,
            CopyResults::FailedSegmentDetails,
        ];
        let mut commands = vec![0, opcode::EXTENDED_COPY, 1, 0];
        commands.extend_from_slice(&[opcode::RECEIVE_COPY_RESULTS, results.len() as u8]);
        commands.extend(results.map(|results| results as u8));
        commands[0] = commands.len() as u8 - 1;
        describe(&mut out, 0x0001, &commands);

        let mut parameters = [0; 28];
        put_u16(&mut parameters, 4, self.devices_max);
        put_u16(&mut parameters, 6, self.segments_max);
        put_u32(&mut parameters, 8, self.list_bytes_max);
        describe(&mut out, 0x0004, &parameters);

        describe(
            &mut out,
            0x0008,
            &[2, BLOCK_TO_BLOCK, IDENTIFICATION_DEVICE],
        );

        let mut general = [0; 32];
        put_u32(&mut general, 0, u32::from(self.copies_max));
        put_u32(&mut general, 4, u32::from(self.copies_max));
        put_u32(&mut general, 8, self.segment_bytes_max);
        general[12] = 9;
        describe(&mut out, 0x8001, &general);

        let length = out.len() as u16 - 4;
        put_u16(&mut out, 2, length);
        out
    }
}

/// Appends a third-party copy descriptor: type, length, and `bytes` padded to a multiple of four.
fn describe(out: &mut Vec<u8>, kind: u16, bytes: &[u8]) {
    let length = bytes.len().next_multiple_of(4);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(length as u16).to_be_bytes());
    let end = out.len() + length;
    out.extend_from_slice(bytes);
    out.resize(end, 0);
}

/// COPY COMMAND STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CopyStatus {
    /// In progress.
    InProgress = 0,
    /// Completed.
    Completed = 1,
    /// Failed.
    Failed = 2,
}

/// Answer to RECEIVE COPY RESULTS (COPY STATUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// Status of the copy.
    pub status: CopyStatus,
    /// Number of segments completed.
    pub segments: u16,
    /// Bytes written.
    pub bytes: u64,
}

impl CopyReport {
    /// Writes 12 bytes. TRANSFER COUNT is in the smallest unit (byte, KiB, MiB, …) in which it
    /// fits.
    pub fn emit(&self) -> [u8; 12] {
        let mut units = 0;
        let mut count = self.bytes;
        while count > u64::from(u32::MAX) {
            count >>= 10;
            units += 1;
        }
        let mut out = [0; 12];
        put_u32(&mut out, 0, 8);
        out[4] = self.status as u8;
        put_u16(&mut out, 5, self.segments);
        out[7] = units;
        put_u32(&mut out, 8, count as u32);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: CopyLimits = CopyLimits {
        devices_max: 2,
        segments_max: 2,
        list_bytes_max: 120,
        segment_bytes_max: 1 << 25,
        copies_max: 1,
    };

    /// Returns a list of devices and of segments that copy `blocks` blocks from LBA 5 to LBA 7.
    fn list(devices: usize, segments: usize, blocks: u16) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        out[0] = 9;
        put_u16(&mut out, 2, (devices * DEVICE) as u16);
        put_u32(&mut out, 8, (segments * BLOCK_TO_BLOCK_BYTES) as u32);
        for _ in 0..devices {
            let mut device = [0; DEVICE];
            device[0] = IDENTIFICATION_DEVICE;
            device[4..8].copy_from_slice(&[1, 3, 0, 8]);
            device[8..16].copy_from_slice(&[0x30, 1, 2, 3, 4, 5, 6, 7]);
            put_u16(&mut device, 30, 512);
            out.extend_from_slice(&device);
        }
        for _ in 0..segments {
            let mut segment = [0; BLOCK_TO_BLOCK_BYTES];
            segment[0] = BLOCK_TO_BLOCK;
            segment[3] = 24;
            put_u16(&mut segment, 10, blocks);
            segment[19] = 5;
            segment[27] = 7;
            out.extend_from_slice(&segment);
        }
        out
    }

    #[test]
    fn a_list_is_laid_out_as_in_spc() {
        let parsed = CopyList::parse(&list(1, 2, 300), &LIMITS).expect("a good list");
        assert_eq!((parsed.list, parsed.keeps_result), (9, true));
        assert_eq!(parsed.devices[0].block_bytes, 512);
        assert_eq!(
            parsed.devices[0].designator.bytes,
            [0x30, 1, 2, 3, 4, 5, 6, 7]
        );
        let segment = CopySegment {
            from: 0,
            to: 0,
            blocks: 300,
            by_destination: false,
            from_lba: 5,
            to_lba: 7,
        };
        assert_eq!(parsed.segments, [segment; 2]);
    }

    #[test]
    fn each_limit_has_its_own_sense_data() {
        let parse = |bytes: &[u8]| CopyList::parse(bytes, &LIMITS).unwrap_err();
        assert_eq!(parse(&list(3, 0, 1)), TOO_MANY_DEVICES);
        assert_eq!(parse(&list(1, 3, 1)), TOO_MANY_SEGMENTS);
        assert_eq!(parse(&list(3, 2, 1)), Sense::PARAMETER_LIST_LENGTH_ERROR);
        let whole = list(1, 1, 1);
        for cut in 1..whole.len() {
            assert_eq!(parse(&whole[..cut]), Sense::PARAMETER_LIST_LENGTH_ERROR);
        }
        for (at, value, sense) in [
            (HEADER, 0xe0, UNSUPPORTED_DEVICE_TYPE),
            (HEADER + DEVICE, 0x03, UNSUPPORTED_SEGMENT_TYPE),
            (15, 1, INLINE_DATA_EXCEEDED),
            (HEADER + 7, 21, invalid_byte(HEADER + 7)),
            (HEADER + DEVICE + 5, 1, UNREACHABLE),
            (HEADER + DEVICE + 7, 1, UNREACHABLE),
            (HEADER + DEVICE + 3, 25, invalid_byte(HEADER + DEVICE + 2)),
        ] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            assert_eq!(parse(&bytes), sense, "byte {at}");
        }
    }

    #[test]
    fn descriptors_of_the_third_party_copy_page_have_whole_words() {
        let page = LIMITS.emit_page();
        let mut rest = &page[4..];
        let mut kinds = Vec::new();
        while let Some((head, after)) = rest.split_at_checked(4) {
            let length = usize::from(u16_at(head, 2));
            assert!(length.is_multiple_of(4));
            kinds.push(u16_at(head, 0));
            rest = &after[length..];
        }
        assert_eq!(kinds, [0x0001, 0x0004, 0x0008, 0x8001]);
        assert_eq!(usize::from(u16_at(&page, 2)), page.len() - 4);
        assert_eq!(page[8..17], [8, 0x83, 1, 0, 0x84, 3, 0, 3, 4]);
    }

    #[test]
    fn transfer_counts_beyond_32_bits_take_a_larger_unit() {
        let report = CopyReport {
            status: CopyStatus::Completed,
            segments: 3,
            bytes: 5 << 32,
        };
        assert_eq!(report.emit(), [0, 0, 0, 8, 1, 0, 3, 1, 0x01, 0x40, 0, 0]);
    }

    proptest! {
        #[test]
        fn invalid_lists_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), plausible: bool) {
            if plausible && bytes.len() > 60 {
                (bytes[2], bytes[3]) = (0, 32);
                bytes[8..16].copy_from_slice(&[0, 0, 0, 28, 0, 0, 0, 0]);
                (bytes[16], bytes[17], bytes[48]) = (IDENTIFICATION_DEVICE, 0, BLOCK_TO_BLOCK);
            }
            if let Ok(list) = CopyList::parse(&bytes, &LIMITS) {
                prop_assert!(list.segments.iter().all(|segment| usize::from(segment.from) < list.devices.len()));
            }
        }
    }
}
