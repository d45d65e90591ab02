//! The commands of medium changers (SMC-3). The library itself is in `hakaru-tape`.

pub(super) mod elements;
pub(super) mod log;
pub(super) mod mode;
pub(super) mod moves;
pub(super) mod tags;
