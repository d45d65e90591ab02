//! Export and import of cartridges in the format of SIMH, while no array uses them. `BARCODE.tape` in
//! the directory of a pool stands for the cartridge of that pool.
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use hakaru_pool::disk::Disk;
use hakaru_runtime::file::disk::sync_entry;
use hakaru_tape::simh::{MARKER_BYTES, Marker, TapError};
use hakaru_tape::{Header, Medium, Object, Piece, Recovered};
use serde_json::{Value, json};

use super::config::{CAPACITY_MAX, CAPACITY_MIN, is_barcode};
use super::file::{self, CartridgeFile};
use super::offline::OfflinePool;
use super::stored::{Stored, complete};
use crate::array::path_hint::path_hint;
use crate::failure::Failure;

/// Bytes of blocks that are copied at a time, unless one block is longer.
const COPY_BYTES: u64 = 1 << 20;

/// Writes the contents of a cartridge to a new `.tap` file. Returns the numbers of blocks, bytes and
/// filemarks as JSON.
///
/// # Errors
/// The cartridge is in use or damaged; the file exists or cannot be written.
pub fn export(cartridge: &Path, tap: &Path) -> Result<Value, Failure> {
    if let Some(directory) = pool_of(cartridge) {
        let barcode = barcode_of(cartridge)?;
        let mut pool = OfflinePool::open(directory, barcode.clone())?;
        let (bytes, recovered) = pool.cartridge()?;
        let failing = |error| OfflinePool::failure(directory, &barcode, error);
        let figures = export_from(&bytes, &recovered, tap, &failing)?;
        return Ok(figures.report(cartridge, tap));
    }
    let CartridgeFile {
        file: _locked,
        disk,
        recovered,
    } = file::open(cartridge)?;
    let failing = |error| file::failure(cartridge, &error);
    let figures = export_from(&disk, &recovered, tap, &failing)?;
    Ok(figures.report(cartridge, tap))
}

/// Returns the directory of the pool that has a cartridge; `None` if the cartridge is a file.
fn pool_of(cartridge: &Path) -> Option<&Path> {
    let directory = cartridge.parent()?;
    directory.join("metadata").is_file().then_some(directory)
}

/// Returns the failure of an access to a cartridge.
type Failing<'a> = &'a dyn Fn(io::Error) -> Failure;

fn export_from(
    cartridge: &dyn Stored,
    recovered: &Recovered,
    tap: &Path,
    failing: Failing<'_>,
) -> Result<Figures, Failure> {
    let (medium, data) = (&recovered.medium, recovered.header.data_bytes());
    let writing = |error| failure("write", tap, &error);
    let out = OpenOptions::new().write(true).create_new(true).open(tap);
    let mut out = BufWriter::with_capacity(COPY_BYTES as usize, out.map_err(writing)?);
    let mut figures = Figures::default();
    let written = copy_out(cartridge, medium, data, &mut out, &mut figures);
    let ended = written.and_then(|()| out.flush().map_err(|e| Side::Tap.with(e)));
    let ended = ended.and_then(|()| out.get_ref().sync_all().map_err(|e| Side::Tap.with(e)));
    if let Err((side, error)) = ended {
        let _ = fs::remove_file(tap);
        return Err(match side {
            Side::Tap => writing(error),
            Side::Cartridge => failing(error),
        });
    }
    Ok(figures)
}

/// The file in which an error has occurred.
enum Side {
    Tap,
    Cartridge,
}

impl Side {
    fn with(self, error: io::Error) -> (Side, io::Error) {
        (self, error)
    }
}

fn copy_out(
    disk: &dyn Stored,
    medium: &Medium,
    data: u64,
    out: &mut impl Write,
    figures: &mut Figures,
) -> Result<(), (Side, io::Error)> {
    let tap = |e| Side::Tap.with(e);
    let mut position = 0;
    loop {
        let count = match medium.after(position) {
            Object::EndOfData => break,
            Object::Filemarks { count } => {
                for _ in 0..count {
                    out.write_all(&Marker::Filemark.emit()).map_err(tap)?;
                }
                figures.filemarks += count;
                count
            }
            Object::Blocks {
                block_bytes,
                offset_bytes,
                count,
            } => {
                let stride = stride_of(block_bytes);
                let count = count.min((COPY_BYTES / stride).max(1));
                let mut blocks = vec![0; (count * stride) as usize];
                disk.read_at(data + offset_bytes, &mut blocks)
                    .map_err(|e| Side::Cartridge.with(e))?;
                let marker = Marker::Block(block_bytes).emit();
                for block in blocks.chunks(stride as usize) {
                    let block = &block[..block_bytes as usize];
                    let padding = &[0][..Marker::padding(block_bytes)];
                    for part in [&marker[..], block, padding, &marker] {
                        out.write_all(part).map_err(tap)?;
                    }
                }
                figures.add(count, block_bytes);
                count
            }
        };
        position += count;
    }
    out.write_all(&Marker::End.emit()).map_err(tap)
}

