//! Frames that reach the end of a channel. They leave through an interface, or a switch forwards
//! them to the next channel.
use hakaru_units::Time;

use super::{Fabric, Sink};
use crate::events::EventKind;
use crate::queue::Room;
use crate::router::{Router, Verdict};
use crate::train::Train;
use hakaru_contract::fabric::Forwarding;

impl Fabric {
    /// Handles a train that reaches the end of a channel.
    pub(super) fn arrived(
        &mut self,
        mut now: Time,
        channel: usize,
        mut train: Train,
        complete_at: Time,
    ) {
        if let Sink::Switch { switch, port } = self.sinks[channel]
            && now < complete_at
            && self.switches[switch].forwarding == Forwarding::StoreAndForward
        {
            if !self.is_settled((now, complete_at), channel, (switch, port), &train) {
                let kind = EventKind::Arrive {
                    channel,
                    train,
                    complete_at,
                };
                return self.schedule(complete_at, kind);
            }
            now = complete_at;
            self.settled = complete_at;
        }
        self.channels[channel].arrived(&train);
        match self.sinks[channel] {
            Sink::Port(port) => {
                let tag = self.tag_at_end(channel, &train);
                self.ports[port].delivery.push(complete_at, train, tag);
            }
            Sink::Switch { switch, port } => {
                let tag = self.tag_at_end(channel, &train);
                let count = u64::from(train.count);
                self.switches[switch].counters.frames_in += count;
                let Some(vlan) = self.switches[switch].vlan_of(port, tag) else {
                    self.switches[switch].counters.dropped_vlan += count;
                    return;
                };
                train.vlan = vlan;
                self.switched(now, channel, (switch, port), train, complete_at);
            }
        }
    }

    /// Returns whether the path of a train that reaches a switch at `at` is already certain at
    /// `now`. This is so if no event of the fabric happens in between, and no frame that enters the
    /// fabric later could meet the train in a queue.
    fn is_settled(
        &self,
        (now, at): (Time, Time),
        channel: usize,
        (switch_index, port): (usize, usize),
        train: &Train,
    ) -> bool {
        let switch = &self.switches[switch_index];
        if self.events.next().is_some_and(|next| next < at)
            || self.channels[channel].pause
            || switch.shared.is_some()
            || switch.router.is_some()
        {
            return false;
        }
        let tag = self.tag_at_end(channel, train);
        let Some(vlan) = switch.vlan_of(port, tag) else {
            return false;
        };
        // Learning the sender's address early would change the path of other frames.
        if switch.port_of(at, train.source(), vlan) != Some(port) {
            return false;
        }
        let Some(egress_port) = switch.port_of(at, train.destination(), vlan) else {
            return false;
        };
        // A channel without a rate has no queue.
        let ports = switch.ports.iter().enumerate();
        self.channels[switch.ports[egress_port].egress]
            .rate_bits_per_s()
            .is_none()
            || ports
                .filter(|(index, _)| *index != egress_port)
                .all(|(_, port)| {
                    // The other direction of the same link.
                    self.channels[port.egress ^ 1].delay_ns() >= at.ns_since(now)
                })
    }

    /// Returns the tag of a train at the end of a channel. After a switch it follows from the VLAN
    /// of the train.
    fn tag_at_end(&self, channel: usize, train: &Train) -> Option<u16> {
        match self.sources[channel] {
            None => train.packet.tag(),
            Some(switch) => self.tag_out_of(switch, channel, train.vlan),
        }
    }

    /// Handles a train that reached a port of a switch.
    fn switched(
        &mut self,
        now: Time,
        channel: usize,
        (switch, port): (usize, usize),
        train: Train,
        complete_at: Time,
    ) {
        let vlan = train.vlan;
        self.switches[switch].learn(now, port, train.source(), vlan);
        let Some(router) = &mut self.switches[switch].router else {
            return self.forward(now, Some(channel), (switch, Some(port)), train, complete_at);
        };
        let verdict = router.handle_train(now, vlan, &train);
        self.routed(now, Some(channel), switch, complete_at);
        if verdict == Verdict::Bridge {
            self.forward(now, Some(channel), (switch, Some(port)), train, complete_at);
        }
    }

