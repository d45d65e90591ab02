//! Generator and receiver of test frames, without I/O: the frames, the instants at which they are
//! due, and the counts of what was sent and what arrived.
//!
//! A **stream** is a sequence of frames from one port to another, numbered from 0 in each
//! **trial**. Each frame carries a tag ([`Tag`]) and a fixed pattern, so the receiver recognises
//! losses, duplicates, changes of order, damage, and frames of an earlier trial.
//!
//! # Calls of a shell, in order
//!
//! 1. [`Plan::new`] checks the configuration. [`Plan::frames`] builds the frames of a stream once
//!    the addresses of the interfaces are known.
//! 2. [`Plan::trial`] checks an order and returns a [`Trial`].
//! 3. [`Receiver::begin`] for each port, then [`Sender::new`] for each port that sends.
//! 4. In the sending thread, [`Sender::poll`] returns the next frame that is due or the instant to
//!    wait for, [`Frames::emit`] writes the frame, and [`Sender::handed_over`] or
//!    [`Sender::abandoned`] records what became of it.
//! 5. In the receiving thread, [`Receiver::handle_frame`] counts each frame that arrives.
//! 6. [`Sender::finish`] and [`Receiver::finish`] return the counts, from which
//!    [`outcome`] assembles the outcome.
//!
//! # Conservation
//!
//! In each trial and for each stream, `intended = sent + unsent` and `sent = received + lost`. A
//! received frame is a distinct, intact frame of this trial. Duplicates, damaged frames and frames
//! of earlier trials are counted separately.
//!
//! | module | contents |
//! |---|---|
//! | `checksum`, `pattern` | sum of the Internet checksum; the bytes after the tag |
//! | `frame` | building and parsing of frames, the tag |
//! | `sizes`, `pace` | order of sizes; due instants |
//! | `plan`, `trial` | checked configuration; checked order |
//! | `sender`, `receiver`, `seen` | both ends; the numbers that have arrived |
//! | `excluded` | times that are not judged, because processors stopped |
//! | `outcome` | outcome of a trial, from the counts of both ends |
//!
//! **Not supported**: IPv6, IPv4 options, VLAN tags, TCP, patterns other than the built-in one.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod checksum;
mod excluded;
mod frame;
mod outcome;
mod pace;
mod pattern;
mod plan;
mod receiver;
mod seen;
mod sender;
mod sizes;
mod trial;

pub use excluded::Excluded;
pub use frame::{Addresses, Arrival, FCS_BYTES, Frames, MARK_AT, Mac, Tag, parse};
pub use outcome::{PortFigures, outcome};
pub use pace::Pace;
pub use pattern::FRAME_BYTES_MAX;
pub use plan::{Plan, StreamPlan};
pub use receiver::{ExcludedFrames, Received, ReceivedByPort, Receiver, Totals};
pub use sender::{Due, Sender, Sent, Step, UNSENT_RANGES_MAX};
pub use sizes::SizeOrder;
pub use trial::{Rate, Trial};
