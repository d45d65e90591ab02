//! The trees of a load, which its tools take one at a time.
use std::collections::VecDeque;

/// Trees that no tool uses.
#[derive(Clone, Debug)]
pub struct Units {
    /// The first tree that was never taken.
    next: u32,
    stride: u32,
    trees: u32,
    /// Trees to be taken again, in the order in which they were given back; `None` if each is taken
    /// once.
    used: Option<VecDeque<u32>>,
}

impl Units {
    /// Creates the trees `first`, `first + stride`, … below `trees`. `stride` is not 0.
    #[must_use]
    pub fn new(first: u32, stride: u32, trees: u32) -> Units {
        debug_assert!(stride > 0);
        Units {
            next: first,
            stride,
            trees,
            used: None,
        }
    }

    /// Returns the same trees, which are taken again after all were taken once.
    #[must_use]
    pub fn repeated(mut self) -> Units {
        self.used = Some(VecDeque::new());
        self
    }

    /// Accepts a tree that was taken and is no longer used.
    pub fn give_back(&mut self, tree: u32) {
        if let Some(used) = &mut self.used {
            used.push_back(tree);
        }
    }

    /// Takes the next tree. Returns `None` if all are taken.
    pub fn take(&mut self) -> Option<u32> {
        let tree = self.next;
        if tree >= self.trees {
            return self.used.as_mut()?.pop_front();
        }
        self.next = tree.saturating_add(self.stride);
        Some(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_that_share_the_trees_take_each_of_them_once() {
        let mut taken: Vec<u32> = (0..3)
            .flat_map(|first| {
                let mut units = Units::new(first, 3, 10);
                std::iter::from_fn(move || units.take())
            })
            .collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..10).collect::<Vec<u32>>());
        assert_eq!(
            Units::new(u32::MAX - 1, 5, u32::MAX).take(),
            Some(u32::MAX - 1)
        );
    }

    #[test]
    fn repeated_trees_are_taken_again_in_the_order_in_which_they_were_given_back() {
        let mut units = Units::new(1, 2, 6).repeated();
        let mut take = |given_back: &[u32]| {
            for tree in given_back {
                units.give_back(*tree);
            }
            units.take()
        };
        assert_eq!(
            (take(&[]), take(&[]), take(&[1])),
            (Some(1), Some(3), Some(5))
        );
        assert_eq!(
            (take(&[5, 3]), take(&[]), take(&[])),
            (Some(1), Some(5), Some(3))
        );
        assert_eq!(take(&[]), None, "a tool uses each of them");
    }

    #[test]
    fn trees_that_are_not_repeated_are_not_taken_again() {
        let mut units = Units::new(0, 1, 1);
        assert_eq!(units.take(), Some(0));
        units.give_back(0);
        assert_eq!(units.take(), None);
    }
}
