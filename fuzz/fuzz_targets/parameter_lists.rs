//! Parameter lists that an initiator sends with a command, and lists that a target returns. Input:
//! one byte that selects the format, then the bytes to parse.
//!
//! Checks, in addition to the absence of panics: a list has no more entries than its bytes can
//! hold, and a list, emitted and parsed again, is unchanged.
#![no_main]
use hakaru_wire::scsi::*;
use libfuzzer_sys::fuzz_target;

const LIMITS: CopyLimits = CopyLimits {
    devices_max: 8,
    segments_max: 32,
    list_bytes_max: 8 * 32 + 32 * 28,
    segment_bytes_max: 65_535 * 512,
    copies_max: 32,
};

fuzz_target!(|input: &[u8]| {
    let [format, bytes @ ..] = input else { return };
    match format % 6 {
        0 => {
            if let Ok(ranges) = parse_unmap_list(bytes, 256) {
                assert!(ranges.len() <= 256 && ranges.len() * 16 <= bytes.len());
                assert_eq!(parse_unmap_list(&emit_unmap_list(&ranges), 256), Ok(ranges));
            }
        }
        1 => match CopyList::parse(bytes, &LIMITS) {
            Ok(list) => {
                assert!(list.devices.len() <= 8 && list.segments.len() <= 32);
                assert!(list.devices.len() * 32 + list.segments.len() * 28 + 16 <= bytes.len());
                for segment in &list.segments {
                    let device = segment.from.max(segment.to);
                    assert!(usize::from(device) < list.devices.len());
                }
            }
            Err(sense) => {
                assert!(matches!(
                    sense.key,
                    SenseKey::IllegalRequest | SenseKey::CopyAborted
                ));
            }
        },
        2 => {
            let statuses = parse_lba_status(bytes);
            assert!(statuses.len() * 16 <= bytes.len());
            assert_eq!(parse_lba_status(&emit_lba_status(&statuses)), statuses);
        }
        3 => {
            let _ = ReserveOutParameters::parse(bytes);
        }
        4 => {
            let _ = RegisterAndMove::parse(bytes);
            let _ = TransportId::parse(bytes);
        }
        _ => {
            let _ = ModeSelectList::parse(bytes, format & 0x40 != 0);
        }
    }
});
