//! The files of a capture, rotated by size. The format is pcapng (draft-ietf-opsawg-pcapng),
//! little-endian, with times in nanoseconds and with one section and one interface per file.
//!
//! Each file ends with the number of packets dropped while it was written. A file that was not
//! finished (the process was killed, the disk was full) lacks that number. It is still readable, up
//! to a last packet that may be truncated.
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use hakaru_contract::Capture as CaptureConfig;
use hakaru_runtime::packet::capture::Captured;
use hakaru_units::Time;

use crate::failure::{Failure, OrEnvironment};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;
/// Size of the write buffer, bytes: many packets per system call.
const BUFFER_BYTES: usize = 1 << 18;

/// The file being written, and the settings of the files that follow.
pub struct CaptureFiles {
    path: PathBuf,
    interface: String,
    snap_bytes: u32,
    rotate_bytes: Option<u64>,
    files_max: Option<u32>,
    comment: String,
    out: BufWriter<File>,
    number: u64,
    file_bytes: u64,
    file_packets: u64,
    packets: u64,
    bytes: u64,
    dropped: u64,
    dropped_before: u64,
    last_ns: u64,
    block: Vec<u8>,
}

impl CaptureFiles {
    /// Opens the first file. `monotonic` and `realtime_ns` are the same instant on two clocks. Each
    /// file records both.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(
        config: &CaptureConfig,
        monotonic: Time,
        realtime_ns: u64,
    ) -> Result<CaptureFiles, Failure> {
        let path = PathBuf::from(&config.file);
        let first = config
            .rotate_bytes
            .map_or(path.clone(), |_| numbered(&path, 1));
        let mut files = CaptureFiles {
            out: open(&first)?,
            path,
            interface: config.interface.clone(),
            snap_bytes: config.snap_bytes,
            rotate_bytes: config.rotate_bytes,
            files_max: config.files_max,
            comment: format!(
                "CLOCK_MONOTONIC {} ns is CLOCK_REALTIME {realtime_ns} ns",
                monotonic.0
            ),
            number: 1,
            file_bytes: 0,
            file_packets: 0,
            packets: 0,
            bytes: 0,
            dropped: 0,
            dropped_before: 0,
            last_ns: realtime_ns,
            block: Vec::new(),
        };
        files.begin_section()?;
        Ok(files)
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub fn write(&mut self, packet: &Captured<'_>) -> Result<(), Failure> {
        if let Some(most) = self.rotate_bytes
            && self.file_bytes >= most
        {
            self.rotate()?;
        }
        (self.packets, self.file_packets) = (self.packets + 1, self.file_packets + 1);
        self.last_ns = self.last_ns.max(packet.realtime_ns);
        // Puts a VLAN tag that the kernel removed back in place, behind the addresses.
        let (addresses, rest) = packet.bytes.split_at(packet.bytes.len().min(12));
        let tag = packet.tag.filter(|_| addresses.len() == 12);
        let tag_bytes = if tag.is_some() { 4 } else { 0 };
        // No packet may be longer than the snap length that the file declares.
        let rest_max = (self.snap_bytes as usize).saturating_sub(addresses.len() + tag_bytes);
        let rest = &rest[..rest.len().min(rest_max)];
        let length = addresses.len() + tag_bytes + rest.len();
        let block = self.begin_block(ENHANCED_PACKET);
        put(block, 0);
        put(block, (packet.realtime_ns >> 32) as u32);
        put(block, packet.realtime_ns as u32);
        put(block, length as u32);
        put(block, packet.original_length + tag_bytes as u32);
        block.extend_from_slice(addresses);
        if let Some((kind, content)) = tag {
            block.extend_from_slice(&kind.to_be_bytes());
            block.extend_from_slice(&content.to_be_bytes());
        }
        block.extend_from_slice(rest);
        self.end_block()
    }

    /// Sets the number of packets that the kernel has dropped since the capture began.
    pub fn note_dropped(&mut self, dropped: u64) {
        self.dropped = dropped;
    }

    /// Flushes the write buffer to the file.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.out.flush();
        self.written(flushed)
    }

    /// Ends the last file.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.end_section()
    }

    /// Returns the number of packets written.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of packets that the kernel has dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the size of all files, including deleted ones, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of files begun.
    pub fn files(&self) -> u64 {
        self.number
    }

    fn rotate(&mut self) -> Result<(), Failure> {
        self.end_section()?;
        self.number += 1;
        self.out = open(&numbered(&self.path, self.number))?;
        (self.file_bytes, self.file_packets) = (0, 0);
        if let Some(most) = self.files_max
            && let Some(old) = self.number.checked_sub(most.into()).filter(|&old| old > 0)
        {
            let old = numbered(&self.path, old);
            // Another process may have deleted the file.
            match std::fs::remove_file(&old) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
            .or_environment(
                format_args!("delete {}", old.display()),
                "permit this user to delete files in the folder of the capture",
            )?;
        }
        self.begin_section()
    }

    fn begin_section(&mut self) -> Result<(), Failure> {
        let (comment, interface, snap) = (
            self.comment.clone(),
            self.interface.clone(),
            self.snap_bytes,
        );
        let block = self.begin_block(SECTION_HEADER);
        put(block, 0x1a2b_3c4d);
        // Version 1.0, then the length of the section, which is unknown.
        block.extend_from_slice(&[1, 0, 0, 0]);
        block.extend_from_slice(&[0xff; 8]);
        let engine = concat!("hakaru-engine ", env!("CARGO_PKG_VERSION"));
        option(block, 4, engine.as_bytes());
        option(block, 1, comment.as_bytes());
        option(block, 0, &[]);
        self.end_block()?;
        let block = self.begin_block(INTERFACE_DESCRIPTION);
        block.extend_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
        block.extend_from_slice(&[0; 2]);
        put(block, snap);
        option(block, 2, interface.as_bytes());
        // if_tsresol: 10^-9 s.
        option(block, 9, &[9]);
        option(block, 0, &[]);
        self.end_block()
    }

    fn end_section(&mut self) -> Result<(), Failure> {
        let (received, dropped) = (self.file_packets, self.dropped - self.dropped_before);
        self.dropped_before = self.dropped;
        let last = self.last_ns;
        let block = self.begin_block(INTERFACE_STATISTICS);
        put(block, 0);
        put(block, (last >> 32) as u32);
        put(block, last as u32);
        option(block, 4, &(received + dropped).to_le_bytes());
        option(block, 5, &dropped.to_le_bytes());
        option(block, 0, &[]);
        self.end_block()?;
        self.flush()
    }

    /// Begins a block with its type and space for its length.
    fn begin_block(&mut self, kind: u32) -> &mut Vec<u8> {
        self.block.clear();
        put(&mut self.block, kind);
        put(&mut self.block, 0);
        &mut self.block
    }

    fn end_block(&mut self) -> Result<(), Failure> {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
        let length = self.block.len() as u32 + 4;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        put(&mut self.block, length);
        self.file_bytes += u64::from(length);
        self.bytes += u64::from(length);
        let done = self.out.write_all(&self.block);
        self.written(done)
    }

    fn written(&self, result: std::io::Result<()>) -> Result<(), Failure> {
        result.or_environment(
            format_args!("write the capture {}", self.path.display()),
            "free space on the disk, or limit the capture with rotate_bytes and files_max",
        )
    }
}

/// Returns the name of the `number`th file of a rotated capture.
fn numbered(file: &Path, number: u64) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    let dot = if extension.is_empty() { "" } else { "." };
    file.with_file_name(format!("{stem}-{number:05}{dot}{extension}"))
}

fn open(path: &Path) -> Result<BufWriter<File>, Failure> {
    let file = File::create(path).or_environment(
        format_args!("create {}", path.display()),
        "name a file in an existing folder to which this user may write",
    )?;
    Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
}

fn put(block: &mut Vec<u8>, word: u32) {
    block.extend_from_slice(&word.to_le_bytes());
}

fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend_from_slice(&code.to_le_bytes());
    block.extend_from_slice(&(value.len() as u16).to_le_bytes());
    block.extend_from_slice(value);
    block.resize(block.len().next_multiple_of(4), 0);
}
