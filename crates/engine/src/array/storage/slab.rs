//! Things under way, by a number that comes back with their completion: the crate `slab`, its numbers as wide as those of the pool, the model and the files.

/// A table whose numbers are small and used again.
pub struct Slab<T>(slab::Slab<T>);

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab(slab::Slab::new())
    }
}

impl<T> Slab<T> {
    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts something in; returns its number.
    pub fn insert(&mut self, entry: T) -> u64 {
        self.0.insert(entry) as u64
    }

    /// Takes out what has the number.
    ///
    /// # Panics
    /// If there is nothing: numbers come back exactly once.
    pub fn remove(&mut self, number: u64) -> T {
        self.0.remove(number as usize)
    }

    /// The number of the first that is wanted. Looks at all of them.
    pub fn find(&self, wanted: impl Fn(&T) -> bool) -> Option<u64> {
        let mut entries = self.0.iter();
        let found = entries.find(|(_, entry)| wanted(entry));
        found.map(|(number, _)| number as u64)
    }

    /// What has the number.
    ///
    /// # Panics
    /// As [`Slab::remove`].
    pub fn get_mut(&mut self, number: u64) -> &mut T {
        &mut self.0[number as usize]
    }
}
