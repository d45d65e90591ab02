//! Times of a drive: how long what it is asked to do takes on a real tape. Without a clock: the
//! caller passes the time in.
//!
//! | file | contents |
//! |---|---|
//! | `parameters` | the properties of a drive, and presets |
//! | `geometry` | the place of a byte on the tape, and the way between two places |
//! | `stream` | buffer and tape while data flows |
//! | `drive` | all motions of a drive |

mod drive;
mod geometry;
mod parameters;
mod stream;

pub use drive::{Motion, TimedDrive, Times};
pub use geometry::Geometry;
pub use parameters::{Parameters, ParametersError};
