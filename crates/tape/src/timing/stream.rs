//! Buffer and tape while data flows in one direction.
//!
//! The tape streams at a rate between the lowest and the native one, or stands. While data is
//! written, the rate is that of the initiator, or the native one if the buffer is almost full. When
//! the buffer is empty, the tape stops. It starts again when the buffer is full, and a backhitch has
//! passed since. Reading is the same with a buffer that is filled by the tape.

use super::parameters::Parameters;

/// Part of the buffer from which the tape streams at its native rate.
const ALMOST_FULL: f64 = 0.9;
/// The rate of the initiator is measured over this time, s, or this part of the buffer.
const WINDOW_S: f64 = 0.5;
const WINDOW_PART: f64 = 0.5;

/// Totals of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Totals {
    /// Time in which the tape has streamed, s.
    pub(super) streaming_s: f64,
    /// Number of stops.
    pub(super) backhitches: u64,
}

/// Direction of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Write,
    Read,
}

/// The buffer of a drive and the motion of its tape. Times are in seconds since any origin.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    parameters: Parameters,
    pub(super) direction: Direction,
    /// Stored bytes that the buffer holds for the tape, or for the initiator.
    level: f64,
    /// Instant of the level. If the tape begins to stream later, that instant.
    at: f64,
    /// Rate at which the tape streams; 0 if it stands.
    rate: f64,
    /// If it stands: when it can stream.
    ready: f64,
    /// Beginning of the measurement of the initiator's rate, and since then stored bytes, and the
    /// time in which the initiator has waited, s.
    measured_from: f64,
    measured: f64,
    waited: f64,
    /// Rate of the initiator in stored bytes.
    host: f64,
    pub(super) totals: Totals,
}

impl Stream {
    /// Creates a stream with an empty buffer. The tape stands, and can stream from `ready` on.
    pub(super) fn new(parameters: Parameters, direction: Direction, ready: f64) -> Stream {
        Stream {
            parameters,
            direction,
            level: 0.0,
            at: ready,
            rate: 0.0,
            ready,
            measured_from: ready,
            measured: 0.0,
            waited: 0.0,
            host: 0.0,
            totals: Totals::default(),
        }
    }

    /// Returns the stored bytes in the buffer that the tape still has to write.
    pub(super) fn unwritten(&mut self, now: f64) -> f64 {
        self.advance(now);
        match self.direction {
            Direction::Write => self.level,
            Direction::Read => 0.0,
        }
    }

    /// Returns the rate of the tape, stored bytes/s.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// Moves `stored` bytes between initiator and buffer. Returns when that is done.
    pub(super) fn pass(&mut self, now: f64, stored: f64) -> f64 {
        self.advance(now);
        self.measure(now, stored);
        let end = match self.direction {
            Direction::Write => self.write(now, stored),
            Direction::Read => self.read(now, stored),
        };
        self.waited += end - now;
        end
    }

    fn write(&mut self, now: f64, stored: f64) -> f64 {
        self.level += stored;
        let buffer = self.parameters.buffer_bytes;
        if self.rate == 0.0 {
            if self.level < buffer {
                return now;
            }
            self.start(now);
        } else {
            self.follow();
        }
        let excess = (self.level - buffer).max(0.0);
        if excess == 0.0 {
            return now;
        }
        self.at.max(now) + excess / self.rate
    }

    fn read(&mut self, now: f64, stored: f64) -> f64 {
        self.level -= stored;
        if self.rate == 0.0 {
            if self.level >= 0.0 {
                return now;
            }
            self.start(now);
        } else {
            self.follow();
        }
        let missing = (-self.level).max(0.0);
        if missing == 0.0 {
            return now;
        }
        self.at.max(now) + missing / self.rate
    }

    /// Writes everything that the buffer holds, and stops. Returns when that is done.
    pub(super) fn flush(&mut self, now: f64) -> f64 {
        let left = self.unwritten(now);
        if left == 0.0 {
            return now;
        }
        if self.rate == 0.0 {
            self.start(now);
        }
        self.rate = self.parameters.rate_max_bytes_per_s;
        let end = self.at.max(now) + left / self.rate;
        self.advance(end);
        // Rounding may leave a part of a byte.
        if self.rate > 0.0 {
            self.stop(end);
            self.level = 0.0;
        }
        end
    }

    /// Stops the tape where it is. What was read ahead is lost.
    pub(super) fn halt(&mut self, now: f64) -> f64 {
        self.advance(now);
        if self.rate > 0.0 {
            self.stop(now);
        }
        self.ready.max(now)
    }

    fn start(&mut self, now: f64) {
        self.at = self.ready.max(now);
        self.rate = self.parameters.rate_min_bytes_per_s;
        self.follow();
    }

    fn stop(&mut self, now: f64) {
        self.rate = 0.0;
        self.ready = now + self.parameters.backhitch_s;
        self.at = now;
        self.totals.backhitches += 1;
    }

    /// Chooses the rate of the tape.
    fn follow(&mut self) {
        let Parameters {
            rate_min_bytes_per_s: low,
            rate_max_bytes_per_s: high,
            buffer_bytes: buffer,
            ..
        } = self.parameters;
        let urgent = match self.direction {
            Direction::Write => self.level >= ALMOST_FULL * buffer && self.host > low,
            Direction::Read => self.level <= (1.0 - ALMOST_FULL) * buffer && self.host > low,
        };
        self.rate = if urgent {
            high
        } else {
            self.host.clamp(low, high)
        };
    }

