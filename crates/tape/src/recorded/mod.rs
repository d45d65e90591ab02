//! A cartridge on a store that survives the process.
//!
//! ```text
//! header        512 bytes: barcode, write-protect tab, generation, capacity, length of an area
//! memory        from 1 KiB: two copies of the host attributes
//! area 0        from 4 KiB: records of the index, in frames of 512 bytes
//! area 1        as area 0
//! data          blocks, each padded to a multiple of 512 bytes
//! ```
//!
//! A **record** says how many objects of the index before it stand, and which follow. It is durable
//! as a whole or does not count: its last frame is marked. The first record of an area is a
//! *checkpoint*, which has the entire index. Records are appended to one area; when it is full, a
//! checkpoint begins the other one with a higher epoch. The area with the highest epoch whose
//! checkpoint is complete counts.
//!
//! Two rules keep the data consistent with the index. Blocks are durable before a record names them.
//! A record that removes objects is durable before other blocks take their place. A crash at any
//! moment therefore leaves a prefix of the objects that has everything synchronised.
//!
//! Stores write 512 bytes completely or not at all. A frame with a wrong checksum is thus damage,
//! not the end of an interrupted write, and so is a missing record before a later one. A damaged
//! cartridge is refused.

mod frame;
mod header;
mod memory;
mod recovery;

pub use frame::FRAME_BYTES;
pub(crate) use frame::{FRAME_RUNS, Frame};
pub use header::{HEADER_BYTES, Header};
pub use memory::MemoryTail;
pub(crate) use memory::{memory_offset_bytes, memory_record};
pub use recovery::{Damage, ReadAt, ReadError, Recovered, Tail, recover};
