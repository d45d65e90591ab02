//! Copies to tape drives, as sequences of commands without sessions.
//!
//! | file | contents |
//! |---|---|
//! | `mount` | the cartridge into the drive, the block length, the position |
//! | `copy` | filemarks between the blocks of a copy, and its objects on the tape |
//! | `error` | errors of both |
//! | `turns` | jobs that wait for a drive that another one uses |

mod copy;
mod error;
mod mount;
mod turns;

pub use copy::TapeCopy;
pub use error::{TapeError, is_early_warning};
pub use mount::{Mount, Unit, parse_position, read_position};
pub use turns::Turns;
