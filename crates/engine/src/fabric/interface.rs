//! A port of the `fabric` engine: an interface of its network namespace, or the memory of a guest.
use std::collections::BTreeMap;

use hakaru_contract::fabric::End;
use hakaru_runtime::packet::{Inbox, LossCause, PacketSocket, Received};
use hakaru_runtime::vhost_user::VhostUserPort;
use hakaru_runtime::{Interest, Reactor, Token};

use super::timing::Lead;
use crate::failure::{Failure, OrEnvironment};

/// A port. The fabric identifies it by its index in the list.
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) medium: Medium,
    /// Whether packets may be waiting that no further event announces.
    pub(super) unread: bool,
    pub(super) lead: Lead,
    pub(super) lost: Lost,
}

/// The place that packets come from and go to.
pub(super) enum Medium {
    Interface(PacketSocket),
    Guest(VhostUserPort),
}

/// Numbers of packets lost outside of the model. Any such loss makes the results doubtful.
#[derive(Clone, Copy, Default)]
pub(super) struct Lost {
    /// Packets dropped because the socket's buffer was full.
    pub(super) overrun: u64,
    /// Packets that were too long, or segmented in an unknown way, or no packets at all.
    pub(super) unknown: u64,
    /// Packets that the interface refused on transmission.
    pub(super) refused: u64,
    /// Packets that the interface had accepted and dropped before the engine started.
    dropped_before: f64,
}

impl Medium {
    /// Returns the next packet, if there is one, or the reason why it was lost.
    pub(super) fn receive(&mut self, inbox: &mut Inbox) -> Option<Result<Received, LossCause>> {
        match self {
            Medium::Interface(socket) => socket.receive(inbox),
            Medium::Guest(port) => port.receive(inbox),
        }
    }
}

impl Interface {
    /// Opens a port, whose packets the reactor reports under `token`. `dropped`: packets that each
    /// interface has dropped so far.
    ///
    /// # Errors
    /// An interface does not exist or may not be opened, or a socket cannot be created.
    pub(super) fn open(
        end: &End,
        reactor: &Reactor,
        token: Token,
        dropped: &BTreeMap<String, f64>,
    ) -> Result<Interface, Failure> {
        let (name, medium) = match end {
            End::VhostUser { name, socket } => {
                let port = VhostUserPort::listen(socket, reactor, token).or_environment(
                    format_args!("listen on the vhost-user socket {socket}"),
                    "name a socket that does not exist yet, in a folder that the engine may write to",
                )?;
                (name, Medium::Guest(port))
            }
            End::Interface { name } | End::Switch { name, .. } => {
                let socket = PacketSocket::open(name).or_environment(
                    format_args!("open the interface {name}"),
                    "name an interface of the engine's network namespace, in which the engine needs CAP_NET_RAW",
                )?;
                reactor
                    .register(&socket, token, Interest::Edge)
                    .or_environment("watch an interface", "raise the limit of open files")?;
                (name, Medium::Interface(socket))
            }
        };
        Ok(Interface {
            name: name.clone(),
            medium,
            unread: true,
            lead: Lead::default(),
            lost: Lost {
                dropped_before: dropped.get(name).copied().unwrap_or(0.0),
                ..Lost::default()
            },
        })
    }

    /// Returns the counters of the port. `dropped`: packets that the interface has dropped so far.
    ///
    /// # Errors
    /// The interface has failed.
    pub(super) fn counters(&mut self, dropped: f64) -> Result<BTreeMap<String, f64>, Failure> {
        let mut counters = BTreeMap::new();
        let mut insert = |name: &str, value: f64| counters.insert(name.to_owned(), value);
        match &self.medium {
            Medium::Interface(socket) => {
                self.lost.overrun += socket.take_lost().or_environment(
                    format_args!("read the drop count of the interface {}", self.name),
                    "see dmesg for errors of the interface",
                )?;
            }
            Medium::Guest(port) => {
                let port = port.counters();
                let all = [
                    ("from_guest", port.packets_in),
                    ("from_guest_bytes", port.bytes_in),
                    ("from_guest_super_frames", port.super_frames_in),
                    ("to_guest", port.packets_out),
                    ("to_guest_bytes", port.bytes_out),
                    ("to_guest_super_frames", port.super_frames_out),
                    ("dropped_no_buffer", port.dropped_no_buffer),
                    ("dropped_down", port.dropped_down),
                    ("broken_rings", port.broken_rings),
                    ("connections", port.connections),
                    ("refused_requests", port.refused_requests),
                    ("up_now", port.is_up.into()),
                ];
                for (name, value) in all {
                    insert(name, value as f64);
                }
            }
        }
        let Lost {
            overrun,
            unknown,
            refused,
            dropped_before,
        } = self.lost;
        insert("lost_overrun", overrun as f64);
        insert("lost_unknown", unknown as f64);
        insert("lost_refused", refused as f64);
        insert("lost_after", dropped - dropped_before);
        Ok(counters)
    }
}
