//! A histogram of durations, in the format that every HDR tool reads.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::fmt;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Durations of 1 ns to [`Histogram::MAX_NS`], each kept to 3 significant digits.
///
/// Memory depends on the longest duration only: 16 KB up to 2 µs, and 8 KB for each doubling beyond
/// that (96 KB at 2 ms, 270 KB at an hour). A copy is therefore cheap enough for a data path.
///
/// Shorter durations count as 1 ns, longer ones as the longest. Every recorded duration is counted.
#[derive(Clone)]
pub struct Histogram {
    hdr: hdrhistogram::Histogram<u64>,
}

/// Errors of [`Histogram::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Not base64.
    Base64,
    /// Not an HdrHistogram in a known format, or counts that do not fit.
    Format(String),
    /// A value above [`Histogram::MAX_NS`].
    Range,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Base64 => write!(f, "histogram is not base64"),
            DecodeError::Format(reason) => write!(f, "histogram cannot be decoded: {reason}"),
            DecodeError::Range => write!(f, "histogram holds a duration above one hour"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Histogram {
    /// Longest duration that is distinguished, one hour.
    pub const MAX_NS: u64 = 3_600_000_000_000;
    /// Significant decimal digits of every value.
    pub const SIGNIFICANT_DIGITS: u8 = 3;

    /// Creates an empty histogram.
    #[must_use]
    pub fn new() -> Histogram {
        let hdr = hdrhistogram::Histogram::new(Self::SIGNIFICANT_DIGITS)
            .expect("5 digits or fewer are valid");
        Histogram { hdr }
    }

    /// Counts one duration.
    pub fn record_ns(&mut self, duration_ns: u64) {
        self.hdr
            .record(duration_ns.clamp(1, Self::MAX_NS))
            .expect("auto-resize is on, and values are at most an hour");
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.hdr
            .add(&other.hdr)
            .expect("auto-resize is on, and values are at most an hour");
    }

    /// Returns the number of durations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.hdr.len()
    }

    /// Returns whether no duration was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hdr.is_empty()
    }

    /// Returns the mean in nanoseconds, to the resolution of the histogram. 0 when empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.hdr.mean()
    }

    /// Returns the longest duration counted, in nanoseconds, rounded up to the resolution. 0 when
    /// empty.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.hdr.max()
    }

    /// Returns the quantile `q` (0 to 1) in nanoseconds. 0 when empty.
    #[must_use]
    pub fn quantile_ns(&self, q: f64) -> u64 {
        self.hdr.value_at_quantile(q)
    }

    /// Removes all counts and keeps the memory.
    pub fn clear(&mut self) {
        // `hdr.clear` would keep the minimum and the maximum.
        self.hdr.reset();
    }

    /// Encodes the histogram as HdrHistogram V2, deflated with zlib, in base64 with padding.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(4096);
        V2DeflateSerializer::new()
            .serialize(&self.hdr, &mut bytes)
            .expect("writing to memory cannot fail, and the format supports u64 counts");
        STANDARD.encode(bytes)
    }

    /// Decodes a histogram written by [`Histogram::encode`] or by another HDR tool.
    ///
    /// # Errors
    /// [`DecodeError`] for anything that is not a histogram of values up to [`Histogram::MAX_NS`].
    pub fn decode(text: &str) -> Result<Histogram, DecodeError> {
        let bytes = STANDARD
            .decode(text.trim())
            .map_err(|_| DecodeError::Base64)?;
        let decoded: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut std::io::Cursor::new(bytes))
            .map_err(|e| DecodeError::Format(e.to_string()))?;
        let mut histogram = Histogram::new();
        if decoded.max() > histogram.hdr.highest_equivalent(Self::MAX_NS) {
            return Err(DecodeError::Range);
        }
        histogram
            .hdr
            .add(&decoded)
            .map_err(|_| DecodeError::Range)?;
        Ok(histogram)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        // Compares only the counts, because the capacity for longer durations may differ.
        let counts = |histogram: &Self| {
            let recorded = histogram.hdr.iter_recorded();
            recorded
                .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
                .collect::<Vec<_>>()
        };
        self.count() == other.count() && counts(self) == counts(other)
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("mean_ns", &self.mean_ns())
            .field("max_ns", &self.max_ns())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_three_significant_digits_from_a_nanosecond_to_an_hour() {
        for value in [
            1,
            7,
            1_234,
            65_432,
            1_234_567,
            98_765_432,
            12_345_678_901,
            Histogram::MAX_NS,
        ] {
            let mut h = Histogram::new();
            h.record_ns(value);
            let got = h.quantile_ns(0.5);
            assert!(
                got.abs_diff(value) as f64 <= value as f64 / 1000.0,
                "{value} came back as {got}"
            );
        }
    }

    #[test]
    fn values_outside_the_range_are_counted_at_its_ends() {
        let mut h = Histogram::new();
        h.record_ns(0);
        h.record_ns(u64::MAX);
        assert_eq!(h.count(), 2);
        assert_eq!(h.quantile_ns(0.0), 1);
        assert!(h.max_ns() >= Histogram::MAX_NS);
    }

    #[test]
    fn merged_parts_equal_the_whole() {
        let mut parts = [Histogram::new(), Histogram::new(), Histogram::new()];
        let mut whole = Histogram::new();
        let mut value = 1u64;
        for i in 0..10_000usize {
            value = value
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let duration = (value >> 33) % 50_000_000;
            parts[i % 3].record_ns(duration);
            whole.record_ns(duration);
        }
        let mut sum = Histogram::new();
        parts.iter().for_each(|part| sum.merge(part));
        assert_eq!(sum, whole);
        assert_eq!(sum.count(), 10_000);
    }

    #[test]
    fn encoded_histograms_survive_decoding() {
        let mut h = Histogram::new();
        (1..5_000u64).for_each(|i| h.record_ns(i * i * 17));
        assert_eq!(Histogram::decode(&h.encode()).unwrap(), h);
        assert_eq!(
            Histogram::decode(&Histogram::new().encode()).unwrap(),
            Histogram::new()
        );
    }

    #[test]
    fn histograms_of_different_capacity_compare_equal() {
        let (mut short, mut long) = (Histogram::new(), Histogram::new());
        long.record_ns(Histogram::MAX_NS);
        long.clear();
        short.record_ns(5);
        long.record_ns(5);
        assert_eq!(short, long);
        assert_eq!(long, short);
        long.record_ns(6);
        assert_ne!(short, long);
        assert_eq!(long.clone().max_ns(), 6);
    }

    #[test]
    fn a_value_above_an_hour_is_refused() {
        let mut other = hdrhistogram::Histogram::<u64>::new(Histogram::SIGNIFICANT_DIGITS).unwrap();
        other.record(2 * Histogram::MAX_NS).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&other, &mut bytes)
            .unwrap();
        assert_eq!(
            Histogram::decode(&STANDARD.encode(bytes)),
            Err(DecodeError::Range)
        );
    }

    #[test]
    fn text_that_is_not_a_histogram_is_refused() {
        assert_eq!(Histogram::decode("not base64!"), Err(DecodeError::Base64));
        assert!(matches!(
            Histogram::decode("aGVsbG8="),
            Err(DecodeError::Format(_))
        ));
        assert!(matches!(Histogram::decode(""), Err(DecodeError::Format(_))));
    }
}
