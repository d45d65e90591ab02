//! Things under way, by a number that comes back with their completion.

/// A table whose numbers are small and used again.
pub struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Puts something in; returns its number.
    pub fn insert(&mut self, entry: T) -> u64 {
        if let Some(number) = self.free.pop() {
            self.entries[number as usize] = Some(entry);
            return u64::from(number);
        }
        self.entries.push(Some(entry));
        self.entries.len() as u64 - 1
    }

    /// Takes out what has the number.
    ///
    /// # Panics
    /// If there is nothing: numbers come back exactly once.
    pub fn remove(&mut self, number: u64) -> T {
        let entry = self.entries[number as usize].take();
        self.free.push(number as u32);
        entry.expect("a number comes back once")
    }

    /// The number of the first that is wanted. Looks at all of them.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<u64> {
        let entry = |entry: &Option<T>| entry.as_ref().is_some_and(&wanted);
        self.entries.iter().position(entry).map(|at| at as u64)
    }

    /// What has the number.
    ///
    /// # Panics
    /// As [`Slab::remove`].
    pub fn get_mut(&mut self, number: u64) -> &mut T {
        self.entries[number as usize]
            .as_mut()
            .expect("a number comes back once")
    }
}
