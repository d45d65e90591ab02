//! Seek time as a function of distance, from the three figures of a data sheet.
//!
//! `t(d) = track + b·√x + c·x` with `x = (d − 1)/(cylinders − 1)`. The arm accelerates and brakes
//! over short distances (√) and coasts over long ones (linear). `b` and `c` follow from the data
//! sheet: the mean over all pairs of cylinders is its average seek, and the longest seek its full
//! stroke. Source: E. K. Lee, R. H. Katz, "An Analytic Performance Model of Disk Arrays",
//! SIGMETRICS 1993, section 2.
use hakaru_contract::drive::Hdd;

/// Seek times of one model of drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeekCurve {
    track_ns: f64,
    root_ns: f64,
    linear_ns: f64,
    span: f64,
}

impl SeekCurve {
    pub(crate) fn new(hdd: &Hdd, cylinders: u32) -> SeekCurve {
        let (root_ms, linear_ms) = coefficients_ms(hdd);
        SeekCurve {
            track_ns: hdd.seek_track_ms * 1e6,
            root_ns: root_ms * 1e6,
            linear_ns: linear_ms * 1e6,
            span: f64::from(cylinders.max(2) - 1),
        }
    }

    /// Returns the time of a seek over `distance` cylinders until the head can read. It uses only
    /// correctly rounded operations, so the result is the same on every machine.
    pub(crate) fn ns(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        let x = f64::from(distance - 1) / self.span;
        (self.track_ns + self.root_ns * x.sqrt() + self.linear_ns * x) as u64
    }
}

/// Returns the coefficients of the square root and of the linear term, ms. Over random pairs of
/// cylinders `E[x]` = 1/3 and `E[√x]` = 8/15. The curve rises only if neither coefficient is
/// negative, which `validate.rs` checks.
pub(crate) fn coefficients_ms(hdd: &Hdd) -> (f64, f64) {
    let average = hdd.seek_average_ms - hdd.seek_track_ms;
    let full = hdd.seek_full_ms - hdd.seek_track_ms;
    let root = 5.0 * (average - full / 3.0);
    (root, full - root)
}
