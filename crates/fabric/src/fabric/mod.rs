//! Switches, channels and events, owned by one [`Fabric`]; the interface that a shell calls.
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

/// A train is at most one part in this many of any queue that it leaves or enters.
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
/// A late call does not change the result: events and arrivals keep their own instants.
#[derive(Debug)]
pub struct Fabric {
    /// Link `n` has channels `2n` (a to b) and `2n + 1`.
    channels: Vec<Channel>,
    names: Vec<String>,
    /// End point of each channel.
    sinks: Vec<Sink>,
    switches: Vec<Switch>,
    switch_names: Vec<String>,
    /// Switch that sends into each channel; `None` for an interface.
    sources: Vec<Option<usize>>,
    ports: Vec<Port>,
    /// Channels that each channel's queue has stopped.
    stopped_by: Vec<Vec<usize>>,
    events: Events,
    rng: Pcg64,
    route: Vec<usize>,
    arrivals: Vec<(Time, Train)>,
    /// Instant up to which all events have been handled.
    now: Time,
    /// Lead time with which frames are reported before they reach an interface.
    ahead_ns: u64,
    /// Instant at which the last frame sent on each channel reaches its end.
    last_arrivals: Vec<Time>,
    /// Instant until which the paths of frames that reach a switch are decided.
    settled: Time,
    lateness: Lateness,
}

/// Packets that the fabric received after it had handled the instant at which they should have
/// entered. They enter late.
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
    /// The channel that leads into the fabric.
    ingress: usize,
    /// Bytes of accepted frames that have not reached the channel's queue yet.
    entering_bytes: u64,
    /// Instant at which the last of those frames reaches the queue: an interface keeps its order.
    entering_at: Time,
    delivery: Delivery,
}

impl Fabric {
    /// Creates a fabric without frames.
    ///
    /// # Errors
    /// The configuration is invalid; the error names the place and the bounds.
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
                .map(|of| format!("switch/{}", of.name))
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
        for (direction, way) in [(&link.a_to_b, "a-b"), (&link.b_to_a, "b-a")] {
            self.channels
                .push(Channel::new(direction, link.mtu_bytes, rng));
            self.names.push(format!("link/{}/{way}", link.name));
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

    /// Keeps trains to a small part of every queue of a switch that they leave or enter.
    fn bound_trains(&mut self) {
        let bounds: Vec<u64> = (0..self.channels.len())
            .map(|channel| {
                let Some(switch) = self.sources[channel] else {
                    return u64::MAX;
                };
                let shared = self.switches[switch]
                    .shared
                    .map_or(u64::MAX, |shared| shared.bytes);
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

    /// Returns an end of a link, from which the channel `egress` leads.
    fn attach(&mut self, config: &FabricConfig, end: &End, egress: usize) -> Sink {
        match end {
            End::Interface { name } => {
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
                    allowed: allowed.as_ref().map(|of| of.iter().copied().collect()),
                });
                self.channels[egress].is_trunk = vlan.is_none();
                Sink::Switch {
                    switch,
                    port: ports.len() - 1,
                }
            }
        }
    }

    /// Reports frames to an interface up to `by` before they arrive. A shell that needs time to
    /// write can then start before [`OutFrame::due`]. Only frames that nothing can change any more
    /// are reported early: frames on the line, and frames that no other frame can meet in the
    /// switch before it (see `is_settled`).
    pub fn report_ahead(&mut self, by: Duration) {
        self.ahead_ns = by.as_nanos() as u64;
    }

    /// Names of the interfaces, in the order of their numbers.
    pub fn interfaces(&self) -> impl Iterator<Item = &str> {
        self.ports.iter().map(|port| port.name.as_str())
    }

    /// Returns whether interface `port` should be read: false while its link has enough to send or
    /// is paused.
    #[must_use]
    pub fn wants_frame(&self, port: usize) -> bool {
        let port = &self.ports[port];
        let queue = self.channels[port.ingress].queue();
        queue.bytes() + port.entering_bytes < queue.limit_bytes()
    }

    /// Handles a packet that came from interface `port` at `at`. It is accepted even if it is not
    /// wanted.
    ///
    /// A packet whose instant has been handled already still enters at that instant, if it could
    /// have affected only its own link by now: kernels deliver a packet 5 to 30 µs after its
    /// timestamp. If the link is shorter than that, or its other end has paused it, the packet
    /// enters now and counts as late.
    pub fn handle_frame(&mut self, at: Time, port: usize, packet: Packet) {
        let train = Train::whole(Arc::new(packet));
        let Port {
            ingress,
            entering_bytes,
            entering_at,
            ..
        } = &mut self.ports[port];
        let channel = &self.channels[*ingress];
        let noticed = at + Duration::from_nanos(channel.delay_ns());
        let in_time = noticed >= self.now.max(self.settled) && !channel.pause;
        let late = if in_time { 0 } else { self.now.ns_since(at) };
        self.lateness.packets += u64::from(late > 0);
        self.lateness.ns += late;
        // The packet queues behind the packets sent before it.
        let enters = (at + Duration::from_nanos(late))
            .max(*entering_at)
            .max(channel.freed_at());
        *entering_bytes += train.bytes();
        *entering_at = enters;
        self.schedule(enters, EventKind::Enter { port, train });
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

    /// Returns the instant of the next call of [`Fabric::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.events.next()
    }

    /// Returns the next frame, or super-frame, to write to interface `port`.
    pub fn poll_frame(&mut self, port: usize) -> Option<OutFrame> {
        self.ports[port].delivery.pop()
    }

    /// Returns when the next frame of [`Fabric::poll_frame`] arrives. Later than now only with
    /// [`Fabric::report_ahead`].
    #[must_use]
    pub fn frame_due(&self, port: usize) -> Option<Time> {
        self.ports[port].delivery.due()
    }

    /// Counters of each direction of each link, as `link/NAME/a-b` and `link/NAME/b-a`.
    pub fn counters(&mut self, now: Time) -> impl Iterator<Item = (&str, ChannelCounters)> {
        let channels = self
            .channels
            .iter_mut()
            .map(move |channel| channel.counters(now));
        self.names.iter().map(String::as_str).zip(channels)
    }

    /// Counters of each switch, as `switch/NAME`.
    pub fn switch_counters(&self) -> impl Iterator<Item = (&str, SwitchCounters)> {
        let counters = self.switches.iter().map(Switch::counters);
        self.switch_names.iter().map(String::as_str).zip(counters)
    }

    /// Returns the packets that arrived too late to enter at their own instant.
    #[must_use]
    pub const fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Ends the interval of the queue depths. Returns the depths that frames met, of each direction
    /// of each link that had frames, named as in [`Fabric::counters`].
    pub fn take_queue_depths(&mut self) -> impl Iterator<Item = (&str, Histogram)> {
        let channels = self.channels.iter_mut().map(Channel::take_depths);
        let all = self.names.iter().map(String::as_str).zip(channels);
        all.filter_map(|(name, depths)| Some((name, depths?)))
    }

    /// Depths of all completed intervals.
    pub fn queue_depths(&self) -> impl Iterator<Item = (&str, &Histogram)> {
        let channels = self.channels.iter().map(Channel::depths);
        let all = self.names.iter().map(String::as_str).zip(channels);
        all.filter_map(|(name, depths)| Some((name, depths?)))
    }
}
