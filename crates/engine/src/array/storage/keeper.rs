//! Reservations that outlive a restart (APTPL), one small file for each LUN.
//!
//! A file begins with a line that names the volume or file behind the LU; the record of
//! the device server follows. Served under the same number later, other bytes do not inherit it.
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use hakaru_runtime::process::worker::Worker;
use hakaru_runtime::{Reactor, Token};
use hakaru_scsi_device::IoId;

/// First word of every file, with the version of the format.
const SIGN: &str = "hakaru-reservations-1";

/// Writes the files, on a thread of its own: in the order of the calls.
pub struct Keeper {
    directory: PathBuf,
    worker: Worker<(), Done>,
    /// The identities behind the LUNs that are served.
    identities: BTreeMap<u8, String>,
}

/// The access that is answered with the result; `None` if a file was removed.
type Done = Option<(IoId, io::Result<()>)>;

impl Keeper {
    /// Files in `directory`, which is there.
    ///
    /// # Errors
    /// No descriptors or threads left.
    pub fn new(directory: &Path, reactor: &Reactor, token: Token) -> io::Result<Keeper> {
        Ok(Keeper {
            directory: directory.to_owned(),
            worker: Worker::new(reactor, token, "keeper", ())?,
            identities: BTreeMap::new(),
        })
    }

    /// The record kept for LUN `lun` while it was `identity`; empty if there is none. That of
    /// another identity is removed.
    ///
    /// # Errors
    /// The file cannot be read, or is none of ours.
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

    /// A new LU: whatever was kept under its number is removed.
    pub fn start(&mut self, lun: u8, identity: &str) {
        self.forget(lun);
        self.identities.insert(lun, identity.to_owned());
    }

    /// Keeps `record` for LUN `lun`, in place of the one before.
    pub fn keep(&mut self, io: IoId, lun: u8, record: Vec<u8>) {
        let path = path(&self.directory, lun);
        let identity = self.identities.get(&lun).map_or("", String::as_str);
        let mut contents = format!("{SIGN} {identity}\n").into_bytes();
        contents.extend(record);
        self.worker
            .submit(move |()| Some((io, replace(&path, &contents))));
    }

    /// Removes what is kept for LUN `lun`. A file that cannot be removed does no harm: it names an
    /// identity, and the next LU of that number removes it again.
    pub fn forget(&mut self, lun: u8) {
        self.identities.remove(&lun);
        let path = path(&self.directory, lun);
        self.worker.submit(move |()| {
            let _ = fs::remove_file(&path);
            None
        });
    }

    /// The reactor reported the token.
    pub fn handle_event(&mut self) {
        self.worker.handle_event();
    }

    /// The next record that is on stable storage, or could not be written.
    pub fn poll_done(&mut self) -> Option<(IoId, io::Result<()>)> {
        while let Some(done) = self.worker.poll_done() {
            if done.is_some() {
                return done;
            }
        }
        None
    }
}

/// The record in a file, if it is that of `identity`.
fn record_of(contents: &[u8], identity: &str) -> io::Result<Option<Vec<u8>>> {
    let (line, record) = contents
        .iter()
        .position(|byte| *byte == b'\n')
        .map(|end| (&contents[..end], &contents[end + 1..]))
        .ok_or(ErrorKind::InvalidData)?;
    let kept_for = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.strip_prefix(SIGN)?.strip_prefix(' '))
        .ok_or(ErrorKind::InvalidData)?;
    Ok((kept_for == identity).then(|| record.to_vec()))
}

fn path(directory: &Path, lun: u8) -> PathBuf {
    directory.join(format!("lun-{lun}.reservations"))
}

/// The file holds the old or the new contents, whatever happens, and the new ones on return.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("reservations.new");
    let mut file = File::create(&aside)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
