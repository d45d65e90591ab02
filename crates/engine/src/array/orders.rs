//! Pending orders of the operator that pools work on.
use std::collections::BTreeMap;

use hakaru_contract::LuConfig;
use hakaru_pool::VolumeId;
use serde_json::Value;

use crate::failure::Failure;

/// The answer to an order.
pub type Answer = Result<BTreeMap<String, Value>, Failure>;

/// Orders that pools work on, by the number under which the pools know them. Number 0 is not used,
/// because requests during start and stop have it.
#[derive(Default)]
pub struct Orders {
    pending: BTreeMap<u64, Pending>,
    last_number: u64,
}

impl Orders {
    /// Adds an order that a pool works on. Returns the number to pass to the pool.
    pub(super) fn insert(&mut self, pending: Pending) -> u64 {
        self.last_number += 1;
        self.pending.insert(self.last_number, pending);
        self.last_number
    }

    /// Removes and returns the order `number`, which a pool has answered.
    pub(super) fn remove(&mut self, number: u64) -> Option<Pending> {
        self.pending.remove(&number)
    }

    /// Returns whether no pool works on an order.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns whether an LU with this LUN is being created.
    pub(super) fn is_creating(&self, lun: u8) -> bool {
        let mut pending = self.pending.values();
        pending
            .any(|order| matches!(&order.part.completion, Completion::Serve(lu) if lu.lun == lun))
    }
}

pub(super) struct Pending {
    /// Number of the order in the contract.
    pub(super) id: u64,
    pub(super) part: PoolPart,
}

/// The part of an order that a pool carries out.
pub(super) struct PoolPart {
    pub(super) pool: usize,
    /// Description of the object, for refusals.
    pub(super) object: String,
    pub(super) completion: Completion,
}

/// The part of an order that follows when the pool has completed its part.
pub(super) enum Completion {
    /// Answer with the figures of the volume.
    AnswerVolume,
    /// Answer with the figures of the pool.
    AnswerPool,
    /// Withdraw the LUs of the volume, which was deleted.
    Withdraw(VolumeId),
    /// Set the capacity of every LU of the volume, bytes.
    SetCapacity(VolumeId, u64),
    /// Request the next change that the LU's volume needs, or serve the LU.
    Serve(Box<LuConfig>),
}
