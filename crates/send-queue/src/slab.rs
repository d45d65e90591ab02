//! Values identified by small reusable numbers. Each use of a number has its own generation, so a
//! stale key finds no value.

/// Identifies a value in a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Index of the slot.
    pub index: u32,
    /// Number of values that the slot held previously; wraps around at 2^32.
    pub generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values in reusable slots. A slab never shrinks: the number of slots is the maximum number of
/// values held at the same time.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether the slab is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts the value that `make` returns for its key. Returns key and value.
    pub fn insert_with(&mut self, make: impl FnOnce(Key) -> T) -> (Key, &mut T) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                value: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        let key = Key {
            index,
            generation: slot.generation,
        };
        (key, slot.value.insert(make(key)))
    }

    /// Returns the value of a key. `None` if it was removed.
    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        if slot.generation == key.generation {
            slot.value.as_ref()
        } else {
            None
        }
    }

    /// Returns the value of a key for modification. `None` if it was removed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation == key.generation {
            slot.value.as_mut()
        } else {
            None
        }
    }

    /// Removes and returns a value. `None` if it was removed already.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    /// Calls `inspect` on a value, drops the value in place without moving it, and returns the
    /// result of `inspect`. `None` if the value was removed already.
    pub fn discard<R>(&mut self, key: Key, inspect: impl FnOnce(&mut T) -> R) -> Option<R> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let result = inspect(slot.value.as_mut()?);
        slot.value = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(result)
    }

    /// Returns all values, in the order of their slots.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// Returns all values with their keys, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let key = Key {
                index: index as u32,
                generation: slot.generation,
            };
            slot.value.as_ref().map(|value| (key, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_does_not_find_the_next_value_of_its_slot() {
        let mut slab = Slab::default();
        let (first, _) = slab.insert_with(|_| 'a');
        assert_eq!(slab.remove(first), Some('a'));
        let (second, _) = slab.insert_with(|_| 'b');
        assert_eq!(first.index, second.index);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&'b')));
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn a_discarded_value_is_inspected_once_and_its_slot_is_reused() {
        let mut slab = Slab::default();
        let (key, _) = slab.insert_with(|key| key.index + 40);
        assert_eq!(slab.discard(key, |value| *value), Some(40));
        assert_eq!(slab.discard(key, |value| *value), None);
        assert!(slab.is_empty());
        let (reused, value) = slab.insert_with(|key| key.index);
        assert_eq!((reused.index, reused.generation, *value), (0, 1, 0));
    }
}
