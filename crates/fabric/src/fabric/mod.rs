//! The [`Fabric`], which owns switches, channels and events, and which a shell calls.
use core::time::Duration;
use std::sync::Arc;

use hakaru_stats::Histogram;
use hakaru_units::Time;
use rand::SeedableRng as _;
use rand_pcg::Pcg64;

use crate::channel::Channel;
use crate::counters::{ChannelCounters, SwitchCounters};
use crate::delivery::Delivery;
use crate::events::{EventKind, Events};
use crate::packet::Packet;
use crate::switch::{Switch, SwitchPort};
use crate::train::{OutFrame, Train};
use crate::validate::{ConfigError, validate};
use hakaru_contract::fabric::{End, FabricConfig, LinkConfig};

mod forwarding;
mod sending;

/// Minimum number of trains of maximum length that fit into any queue that they leave or enter.
const TRAINS_PER_QUEUE: u64 = 8;

/// Switches and links.
///
/// ```text
/// loop {
///     now                → the clock, before the interfaces are read
///     interface readable → handle_frame     unless !wants_frame(port): leave the packet there
///     always             → handle_timeout   with that `now`: every earlier frame has been read
///     while poll_frame   → write it to the interface
///     sleep until          poll_timeout
/// }
/// ```
/// A late call does not change the result, because events and arrivals keep their own instants.
#[derive(Debug)]
pub struct Fabric {
    /// Channels of all links. Link `n` has channels `2n` (a to b) and `2n + 1` (b to a).
    channels: Vec<Channel>,
    /// Name of each channel in counters.
    names: Vec<String>,
    /// End point of each channel.
    sinks: Vec<Sink>,
    switches: Vec<Switch>,
    switch_names: Vec<String>,
    /// Switch that sends into each channel; `None` for an interface.
    sources: Vec<Option<usize>>,
    ports: Vec<Port>,
    /// Channels that each channel's queue has paused.
    stopped_by: Vec<Vec<usize>>,
    events: Events,
    rng: Pcg64,
    /// Reusable memory for the egress ports of a train.
    route: Vec<usize>,
    /// Reusable memory for the arrivals of a transmission.
    arrivals: Vec<(Time, Train)>,
    /// Instant up to which all events have been handled.
    now: Time,
    /// Time by which frames are reported before they reach an interface.
    ahead_ns: u64,
    /// Instant at which the last frame sent on each channel reaches its end.
    last_arrivals: Vec<Time>,
    /// Instant until which the paths of frames that reach a switch are decided.
    settled: Time,
    lateness: Lateness,
}

/// Packets that entered late, because the fabric received them after it had handled the instant at
/// which they should have entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their delays, ns.
    pub ns: u64,
}

/// End point of a channel.
#[derive(Clone, Copy, Debug)]
enum Sink {
    Port(usize),
    Switch { switch: usize, port: usize },
}

/// An interface of the shell.
#[derive(Debug)]
struct Port {
    name: String,
    /// Channel into the fabric.
    ingress: usize,
    /// Number of bytes of accepted frames that have not reached the channel's queue yet.
    entering_bytes: u64,
    /// Instant at which the last of those frames reaches the queue. Later frames do not overtake
    /// it.
    entering_at: Time,
    delivery: Delivery,
}

impl Fabric {
    /// Creates a fabric without frames.
    ///
    /// # Errors
    /// The configuration is invalid. The error names the place and the valid values.
    pub fn new(config: &FabricConfig) -> Result<Fabric, ConfigError> {
        validate(config)?;
        let mut rng = Pcg64::seed_from_u64(config.seed);
        let mut fabric = Fabric {
            channels: Vec::new(),
            names: Vec::new(),
            sinks: Vec::new(),
            switches: config
                .switches
                .iter()
                .enumerate()
                .map(Switch::new)
                .collect(),
            switch_names: config
                .switches
                .iter()
                .map(|switch| format!("switch/{}", switch.name))
                .collect(),
            sources: Vec::new(),
            ports: Vec::new(),
            stopped_by: vec![Vec::new(); 2 * config.links.len()],
            events: Events::default(),
            rng: Pcg64::seed_from_u64(config.seed ^ 1),
            route: Vec::new(),
            arrivals: Vec::new(),
            now: Time::ZERO,
            ahead_ns: 0,
            last_arrivals: vec![Time::ZERO; 2 * config.links.len()],
            settled: Time::ZERO,
            lateness: Lateness::default(),
        };
        for link in &config.links {
            fabric.add_link(config, link, &mut rng);
        }
        fabric.bound_trains();
        Ok(fabric)
    }

