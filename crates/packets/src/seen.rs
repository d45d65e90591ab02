//! The numbers of frames that have arrived: one bit per frame of a trial.

use std::ops::Range;

/// A set of numbers below a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    words: Vec<u64>,
    limit: u64,
}

impl Seen {
    /// Creates an empty set of numbers below `limit`. The memory, one bit per number, is zeroed by
    /// the kernel when it is first used.
    pub(crate) fn new(limit: u64) -> Seen {
        Seen {
            words: vec![0; limit.div_ceil(64) as usize],
            limit,
        }
    }

    /// Adds a number. Returns whether it is new, or `None` if it is not below the limit.
    pub(crate) fn insert(&mut self, number: u32) -> Option<bool> {
        if u64::from(number) >= self.limit {
            return None;
        }
        let word = self.words.get_mut(number as usize / 64)?;
        let bit = 1 << (number % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        Some(is_new)
    }

    /// Returns how many numbers of a range are not in the set.
    pub(crate) fn missing(&self, numbers: &Range<u64>) -> u64 {
        let is_missing = |number: &u64| {
            let word = self.words.get(*number as usize / 64);
            word.is_none_or(|word| word & (1 << (number % 64)) == 0)
        };
        numbers.clone().filter(is_missing).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_new_once_and_numbers_from_the_limit_on_are_refused() {
        let mut seen = Seen::new(65);
        for number in [0, 63, 64] {
            assert_eq!(seen.insert(number), Some(true));
            assert_eq!(seen.insert(number), Some(false));
        }
        assert_eq!(seen.missing(&(0..65)), 62);
        assert_eq!(seen.missing(&(63..66)), 1);
        assert_eq!(seen.insert(65), None);
        assert_eq!(seen.insert(u32::MAX), None);
        assert_eq!(Seen::default().insert(0), None);
    }
}
