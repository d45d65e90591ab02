//! Properties of drives.

use std::fmt;

use crate::generation::Generation;

/// Properties of a drive and of its cartridge that determine times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Largest rate at which stored bytes pass the head, bytes/s: the native rate.
    pub rate_max_bytes_per_s: f64,
    /// Smallest such rate. Between the two, the drive follows the initiator.
    pub rate_min_bytes_per_s: f64,
    /// Buffer for stored bytes.
    pub buffer_bytes: f64,
    /// Largest rate of the initiator's bytes, before compression, bytes/s.
    pub host_bytes_per_s: f64,
    /// Bytes of the initiator for each stored byte, at least 1. 1: compression gains nothing.
    pub compression: f64,
    /// Time from the stop of the tape until it can pass the same place again (backhitch), s.
    pub backhitch_s: f64,
    /// Time to thread the tape and reach its beginning, s.
    pub load_s: f64,
    /// Time to unthread from the beginning of the tape, s.
    pub unload_s: f64,
    /// Recorded length, m.
    pub length_m: f64,
    /// Number of times that the tape passes the head until it is full.
    pub wraps: f64,
    /// Capacity in stored bytes.
    pub capacity_bytes: f64,
    /// Speed of the tape while it is positioned, m/s.
    pub seek_m_per_s: f64,
    /// Time to begin and end any positioning, s.
    pub settle_s: f64,
}

/// A property out of bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParametersError {
    /// Name of the property.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Its bounds.
    pub bounds: (f64, f64),
}

impl fmt::Display for ParametersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.bounds;
        write!(f, "{} is {}, not {low} to {high}", self.name, self.value)
    }
}

/// Part of a tape's length that holds data. With it, the speed of an LTO-3 drive follows from
/// length, wraps, rate and capacity to 0.2 % (5.33 m/s; HP states 5.32 m/s).
const RECORDED: f64 = 0.89;

impl Parameters {
    /// Returns the properties of a generation.
    ///
    /// `docs/reference/array.md` lists each figure with its source, or as not verified.
    /// `tests/presets.rs` compares the list.
    #[must_use]
    pub fn of(generation: Generation) -> Parameters {
        let (rate_max, rate_min, buffer, host, wraps) = match generation {
            Generation::Lto3 => (80.0, 27.0, 64.0, 120.0, 44.0),
            Generation::Lto4 => (120.0, 40.0, 128.0, 240.0, 56.0),
            Generation::Lto5 => (140.0, 47.0, 256.0, 280.0, 80.0),
            Generation::Lto6 => (160.0, 54.0, 512.0, 400.0, 136.0),
        };
        Parameters {
            rate_max_bytes_per_s: rate_max * 1e6,
            rate_min_bytes_per_s: rate_min * 1e6,
            buffer_bytes: buffer * 1e6,
            host_bytes_per_s: host * 1e6,
            compression: 1.0,
            backhitch_s: 3.0,
            load_s: 12.0,
            unload_s: 17.0,
            length_m: f64::from(generation.length_m()) * RECORDED,
            wraps,
            capacity_bytes: f64::from(generation.density().capacity_mb) * 1e6,
            seek_m_per_s: 7.0,
            settle_s: 2.0,
        }
    }

    /// Returns the speed of the tape at the native rate, m/s.
    #[must_use]
    pub fn speed_m_per_s(&self) -> f64 {
        self.length_m * self.wraps * self.rate_max_bytes_per_s / self.capacity_bytes
    }

    /// Checks that every property is within bounds.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), ParametersError> {
        let rate = (1e3, 1e11);
        let seconds = (0.0, 3600.0);
        for (name, value, bounds) in [
            ("rate_max_bytes_per_s", self.rate_max_bytes_per_s, rate),
            (
                "rate_min_bytes_per_s",
                self.rate_min_bytes_per_s,
                (rate.0, self.rate_max_bytes_per_s),
            ),
            ("buffer_bytes", self.buffer_bytes, (1e5, 1e12)),
            ("host_bytes_per_s", self.host_bytes_per_s, rate),
            ("compression", self.compression, (1.0, 100.0)),
            ("backhitch_s", self.backhitch_s, seconds),
            ("load_s", self.load_s, seconds),
            ("unload_s", self.unload_s, seconds),
            ("length_m", self.length_m, (1.0, 1e5)),
            ("wraps", self.wraps, (1.0, 1e5)),
            ("capacity_bytes", self.capacity_bytes, (1e6, 1e15)),
            ("seek_m_per_s", self.seek_m_per_s, (0.01, 1000.0)),
            ("settle_s", self.settle_s, seconds),
        ] {
            if !(bounds.0..=bounds.1).contains(&value) {
                return Err(ParametersError {
                    name,
                    value,
                    bounds,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_within_bounds_and_have_the_published_speed() {
        for generation in Generation::ALL {
            assert_eq!(Parameters::of(generation).check(), Ok(()));
        }
        let speed = Parameters::of(Generation::Lto3).speed_m_per_s();
        assert!((speed / 5.32 - 1.0).abs() < 0.01, "{speed}");
        // One wrap of LTO-5 holds 18 GB, after which the tape turns.
        let lto5 = Parameters::of(Generation::Lto5);
        let wrap = lto5.capacity_bytes / lto5.wraps;
        assert!((wrap / 18e9 - 1.0).abs() < 0.05, "{wrap}");
    }

    #[test]
    fn a_property_out_of_bounds_is_named() {
        let mut parameters = Parameters::of(Generation::Lto5);
        parameters.rate_min_bytes_per_s = 2.0 * parameters.rate_max_bytes_per_s;
        let error = parameters.check().unwrap_err();
        assert_eq!(error.name, "rate_min_bytes_per_s");
        parameters = Parameters::of(Generation::Lto5);
        parameters.compression = f64::NAN;
        assert_eq!(parameters.check().unwrap_err().name, "compression");
    }
}
