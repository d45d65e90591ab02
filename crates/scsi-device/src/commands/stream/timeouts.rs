//! Time limits of commands that let the tape move. A test compares them with the times of the
//! drives ([`hakaru_tape::timing`]).

use hakaru_wire::scsi::CommandTimeouts;

/// A command that moves bytes, or writes what the buffer holds. The `st` driver aborts it after 900
/// s.
pub(crate) const BYTES: CommandTimeouts = CommandTimeouts {
    nominal_seconds: 60,
    recommended_seconds: 900,
};

/// A command that positions the tape, threads or unthreads it.
pub(crate) const MOTION: CommandTimeouts = CommandTimeouts {
    nominal_seconds: 180,
    recommended_seconds: 1800,
};

/// A move of a cartridge, which is unloaded from one drive, or loaded into another one, or both.
pub(crate) const MOVE: CommandTimeouts = CommandTimeouts {
    nominal_seconds: 240,
    recommended_seconds: 1800,
};

#[cfg(test)]
mod tests {
    use hakaru_tape::Generation;
    use hakaru_tape::timing::{Motion, Parameters, TimedDrive};

    use super::*;

    /// Returns the time of a motion, s, in which the tape is farthest from its beginning and the
    /// buffer is full.
    fn longest(generation: Generation, motion: Motion) -> f64 {
        let parameters = Parameters::of(generation);
        let mut drive = TimedDrive::new(parameters).unwrap();
        let far = (parameters.capacity_bytes / parameters.wraps) as u64;
        let mut now = drive.begin(0.0, Motion::Load);
        now = drive.begin(now, Motion::Locate { to: far - 1 });
        let bytes = parameters.buffer_bytes as u64;
        now = drive.begin(now, Motion::Write { bytes });
        drive.begin(now, motion) - now
    }

    #[test]
    fn no_motion_takes_longer_than_the_nominal_time() {
        let block = u64::from(hakaru_tape::BLOCK_BYTES_MAX);
        for generation in Generation::ALL {
            for (motion, limit) in [
                (Motion::Write { bytes: block }, BYTES),
                (Motion::Read { bytes: block }, BYTES),
                (Motion::Flush, BYTES),
                (Motion::Locate { to: 0 }, MOTION),
                (Motion::Load, MOTION),
                (Motion::Unload, MOTION),
            ] {
                let took = longest(generation, motion);
                let nominal = f64::from(limit.nominal_seconds);
                assert!(took <= nominal, "{generation:?} {motion:?}: {took} s");
                assert!(limit.recommended_seconds >= limit.nominal_seconds);
            }
            let unload = longest(generation, Motion::Unload);
            let load = Parameters::of(generation).load_s;
            assert!(unload + load <= f64::from(MOVE.nominal_seconds));
            // The limits are not above the times of the drives by an order of magnitude.
            assert!(unload * 3.0 > f64::from(MOTION.nominal_seconds));
        }
    }
}
