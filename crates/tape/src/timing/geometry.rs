//! Places on a tape. It passes the head in wraps, alternately forward and backward.

use super::parameters::Parameters;

/// Lengths of a tape.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    length_m: f64,
    wrap_bytes: f64,
    seek_m_per_s: f64,
    settle_s: f64,
}

impl Geometry {
    /// Creates the geometry of a cartridge.
    #[must_use]
    pub fn new(parameters: &Parameters) -> Geometry {
        Geometry {
            length_m: parameters.length_m,
            wrap_bytes: parameters.capacity_bytes / parameters.wraps,
            seek_m_per_s: parameters.seek_m_per_s,
            settle_s: parameters.settle_s,
        }
    }

    /// Returns the distance of a stored byte from the beginning of the tape, m.
    #[must_use]
    pub fn place_m(&self, byte: f64) -> f64 {
        let wrap = (byte / self.wrap_bytes).floor();
        let part = byte / self.wrap_bytes - wrap;
        let forward = wrap.rem_euclid(2.0) < 1.0;
        let along = if forward { part } else { 1.0 - part };
        along * self.length_m
    }

    /// Returns the time from one stored byte to another, s: 0 if they are the same.
    #[must_use]
    pub fn way_s(&self, from: f64, to: f64) -> f64 {
        if from == to {
            return 0.0;
        }
        let distance = (self.place_m(from) - self.place_m(to)).abs();
        self.settle_s + distance / self.seek_m_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::Generation;

    #[test]
    fn wraps_run_forward_and_backward() {
        let parameters = Parameters {
            length_m: 100.0,
            wraps: 4.0,
            capacity_bytes: 4e9,
            seek_m_per_s: 10.0,
            settle_s: 1.0,
            ..Parameters::of(Generation::Lto5)
        };
        let geometry = Geometry::new(&parameters);
        for (gigabytes, metres) in [
            (0.0, 0.0),
            (0.25, 25.0),
            (1.0, 100.0),
            (1.25, 75.0),
            (2.0, 0.0),
            (3.5, 50.0),
        ] {
            assert!((geometry.place_m(gigabytes * 1e9) - metres).abs() < 1e-9);
        }
        // The byte beside it, one wrap further, is near.
        assert_eq!(geometry.way_s(0.25e9, 1.75e9), 1.0);
        assert_eq!(geometry.way_s(0.25e9, 1.25e9), 6.0);
        assert_eq!(geometry.way_s(5e8, 5e8), 0.0);
    }

    /// From the beginning, the mean way to any byte is half the length.
    #[test]
    fn mean_way_from_the_beginning_is_half_the_length() {
        let parameters = Parameters::of(Generation::Lto6);
        let geometry = Geometry::new(&parameters);
        let steps = 100_000;
        let sum: f64 = (1..=steps)
            .map(|step| geometry.way_s(0.0, f64::from(step) / f64::from(steps) * 2.5e12))
            .sum();
        let mean = sum / f64::from(steps);
        let expected = parameters.settle_s + parameters.length_m / 2.0 / parameters.seek_m_per_s;
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean} {expected}");
    }
}
