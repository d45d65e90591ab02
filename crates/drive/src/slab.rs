//! Values under small keys that are used again: requests and stages under way.

#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(key) => {
                self.slots[key as usize] = Some(value);
                key
            }
            None => {
                self.slots.push(Some(value));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(crate) fn get(&self, key: u32) -> &T {
        self.slots[key as usize]
            .as_ref()
            .expect("a key is used from insert to remove")
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> &mut T {
        self.slots[key as usize]
            .as_mut()
            .expect("a key is used from insert to remove")
    }

    pub(crate) fn remove(&mut self, key: u32) -> T {
        self.free.push(key);
        self.slots[key as usize]
            .take()
            .expect("a key is used from insert to remove")
    }
}
