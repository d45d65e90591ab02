//! All motions of a drive.

use super::geometry::Geometry;
use super::parameters::{Parameters, ParametersError};
use super::stream::{Direction, Stream, Totals};

/// A request to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// Take bytes of an initiator.
    Write {
        /// Number of bytes.
        bytes: u64,
    },
    /// Return bytes to an initiator.
    Read {
        /// Number of bytes.
        bytes: u64,
    },
    /// Write everything that the buffer holds.
    Flush,
    /// Move the tape. What the buffer holds is written first.
    Locate {
        /// Bytes of the initiator before the position.
        to: u64,
    },
    /// Thread the tape.
    Load,
    /// Rewind and unthread it.
    Unload,
}

/// Totals of a drive, and its state now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Time in which the tape has streamed, s.
    pub streaming_s: f64,
    /// Number of stops of the tape for which it must be positioned again.
    pub backhitches: u64,
    /// Time of positioning, s.
    pub positioning_s: f64,
    /// Time of threading and unthreading, s.
    pub loading_s: f64,
    /// Bytes that were stored.
    pub stored_bytes: f64,
    /// Rate of the tape now, stored bytes/s.
    pub rate_now: f64,
    /// Stored bytes that the buffer holds for the tape now.
    pub buffer_bytes_now: f64,
}

/// The times of a drive. Instants are in seconds since any origin, and never decrease.
#[derive(Clone, Debug)]
pub struct TimedDrive {
    parameters: Parameters,
    geometry: Geometry,
    stream: Stream,
    /// Totals of streams before this one.
    before: Totals,
    /// Stored bytes before the position.
    position: f64,
    /// When the compressor has taken the bytes before.
    compressed: f64,
    positioning_s: f64,
    loading_s: f64,
    stored_bytes: f64,
}

