//! What LUs are to remember over a restart: their reservations, a small file each.
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hakaru_iscsi_target::IoId;
use hakaru_runtime::worker::Worker;
use hakaru_runtime::{Reactor, Token};

/// Writes the files, on a thread of its own.
pub struct Keeper {
    directory: PathBuf,
    worker: Worker<(), (IoId, io::Result<()>)>,
}

impl Keeper {
    /// Files in `directory`, which is there.
    ///
    /// # Errors
    /// No descriptors or threads left.
    pub fn new(directory: &Path, reactor: &Reactor, token: Token) -> io::Result<Keeper> {
        Ok(Keeper {
            directory: directory.to_owned(),
            worker: Worker::new(reactor, token, "keeper", ())?,
        })
    }

    /// Keeps `record` for LU `lun`, in place of what was kept before.
    pub fn keep(&mut self, io: IoId, lun: u8, record: Vec<u8>) {
        let path = path(&self.directory, lun);
        self.worker.submit(move |()| (io, replace(&path, &record)));
    }

    /// The reactor told of the token.
    pub fn handle_event(&mut self) {
        self.worker.handle_event();
    }

    /// The next that is on stable storage, or failed.
    pub fn poll_done(&mut self) -> Option<(IoId, io::Result<()>)> {
        self.worker.poll_done()
    }
}

/// What was kept for LU `lun`; empty if nothing was.
///
/// # Errors
/// The file cannot be read.
pub fn kept(directory: &Path, lun: u8) -> io::Result<Vec<u8>> {
    match fs::read(path(directory, lun)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

fn path(directory: &Path, lun: u8) -> PathBuf {
    directory.join(format!("lun-{lun}.reservations"))
}

/// The file holds the old or the new, whatever happens, and the new once this returns.
fn replace(path: &Path, record: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("reservations.new");
    let mut file = File::create(&aside)?;
    file.write_all(record)?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    let directory = path.parent().unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
