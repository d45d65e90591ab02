//! `hakaru-engine analyse FILE…`: what a capture says about iSCSI, as one JSON document on stdout. Reads files and nothing else.
//!
//! Several files are the parts of one capture (rotated); they are read in the order of their first packets.
mod file;

use std::path::PathBuf;
use std::time::Instant;

use hakaru_dissect::Dissector;
use serde_json::json;

use crate::failure::Failure;
use file::CaptureFile;

/// Changes when what is printed changes its meaning.
const FORMAT: u32 = 1;

/// Analyses files. `ports`: where targets listen, beside what is found by content; `progress`: percent on stderr once a second.
///
/// # Errors
/// A file is not there, or is no capture.
pub fn analyse(paths: &[PathBuf], ports: &[u16], progress: bool) -> Result<String, Failure> {
    let mut parts = Vec::new();
    for path in paths {
        parts.push((CaptureFile::open(path)?.first_packet()?, path));
    }
    // An empty part tells no time; it stays where it was named.
    parts.sort_by_key(|(first, _)| first.unwrap_or(0));
    let total: u64 = paths
        .iter()
        .filter_map(|path| Some(path.metadata().ok()?.len()))
        .sum();
    let mut dissector = Dissector::new(ports);
    let (mut files, mut before) = (Vec::new(), 0);
    let (mut told, mut dropped) = (Instant::now(), None);
    for (_, path) in parts {
        let mut file = CaptureFile::open(path)?;
        while file.read(|packet| {
            dissector.handle_packet(packet.at, packet.link, packet.bytes, packet.original_length);
        })? {
            if progress && told.elapsed().as_secs() >= 1 {
                told = Instant::now();
                let share = (before + file.position()) * 100 / total.max(1);
                eprint!("\r{share:3} % of {} MB ", total / 1_000_000);
            }
        }
        before += file.position();
        if let Some(lost) = file.dropped() {
            dropped = Some(dropped.unwrap_or(0) + lost);
        }
        files.push(json!({
            "path": path,
            "packets": file.packets(),
            "truncated": file.is_truncated(),
            "packets_without_time": file.packets_without_time(),
            "blocks_not_read": file.blocks_not_read(),
        }));
    }
    if progress {
        eprint!("\r{:40}\r", "");
    }
    Ok(json!({
        "format": FORMAT,
        "files": files,
        "packets_dropped_in_capture": dropped,
        "capture": dissector.finish(),
    })
    .to_string())
}
