//! Commands from an initiator, and parameter data from a target. Input: one byte that selects the
//! format, then the bytes to parse.
//!
//! Checks, in addition to the absence of panics: a parsed value, emitted and parsed again, is
//! unchanged.
#![no_main]
use hakaru_wire::scsi::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [format, bytes @ ..] = input else { return };
    match format % 8 {
        0 => match Cdb::parse(bytes) {
            Ok(cdb) => assert_eq!(Cdb::parse(&cdb.emit()), Ok(cdb)),
            Err(error) => assert_eq!(error.sense().key, SenseKey::IllegalRequest),
        },
        1 => {
            let _ = Sense::parse_response_data(bytes);
            if let Some(sense) = Sense::parse(bytes) {
                let mut again = Vec::new();
                sense.emit_descriptor(&mut again);
                assert_eq!(Sense::parse(&again), Some(sense));
            }
        }
        2 => {
            if let Ok(inquiry) = Inquiry::parse(bytes) {
                assert_eq!(Inquiry::parse(&inquiry.emit()), Ok(inquiry));
            }
        }
        3 => {
            if let Ok(page) = Vpd::parse(bytes) {
                assert_eq!(Vpd::parse(&page.emit()), Ok(page));
            }
        }
        4 | 5 => {
            let ten = format % 8 == 5;
            if let Ok(data) = ModeData::parse(bytes, ten) {
                let long = data
                    .block_descriptor
                    .is_some_and(|d| d.block_length >= 1 << 24 || d.blocks > u64::from(u32::MAX));
                // Pages are emitted with their full length, and must then still fit the length
                // field. Only the ten-byte form has a long descriptor.
                if bytes.len() < if ten { 30_000 } else { 128 } && (ten || !long) {
                    assert_eq!(ModeData::parse(&data.emit(ten, long), ten), Ok(data));
                }
            }
        }
        6 => {
            if let Ok((luns, total)) = parse_luns(bytes) {
                assert!(luns.len() <= total as usize);
                assert_eq!(
                    parse_luns(&emit_luns(luns.iter().copied())),
                    Ok((luns.clone(), luns.len() as u32))
                );
            }
        }
        _ => {
            let _ = Capacity10::parse(bytes);
            if let Ok(capacity) = Capacity16::parse(bytes) {
                assert_eq!(Capacity16::parse(&capacity.emit()), Ok(capacity));
            }
        }
    }
});
