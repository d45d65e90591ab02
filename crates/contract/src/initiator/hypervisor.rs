//! The path of a VM's requests through its host: the queue of the guest's disk, and sessions that
//! VMs share.
use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::vm::REQUEST_MAX;
use super::{COMMANDS_MAX, Destination, InitiatorConfig};
use crate::config_error::{ConfigError, refuse};

/// Maximum number of VMs that share a session.
pub const SHARERS_MAX: usize = 1024;
/// Bytes of a memory page of a guest. Each page of a request's data is a segment.
pub const PAGE_BYTES: u32 = 4096;
/// Maximum number of descriptors of a ring (VIRTIO 1.2 section 2.7).
const RING_MAX: u32 = 32_768;
/// Descriptors of a request in addition to those of its data: its header and its status.
const OVERHEAD: u32 = 2;

/// The queue between a guest and its virtual disk: a ring of descriptors, as in virtio-blk.
///
/// Requests that the ring cannot hold wait in the guest, first come, first served. The guest splits
/// requests that are longer than `segments_max` pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GuestQueue {
    /// Descriptors of the ring, 3 to 32 768. A request takes one per page of its data, and two for
    /// its header and status.
    pub ring_descriptors: u32,
    /// Longest request, pages of 4 KiB, 1 to 4096. Without indirect descriptors, at most two less
    /// than `ring_descriptors`.
    pub segments_max: u32,
    /// Indirect descriptors: each request takes one descriptor of the ring, regardless of its
    /// length.
    #[serde(default)]
    pub indirect: bool,
    /// Maximum number of requests in the ring, 1 to 32 768. Default: as many as fit.
    #[serde(default)]
    pub in_flight_max: Option<u32>,
}

impl GuestQueue {
    /// Returns the length of the longest request, bytes.
    #[must_use]
    pub fn request_bytes_max(&self) -> u32 {
        self.segments_max * PAGE_BYTES
    }

    /// Returns the number of descriptors of a request for `bytes`, whose data begins at a page
    /// boundary.
    #[inline]
    #[must_use]
    pub fn descriptors(&self, bytes: u32) -> u32 {
        if self.indirect {
            1
        } else {
            bytes.div_ceil(PAGE_BYTES) + OVERHEAD
        }
    }

    fn validate(&self, field: &str) -> Result<(), ConfigError> {
        if !(OVERHEAD + 1..=RING_MAX).contains(&self.ring_descriptors) {
            let problem = format!("{} descriptors", self.ring_descriptors);
            let hint = format!("use {} to {RING_MAX}", OVERHEAD + 1);
            return refuse(format!("{field}.ring_descriptors"), problem, hint);
        }
        let longest = REQUEST_MAX / PAGE_BYTES;
        let fitting = if self.indirect {
            longest
        } else {
            longest.min(self.ring_descriptors - OVERHEAD)
        };
        if !(1..=fitting).contains(&self.segments_max) {
            return refuse(
                format!("{field}.segments_max"),
                format!("{} segments", self.segments_max),
                format!("use 1 to {fitting}, so that the ring can hold the longest request"),
            );
        }
        match self.in_flight_max {
            Some(count) if !(1..=RING_MAX).contains(&count) => refuse(
                format!("{field}.in_flight_max"),
                format!("{count} requests"),
                format!("use 1 to {RING_MAX}, or omit the field"),
            ),
            _ => Ok(()),
        }
    }
}

impl InitiatorConfig {
    /// Checks the guests' queue and the sharing of sessions.
    pub(super) fn validate_path(&self) -> Result<(), ConfigError> {
        match self.session_commands_max {
            Some(count) if !(1..=COMMANDS_MAX).contains(&count) => {
                let problem = format!("{count} commands");
                let hint = format!("use 1 to {COMMANDS_MAX}");
                return refuse("session_commands_max", problem, hint);
            }
            _ => {}
        }
        if let Some(queue) = &self.guest_queue {
            queue.validate("guest_queue")?;
            self.validate_files("guest_queue")?;
            if let Some(bytes) = self.command_bytes_max
                && bytes < queue.request_bytes_max()
            {
                return refuse(
                    "command_bytes_max",
                    format!("{bytes} bytes, less than the longest request of `guest_queue`"),
                    format!("use {} or more, or omit it", queue.request_bytes_max()),
                );
            }
        }
        if self.share_sessions {
            self.validate_files("share_sessions")?;
            self.validate_sharing()?;
        }
        Ok(())
    }

