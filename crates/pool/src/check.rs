//! Check of a pool: walks everything, changes nothing.

use std::sync::Arc;

use crate::access::in_flight::AccessKind;
use crate::alloc::group::Group;
use crate::commit::metadata::{Store, StoreError};
use crate::config::PoolConfig;
use crate::disk::{Disk, OverlayDisk};
use crate::finding::{Fault, Finding, Object};
use crate::map::PageId;
use crate::open::{self, OpenGroup};
use crate::owners::Owners;
use crate::place::GroupId;
use crate::pool::Pool;

/// Result of a check: figures of the pool, and its damage.
#[derive(Debug)]
pub struct Checked {
    /// Number of commits in the life of the pool.
    pub generation: u64,
    /// Volumes with an intact record.
    pub volumes: usize,
    /// Map entries that were walked.
    pub entries: u64,
    /// All damage; empty if the pool is intact.
    pub findings: Vec<Finding>,
}

/// Checks a pool that is not open. The check changes no byte on disk. If the pool needs recovery
/// after a crash, it happens in memory.
///
/// `group` opens the file of a group, for reading.
///
/// # Errors
/// [`StoreError`] if the store cannot be opened or lacks a superblock.
pub fn check(metadata: Arc<dyn Disk>, group: OpenGroup<'_>) -> Result<Checked, StoreError> {
    let store = Store::open(Arc::new(OverlayDisk::new(metadata)?))?;
    let mut loaded = store.load()?;
    let mut findings = core::mem::take(&mut loaded.findings);
    open::check_group_files(&loaded, group, &mut findings);
    let entries = loaded
        .leaves
        .iter()
        .map(|(_, _, leaf)| u64::from(leaf.mapped()))
        .sum();
    let checked = Checked {
        generation: loaded.superblock.generation,
        volumes: loaded.volumes.len(),
        entries,
        findings: Vec::new(),
    };
    let pool = Pool::from_loaded(PoolConfig::default(), loaded, &mut findings);
    if findings.is_empty() {
        findings = pool.check();
    }
    Ok(Checked {
        findings,
        ..checked
    })
}

impl Pool {
    /// Compares all counts and references with a walk over all maps. Costs about as much as
    /// opening.
    #[must_use]
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let references = self.count_references(&mut findings);
        for (index, group) in self.alloc.groups.iter().enumerate() {
            check_group(
                GroupId(index as u16),
                group,
                &references[index],
                &mut findings,
            );
        }
        findings
    }

    /// Counts the references to every page of every group, in a walk over all maps. Reports pages
    /// that unrelated volumes share, and volumes with a wrong number of mapped pages.
    fn count_references(&self, findings: &mut Vec<Finding>) -> Vec<Vec<u32>> {
        let groups = self.alloc.groups.iter();
        let mut references: Vec<Vec<u32>> = groups
            .map(|group| vec![0; group.pages() as usize])
            .collect();
        let mut owners = Owners::new(self.alloc.groups.iter().map(|group| group.pages()));
        for (id, volume) in &self.volumes {
            let mut mapped = 0;
            for (page, at) in volume.map.iter() {
                mapped += 1;
                references[at.group.index()][at.page as usize] += 1;
                if let Some(fault) = owners.claim(at, *id, volume.family, page) {
                    findings.push(Finding::new(Object::Entry { volume: *id, page }, fault));
                }
            }
            let fault = Fault::of_count("pages", volume.map.mapped(), mapped);
            findings.extend(fault.map(|fault| Finding::new(Object::Volume(*id), fault)));
        }
        for copy in self.copies_in_progress() {
            references[copy.group.index()][copy.page as usize] += 1;
        }
        references
    }

    /// Returns the destination pages of the copies in progress.
    fn copies_in_progress(&self) -> impl Iterator<Item = PageId> + '_ {
        let copies = self
            .accesses
            .iter()
            .filter_map(|(_, access)| match &access.kind {
                AccessKind::Read => None,
                AccessKind::Write(writing) => Some(&writing.copies),
                AccessKind::Unmap(zeroing) => Some(&zeroing.copies),
            });
        copies.flat_map(|copies| copies.all.iter().map(|copy| copy.to))
    }
}

/// Compares the counts of a group with the `references` to its pages.
fn check_group(id: GroupId, group: &Group, references: &[u32], findings: &mut Vec<Finding>) {
    let (mut used, mut free) = (0, 0);
    for page in 1..group.pages() {
        let stored = group.references(page);
        let counted = references[page as usize].into();
        let is_free = group.is_free(page);
        used += u64::from(stored.live > 0);
        free += u64::from(is_free);
        let object = Object::Page(PageId { group: id, page });
        let mut report = |fault: Fault| findings.push(Finding::new(object, fault));
        if let Some(fault) = Fault::of_count("references", stored.live.into(), counted) {
            report(fault);
        }
        if is_free && (stored.live > 0 || stored.dropping > 0) {
            report(Fault::Count {
                name: "references of a free page",
                stored: stored.live.into(),
                counted,
            });
        }
    }
    let used = Fault::of_count("pages in use", group.used_pages().into(), used);
    let free = Fault::of_count("free pages", group.free_pages().into(), free);
    let faults = used.into_iter().chain(free);
    findings.extend(faults.map(|fault| Finding::new(Object::Group(id), fault)));
}