    fn measure(&mut self, now: f64, stored: f64) {
        let elapsed = (now - self.measured_from - self.waited).max(1e-9);
        let enough = WINDOW_PART * self.parameters.buffer_bytes;
        if elapsed >= WINDOW_S || self.measured >= enough {
            self.host = self.measured / elapsed;
            (self.measured_from, self.measured, self.waited) = (now, 0.0, 0.0);
        }
        self.measured += stored;
    }

    /// Moves bytes between buffer and tape until `now`.
    fn advance(&mut self, now: f64) {
        if self.rate == 0.0 || now <= self.at {
            return;
        }
        let room = match self.direction {
            Direction::Write => self.level,
            Direction::Read => self.parameters.buffer_bytes - self.level,
        };
        let moved = (self.rate * (now - self.at)).min(room);
        let duration = moved / self.rate;
        self.totals.streaming_s += duration;
        self.level += match self.direction {
            Direction::Write => -moved,
            Direction::Read => moved,
        };
        if moved == room {
            self.stop(self.at + duration);
        } else {
            self.at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::Generation;

    const BLOCK: f64 = 256e3;

    struct Run {
        rate: f64,
        backhitches_per_s: f64,
        streaming: f64,
    }

    /// An initiator that asks for one block after another, at most `rate`, for some hours.
    fn run(parameters: Parameters, direction: Direction, rate: f64) -> Run {
        let mut stream = Stream::new(parameters, direction, 0.0);
        let (mut now, mut due, mut bytes) = (0.0_f64, 0.0, 0.0);
        let hours = 2.0 * 3600.0;
        while now < hours {
            now = stream.pass(now.max(due), BLOCK);
            bytes += BLOCK;
            // It does not make up for time that was lost.
            due = (due + BLOCK / rate).max(now);
        }
        Run {
            rate: bytes / now,
            backhitches_per_s: stream.totals.backhitches as f64 / now,
            streaming: stream.totals.streaming_s / now,
        }
    }

    fn near(actual: f64, expected: f64) {
        assert!(
            (actual / expected - 1.0).abs() < 0.01,
            "{actual} {expected}"
        );
    }

    const BOTH: [Direction; 2] = [Direction::Write, Direction::Read];

    #[test]
    fn a_fast_initiator_gets_the_native_rate() {
        for generation in Generation::ALL {
            let parameters = Parameters::of(generation);
            for direction in BOTH {
                let run = run(parameters, direction, 1e9);
                near(run.rate, parameters.rate_max_bytes_per_s);
                assert!(run.backhitches_per_s * 3600.0 < 2.0);
            }
        }
    }

    #[test]
    fn an_initiator_within_the_range_is_followed() {
        let parameters = Parameters::of(Generation::Lto5);
        for direction in BOTH {
            for rate in [50e6, 85e6, 130e6] {
                let run = run(parameters, direction, rate);
                near(run.rate, rate);
                assert!(run.backhitches_per_s * 3600.0 < 2.0, "{direction:?} {rate}");
                near(run.streaming, 1.0);
            }
        }
    }

    /// Below the lowest rate, the tape streams B / (r - w) seconds and stands B / w seconds.
    #[test]
    fn a_slow_initiator_makes_the_tape_stop_and_loses_nothing() {
        for generation in Generation::ALL {
            let parameters = Parameters::of(generation);
            let (buffer, low) = (parameters.buffer_bytes, parameters.rate_min_bytes_per_s);
            for direction in BOTH {
                for part in [0.2, 0.5, 0.75] {
                    let rate = part * low;
                    assert!(rate * parameters.backhitch_s < buffer);
                    let run = run(parameters, direction, rate);
                    near(run.rate, rate);
                    let period = buffer / rate + buffer / (low - rate);
                    near(run.backhitches_per_s, 1.0 / period);
                    near(run.streaming, part);
                }
            }
        }
    }

    /// If the buffer is full before the backhitch has passed, the initiator waits.
    #[test]
    fn a_small_buffer_costs_rate() {
        let parameters = Parameters {
            buffer_bytes: 20e6,
            backhitch_s: 4.0,
            ..Parameters::of(Generation::Lto5)
        };
        let (rate, low) = (30e6, parameters.rate_min_bytes_per_s);
        let run = run(parameters, Direction::Write, rate);
        let streaming = 20e6 / (low - rate);
        near(run.rate, low * streaming / (4.0 + streaming));
        near(run.backhitches_per_s, 1.0 / (4.0 + streaming));
    }

    /// A flush after every file costs a backhitch each, in which the buffer takes the next file.
    #[test]
    fn a_flush_after_every_file_costs_a_backhitch() {
        let parameters = Parameters::of(Generation::Lto5);
        for (file, rate) in [(64e6, 85e6), (200e6, 20e6)] {
            let mut stream = Stream::new(parameters, Direction::Write, 0.0);
            let (mut now, files) = (0.0, 200);
            for _ in 0..files {
                let mut left = file;
                while left > 0.0 {
                    now = stream.pass(now + BLOCK / rate, BLOCK);
                    left -= BLOCK;
                }
                now = stream.flush(now);
            }
            let arriving: f64 = file / rate;
            let period = arriving.max(3.0) + file / parameters.rate_max_bytes_per_s;
            near(now / f64::from(files), period);
            assert_eq!(stream.totals.backhitches, files as u64);
        }
    }
}
