//! Tracking of accesses that may still touch a dropped page.
//!
//! Time is divided into epochs; each commit ends one. An access is counted in the epoch in which it
//! learned its pages. A page dropped in epoch `e` is unknown to the accesses of later epochs, so
//! once all epochs up to `e` are empty, no access touches it. There is one counter per epoch
//! instead of one per page, and the read path costs an increment and a decrement.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Epochs {
    /// Number of the epoch at the front of `in_flight`.
    first: u64,
    /// Accesses in flight per epoch; the last is the current epoch.
    in_flight: VecDeque<u32>,
}

impl Epochs {
    pub(crate) fn new() -> Epochs {
        Epochs {
            first: 0,
            in_flight: VecDeque::from([0]),
        }
    }

    /// Registers an access. Returns the epoch to pass to `leave`.
    pub(crate) fn enter(&mut self) -> u64 {
        let last = self.in_flight.len() - 1;
        self.in_flight[last] += 1;
        self.first + last as u64
    }

    /// Registers an access in `epoch`, which another access keeps open. [`Epochs::leave`] ends it.
    pub(crate) fn join(&mut self, epoch: u64) {
        self.in_flight[(epoch - self.first) as usize] += 1;
    }

    /// Unregisters an access that entered in `epoch`.
    pub(crate) fn leave(&mut self, epoch: u64) {
        self.in_flight[(epoch - self.first) as usize] -= 1;
        self.forget_empty();
    }

    /// Ends the current epoch and returns its number.
    pub(crate) fn advance(&mut self) -> u64 {
        let ended = self.first + self.in_flight.len() as u64 - 1;
        self.in_flight.push_back(0);
        self.forget_empty();
        ended
    }

    /// Returns whether no access of `epoch` or an earlier one is in flight.
    pub(crate) fn is_over(&self, epoch: u64) -> bool {
        epoch < self.first
    }

    fn forget_empty(&mut self) {
        while self.in_flight.len() > 1 && self.in_flight[0] == 0 {
            self.in_flight.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_over_when_it_and_all_before_are_empty() {
        let mut epochs = Epochs::new();
        let slow = epochs.enter();
        let ended = epochs.advance();
        let quick = epochs.enter();
        let ended_next = epochs.advance();
        assert!(!epochs.is_over(ended));
        epochs.leave(quick);
        assert!(
            !epochs.is_over(ended_next),
            "an older access may know the page"
        );
        epochs.leave(slow);
        assert!(epochs.is_over(ended) && epochs.is_over(ended_next));
    }
}
