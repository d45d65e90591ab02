//! Folders of a tree: levels, parents and names.
//!
//! Folder 0 is the root, on level 1. Folders 0 to `depth` - 1 form a chain, one per level. The
//! others are dealt to levels 2, 3, … in turn, each below a drawn folder of the level above.
use crate::draw::{self, Use};

/// Shape of all trees. Parents differ from tree to tree.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Seed of the description.
    pub seed: u64,
    /// Levels, at least 1.
    pub depth: u32,
    /// Folders, at least `depth`; exactly 1 if `depth` is 1.
    pub folders: u32,
}

impl Shape {
    /// Returns the level of a folder, counted from 1.
    #[must_use]
    pub fn level(&self, folder: u32) -> u32 {
        debug_assert!(folder < self.folders);
        if folder < self.depth {
            folder + 1
        } else {
            2 + (folder - self.depth) % (self.depth - 1)
        }
    }

    /// Returns the number of folders on a level.
    #[must_use]
    pub fn on_level(&self, level: u32) -> u32 {
        if level == 1 {
            return 1;
        }
        let extra = self.folders - self.depth;
        1 + extra / (self.depth - 1) + u32::from(level - 2 < extra % (self.depth - 1))
    }

    /// Returns the `n`th folder of a level.
    #[must_use]
    pub fn nth_on_level(&self, level: u32, n: u32) -> u32 {
        debug_assert!(n < self.on_level(level));
        match n {
            0 => level - 1,
            n => self.depth + (level - 2) + (n - 1) * (self.depth - 1),
        }
    }

    /// Returns the parent of a folder, `None` for the root.
    #[must_use]
    pub fn parent(&self, tree: u32, folder: u32) -> Option<u32> {
        match folder {
            0 => None,
            f if f < self.depth => Some(f - 1),
            _ => {
                let above = self.level(folder) - 1;
                let bits = draw::bits(self.seed, Use::Parent, [tree, folder, 0], 0);
                let n = draw::below(bits, u64::from(self.on_level(above)));
                Some(self.nth_on_level(above, n as u32))
            }
        }
    }

    /// Returns the folders from the root to `folder`, both included.
    #[must_use]
    pub fn chain(&self, tree: u32, folder: u32) -> Vec<u32> {
        let mut chain: Vec<u32> =
            std::iter::successors(Some(folder), |f| self.parent(tree, *f)).collect();
        chain.reverse();
        chain
    }
}

/// Returns the name of a folder within its parent.
#[must_use]
pub fn folder_name(tree: u32, folder: u32) -> String {
    match folder {
        0 => format!("t{tree:05}"),
        _ => format!("d{folder:04}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_tree_has_25_levels_with_two_folders_each_below_the_root() {
        let shape = Shape {
            seed: 1,
            depth: 25,
            folders: 49,
        };
        assert!((2..=25).all(|level| shape.on_level(level) == 2));
        for tree in 0..20 {
            for folder in 0..49 {
                let chain = shape.chain(tree, folder);
                assert_eq!(chain.len(), shape.level(folder) as usize);
                assert_eq!(chain[0], 0);
            }
        }
    }

    #[test]
    fn each_folder_is_found_on_its_level_once() {
        for (depth, folders) in [(1, 1), (2, 9), (3, 3), (7, 100), (64, 65)] {
            let shape = Shape {
                seed: 9,
                depth,
                folders,
            };
            let mut all: Vec<u32> = (1..=depth)
                .flat_map(|level| {
                    (0..shape.on_level(level)).map(move |n| {
                        let folder = shape.nth_on_level(level, n);
                        assert_eq!(shape.level(folder), level);
                        folder
                    })
                })
                .collect();
            all.sort_unstable();
            assert_eq!(all, (0..folders).collect::<Vec<u32>>(), "depth {depth}");
        }
    }
}
