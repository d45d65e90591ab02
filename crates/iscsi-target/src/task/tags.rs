//! A session's tasks by Initiator Task Tag: a hash table with open addressing and linear probing.
//! Every command is looked up, inserted and removed here. The custom table is kept for `make bench`
//! array_4k_depth32_iops.
//!
//! Initiators choose their tags. An initiator that picks colliding tags slows down only its own
//! lookups; the command window bounds how far.

use hakaru_send_queue::Key;
use hakaru_wire::iscsi::Itt;

/// Slots of the smallest table.
const SLOTS_MIN: usize = 16;

/// Value of an empty slot. No task has the reserved tag.
const EMPTY: (Itt, Key) = (
    Itt::RESERVED,
    Key {
        index: u32::MAX,
        generation: u32::MAX,
    },
);

/// Maps Initiator Task Tags to tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskTags {
    /// The number of slots is 0, or a power of two that is at least twice the number of tasks, so
    /// that an empty slot ends every search.
    slots: Vec<(Itt, Key)>,
    /// 64 less the binary logarithm of the number of slots.
    shift: u32,
    len: usize,
}

impl TaskTags {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn contains(&self, itt: Itt) -> bool {
        self.place(itt).is_some()
    }

    pub(crate) fn get(&self, itt: Itt) -> Option<Key> {
        self.place(itt).map(|place| self.slots[place].1)
    }

    /// Returns the tasks in unspecified order.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = Key> {
        let occupied = self.slots.iter().filter(|(tag, _)| *tag != Itt::RESERVED);
        occupied.map(|(_, key)| *key)
    }

    /// Inserts a tag that is not in the table.
    pub(crate) fn insert(&mut self, itt: Itt, key: Key) {
        debug_assert!(itt != Itt::RESERVED && !self.contains(itt));
        self.len += 1;
        if self.len * 2 > self.slots.len() {
            self.grow();
        }
        self.put(itt, key);
    }

    /// Removes a tag, if it is in the table.
    pub(crate) fn remove(&mut self, itt: Itt) {
        let Some(mut hole) = self.place(itt) else {
            return;
        };
        self.len -= 1;
        let mut place = self.after(hole);
        while self.slots[place].0 != Itt::RESERVED {
            // An entry behind the hole moves into it, unless its search begins after the hole.
            let distance = |from: usize| place.wrapping_sub(from) & (self.slots.len() - 1);
            if distance(self.first(self.slots[place].0)) >= distance(hole) {
                self.slots[hole] = self.slots[place];
                hole = place;
            }
            place = self.after(place);
        }
        self.slots[hole] = EMPTY;
    }

    /// Returns the slot of a tag.
    fn place(&self, itt: Itt) -> Option<usize> {
        let mut place = self.first(itt);
        loop {
            match self.slots.get(place)?.0 {
                Itt::RESERVED => return None,
                tag if tag == itt => return Some(place),
                _ => place = self.after(place),
            }
        }
    }

    /// Returns the slot at which the search for a tag begins, by multiplicative hashing with 2^64 /
    /// φ (Knuth).
    fn first(&self, itt: Itt) -> usize {
        (u64::from(itt.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.slots.len() - 1)
    }

    fn put(&mut self, itt: Itt, key: Key) {
        let mut place = self.first(itt);
        while self.slots[place].0 != Itt::RESERVED {
            place = self.after(place);
        }
        self.slots[place] = (itt, key);
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        let old_slots = core::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        self.shift = u64::BITS - slots.trailing_zeros();
        for (itt, key) in old_slots {
            if itt != Itt::RESERVED {
                self.put(itt, key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(index: u32) -> Key {
        Key {
            index,
            generation: 0,
        }
    }

    proptest! {
        #[test]
        fn a_table_behaves_as_a_map(
            // Few tags, many of them neighbours or equal in their low bits, so that they collide.
            steps in prop::collection::vec((any::<bool>(), prop_oneof![0..40u32, (0..40u32).prop_map(|n| n << 26)]), 0..400)
        ) {
            let (mut tags, mut model) = (TaskTags::default(), BTreeMap::new());
            for (number, (inserts, tag)) in (0..).zip(steps) {
                if !inserts {
                    tags.remove(Itt(tag));
                    model.remove(&tag);
                } else if !tags.contains(Itt(tag)) {
                    tags.insert(Itt(tag), key(number));
                    model.insert(tag, key(number));
                }
                prop_assert_eq!(tags.is_empty(), model.is_empty());
                for tag in (0..40).flat_map(|n| [n, n << 26]) {
                    prop_assert_eq!(tags.get(Itt(tag)), model.get(&tag).copied());
                }
                let mut tasks: Vec<u32> = tags.tasks().map(|key| key.index).collect();
                tasks.sort_unstable();
                let mut expected: Vec<u32> = model.values().map(|key| key.index).collect();
                expected.sort_unstable();
                prop_assert_eq!(tasks, expected);
            }
        }
    }

    #[test]
    fn the_reserved_tag_is_never_in_the_table() {
        let mut tags = TaskTags::default();
        assert!(!tags.contains(Itt::RESERVED));
        tags.insert(Itt(1), key(1));
        assert_eq!(tags.get(Itt::RESERVED), None);
        tags.remove(Itt::RESERVED);
        assert_eq!(tags.get(Itt(1)), Some(key(1)));
    }
}
