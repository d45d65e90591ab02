//! Orders of the operator that pools work on.
use std::collections::BTreeMap;

use hakaru_contract::LuConfig;
use hakaru_pool::VolumeId;
use serde_json::Value;

use crate::failure::Failure;

/// The answer to an order.
pub type Answer = Result<BTreeMap<String, Value>, Failure>;

/// Orders that pools work on, by the number that the pools know them by. 0 is not used: it is that
/// of starting and stopping.
#[derive(Default)]
pub struct Orders {
    pending: BTreeMap<u64, Pending>,
    last_number: u64,
}

impl Orders {
    /// Takes an order that a pool works on; returns the number that the pool knows it by.
    pub(super) fn insert(&mut self, pending: Pending) -> u64 {
        self.last_number += 1;
        self.pending.insert(self.last_number, pending);
        self.last_number
    }

    /// Takes out the order of a number that a pool has answered.
    pub(super) fn remove(&mut self, number: u64) -> Option<Pending> {
        self.pending.remove(&number)
    }

    /// Whether no pool works on an order.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether an LU of that number is being created.
    pub(super) fn creates(&self, lun: u8) -> bool {
        let mut pending = self.pending.values();
        pending
            .any(|order| matches!(&order.part.completion, Completion::Serve(lu) if lu.lun == lun))
    }
}

pub(super) struct Pending {
    /// The operator's number.
    pub(super) id: u64,
    pub(super) part: PoolPart,
}

/// The part of an order that a pool does.
pub(super) struct PoolPart {
    pub(super) pool: usize,
    /// The object that a refusal names.
    pub(super) object: String,
    pub(super) completion: Completion,
}

/// The part of an order that follows when the pool has done its own.
pub(super) enum Completion {
    /// Answer the volume's figures.
    AnswerVolume,
    /// Answer the pool's figures.
    AnswerPool,
    /// Withdraw the LUs of the volume, which is gone.
    Withdraw(VolumeId),
    /// Give every LU of the volume its new size.
    SetCapacity(VolumeId, u64),
    /// Make the next change that the LU's volume needs, or serve the LU.
    Serve(Box<LuConfig>),
}