    /// Sends the pending output of a router and schedules its next timeout. `from` is the channel
    /// of the train that caused the output.
    fn routed(&mut self, now: Time, from: Option<usize>, switch: usize, complete_at: Time) {
        let output = |fabric: &mut Fabric| fabric.switches[switch].router.as_mut()?.poll_output();
        while let Some((vlan, mut train)) = output(self) {
            train.vlan = vlan;
            self.forward(now, from, (switch, None), train, complete_at);
        }
        let router = self.switches[switch].router.as_ref();
        let deadline = router.and_then(Router::poll_timeout);
        if let Some(at) = deadline.filter(|at| self.switches[switch].router_at != Some(*at)) {
            self.switches[switch].router_at = Some(at);
            self.schedule(at, EventKind::Router { switch });
        }
    }

    pub(super) fn router_timeout(&mut self, now: Time, switch: usize) {
        if let Some(router) = &mut self.switches[switch].router {
            router.handle_timeout(now);
        }
        self.routed(now, None, switch, now);
    }

    /// Forwards a train within its VLAN, but not to its ingress `port`. A train that has not
    /// arrived completely waits at faster egress channels.
    fn forward(
        &mut self,
        now: Time,
        from: Option<usize>,
        (switch, port): (usize, Option<usize>),
        train: Train,
        complete_at: Time,
    ) {
        let mut route = core::mem::take(&mut self.route);
        let count = u64::from(train.count);
        let forwarder = &mut self.switches[switch];
        forwarder.route(now, port, train.destination(), train.vlan, &mut route);
        forwarder
            .counters
            .count_forwarded(count, route.len() as u64);
        for port in &route {
            let egress = self.switches[switch].ports[*port].egress;
            match from.filter(|from| complete_at > now && self.is_faster(egress, *from)) {
                Some(from) => {
                    let train = train.clone();
                    let kind = EventKind::Offer {
                        from,
                        egress,
                        train,
                    };
                    self.schedule(complete_at, kind);
                }
                None => self.offer(now, from, egress, train.clone()),
            }
        }
        self.route = route;
    }

    /// Returns the tag of frames of a VLAN that leave a switch through the channel `egress`.
    fn tag_out_of(&self, switch: usize, egress: usize, vlan: u16) -> Option<u16> {
        let switch = &self.switches[switch];
        let port = switch.ports.iter().position(|port| port.egress == egress);
        port.and_then(|port| switch.tag_of(port, vlan))
    }

    /// Returns whether `egress` is faster than `ingress`, and would therefore run out of bytes if
    /// it started before all have arrived.
    fn is_faster(&self, egress: usize, ingress: usize) -> bool {
        match (
            self.channels[egress].rate_bits_per_s(),
            self.channels[ingress].rate_bits_per_s(),
        ) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(out), Some(into)) => out > into,
        }
    }

    /// Offers a train to an egress queue of a switch. Pauses its source channel if the queue is
    /// then above half of its limit.
    pub(super) fn offer(&mut self, now: Time, from: Option<usize>, egress: usize, train: Train) {
        let room = self.room(egress);
        self.channels[egress].offer(now, train, room, &mut self.rng);
        self.start(now, egress);
        let high = self.limit_bytes(egress) / 2;
        let Some(from) = from else { return };
        if self.channels[from].pause
            && self.channels[egress].queue().bytes() > high
            && !self.stopped_by[egress].contains(&from)
        {
            self.channels[from].stop(now);
            self.stopped_by[egress].push(from);
        }
    }

    /// Returns the current limit of a channel's queue, bytes.
    pub(super) fn limit_bytes(&self, channel: usize) -> u64 {
        let queue = self.channels[channel].queue();
        self.room(channel)
            .limit_bytes(queue.limit_bytes(), queue.bytes())
    }

    /// Returns the kind of limit of an egress queue: its own and, if the switch has a shared
    /// memory, its share of the free part.
    fn room(&self, channel: usize) -> Room {
        let Some(switch) = self.sources[channel].map(|switch| &self.switches[switch]) else {
            return Room::Own;
        };
        let Some(shared) = switch.shared else {
            return Room::Own;
        };
        let others = switch.ports.iter().filter(|port| port.egress != channel);
        let used: u64 = others
            .map(|port| self.channels[port.egress].queue().bytes())
            .sum();
        Room::Shared {
            alpha: shared.alpha,
            left_bytes: shared.bytes.saturating_sub(used),
        }
    }
}
