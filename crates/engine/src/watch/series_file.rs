//! The file of the time series of a TCP watch, written in large pieces up to a size limit.
use std::fs::File;
use std::io::Write as _;

use hakaru_watch::series::{self, Series};

use crate::failure::{Failure, OrEnvironment};

/// Bytes per write: few system calls while the load runs, and little loss if the process is killed.
const PIECE_BYTES: usize = 256 << 10;
const HINT: &str = "free some space, or name another file";

pub struct SeriesFile {
    path: String,
    file: File,
    bytes: u64,
    bytes_max: u64,
    piece: Vec<u8>,
    records: u64,
    dropped: u64,
}

impl SeriesFile {
    pub fn create(path: &str, bytes_max: u64) -> Result<SeriesFile, Failure> {
        let hint = "name a file in an existing folder to which this user may write";
        let doing = || format!("write the TCP series {path}");
        let mut file = File::create(path).or_environment(doing(), hint)?;
        let header = series::header();
        file.write_all(header.as_bytes())
            .or_environment(doing(), HINT)?;
        Ok(SeriesFile {
            path: path.to_owned(),
            file,
            bytes: header.len() as u64,
            bytes_max,
            piece: Vec::with_capacity(PIECE_BYTES),
            records: 0,
            dropped: 0,
        })
    }

    /// Writes the collected records of the series if they fill a write ([`PIECE_BYTES`]).
    pub fn take(&mut self, series: &mut Series) -> Result<(), Failure> {
        if series.bytes() < PIECE_BYTES {
            return Ok(());
        }
        self.flush(series)
    }

    /// Writes the collected records of the series.
    pub fn flush(&mut self, series: &mut Series) -> Result<(), Failure> {
        self.piece.clear();
        let records = series.take(&mut self.piece);
        let bytes = self.bytes + self.piece.len() as u64;
        if bytes > self.bytes_max {
            self.dropped += records;
            // A smaller block might still fit, but it would hide the gap before it.
            self.bytes = self.bytes_max;
            return Ok(());
        }
        self.file
            .write_all(&self.piece)
            .or_environment(format_args!("write the TCP series {}", self.path), HINT)?;
        self.bytes = bytes;
        self.records += records;
        Ok(())
    }

    /// Returns the bytes written, the records written, and the records dropped after the file
    /// reached its limit.
    pub fn totals(&self) -> (u64, u64, u64) {
        (self.bytes, self.records, self.dropped)
    }
}