fn stride_of(block_bytes: u32) -> u64 {
    let piece = Piece {
        offset_bytes: 0,
        blocks: 1,
        block_bytes,
    };
    piece.stride_bytes()
}

/// Creates a cartridge with the contents of a `.tap` file. Its barcode is the name of its file. The
/// default of its capacity is the space that its contents need. Returns the numbers of blocks, bytes
/// and filemarks as JSON.
///
/// # Errors
/// The cartridge exists or cannot be written, its name is no barcode, or the contents do not fit;
/// the `.tap` file cannot be read or is damaged.
pub fn import(tap: &Path, cartridge: &Path, capacity: Option<u64>) -> Result<Value, Failure> {
    let barcode = barcode_of(cartridge)?;
    // The file is read twice: its lengths first, so that a damaged one leaves no cartridge.
    let (mut medium, mut figures) = (Medium::default(), Figures::default());
    let reading = |error: Fault| error.failure(tap);
    scan(tap, &mut |object| {
        let length = object.map_or(0, |block| block.len() as u32);
        if length == 0 {
            figures.filemarks += 1;
        } else {
            figures.add(1, length);
        }
        medium.extend(length, 1, CAPACITY_MAX).ok_or(Fault::Room)
    })
    .map_err(reading)?;
    let needed = medium.used_bytes();
    let capacity_bytes = capacity.unwrap_or(needed.max(CAPACITY_MIN));
    if capacity_bytes < needed
        || !(CAPACITY_MIN..=CAPACITY_MAX).contains(&capacity_bytes)
        || !capacity_bytes.is_multiple_of(512)
    {
        let message = format!("the capacity is {capacity_bytes} bytes");
        let hint = format!(
            "choose a multiple of 512 from {} to {CAPACITY_MAX}: {} needs {needed} bytes, because each block occupies a multiple of 512",
            needed.max(CAPACITY_MIN),
            tap.display()
        );
        return Err(Failure::usage(message, hint));
    }
    let header = Header::new(barcode, false, capacity_bytes);
    if let Some(directory) = pool_of(cartridge) {
        let mut pool = OfflinePool::open(directory, header.barcode.clone())?;
        let failing = |error| OfflinePool::failure(directory, &header.barcode, error);
        pool.create(&header, |bytes| {
            fill(tap, bytes, &header, &medium, &failing)
        })?;
        return Ok(figures.report(cartridge, tap));
    }
    File::create_new(cartridge).map_err(|error| file::failure(cartridge, &error))?;
    let filled = fill_file(tap, cartridge, &header, &medium);
    if filled.is_err() {
        let _ = fs::remove_file(cartridge);
    }
    filled.map(|()| figures.report(cartridge, tap))
}

fn fill_file(tap: &Path, path: &Path, header: &Header, medium: &Medium) -> Result<(), Failure> {
    let fail = |error| file::failure(path, &error);
    let (_locked, disk) = file::lock(path)?;
    let length = header.data_bytes() + medium.used_bytes();
    disk.set_len(length).map_err(fail)?;
    fill(tap, &disk, header, medium, &fail)?;
    sync_entry(path).map_err(fail)
}

/// Writes the blocks of a `.tap` file, then index and header.
fn fill(
    tap: &Path,
    cartridge: &dyn Stored,
    header: &Header,
    medium: &Medium,
    failing: Failing<'_>,
) -> Result<(), Failure> {
    let data = header.data_bytes();
    let (mut at, mut padded) = (data, Vec::new());
    scan(tap, &mut |object| {
        if let Some(block) = object {
            let stride = stride_of(block.len() as u32);
            padded.clear();
            padded.extend_from_slice(block);
            padded.resize(stride as usize, 0);
            cartridge.write_at(at, &padded).map_err(Fault::Cartridge)?;
            at += stride;
        }
        Ok(())
    })
    .map_err(|error| match error {
        Fault::Cartridge(error) => failing(error),
        other => other.failure(tap),
    })?;
    if at != data + medium.used_bytes() {
        return Err(Fault::Changed.failure(tap));
    }
    cartridge
        .flush()
        .and_then(|()| complete(cartridge, header, medium))
        .map_err(failing)
}

