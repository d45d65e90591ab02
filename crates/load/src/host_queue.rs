//! Commands that wait in a host for room on a session that its VMs share.
//!
//! Each LU has a queue, first come, first served, and a limit of outstanding commands. When the
//! session has room, the command that came first among the heads of those LUs that have room is
//! next. A full LU therefore delays only its own commands, as the request queues of SCSI devices
//! do.
use std::collections::VecDeque;

use crate::commands::Command;

/// The queues of a host. See the module's documentation.
#[derive(Debug)]
pub(crate) struct HostQueue {
    lus: Box<[LuQueue]>,
    /// Maximum number of outstanding commands per LU.
    outstanding_max: u32,
    /// Number of commands that were added.
    added: u64,
}

#[derive(Debug, Default)]
struct LuQueue {
    outstanding: u32,
    /// Waiting commands, oldest first.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// Position in the order of arrival of all LUs.
    order: u64,
    vm: usize,
    command: Command,
}

impl HostQueue {
    /// Creates the queues of `lus` LUs, each with at most `outstanding_max` outstanding commands.
    pub(crate) fn new(lus: usize, outstanding_max: u32) -> HostQueue {
        HostQueue {
            lus: (0..lus).map(|_| LuQueue::default()).collect(),
            outstanding_max,
            added: 0,
        }
    }

    /// Adds a command of a VM for the LU with index `lu`.
    pub(crate) fn add(&mut self, lu: usize, vm: usize, command: Command) {
        let order = self.added;
        self.added += 1;
        self.lus[lu]
            .waiting
            .push_back(Waiting { order, vm, command });
    }

    /// Removes and returns the next command and its VM. It counts as outstanding.
    pub(crate) fn poll(&mut self) -> Option<(usize, Command)> {
        let heads = self.lus.iter_mut().filter_map(|lu| {
            let order = lu.waiting.front()?.order;
            (lu.outstanding < self.outstanding_max).then_some((order, lu))
        });
        let (_, lu) = heads.min_by_key(|&(order, _)| order)?;
        lu.outstanding += 1;
        let next = lu.waiting.pop_front()?;
        Some((next.vm, next.command))
    }

    /// Ends an outstanding command of an LU.
    pub(crate) fn handle_done(&mut self, lu: usize) {
        self.lus[lu].outstanding -= 1;
    }

    /// Removes all commands that wait.
    pub(crate) fn clear(&mut self) {
        self.lus.iter_mut().for_each(|lu| lu.waiting.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Access, Op};

    fn command(tag: u32) -> Command {
        let access = Access {
            op: Op::Read,
            offset_bytes: 0,
            length_bytes: 512,
        };
        Command {
            tag,
            access,
            data: None,
        }
    }

    /// Polls commands until none may be issued and returns their VMs.
    fn issued(queue: &mut HostQueue) -> Vec<usize> {
        std::iter::from_fn(|| queue.poll().map(|(vm, _)| vm)).collect()
    }

    #[test]
    fn commands_of_all_vms_are_issued_in_the_order_of_arrival() {
        let mut queue = HostQueue::new(1, 2);
        for vm in [3, 1, 3, 2, 1] {
            queue.add(0, vm, command(0));
        }
        assert_eq!(issued(&mut queue), [3, 1]);
        queue.handle_done(0);
        assert_eq!(issued(&mut queue), [3]);
        queue.handle_done(0);
        queue.handle_done(0);
        assert_eq!(issued(&mut queue), [2, 1]);
    }

    #[test]
    fn full_lu_delays_only_its_own_commands() {
        let mut queue = HostQueue::new(2, 1);
        for (lu, vm) in [(0, 0), (0, 1), (1, 2), (1, 3)] {
            queue.add(lu, vm, command(0));
        }
        assert_eq!(issued(&mut queue), [0, 2]);
        queue.handle_done(1);
        assert_eq!(issued(&mut queue), [3]);
        queue.handle_done(0);
        assert_eq!(issued(&mut queue), [1]);
    }

    #[test]
    fn cleared_queue_issues_nothing() {
        let mut queue = HostQueue::new(1, 8);
        queue.add(0, 0, command(0));
        queue.clear();
        assert!(queue.poll().is_none());
    }
}
