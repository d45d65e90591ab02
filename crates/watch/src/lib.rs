//! Counters of a node: parsers of what procfs and the kernel's TCP show, without I/O.
//!
//! Each parser takes the text of one file and gives its counters to a visitor as entity, name and cumulative value, named as
//! in `docs/reference/metrics.md`. The shell reads the files. A line that is not understood is left out, not guessed at and
//! not fatal: kernels add lines and columns, and a missing counter shows where a wrong one would not.
//!
//! | file | parser | entities |
//! |---|---|---|
//! | `/proc/stat` | [`cpu::parse_stat`] | `machine`, `cpu/N` |
//! | `/proc/meminfo` | [`memory::parse_meminfo`] | `machine` |
//! | `/proc/pressure/*` | [`memory::parse_pressure`] | `machine` |
//! | `/proc/net/dev` | [`net::parse_net_dev`] | `nic/NAME` |
//! | `/proc/net/snmp`, `/proc/net/netstat` | [`tcp::parse_snmp`] | `tcp` |
//! | `/proc/interrupts` | [`interrupts::parse_interrupts`] | `irq/NAME` |
//! | `/proc/softirqs` | [`interrupts::parse_softirqs`] | `softirq/NAME` |
//!
//! Single sockets are watched by [`tcp_sockets::TcpSockets`]: [`sock_diag`] says how the kernel is asked for them, [`trace`] how its tracepoints are
//! read, [`series`] how what they tell is written.
#![forbid(unsafe_code)]

pub mod cpu;
pub mod interrupts;
pub mod memory;
pub mod net;
pub mod series;
pub mod sock_diag;
pub mod tcp;
pub mod tcp_info;
pub mod tcp_sockets;
pub mod tcp_state;
pub mod trace;

/// Takes entity, name and value of each counter.
pub type Visit<'a> = dyn FnMut(&str, &str, f64) + 'a;