    fn validate_files(&self, field: &str) -> Result<(), ConfigError> {
        let is_file = |destination: &Destination| matches!(destination, Destination::File { .. });
        match self.vms.iter().find(|vm| is_file(&vm.destination)) {
            Some(vm) => {
                let problem = format!("is set, but {} uses a file", vm.name);
                refuse(field, problem, "omit it, or use only iSCSI destinations")
            }
            None => Ok(()),
        }
    }

    fn validate_sharing(&self) -> Result<(), ConfigError> {
        if self.sessions_per_vm != 1 {
            let problem = format!("{} sessions per VM, which are shared", self.sessions_per_vm);
            return refuse("sessions_per_vm", problem, "use 1 with `share_sessions`");
        }
        let mut sharers = HashMap::new();
        for vm in &self.vms {
            let count = sharers.entry(vm.destination.session_name()).or_insert(0);
            *count += 1;
            if *count > SHARERS_MAX {
                let problem = format!("more than {SHARERS_MAX} VMs share a session");
                let hint = "use more portals, or several initiator names";
                return refuse("share_sessions", problem, hint);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::initiator::fixture::config;

    /// The queue of kvm-83's virtio-blk.
    const KVM_83: GuestQueue = GuestQueue {
        ring_descriptors: 128,
        segments_max: 126,
        indirect: false,
        in_flight_max: None,
    };

    #[test]
    fn a_request_takes_a_descriptor_per_page_and_two_more() {
        assert_eq!(KVM_83.request_bytes_max(), 504 << 10);
        for (bytes, descriptors) in [
            (512, 3),
            (4096, 3),
            (4608, 4),
            (32 << 10, 10),
            (504 << 10, 128),
        ] {
            assert_eq!(KVM_83.descriptors(bytes), descriptors, "{bytes}");
        }
        let indirect = GuestQueue {
            indirect: true,
            ..KVM_83
        };
        assert_eq!(indirect.descriptors(504 << 10), 1);
    }

    #[test]
    fn every_refusal_of_the_path_names_its_field() {
        type Case = (fn(&mut InitiatorConfig), &'static str);
        let cases: [Case; 9] = [
            (|c| c.session_commands_max = Some(0), "session_commands_max"),
            (
                |c| c.guest_queue.as_mut().unwrap().ring_descriptors = 2,
                "guest_queue.ring_descriptors",
            ),
            (
                |c| c.guest_queue.as_mut().unwrap().segments_max = 127,
                "guest_queue.segments_max",
            ),
            (
                |c| c.guest_queue.as_mut().unwrap().segments_max = 0,
                "guest_queue.segments_max",
            ),
            (
                |c| c.guest_queue.as_mut().unwrap().in_flight_max = Some(0),
                "guest_queue.in_flight_max",
            ),
            (
                |c| c.command_bytes_max = Some(256 << 10),
                "command_bytes_max",
            ),
            (|c| c.sessions_per_vm = 2, "sessions_per_vm"),
            (
                |c| {
                    c.vms[1].destination = Destination::File {
                        path: "/a".into(),
                        direct: false,
                        multipath: false,
                    };
                },
                "guest_queue",
            ),
            (
                |c| c.vms = vec![c.vms[0].clone(); SHARERS_MAX + 1],
                "share_sessions",
            ),
        ];
        let valid = || InitiatorConfig {
            guest_queue: Some(KVM_83),
            share_sessions: true,
            ..config()
        };
        assert_eq!(valid().validate_path(), Ok(()));
        for (change, field) in cases {
            let mut changed = valid();
            change(&mut changed);
            assert_eq!(changed.validate_path().unwrap_err().field, field);
        }
    }
}
