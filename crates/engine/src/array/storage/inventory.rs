//! Which LUs and pools there are, what they are, and what has been counted of them.
use std::io;

use hakaru_drive::Array;
use hakaru_pool::VolumeId;
use hakaru_units::Time;
use serde_json::{Value, json};

use super::gate::Gate;
use super::lu::{Lu, Store};
use super::pool::PoolStore;
use super::{Storage, Way};

impl Storage {
    /// Takes a pool; its number is the count of those taken before.
    pub fn add_pool(&mut self, pool: PoolStore) {
        self.pools.push(pool);
    }

    /// All pools.
    pub fn pools(&self) -> &[PoolStore] {
        &self.pools
    }

    /// The number of the pool of that name.
    pub fn pool_named(&self, name: &str) -> Option<usize> {
        self.pools.iter().position(|pool| pool.name() == name)
    }

    /// A pool, to be changed by [`PoolStore`]'s own verbs, and what they need.
    pub fn pool(&mut self, now: Time, number: usize) -> (&mut PoolStore, &mut Way) {
        self.way.now = now;
        (&mut self.pools[number], &mut self.way)
    }

    /// Names a volume for good: numbers of volumes are not used again.
    pub fn volume_identity(&self, pool: usize, volume: VolumeId) -> String {
        let uuid = u128::from_be_bytes(self.pools[pool].core().uuid());
        format!("volume {uuid:032x} {}", volume.0)
    }

    /// The reservations kept for an LU that was served before; `None` if none are kept for it.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn load_reservations(&mut self, lun: u8, lu: &Lu) -> io::Result<Option<Vec<u8>>> {
        match (&mut self.keeper, &lu.identity) {
            (Some(keeper), Some(identity)) => keeper.load(lun, identity).map(Some),
            _ => Ok(None),
        }
    }

    /// As [`Storage::load_reservations`], for a new LU, which has none.
    pub fn start_reservations(&mut self, lun: u8, lu: &Lu) -> Option<Vec<u8>> {
        let (keeper, identity) = self.keeper.as_mut().zip(lu.identity.as_deref())?;
        keeper.start(lun, identity);
        Some(Vec::new())
    }

    /// Drops the reservations of an LU that is no longer served.
    pub fn forget_reservations(&mut self, lun: u8) {
        if let Some(keeper) = &mut self.keeper {
            keeper.forget(lun);
        }
    }

    /// Of an LU in a pool: bytes of a page, and whether its volume takes no writes.
    pub fn volume_traits(&self, lu: &Lu) -> Option<(u32, bool)> {
        let Store::Thin { pool, volume } = lu.store else {
            return None;
        };
        let core = self.pools[pool].core();
        let read_only = core.volume(volume).is_some_and(|volume| volume.read_only);
        Some((core.page_bytes(), read_only))
    }

    /// Puts a logical unit behind a number that has none.
    pub fn attach(&mut self, lun: u8, lu: Lu) {
        let place = &mut self.lus[usize::from(lun)];
        assert!(place.is_none(), "LUN {lun} is there already");
        *place = Some(lu);
    }

    /// Whether there is a logical unit of that number.
    pub fn has(&self, lun: u8) -> bool {
        self.lus[usize::from(lun)].is_some()
    }

    /// Whether it is a volume of a pool.
    pub fn is_thin(&self, lun: u8) -> bool {
        let lu = self.lus[usize::from(lun)].as_ref();
        lu.is_some_and(|lu| matches!(lu.store, Store::Thin { .. }))
    }

    /// Logical block length of an LU that is there.
    pub fn block_bytes(&self, lun: u8) -> u32 {
        self.lus[usize::from(lun)]
            .as_ref()
            .map_or(512, |lu| lu.block_bytes)
    }

    /// An LU has another capacity.
    pub fn set_size(&mut self, lun: u8, size_bytes: u64) {
        if let Some(lu) = &mut self.lus[usize::from(lun)] {
            lu.size_bytes = size_bytes;
        }
    }

    /// Of an LU in a pool: bytes that it has taken, and bytes that it may still take.
    pub fn space(&self, lun: u8) -> Option<(u64, u64)> {
        match self.lus[usize::from(lun)].as_ref()?.store {
            Store::Thin { pool, volume } => self.pools[pool].core().space(volume),
            _ => None,
        }
    }

    /// The timing model.
    pub fn model(&self) -> Option<&Array> {
        self.way.gate.as_ref().map(Gate::model)
    }

    /// The LUs in figures.
    pub fn figures(&self) -> Vec<Value> {
        let lus = self.lus.iter().enumerate();
        lus.filter_map(|(lun, lu)| {
            let lu = lu.as_ref()?;
            let (kind, pool, volume) = match &lu.store {
                Store::Memory(_) => ("memory", None, None),
                Store::File(_) => ("file", None, None),
                Store::Thin { pool, volume } => {
                    let pool = &self.pools[*pool];
                    let volume = pool.core().volume(*volume).map(|volume| volume.name);
                    ("thin", Some(pool.name()), volume)
                }
            };
            Some(json!({
                "lun": lun,
                "size_bytes": lu.size_bytes,
                "block_bytes": lu.block_bytes,
                "kind": kind,
                "pool": pool,
                "volume": volume,
            }))
        })
        .collect()
    }

    /// Takes a thin logical unit away. Accesses under way to it are still answered.
    pub fn detach(&mut self, lun: u8) {
        self.lus[usize::from(lun)] = None;
    }

    /// Logical units that are this volume.
    pub fn luns_of(&self, pool: usize, volume: VolumeId) -> impl Iterator<Item = u8> + '_ {
        self.luns_where(move |store| {
            matches!(store, Store::Thin { pool: p, volume: v } if (*p, *v) == (pool, volume))
        })
    }

    /// Logical units that are volumes of this pool.
    pub fn luns_in(&self, pool: usize) -> impl Iterator<Item = u8> + '_ {
        self.luns_where(move |store| matches!(store, Store::Thin { pool: p, .. } if *p == pool))
    }

    fn luns_where(&self, which: impl Fn(&Store) -> bool) -> impl Iterator<Item = u8> {
        let lus = self.lus.iter().enumerate();
        lus.filter_map(move |(lun, lu)| {
            lu.as_ref().filter(|lu| which(&lu.store)).map(|_| lun as u8)
        })
    }

    /// How files are read and written: `io_uring`, `threads`, or `memory` if no LU is in one.
    pub fn io_backend(&self) -> &'static str {
        let in_files = |lu: &Lu| !matches!(lu.store, Store::Memory(_));
        if self.lus.iter().flatten().any(in_files) || !self.pools.is_empty() {
            self.way.files.backend()
        } else {
            "memory"
        }
    }

    /// Gives each counter of the LUs' bytes, the pools, and the model's; see [`Array::visit_counters`].
    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        for (lun, lu) in self.lus.iter().enumerate() {
            let Some(lu) = lu else { continue };
            let entity = format!("lu/{lun}");
            visit(&entity, "unmaps", lu.unmaps as f64);
            let mapped = match &lu.store {
                Store::Memory(memory) => Some(memory.mapped_bytes()),
                Store::File(file) => file.mapped_bytes(),
                Store::Thin { pool, volume } => self.pools[*pool]
                    .core()
                    .volume(*volume)
                    .map(|volume| volume.mapped_bytes),
            };
            if let Some(mapped) = mapped {
                visit(&entity, "mapped_bytes_now", mapped as f64);
            }
        }
        for pool in &self.pools {
            pool.visit_counters(visit);
        }
        if let Some(gate) = &mut self.way.gate {
            gate.visit_counters(now, visit);
        }
    }
}
