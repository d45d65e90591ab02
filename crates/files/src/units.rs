//! The trees of a load, which its tools take one at a time.

/// Trees that no tool has taken yet.
#[derive(Clone, Debug)]
pub struct Units {
    next: u32,
    stride: u32,
    trees: u32,
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
        }
    }

    /// Takes the next tree. Returns `None` if all are taken.
    pub fn take(&mut self) -> Option<u32> {
        let tree = self.next;
        if tree >= self.trees {
            return None;
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
}
