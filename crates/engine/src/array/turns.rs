//! Connections that have more to receive, in the order of their turns.
use std::collections::VecDeque;

/// A queue in which each connection has at most one place, so that none has more turns than the
/// others.
#[derive(Default)]
pub struct Turns {
    /// Indices of connections. May name connections that were closed.
    queue: VecDeque<usize>,
    /// Whether a connection is in the queue, by its index.
    queued: Vec<bool>,
}

impl Turns {
    /// Appends a connection, unless it waits already.
    pub fn add(&mut self, index: usize) {
        if self.queued.len() <= index {
            self.queued.resize(index + 1, false);
        }
        if !std::mem::replace(&mut self.queued[index], true) {
            self.queue.push_back(index);
        }
    }

    /// Removes and returns the connection whose turn is next.
    pub fn next(&mut self) -> Option<usize> {
        let index = self.queue.pop_front()?;
        self.queued[index] = false;
        Some(index)
    }

    /// Returns the number of waiting connections.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns whether no connection waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_added_again_has_one_turn_per_round() {
        let mut turns = Turns::default();
        for index in [3, 1, 3, 3, 1] {
            turns.add(index);
        }
        assert_eq!(turns.len(), 2);
        assert_eq!(turns.next(), Some(3));
        // Its turn ended with more to receive: it comes after the others.
        turns.add(3);
        turns.add(3);
        let round: Vec<usize> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(round, [1, 3]);
        assert!(turns.is_empty());
    }
}
