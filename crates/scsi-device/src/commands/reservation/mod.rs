//! Commands of reservations. The state that they change is in [`crate::reservations`].

pub(super) mod legacy;
pub(super) mod out;
pub(super) mod report;
