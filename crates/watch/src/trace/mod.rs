//! Events of the kernel's TCP tracepoints: their layout, which each kernel describes in tracefs,
//! and the records that `perf_event_open` delivers.
//!
//! | tracepoint | fires when | fields |
//! |---|---|---|
//! | `tcp:tcp_probe` | a segment was received, before it is processed | windows, threshold, round-trip time before the segment |
//! | `tcp:tcp_retransmit_skb` | a segment is retransmitted | |
//! | `tcp:tcp_cong_state_set` | congestion control enters a state; `loss` each time the retransmission timer fires | the state |
mod event;
mod format;
mod record;

pub use event::{EventKind, Layouts, Probe, TcpEvent, TracepointKind};
pub use format::{Field, Format};
pub use record::{Record, records};
