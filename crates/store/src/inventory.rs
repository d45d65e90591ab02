//! The LUs and pools of the storage, and their counters.
use hakaru_drive::Array;
use hakaru_pool::VolumeId;
use hakaru_tape::timing::TimedDrive;
use hakaru_units::Time;

use crate::gate::Gate;
use crate::lu::{Lu, Store};
use crate::memory::LuMemory;
use crate::pool::PoolStore;
use crate::storage::Storage;

impl<M: LuMemory> Storage<M> {
    /// Adds a pool. Returns its number, which is the number of pools added before.
    pub fn add_pool(&mut self, mut pool: PoolStore) -> usize {
        let number = self.pools.len();
        pool.set_number(number);
        self.pools.push(pool);
        number
    }

    /// Returns all pools.
    #[must_use]
    pub fn pools(&self) -> &[PoolStore] {
        &self.pools
    }

    /// Returns a pool for changes to its groups.
    pub fn pool_mut(&mut self, number: usize) -> &mut PoolStore {
        &mut self.pools[number]
    }

    /// Returns the number of the pool of that name.
    #[must_use]
    pub fn pool_named(&self, name: &str) -> Option<usize> {
        self.pools.iter().position(|pool| pool.name() == name)
    }

    /// Attaches a logical unit at an unused number.
    ///
    /// # Panics
    /// If the number is in use.
    pub fn attach(&mut self, lun: u8, lu: Lu<M>) {
        let slot = &mut self.lus[usize::from(lun)];
        assert!(slot.is_none(), "LUN {lun} is already in use");
        *slot = Some(lu);
    }

    /// Detaches a thin logical unit. Accesses to it in flight are still answered.
    pub fn detach(&mut self, lun: u8) {
        self.lus[usize::from(lun)] = None;
    }

    /// Returns the logical unit of this number.
    #[must_use]
    pub fn lu(&self, lun: u8) -> Option<&Lu<M>> {
        self.lus[usize::from(lun)].as_ref()
    }

    /// Returns all logical units, by number.
    pub fn lus(&self) -> impl Iterator<Item = (u8, &Lu<M>)> {
        let lus = self.lus.iter().enumerate();
        lus.filter_map(|(lun, lu)| Some((lun as u8, lu.as_ref()?)))
    }

    /// Returns whether an LU is a volume of a pool.
    #[must_use]
    pub fn is_thin(&self, lun: u8) -> bool {
        self.lu(lun)
            .is_some_and(|lu| matches!(lu.store, Store::Thin { .. }))
    }

    /// Sets the capacity of an LU.
    pub fn set_size(&mut self, lun: u8, size_bytes: u64) {
        if let Some(lu) = &mut self.lus[usize::from(lun)] {
            lu.size_bytes = size_bytes;
        }
    }

    /// Returns the bytes allocated to an LU in a pool, and the bytes still available to it. `None`
    /// for other LUs.
    #[must_use]
    pub fn space(&self, lun: u8) -> Option<(u64, u64)> {
        match self.lu(lun)?.store {
            Store::Thin { pool, volume } => self.pools[pool].core().space(volume),
            _ => None,
        }
    }

    /// Lets the motions of tape drives take time; by default they take none. Drives are numbered
    /// from 0.
    pub fn set_tape_drives(&mut self, drives: Vec<TimedDrive>) {
        self.tapes.drives = drives;
    }

    /// Returns the timing model.
    #[must_use]
    pub fn model(&self) -> Option<&Array> {
        self.context.gate.as_ref().map(Gate::model)
    }

    /// Returns a permanent name of a volume. Volume numbers are not reused.
    #[must_use]
    pub fn volume_identity(&self, pool: usize, volume: VolumeId) -> String {
        let uuid = u128::from_be_bytes(self.pools[pool].core().uuid());
        format!("volume {uuid:032x} {}", volume.0)
    }

    /// Returns the logical units backed by this volume.
    pub fn luns_of(&self, pool: usize, volume: VolumeId) -> impl Iterator<Item = u8> {
        let lus = self.lus().filter(move |(_, lu)| {
            matches!(lu.store, Store::Thin { pool: p, volume: v } if (p, v) == (pool, volume))
        });
        lus.map(|(lun, _)| lun)
    }

    /// Returns whether a volume is a part of a logical unit, such as a cartridge of a tape library.
    #[must_use]
    pub fn is_part(&self, pool: usize, volume: VolumeId) -> bool {
        let mut lus = self.lus();
        lus.any(|(_, lu)| {
            matches!(&lu.store, Store::Volumes(parts)
                if parts.pool() == pool && parts.volumes().contains(&volume))
        })
    }

    /// Returns the logical units backed by volumes of this pool.
    pub fn luns_in(&self, pool: usize) -> impl Iterator<Item = u8> {
        let lus = self.lus();
        lus.filter(move |(_, lu)| matches!(lu.store, Store::Thin { pool: p, .. } if p == pool))
            .map(|(lun, _)| lun)
    }

    /// Returns whether any LU or pool uses files.
    #[must_use]
    pub fn uses_files(&self) -> bool {
        let mut lus = self.lus();
        !self.pools.is_empty() || lus.any(|(_, lu)| !matches!(lu.store, Store::Memory(_)))
    }

    /// Calls `visit` with each counter of the LUs, the pools and the model; see
    /// [`Array::visit_counters`].
    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        for (lun, lu) in self.lus() {
            let entity = format!("lu/{lun}");
            visit(&entity, "unmaps", lu.unmaps as f64);
            let mapped_bytes = match &lu.store {
                Store::Memory(memory) => Some(memory.mapped_bytes()),
                // The file system accounts for the space.
                Store::File(_) | Store::Parts(_) => None,
                Store::Thin { pool, volume } => {
                    let volume = self.pools[*pool].core().volume(*volume);
                    volume.map(|volume| volume.mapped_bytes)
                }
                Store::Volumes(parts) => {
                    let core = self.pools[parts.pool()].core();
                    let volumes = parts.volumes().iter();
                    let volumes = volumes.filter_map(|volume| core.volume(*volume));
                    Some(volumes.map(|volume| volume.mapped_bytes).sum())
                }
            };
            if let Some(bytes) = mapped_bytes {
                visit(&entity, "mapped_bytes_now", bytes as f64);
            }
        }
        self.tapes.visit_counters(now, visit);
        for pool in &self.pools {
            pool.visit_counters(visit);
        }
        self.visit_model(now, visit);
    }

    /// Calls `visit` with each counter of the model; see [`Array::visit_counters`].
    pub fn visit_model(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        if let Some(gate) = &mut self.context.gate {
            gate.visit_counters(now, visit);
        }
    }
}