impl TimedDrive {
    /// Creates a drive without a tape.
    ///
    /// # Errors
    /// See [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Result<TimedDrive, ParametersError> {
        parameters.check()?;
        Ok(TimedDrive {
            geometry: Geometry::new(&parameters),
            stream: Stream::new(parameters, Direction::Write, 0.0),
            before: Totals::default(),
            position: 0.0,
            compressed: 0.0,
            positioning_s: 0.0,
            loading_s: 0.0,
            stored_bytes: 0.0,
            parameters,
        })
    }

    /// Begins a motion. Returns when the command that asks for it is done.
    pub fn begin(&mut self, now: f64, motion: Motion) -> f64 {
        match motion {
            Motion::Write { bytes } => self.pass(now, bytes, Direction::Write),
            Motion::Read { bytes } => self.pass(now, bytes, Direction::Read),
            Motion::Flush => self.stream.flush(now),
            Motion::Locate { to } => self.locate(now, to as f64 / self.parameters.compression),
            Motion::Load => {
                let begun = self.stream.halt(now);
                self.loading_s += self.parameters.load_s;
                self.position = 0.0;
                self.stand(begun + self.parameters.load_s, Direction::Write)
            }
            Motion::Unload => {
                let begun = self.locate(now, 0.0);
                self.loading_s += self.parameters.unload_s;
                self.stand(begun + self.parameters.unload_s, Direction::Write)
            }
        }
    }

    /// Returns the totals.
    pub fn times(&mut self, now: f64) -> Times {
        let buffer_bytes_now = self.stream.unwritten(now);
        let Totals {
            streaming_s,
            backhitches,
        } = self.stream.totals;
        Times {
            streaming_s: self.before.streaming_s + streaming_s,
            backhitches: self.before.backhitches + backhitches,
            positioning_s: self.positioning_s,
            loading_s: self.loading_s,
            stored_bytes: self.stored_bytes,
            rate_now: self.stream.rate(),
            buffer_bytes_now,
        }
    }

    /// Moves bytes of the initiator. The compressor works on them while the next ones arrive.
    fn pass(&mut self, now: f64, bytes: u64, direction: Direction) -> f64 {
        let mut now = now;
        if self.stream.direction != direction {
            let flushed = self.stream.flush(now);
            let ready = self.stream.halt(flushed);
            now = self.stand(ready, direction);
        }
        let stored = bytes as f64 / self.parameters.compression;
        self.position += stored;
        if direction == Direction::Write {
            self.stored_bytes += stored;
        }
        let taken = self.compressed.max(now);
        self.compressed = taken + bytes as f64 / self.parameters.host_bytes_per_s;
        self.stream.pass(taken, stored)
    }

    fn locate(&mut self, now: f64, to: f64) -> f64 {
        let flushed = self.stream.flush(now);
        let way_s = self.geometry.way_s(self.position, to);
        if way_s == 0.0 {
            return flushed;
        }
        // The way begins where the tape stops, so it has no backhitch.
        self.stream.halt(flushed);
        self.position = to;
        self.positioning_s += way_s;
        self.stand(flushed + way_s, Direction::Write)
    }

    /// Begins a stream from a tape that stands, from `ready` on.
    fn stand(&mut self, ready: f64, direction: Direction) -> f64 {
        self.before.streaming_s += self.stream.totals.streaming_s;
        self.before.backhitches += self.stream.totals.backhitches;
        self.stream = Stream::new(self.parameters, direction, ready);
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::Generation;

    fn drive(parameters: Parameters) -> TimedDrive {
        TimedDrive::new(parameters).unwrap()
    }

    fn near(actual: f64, expected: f64) {
        assert!(
            (actual / expected - 1.0).abs() < 0.01,
            "{actual} {expected}"
        );
    }

    #[test]
    fn loading_positioning_and_unloading_take_their_sum() {
        let parameters = Parameters::of(Generation::Lto3);
        let mut drive = drive(parameters);
        let loaded = drive.begin(100.0, Motion::Load);
        near(loaded, 112.0);
        // The end of the first wrap is at the end of the tape.
        let wrap = (400e9 / 44.0) as u64;
        let located = drive.begin(loaded, Motion::Locate { to: wrap });
        let way = 2.0 + 680.0 * 0.89 / 7.0;
        near(located - loaded, way);
        assert_eq!(drive.begin(located, Motion::Locate { to: wrap }), located);
        let unloaded = drive.begin(located, Motion::Unload);
        near(unloaded - located, way + 17.0);
        let times = drive.times(unloaded);
        near(times.positioning_s, 2.0 * way);
        near(times.loading_s, 29.0);
    }

    #[test]
    fn compression_multiplies_the_rate_up_to_that_of_the_compressor() {
        for (compression, expected) in [(1.0, 80e6), (1.3, 104e6), (2.0, 120e6)] {
            let mut drive = drive(Parameters {
                compression,
                ..Parameters::of(Generation::Lto3)
            });
            let (mut now, bytes, blocks) = (0.0, 256_000, 200_000);
            for _ in 0..blocks {
                now = drive.begin(now, Motion::Write { bytes });
            }
            let written = f64::from(blocks) * bytes as f64;
            near(written / now, expected);
            near(drive.times(now).stored_bytes, written / compression);
        }
    }

    #[test]
    fn what_is_buffered_is_written_before_the_tape_moves_or_is_read() {
        let parameters = Parameters::of(Generation::Lto5);
        let bytes = 140_000_000;
        let mut first = drive(parameters);
        let written = first.begin(0.0, Motion::Write { bytes });
        assert_eq!(written, 0.0);
        let read = first.begin(written, Motion::Read { bytes: 1000 });
        // One second of writing, a backhitch, and the first bytes.
        near(read - written, 1.0 + 3.0);
        let mut second = drive(parameters);
        let written = second.begin(0.0, Motion::Write { bytes });
        let rewound = second.begin(written, Motion::Locate { to: 0 });
        let place = Geometry::new(&parameters).place_m(140e6);
        near(rewound - written, 1.0 + 2.0 + place / 7.0);
        assert_eq!(second.begin(rewound, Motion::Flush), rewound);
    }
}
