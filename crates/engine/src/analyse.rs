//! `hakaru-engine analyse FILE…`: analyses an iSCSI capture and prints one JSON document on stdout.
//! It reads each pipe once. Other files are closed after their first packet, and opened again for
//! the analysis, so there may be more parts than open files.
//!
//! Several files are the parts of one rotated capture. They are read in the order of their first
//! packets.
use std::fs::File;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use hakaru_dissect::{CaptureFile, CaptureFileError, Dissector, Report};
use serde::Serialize;

use crate::failure::{Failure, OrEnvironment};

/// Version of the document's format. It changes when a field changes its meaning.
const FORMAT: u32 = 2;

/// The printed document; its objects keep the order of their fields.
#[derive(Serialize)]
struct Document {
    format: u32,
    files: Vec<FileReport>,
    /// Packets dropped by the capturing program; `None` if the files lack the number.
    packets_dropped_in_capture: Option<u64>,
    capture: Report,
}

/// Figures of one file.
#[derive(Serialize)]
struct FileReport {
    path: PathBuf,
    packets: u64,
    truncated: bool,
    packets_without_time: u64,
    blocks_not_read: u64,
}

/// Analyses files and returns the JSON document. Targets listen on the TCP `ports`; iSCSI on other
/// ports is detected by its content. With `progress`, prints the percentage on stderr once a
/// second.
///
/// # Errors
/// A file cannot be opened or read, or is not a capture.
pub fn analyse(paths: &[PathBuf], ports: &[u16], progress: bool) -> Result<String, Failure> {
    let mut parts = Vec::new();
    for path in paths {
        let mut file = open(path)?;
        let first = file.peek_time().map_err(|error| failure(path, error))?;
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        parts.push((first, path, (!is_file).then_some(file)));
    }
    // A part without packets has no time, and sorts first.
    parts.sort_by_key(|(first, ..)| first.unwrap_or_default());
    // The length of a pipe is 0.
    let total: u64 = paths
        .iter()
        .filter_map(|path| Some(path.metadata().ok()?.len()))
        .sum();
    let mut dissector = Dissector::new(ports);
    let (mut files, mut before) = (Vec::new(), 0);
    let (mut printed, mut dropped) = (Instant::now(), None);
    for (_, path, opened) in parts {
        let mut file = match opened {
            Some(file) => file,
            None => open(path)?,
        };
        while file
            .read(|packet| {
                let (bytes, length) = (packet.bytes, packet.original_length);
                dissector.handle_packet(packet.at, packet.link, bytes, length);
            })
            .map_err(|error| failure(path, error))?
        {
            if progress && printed.elapsed().as_secs() >= 1 {
                printed = Instant::now();
                print_progress(before + file.position(), total);
            }
        }
        before += file.position();
        if let Some(lost) = file.dropped() {
            dropped = Some(dropped.unwrap_or(0) + lost);
        }
        files.push(FileReport {
            path: path.clone(),
            packets: file.packets(),
            truncated: file.is_truncated(),
            packets_without_time: file.packets_without_time(),
            blocks_not_read: file.blocks_not_read(),
        });
    }
    if progress {
        let _ = write!(stderr(), "\r{:40}\r", "");
    }
    let document = Document {
        format: FORMAT,
        files,
        packets_dropped_in_capture: dropped,
        capture: dissector.finish(),
    };
    Ok(serde_json::to_string(&document)
        .expect("keys are strings, and writing to memory cannot fail"))
}

/// Prints the progress on stderr, which may be closed.
fn print_progress(position: u64, total: u64) {
    let megabytes = position / 1_000_000;
    let _ = match (position * 100).checked_div(total) {
        Some(share) => write!(stderr(), "\r{share:3} % of {} MB ", total / 1_000_000),
        None => write!(stderr(), "\r{megabytes} MB "),
    };
}

fn open(path: &Path) -> Result<CaptureFile, Failure> {
    let file = File::open(path).or_environment(
        format_args!("open {}", path.display()),
        "name an existing capture file that this user may read",
    )?;
    CaptureFile::new(file).map_err(|error| failure(path, error))
}

fn failure(path: &Path, error: CaptureFileError) -> Failure {
    let path = path.display();
    match error {
        CaptureFileError::Unreadable => Failure::environment(
            format_args!("cannot read {path}"),
            "name a readable file, not a folder; the system log may report errors of the disk",
        ),
        CaptureFileError::Compressed => {
            Failure::usage(format_args!("{path} {error}"), "gunzip it first")
        }
        _ => Failure::usage(
            format_args!("{path} {error}"),
            "name a capture made by `watch` with `capture`, tcpdump -w, dumpcap or Wireshark",
        ),
    }
}
