//! Reservations of an LU, and their record that survives a restart.
//!
//! **Not supported**: SPEC_I_PT, REPLACE LOST RESERVATION, third-party and extent reservations.

mod record;
mod state;

pub use record::{RecordError, check_reservations};
pub(crate) use state::{Held, Need, REGISTRATIONS_MAX, Registration, Reservations};
