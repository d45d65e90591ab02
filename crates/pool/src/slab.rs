//! Values under small keys that are used again: accesses under way.

#[derive(Debug)]
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
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = Some(value);
            key
        } else {
            self.slots.push(Some(value));
            (self.slots.len() - 1) as u32
        }
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