    fn add_link(&mut self, config: &FabricConfig, link: &LinkConfig, rng: &mut Pcg64) {
        for (direction, label) in [(&link.a_to_b, "a-b"), (&link.b_to_a, "b-a")] {
            self.channels
                .push(Channel::new(direction, link.mtu_bytes, rng));
            self.names.push(format!("link/{}/{label}", link.name));
        }
        let a_to_b = self.channels.len() - 2;
        let (near, far) = (
            self.attach(config, &link.a, a_to_b),
            self.attach(config, &link.b, a_to_b + 1),
        );
        // The channel that leaves `a` ends at `b`.
        self.sinks.extend([far, near]);
        let source = |end: Sink| match end {
            Sink::Switch { switch, .. } => Some(switch),
            Sink::Port(_) => None,
        };
        self.sources.extend([source(near), source(far)]);
    }

    /// Limits trains to a small part of every switch queue that they leave or enter.
    fn bound_trains(&mut self) {
        let bounds: Vec<u64> = (0..self.channels.len())
            .map(|channel| {
                let Some(switch) = self.sources[channel] else {
                    return u64::MAX;
                };
                // A queue alone in a shared memory gets no more than this part of it.
                let shared = self.switches[switch].shared.map_or(u64::MAX, |shared| {
                    (shared.bytes as f64 * shared.alpha / (1.0 + shared.alpha)) as u64
                });
                let queue = self.channels[channel].queue();
                queue.threshold_bytes().min(shared) / TRAINS_PER_QUEUE
            })
            .collect();
        for (channel, sink) in self.sinks.iter().enumerate() {
            let entered = match sink {
                Sink::Switch { switch, .. } => self.switches[*switch].ports.as_slice(),
                Sink::Port(_) => &[],
            };
            let entered = entered.iter().map(|port| bounds[port.egress]);
            let bound = entered.chain([bounds[channel]]).min();
            self.channels[channel].bound_train(bound.unwrap_or(u64::MAX));
        }
    }

    /// Adds an end of a link to its switch or to the interfaces. The channel `egress` starts there.
    /// Returns the end as the end point of the opposite channel.
    fn attach(&mut self, config: &FabricConfig, end: &End, egress: usize) -> Sink {
        match end {
            End::Interface { name } | End::VhostUser { name, .. } => {
                self.ports.push(Port {
                    name: name.clone(),
                    ingress: egress,
                    entering_bytes: 0,
                    entering_at: Time::ZERO,
                    delivery: Delivery::default(),
                });
                Sink::Port(self.ports.len() - 1)
            }
            End::Switch {
                name,
                vlan,
                allowed,
            } => {
                let switch = config
                    .switches
                    .iter()
                    .position(|switch| switch.name == *name)
                    .unwrap_or_default();
                let ports = &mut self.switches[switch].ports;
                ports.push(SwitchPort {
                    egress,
                    vlan: *vlan,
                    allowed: allowed
                        .as_ref()
                        .map(|vlans| vlans.iter().copied().collect()),
                });
                self.channels[egress].is_trunk = vlan.is_none();
                Sink::Switch {
                    switch,
                    port: ports.len() - 1,
                }
            }
        }
    }

    /// Reports frames to an interface up to `by` before they arrive; 0 by default. A shell that
    /// needs time to write can then start before [`OutFrame::due`]. Only frames whose arrival is
    /// certain are reported early: frames on the line to the interface, and frames that no other
    /// frame can meet in the switch before it (see `is_settled`).
    pub fn report_ahead(&mut self, by: Duration) {
        self.ahead_ns = by.as_nanos() as u64;
    }

    /// Takes a link down, or up again, in both directions. While it is down, frames offered to it are
    /// dropped; those already queued or on its line still arrive. Returns `false` if there is no such
    /// link.
    pub fn set_link(&mut self, name: &str, is_up: bool) -> bool {
        let of_link = |channel: &String| {
            let direction = channel.strip_prefix("link/");
            direction.and_then(|direction| direction.strip_suffix("/a-b")) == Some(name)
        };
        let Some(channel) = self.names.iter().position(of_link) else {
            return false;
        };
        for direction in &mut self.channels[channel..channel + 2] {
            direction.is_down = !is_up;
        }
        true
    }

