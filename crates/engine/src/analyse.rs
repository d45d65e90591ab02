//! `hakaru-engine analyse FILE…`: what a capture says about iSCSI, as one JSON document on stdout. Reads files and nothing else.
//!
//! Several files are the parts of one capture (rotated); they are read in the order of their first packets.
use std::fs::File;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use hakaru_dissect::{CaptureFile, CaptureFileError, Dissector};
use serde_json::json;

use crate::failure::{Failure, OrEnvironment};

/// Changes when what is printed changes its meaning.
const FORMAT: u32 = 1;

/// Analyses files. `ports`: where targets listen, beside what is found by content; `progress`: percent on stderr once a second.
///
/// # Errors
/// A file is not there, or is no capture.
pub fn analyse(paths: &[PathBuf], ports: &[u16], progress: bool) -> Result<String, Failure> {
    let mut parts = Vec::new();
    for path in paths {
        let first = open(path)?.first_packet();
        parts.push((first.map_err(|error| failure(path, error))?, path));
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
        let mut file = open(path)?;
        while file
            .read(|one| {
                dissector.handle_packet(one.at, one.link, one.bytes, one.original_length);
            })
            .map_err(|error| failure(path, error))?
        {
            if progress && told.elapsed().as_secs() >= 1 {
                told = Instant::now();
                let share = (before + file.position()) * 100 / total.max(1);
                // Nobody may be there to read it.
                let _ = write!(stderr(), "\r{share:3} % of {} MB ", total / 1_000_000);
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
        let _ = write!(stderr(), "\r{:40}\r", "");
    }
    Ok(json!({
        "format": FORMAT,
        "files": files,
        "packets_dropped_in_capture": dropped,
        "capture": dissector.finish(),
    })
    .to_string())
}

fn open(path: &Path) -> Result<CaptureFile, Failure> {
    let file = File::open(path).or_environment(
        format_args!("open {}", path.display()),
        "name a capture file that exists and may be read",
    )?;
    CaptureFile::new(file).map_err(|error| failure(path, error))
}

fn failure(path: &Path, error: CaptureFileError) -> Failure {
    let path = path.display();
    match error {
        CaptureFileError::Unreadable => Failure::environment(
            format_args!("cannot read {path}"),
            "name a file, not a folder, that may be read; look at what the system says about its disk",
        ),
        CaptureFileError::Compressed => {
            Failure::usage(format_args!("{path} {error}"), "gunzip it first")
        }
        _ => Failure::usage(
            format_args!("{path} {error}"),
            "captures are made by `watch` with `capture`, tcpdump -w, dumpcap and Wireshark",
        ),
    }
}
