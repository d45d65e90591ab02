//! Reservations that survive a restart (APTPL), in one small file per LUN.
//!
//! A file begins with a line that names the volume or file behind the LU. The record of the device
//! server follows. Another volume or file served under the same LUN later does not inherit the
//! record.
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use hakaru_runtime::process::worker::Worker;
use hakaru_runtime::{Reactor, Token};
use hakaru_scsi_device::IoId;

/// First word of every file, with the version of the format.
const SIGNATURE: &str = "hakaru-reservations-1";

/// Writes the files in the order of the calls, on a dedicated thread.
pub struct Keeper {
    directory: PathBuf,
    worker: Worker<(), Done>,
    /// Identities of the volumes and files that are served, by LUN.
    identities: BTreeMap<u8, String>,
}

/// The access that waits for a record, and the result of writing it. `None` if a file was removed.
type Done = Option<(IoId, io::Result<()>)>;

impl Keeper {
    /// Starts the thread for files in `directory`, which exists.
    ///
    /// # Errors
    /// No descriptor or thread is available.
    pub fn new(directory: &Path, reactor: &Reactor, token: Token) -> io::Result<Keeper> {
        Ok(Keeper {
            directory: directory.to_owned(),
            worker: Worker::new(reactor, token, "keeper", ())?,
            identities: BTreeMap::new(),
        })
    }

    /// Returns the record stored for LUN `lun` and `identity`, or an empty record if none is
    /// stored. Removes a record of another identity.
    ///
    /// # Errors
    /// The file cannot be read, or was not written by a keeper.
    pub fn load(&mut self, lun: u8, identity: &str) -> io::Result<Vec<u8>> {
        let contents = match fs::read(path(&self.directory, lun)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let record = if contents.is_empty() {
            Some(contents)
        } else {
            record_of(&contents, identity)?
        };
        if record.is_none() {
            self.forget(lun);
        }
        self.identities.insert(lun, identity.to_owned());
        Ok(record.unwrap_or_default())
    }

    /// Registers a new LU. Removes any record stored under its LUN.
    pub fn start(&mut self, lun: u8, identity: &str) {
        self.forget(lun);
        self.identities.insert(lun, identity.to_owned());
    }

    /// Stores `record` for LUN `lun`, and replaces the previous record.
    pub fn keep(&mut self, io: IoId, lun: u8, record: Vec<u8>) {
        let path = path(&self.directory, lun);
        let identity = self.identities.get(&lun).map_or("", String::as_str);
        let mut contents = format!("{SIGNATURE} {identity}\n").into_bytes();
        contents.extend(record);
        self.worker
            .submit(move |()| Some((io, replace(&path, &contents))));
    }

    /// Removes the record of LUN `lun`. A file that cannot be removed is harmless: it names an
    /// identity, and the next LU under this LUN removes it again.
    pub fn forget(&mut self, lun: u8) {
        self.identities.remove(&lun);
        let path = path(&self.directory, lun);
        self.worker.submit(move |()| {
            let _ = fs::remove_file(&path);
            None
        });
    }

    /// Handles an event of the keeper's token.
    pub fn handle_event(&mut self) {
        self.worker.handle_event();
    }

    /// Returns the access of the next record that is on stable storage, or could not be written.
    pub fn poll_done(&mut self) -> Option<(IoId, io::Result<()>)> {
        while let Some(done) = self.worker.poll_done() {
            if done.is_some() {
                return done;
            }
        }
        None
    }
}

/// Returns the record in a file, or `None` if it belongs to another identity than `identity`.
fn record_of(contents: &[u8], identity: &str) -> io::Result<Option<Vec<u8>>> {
    let (line, record) = contents
        .iter()
        .position(|byte| *byte == b'\n')
        .map(|end| (&contents[..end], &contents[end + 1..]))
        .ok_or(ErrorKind::InvalidData)?;
    let stored_identity = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.strip_prefix(SIGNATURE)?.strip_prefix(' '))
        .ok_or(ErrorKind::InvalidData)?;
    Ok((stored_identity == identity).then(|| record.to_vec()))
}

fn path(directory: &Path, lun: u8) -> PathBuf {
    directory.join(format!("lun-{lun}.reservations"))
}

/// Replaces the contents of a file atomically. After a crash, the file holds either the old or the
/// new contents. On return, the new contents are on stable storage.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new_path = path.with_extension("reservations.new");
    let mut file = File::create(&new_path)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&new_path, path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
