//! Events of the kernel's tracepoints of TCP: their layout, which each kernel tells itself, and the records in which `perf_event_open` hands them over.
//!
//! | tracepoint | fires | tells |
//! |---|---|---|
//! | `tcp:tcp_probe` | a segment came in, before it is looked at | windows, threshold, round-trip time as they were until then |
//! | `tcp:tcp_retransmit_skb` | a segment was sent again | |
//! | `tcp:tcp_cong_state_set` | congestion control enters a state; `loss` each time the retransmission timer fires | the state |
mod event;
mod format;
mod record;

pub use event::{Kind, Layouts, Probe, TcpEvent, What};
pub use format::{Field, Format};
pub use record::{Record, records};
