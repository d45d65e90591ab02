//! State of the copy of a job on a tape: its first object, the objects written, and the filemarks
//! between its blocks.
use hakaru_contract::backup::TapeDestination;
use hakaru_units::Time;
use hakaru_wire::scsi::{Cdb, StreamCommand};

use super::mount::Place;

/// The copy of one job on a tape.
#[derive(Debug)]
pub struct TapeCopy {
    config: TapeDestination,
    /// Object at which the copy begins, once the tape was positioned.
    first: Option<u64>,
    /// Blocks and filemarks written.
    objects: u64,
    /// Bytes written since the last filemark.
    unmarked_bytes: u64,
    /// Start of the filemark that is being written.
    marking: Option<Time>,
    /// Whether a block is being written.
    writing: bool,
    /// Whether the last read has met a filemark.
    met_filemark: bool,
}

impl TapeCopy {
    /// Creates the state of a copy that has not begun.
    #[must_use]
    pub fn new(config: TapeDestination) -> TapeCopy {
        TapeCopy {
            config,
            first: None,
            objects: 0,
            unmarked_bytes: 0,
            marking: None,
            writing: false,
            met_filemark: false,
        }
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &TapeDestination {
        &self.config
    }

    /// Returns where the tape is to be: for writing, or for reading what was written.
    #[must_use]
    pub fn place(&self) -> Place {
        match self.first {
            Some(object) => Place::Object(object),
            None if self.config.append => Place::EndOfData,
            None => Place::Beginning,
        }
    }

    /// Returns whether the tape was positioned for the copy.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.first.is_some()
    }

    /// Accepts the object at which the copy begins.
    pub fn begin(&mut self, first: u64) {
        self.first = Some(first);
    }

    /// Returns the object behind the copy.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first.unwrap_or(0) + self.objects
    }

    /// Returns whether a block or a filemark is being written.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.writing || self.marking.is_some()
    }

    /// Returns WRITE(6) of `length_bytes`, one block or several fixed ones.
    pub fn begin_write(&mut self, length_bytes: u32) -> Cdb {
        self.writing = true;
        let (fixed, length) = self.length(length_bytes);
        Cdb::Stream(StreamCommand::Write { fixed, length })
    }

    /// Ends a write. `written`: its bytes, if it was done.
    pub fn handle_written(&mut self, written: Option<u32>) {
        self.writing = false;
        if let Some(bytes) = written {
            let (fixed, length) = self.length(bytes);
            self.objects += if fixed { length.into() } else { 1 };
            self.unmarked_bytes += u64::from(bytes);
        }
    }

    /// Returns WRITE FILEMARKS if one is due between two blocks.
    pub fn poll_filemark(&mut self, now: Time) -> Option<Cdb> {
        let every = self.config.filemark_every_bytes?;
        if self.is_busy() || self.unmarked_bytes < every {
            return None;
        }
        Some(self.begin_filemark(now, self.config.immediate_filemarks))
    }

    /// Returns WRITE FILEMARKS for the end of the copy, which always synchronises.
    pub fn begin_last_filemark(&mut self, now: Time) -> Cdb {
        self.begin_filemark(now, false)
    }

    fn begin_filemark(&mut self, now: Time, immediate: bool) -> Cdb {
        self.marking = Some(now);
        let count = 1;
        Cdb::Stream(StreamCommand::WriteFilemarks { immediate, count })
    }

    /// Ends a filemark. Returns how long it took, ns.
    pub fn handle_marked(&mut self, now: Time, is_done: bool) -> u64 {
        self.objects += u64::from(is_done);
        self.unmarked_bytes = 0;
        let started = self.marking.take();
        started.map_or(0, |started| now.ns_since(started))
    }

    /// Returns whether the filemarks between blocks wait for the tape.
    #[must_use]
    pub fn synchronises(&self) -> bool {
        !self.config.immediate_filemarks
    }

    /// Returns READ(6) of `length_bytes`, as they were written.
    #[must_use]
    pub fn read(&self, length_bytes: u32) -> Cdb {
        let (fixed, length) = self.length(length_bytes);
        Cdb::Stream(StreamCommand::Read {
            fixed,
            suppress_incorrect_length: false,
            length,
        })
    }

    /// Returns whether a read that met a filemark is to be issued again, which reads behind it. Two
    /// filemarks in a row are not of this copy.
    pub fn passes_filemark(&mut self, met: bool) -> bool {
        let before = std::mem::replace(&mut self.met_filemark, met);
        met && !before
    }

    fn length(&self, bytes: u32) -> (bool, u32) {
        match self.config.fixed_block_bytes {
            Some(block) => (true, bytes / block),
            None => (false, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(fixed_block_bytes: Option<u32>) -> TapeCopy {
        TapeCopy::new(TapeDestination {
            changer_lun: 0,
            drive: 0,
            cartridge: "HAK001L5".into(),
            append: true,
            fixed_block_bytes,
            filemark_every_bytes: Some(100_000),
            immediate_filemarks: true,
        })
    }

    #[test]
    fn a_filemark_follows_the_block_that_reaches_the_distance() {
        let mut copy = copy(None);
        assert_eq!(copy.place(), Place::EndOfData);
        copy.begin(7);
        for _ in 0..2 {
            assert_eq!(copy.poll_filemark(Time(5)), None);
            copy.begin_write(65_536);
            assert!(copy.is_busy());
            copy.handle_written(Some(65_536));
        }
        let immediate = true;
        let mark = Cdb::Stream(StreamCommand::WriteFilemarks {
            immediate,
            count: 1,
        });
        assert_eq!(copy.poll_filemark(Time(5)), Some(mark));
        assert_eq!(copy.poll_filemark(Time(6)), None);
        assert_eq!(copy.handle_marked(Time(9), true), 4);
        // The distance counts from the filemark.
        assert_eq!((copy.poll_filemark(Time(9)), copy.end()), (None, 10));
        assert_eq!(copy.place(), Place::Object(7));
    }

    #[test]
    fn fixed_blocks_are_counted_one_by_one() {
        let mut copy = copy(Some(16_384));
        copy.begin(0);
        let (fixed, length) = (true, 4);
        let write = Cdb::Stream(StreamCommand::Write { fixed, length });
        assert_eq!(copy.begin_write(65_536), write);
        copy.handle_written(None);
        assert_eq!(copy.end(), 0);
        copy.begin_write(65_536);
        copy.handle_written(Some(65_536));
        assert_eq!(copy.end(), 4);
    }

    #[test]
    fn a_read_passes_one_filemark_and_no_second_one() {
        let mut copy = copy(None);
        assert!(!copy.passes_filemark(false));
        assert!(copy.passes_filemark(true));
        assert!(!copy.passes_filemark(true));
        assert!(!copy.passes_filemark(false));
        assert!(copy.passes_filemark(true));
    }
}
