//! What all stores share on the way of an access, and what is held on it and asked for.
use std::collections::VecDeque;

use hakaru_iscsi_target::{Io, IoId, IoResult};
use hakaru_units::Time;

use super::files::Files;
use super::gate::Gate;

/// What all stores share on the way of an access.
pub struct Way {
    /// As of the call under way.
    pub(super) now: Time,
    pub(super) gate: Option<Gate<Held>>,
    pub(super) files: Files<Purpose>,
    /// What was answered.
    pub(super) done: VecDeque<(IoId, IoResult)>,
}

/// What the model holds.
pub enum Held {
    /// An access that has not begun.
    Io(Io),
    /// The data of an access to a pool, called so by the pool.
    Pool {
        /// Which pool.
        pool: usize,
        /// Which access.
        asked: u64,
    },
    /// A pool's own work.
    Action {
        /// Which pool.
        pool: usize,
        /// Which action.
        acting: u64,
    },
}

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A pool's use has reached its threshold.
    Threshold {
        /// Which pool.
        pool: usize,
    },
    /// A pool takes no writes any more.
    ReadOnly {
        /// Which pool.
        pool: usize,
    },
    /// The metadata of a pool could not be written.
    Broken {
        /// Which pool.
        pool: usize,
        /// What was said.
        why: String,
    },
}

/// What a request to a file is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// An access to an LU in a file.
    File {
        /// Which LU.
        lun: u8,
        /// Which access.
        io: IoId,
    },
    /// A step of a sweep over an LU in a file.
    Sweep {
        /// Which LU.
        lun: u8,
        /// Which sweep.
        sweep: u64,
    },
    /// A piece of an access to a pool.
    Piece {
        /// Which pool.
        pool: usize,
        /// Which access.
        asked: u64,
    },
    /// A step of a pool's own work.
    Action {
        /// Which pool.
        pool: usize,
        /// Which action.
        acting: u64,
    },
}
