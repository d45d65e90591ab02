//! Commands of reservations; what they change is in [`crate::reservations`].

mod access;
mod legacy;
mod out;
mod report;

pub(super) use access::need;
pub(super) use legacy::{release, reserve};
pub(super) use out::{carry_out, reserve_out};
pub(super) use report::reserve_in;
