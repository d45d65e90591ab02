//! Page accounting of a pool: the pages that every volume maps, shared or not. They determine the
//! requests that must be refused because the pool is full.
//!
//! A page counts as used while a volume maps it. The pool may need it longer, until a commit is
//! durable, but then a request waits instead of being refused ([`Failure::Full`]).
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::ops::Range;

use hakaru_pool::Failure;

/// Pages of every volume of a pool. Pages of the pool are numbered in the order of allocation.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    capacity: usize,
    allocated: u64,
    volumes: BTreeMap<String, Vec<Option<u64>>>,
}

impl Pages {
    /// Adds a group with this number of data pages.
    pub fn grow(&mut self, pages: u64) {
        self.capacity += pages as usize;
    }

    /// Adds a volume without mapped pages.
    pub fn create(&mut self, name: &str, pages: u64) {
        self.volumes.insert(name.into(), vec![None; pages as usize]);
    }

    /// Adds a copy of the volume `origin`, which shares all its pages.
    pub fn copy(&mut self, origin: &str, name: &str) {
        let pages = self.volumes[origin].clone();
        self.volumes.insert(name.into(), pages);
    }

    /// Removes a volume.
    pub fn delete(&mut self, name: &str) {
        self.volumes.remove(name);
    }

    /// Returns the number of pages that at least one volume maps.
    pub fn used(&self) -> usize {
        let mut used: Vec<u64> = self.volumes.values().flatten().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        used.len()
    }

    /// Writes to these pages of a volume. Unmapped pages are allocated, shared pages are copied.
    pub fn write(&mut self, name: &str, pages: Range<u64>) -> Result<(), Failure> {
        let needed: Vec<usize> = (pages.start as usize..pages.end as usize)
            .filter(|page| !self.is_exclusive(name, *page))
            .collect();
        self.replace(name, &needed)
    }

    /// Unmaps the `whole` pages of a volume, and a part of the page `part`, which is copied if it
    /// is shared.
    pub fn unmap(
        &mut self,
        name: &str,
        whole: Range<u64>,
        part: Option<u64>,
    ) -> Result<(), Failure> {
        let copied: Vec<usize> = part
            .map(|page| page as usize)
            .filter(|page| self.volumes[name][*page].is_some() && !self.is_exclusive(name, *page))
            .into_iter()
            .collect();
        self.replace(name, &copied)?;
        let volume = self.volumes.get_mut(name).unwrap();
        volume[whole.start as usize..whole.end as usize].fill(None);
        Ok(())
    }

    /// Returns whether a page of a volume is mapped by this volume alone.
    fn is_exclusive(&self, name: &str, page: usize) -> bool {
        let at = self.volumes[name][page];
        let mapped = self.volumes.values().flatten();
        at.is_some() && mapped.filter(|other| **other == at).count() == 1
    }

    /// Maps new pages in place of `pages`.
    fn replace(&mut self, name: &str, pages: &[usize]) -> Result<(), Failure> {
        if self.used() + pages.len() > self.capacity {
            return Err(Failure::Full);
        }
        for page in pages {
            self.allocated += 1;
            self.volumes.get_mut(name).unwrap()[*page] = Some(self.allocated);
        }
        Ok(())
    }
}
