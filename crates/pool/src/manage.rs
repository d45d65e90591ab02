//! Adds groups; creates, changes and deletes volumes. Each change is answered when it is on stable
//! storage.

use crate::access::in_flight::{Attempt, WaitFor};
use crate::access::request::{Failure, Outcome, RequestId};
use crate::alloc::group::{Group, Run};
use crate::config::{GROUPS_MAX, SIZE_BYTES_MAX, VOLUMES_MAX, name_is_valid, size_is_valid};
use crate::place::GroupId;
use crate::pool::Pool;
use crate::volume::{Volume, VolumeId};

impl Pool {
    pub(crate) fn add_group(&mut self, id: RequestId, name: &str, size_bytes: u64) -> Attempt {
        let pages = size_bytes / u64::from(self.page_bytes);
        let refused = if !name_is_valid(name) {
            Some(Failure::NameInvalid)
        } else if self.alloc.groups.iter().any(|group| group.name == name) {
            Some(Failure::NameTaken)
        } else if self.alloc.groups.len() == GROUPS_MAX {
            Some(Failure::TooMany)
        } else if size_bytes > SIZE_BYTES_MAX || pages < 2 || pages > u64::from(u32::MAX) {
            Some(Failure::SizeInvalid)
        } else {
            None
        };
        if let Some(failure) = refused {
            self.fail(id, failure);
            return Attempt::Started;
        }
        let group = GroupId(self.alloc.groups.len() as u16);
        self.alloc
            .groups
            .push(Group::new(name.to_owned(), pages as u32, self.page_bytes));
        self.alloc.recycler.add_ready([Run {
            group,
            first: 1,
            pages: pages as u32 - 1,
        }]);
        self.rounds.dirty_groups.insert(group);
        self.mark_metadata_changed();
        self.await_stable(id, Outcome::Grown(group));
        Attempt::Started
    }

    pub(crate) fn create_volume(
        &mut self,
        id: RequestId,
        name: &str,
        size_bytes: u64,
        quota_bytes: Option<u64>,
    ) -> Attempt {
        let refused = if size_is_valid(size_bytes) {
            self.refuse_volume(name)
        } else {
            Some(Failure::SizeInvalid)
        };
        if let Some(failure) = refused {
            self.fail(id, failure);
            return Attempt::Started;
        }
        let volume = VolumeId(self.volume_next);
        self.put_volume(
            id,
            Volume::new(volume, name.to_owned(), size_bytes, quota_bytes),
        );
        Attempt::Started
    }

    pub(crate) fn copy_volume(
        &mut self,
        id: RequestId,
        origin_id: VolumeId,
        name: &str,
        read_only: bool,
        quota_bytes: Option<u64>,
    ) -> Attempt {
        let refused = if self.volumes.contains_key(&origin_id) {
            self.refuse_volume(name)
        } else {
            Some(Failure::NoVolume)
        };
        if let Some(failure) = refused {
            self.fail(id, failure);
            return Attempt::Started;
        }
        let origin = &self.volumes[&origin_id];
        if origin.writes_in_flight > 0 {
            return Attempt::Wait(WaitFor::Others);
        }
        let copy = Volume {
            read_only,
            origin: Some(origin_id),
            family: origin.family,
            map: origin.map.clone(),
            ..Volume::new(
                VolumeId(self.volume_next),
                name.to_owned(),
                origin.size_bytes,
                quota_bytes,
            )
        };
        for (_, page) in copy.map.iter() {
            self.alloc.groups[page.group.index()].add_reference(page.page);
        }
        let volume = VolumeId(self.volume_next);
        self.rounds
            .dirty_leaves
            .extend(copy.map.leaves().map(|(index, _)| (volume, index)));
        self.put_volume(id, copy);
        Attempt::Started
    }

    pub(crate) fn resize_volume(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        size_bytes: u64,
    ) -> Attempt {
        self.change_volume(id, volume, |volume| {
            if !size_is_valid(size_bytes) || size_bytes < volume.size_bytes {
                return Err(Failure::SizeInvalid);
            }
            if volume.read_only {
                return Err(Failure::Snapshot);
            }
            volume.size_bytes = size_bytes;
            Ok(())
        })
    }

    pub(crate) fn set_quota(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        quota_bytes: Option<u64>,
    ) -> Attempt {
        self.change_volume(id, volume, |volume| {
            volume.quota_bytes = quota_bytes;
            Ok(())
        })
    }

    pub(crate) fn delete_volume(&mut self, id: RequestId, volume: VolumeId) -> Attempt {
        let Some(deleted) = self.volumes.get(&volume) else {
            self.fail(id, Failure::NoVolume);
            return Attempt::Started;
        };
        if deleted.writes_in_flight > 0 {
            return Attempt::Wait(WaitFor::Others);
        }
        let deleted = self.volumes.remove(&volume).expect("checked above");
        for (_, page) in deleted.map.iter() {
            self.drop_page(page);
        }
        self.commit_deletion(volume, deleted);
        self.retry = true;
        self.await_stable(id, Outcome::Done);
        Attempt::Started
    }

    fn refuse_volume(&self, name: &str) -> Option<Failure> {
        if !name_is_valid(name) {
            Some(Failure::NameInvalid)
        } else if self.volumes.values().any(|volume| volume.name == name) {
            Some(Failure::NameTaken)
        } else if self.volumes.len() == VOLUMES_MAX || self.volume_next == u32::MAX {
            Some(Failure::TooMany)
        } else {
            None
        }
    }

    /// Inserts a volume under the next number.
    fn put_volume(&mut self, id: RequestId, volume: Volume) {
        let number = VolumeId(self.volume_next);
        self.volume_next += 1;
        self.volumes.insert(number, volume);
        self.rounds.dirty_volumes.insert(number);
        self.mark_metadata_changed();
        self.await_stable(id, Outcome::Created(number));
    }

    fn change_volume(
        &mut self,
        id: RequestId,
        number: VolumeId,
        change: impl FnOnce(&mut Volume) -> Result<(), Failure>,
    ) -> Attempt {
        let changed = match self.volumes.get_mut(&number) {
            Some(volume) => change(volume),
            None => Err(Failure::NoVolume),
        };
        match changed {
            Ok(()) => {
                self.rounds.dirty_volumes.insert(number);
                self.mark_metadata_changed();
                self.await_stable(id, Outcome::Done);
            }
            Err(failure) => self.fail(id, failure),
        }
        Attempt::Started
    }
}
