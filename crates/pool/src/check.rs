//! Check of a pool: walks everything, changes nothing.

use std::sync::Arc;

use crate::access::in_flight::AccessKind;
use crate::commit::metadata::{Store, StoreError};
use crate::config::PoolConfig;
use crate::disk::{Disk, OverlayDisk};
use crate::finding::{Fault, Finding, Object};
use crate::map::PageId;
use crate::open::{self, OpenGroup};
use crate::owners::Owners;
use crate::place::GroupId;
use crate::pool::Pool;

/// Figures of a checked pool, and its damage.
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

/// Checks a pool that is not open. The check changes no byte on disk: the recovery after a crash,
/// if needed, happens in memory.
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
        let mut counted: Vec<Vec<u32>> = self
            .alloc
            .groups
            .iter()
            .map(|group| vec![0; group.pages() as usize])
            .collect();
        let mut owners = Owners::new(self.alloc.groups.iter().map(|group| group.pages()));
        for (id, volume) in &self.volumes {
            let mut mapped = 0;
            for (page, at) in volume.map.iter() {
                mapped += 1;
                counted[at.group.index()][at.page as usize] += 1;
                if let Some(fault) = owners.claim(at, *id, volume.family, page) {
                    findings.push(Finding::new(Object::Entry { volume: *id, page }, fault));
                }
            }
            count(
                &mut findings,
                Object::Volume(*id),
                "pages",
                volume.map.mapped(),
                mapped,
            );
        }
        for copy in self.copies_under_way() {
            counted[copy.group.index()][copy.page as usize] += 1;
        }
        for (index, group) in self.alloc.groups.iter().enumerate() {
            let id = GroupId(index as u16);
            let (mut used, mut free) = (0, 0);
            for page in 1..group.pages() {
                let kept = group.references(page);
                let object = Object::Page(PageId { group: id, page });
                let found = counted[index][page as usize];
                count(
                    &mut findings,
                    object,
                    "references",
                    kept.live.into(),
                    found.into(),
                );
                used += u64::from(kept.live > 0);
                free += u64::from(group.is_free(page));
                if group.is_free(page) && (kept.live > 0 || kept.dropping > 0) {
                    findings.push(Finding::new(
                        object,
                        Fault::Count {
                            what: "references of a free page",
                            kept: kept.live.into(),
                            counted: found.into(),
                        },
                    ));
                }
            }
            count(
                &mut findings,
                Object::Group(id),
                "pages in use",
                group.used_pages().into(),
                used,
            );
            count(
                &mut findings,
                Object::Group(id),
                "free pages",
                group.free_pages().into(),
                free,
            );
        }
        findings
    }

    /// Returns the destination pages of the copies in progress.
    fn copies_under_way(&self) -> impl Iterator<Item = PageId> + '_ {
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

fn count(findings: &mut Vec<Finding>, object: Object, what: &'static str, kept: u64, counted: u64) {
    if kept != counted {
        findings.push(Finding::new(
            object,
            Fault::Count {
                what,
                kept,
                counted,
            },
        ));
    }
}
