//! Counters of a node: parsers of procfs and of the kernel's TCP state, without I/O.
//!
//! # Grammar
//!
//! - Each parser of procfs takes the text of one file and reports its counters to a visitor as
//!   entity, name and cumulative value, named as in `docs/reference/metrics.md`. The shell reads
//!   the files. An unknown line is skipped, because kernels add lines and columns. A missing
//!   counter is noticed, unlike a wrong one.
//! - For single TCP connections, [`sock_diag`] emits requests to the kernel and parses its answers.
//!   [`trace`] parses records of tracepoints by the layout that the kernel describes
//!   ([`trace::Layouts`]).
//! - [`tcp_sockets::TcpSockets`] attributes events to sockets.
//!   [`unknown`](tcp_sockets::TcpSockets::unknown) returns the sockets that the shell must look up;
//!   [`handle_socket`](tcp_sockets::TcpSockets::handle_socket),
//!   [`handle_event`](tcp_sockets::TcpSockets::handle_event) and
//!   [`handle_gone`](tcp_sockets::TcpSockets::handle_gone) process the answers and the events.
//! - Records of watched sockets are collected in a [`series::Series`]. The shell appends its bytes
//!   to a file with [`take`](series::Series::take).
//!
//! | file | parser | entities |
//! |---|---|---|
//! | `/proc/stat` | [`cpu::parse_stat`] | `machine`, `cpu/N` |
//! | `/proc/meminfo` | [`memory::parse_meminfo`] | `machine` |
//! | `/proc/pressure/*` | [`memory::parse_pressure`] | `machine` |
//! | `/proc/diskstats` | [`disk::parse_diskstats`] | `disk/NAME` |
//! | `/proc/net/dev` | [`net::parse_net_dev`] | `nic/NAME` |
//! | `/proc/net/snmp`, `/proc/net/netstat` | [`tcp::parse_snmp`] | `tcp` |
//! | `/proc/interrupts` | [`interrupts::parse_interrupts`] | `irq/NAME` |
//! | `/proc/softirqs` | [`interrupts::parse_softirqs`] | `softirq/NAME` |
//!
//! A packet capture needs no core: a thread of the shell moves packets from the kernel's ring to
//! pcapng files.
#![forbid(unsafe_code)]

pub mod cpu;
pub mod disk;
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

/// Visitor that receives entity, name and value of each counter.
pub type Visit<'a> = dyn FnMut(&str, &str, f64) + 'a;