    /// Returns the names of the interfaces, in the order of their numbers.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|port| port.name.as_str())
    }

    /// Returns whether interface `port` should be read. `false` while the queue of its link is
    /// full, also because the link is paused.
    #[must_use]
    pub fn wants_frame(&self, port: usize) -> bool {
        let port = &self.ports[port];
        let queue = self.channels[port.ingress].queue();
        queue.bytes() + port.entering_bytes < queue.limit_bytes()
    }

    /// Handles a packet that interface `port` received at `at`. Accepts it even if
    /// [`Fabric::wants_frame`] is `false`.
    ///
    /// Kernels deliver a packet 5 to 30 µs after its timestamp. A packet whose instant has been
    /// handled already still enters at that instant if it could not have reached the other end of
    /// its link by now. If the delay of the link is shorter, or pauses are enabled on it, the
    /// packet enters now and counts as late.
    pub fn handle_frame(&mut self, at: Time, port: usize, packet: Packet) {
        let train = Train::whole(Arc::new(packet));
        let Port {
            ingress,
            entering_bytes,
            entering_at,
            ..
        } = &mut self.ports[port];
        let channel = &self.channels[*ingress];
        let at_other_end = at + Duration::from_nanos(channel.delay_ns());
        let in_time = at_other_end >= self.now.max(self.settled) && !channel.pause;
        let late = if in_time { 0 } else { self.now.ns_since(at) };
        self.lateness.packets += u64::from(late > 0);
        self.lateness.ns += late;
        // The packet enters after the packets sent before it.
        let enters_at = (at + Duration::from_nanos(late))
            .max(*entering_at)
            .max(channel.freed_at());
        *entering_bytes += train.bytes();
        *entering_at = enters_at;
        self.schedule(enters_at, EventKind::Enter { port, train });
    }

    /// Handles all events up to `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, kind)) = self.events.pop_until(now) {
            match kind {
                EventKind::Enter { port, train } => self.entered(at, port, train),
                EventKind::Free { channel } => self.freed(at, channel),
                EventKind::Arrive {
                    channel,
                    train,
                    complete_at,
                } => self.arrived(at, channel, train, complete_at),
                EventKind::Offer {
                    from,
                    egress,
                    train,
                } => self.offer(at, Some(from), egress, train),
                EventKind::Router { switch } => self.router_timeout(at, switch),
            }
        }
        self.now = self.now.max(now);
    }

    /// Returns the instant at which [`Fabric::handle_timeout`] has to be called next. `None` if no
    /// event is pending.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.events.next()
    }

    /// Returns the next frame to write to interface `port`. Frames of one super-frame that arrive
    /// by `until` are joined.
    pub fn poll_frame(&mut self, port: usize, until: Time) -> Option<OutFrame> {
        self.ports[port].delivery.pop(until)
    }

    /// Returns the number of bytes, including FCS, of the frames that wait to be written to
    /// interface `port`.
    #[must_use]
    pub fn waiting_bytes(&self, port: usize) -> u64 {
        self.ports[port].delivery.bytes()
    }

    /// Returns the arrival of the next frame of [`Fabric::poll_frame`]. It is in the future only
    /// with [`Fabric::report_ahead`].
    #[must_use]
    pub fn frame_due(&self, port: usize) -> Option<Time> {
        self.ports[port].delivery.due()
    }

    /// Returns the counters of each direction of each link, as `link/NAME/a-b` and `link/NAME/b-a`.
    /// Resets the peaks of the queues.
    pub fn counters(&mut self, now: Time) -> impl Iterator<Item = (&str, ChannelCounters)> {
        let channels = self
            .channels
            .iter_mut()
            .map(move |channel| channel.counters(now));
        self.names.iter().map(String::as_str).zip(channels)
    }

    /// Returns the counters of each switch, as `switch/NAME`.
    pub fn switch_counters(&self) -> impl Iterator<Item = (&str, SwitchCounters)> {
        let counters = self.switches.iter().map(Switch::counters);
        self.switch_names.iter().map(String::as_str).zip(counters)
    }

    /// Returns the number and delay of packets that entered late.
    #[must_use]
    pub const fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Ends the interval of the queue depths. Returns the depths that frames met in it, for each
    /// direction of a link that had frames, named as in [`Fabric::counters`].
    pub fn take_queue_depths(&mut self) -> impl Iterator<Item = (&str, Histogram)> {
        let channels = self.channels.iter_mut().map(Channel::take_depths);
        let all = self.names.iter().map(String::as_str).zip(channels);
        all.filter_map(|(name, depths)| Some((name, depths?)))
    }

    /// Returns the queue depths of all completed intervals, named as in [`Fabric::counters`].
    pub fn queue_depths(&self) -> impl Iterator<Item = (&str, &Histogram)> {
        let channels = self.channels.iter().map(Channel::depths);
        let all = self.names.iter().map(String::as_str).zip(channels);
        all.filter_map(|(name, depths)| Some((name, depths?)))
    }
}