fn barcode_of(cartridge: &Path) -> Result<String, Failure> {
    let name = cartridge.file_stem().and_then(OsStr::to_str);
    let is_tape = cartridge.extension() == Some(OsStr::new("tape"));
    match name.filter(|name| is_tape && is_barcode(name)) {
        Some(name) => Ok(name.to_owned()),
        None => Err(Failure::usage(
            format!("{} is not the name of a cartridge", cartridge.display()),
            "name it BARCODE.tape: up to 32 capital letters and digits",
        )),
    }
}

/// A fault of a `.tap` file, or an error while its contents are used.
enum Fault {
    Io(io::Error),
    Cut(u64),
    Tap(TapError, u64),
    Room,
    Changed,
    Cartridge(io::Error),
}

impl Fault {
    fn failure(self, tap: &Path) -> Failure {
        let what = match self {
            Fault::Io(error) | Fault::Cartridge(error) => return failure("read", tap, &error),
            Fault::Cut(at) => format!("it ends inside the block at byte {at}"),
            Fault::Tap(error, at) => format!("{error} (at byte {at})"),
            Fault::Room => "a cartridge cannot hold it: it has too many runs of blocks of one length, or more than 16 TiB".to_owned(),
            Fault::Changed => "it was changed while it was read".to_owned(),
        };
        let message = format!("{} cannot be imported: {what}", tap.display());
        Failure::environment(
            message,
            "no cartridge was created; use another copy of the file",
        )
    }
}

/// Takes a block, or `None` for a filemark.
type Take<'a> = &'a mut dyn FnMut(Option<&[u8]>) -> Result<(), Fault>;

/// Calls `take` with each object.
fn scan(tap: &Path, take: Take<'_>) -> Result<(), Fault> {
    let file = File::open(tap).map_err(Fault::Io)?;
    let mut file = BufReader::with_capacity(COPY_BYTES as usize, file);
    let (mut at, mut block) = (0, Vec::new());
    loop {
        let mut marker = [0; 4];
        match read_some(&mut file, &mut marker).map_err(Fault::Io)? {
            0 => return Ok(()),
            4 => {}
            _ => return Err(Fault::Cut(at)),
        }
        match Marker::parse(marker).map_err(|e| Fault::Tap(e, at))? {
            Marker::End => return Ok(()),
            Marker::Gap => at += MARKER_BYTES,
            Marker::Filemark => {
                take(None)?;
                at += MARKER_BYTES;
            }
            Marker::Block(length) => {
                let padded = length as usize + Marker::padding(length);
                block.resize(padded, 0);
                let mut behind = [0; 4];
                for part in [&mut block[..], &mut behind] {
                    file.read_exact(part).map_err(|e| match e.kind() {
                        ErrorKind::UnexpectedEof => Fault::Cut(at),
                        _ => Fault::Io(e),
                    })?;
                }
                Marker::check_behind(length, behind).map_err(|e| Fault::Tap(e, at))?;
                take(Some(&block[..length as usize]))?;
                at += padded as u64 + 2 * MARKER_BYTES;
            }
        }
    }
}

/// Fills a buffer as far as the file goes. Returns the number of bytes.
fn read_some(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

fn failure(verb: &str, path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot {verb} {}: {error}", path.display());
    let hint = match (verb, error.kind()) {
        ("read", ErrorKind::NotFound) => "name a file that exists",
        _ => path_hint(error),
    };
    Failure::environment(message, hint)
}

#[derive(Default)]
struct Figures {
    blocks: u64,
    bytes: u64,
    filemarks: u64,
}

impl Figures {
    fn add(&mut self, blocks: u64, block_bytes: u32) {
        self.blocks += blocks;
        self.bytes += blocks * u64::from(block_bytes);
    }

    fn report(&self, cartridge: &Path, tap: &Path) -> Value {
        json!({
            "cartridge": cartridge,
            "tap": tap,
            "blocks": self.blocks,
            "bytes": self.bytes,
            "filemarks": self.filemarks,
        })
    }
}
