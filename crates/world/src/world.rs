//! The world: owns every machine, pops events, and carries data between the machines.
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use hakaru_load::Counters;
use hakaru_stats::Latencies;
use hakaru_units::Time;

use crate::config::WorldConfig;
use crate::error::{LOGIN_LIMIT, WorldError};
use crate::events::{Direction, Event, Events};
use crate::host::{Host, hosts};
use crate::server::Server;
use crate::wire::{Link, Segment};

/// Counters of every entity at one instant, named as in the contract: entity, name, value.
pub type Snapshot = BTreeMap<String, BTreeMap<String, f64>>;

/// An entire lab on a virtual clock. See the crate's documentation.
#[derive(Debug)]
pub struct World {
    now: Time,
    events: Events,
    hosts: Vec<Host>,
    /// Host of each connection, by [`ConnectionId::index`].
    host_of: Vec<usize>,
    server: Server,
    /// Hosts with data in the inbox, because the target did not accept it.
    blocked_inboxes: Vec<usize>,
    up: Link,
    down: Link,
    latencies: Latencies,
    failure: Option<WorldError>,
}

impl World {
    /// Builds everything at time zero, with nothing connected.
    ///
    /// # Errors
    /// The model has an impossible parameter, or an LU exceeds its group.
    pub fn new(config: &WorldConfig) -> Result<World, WorldError> {
        let server = Server::new(config, address(0))?;
        let hosts = hosts(config);
        let count = hosts.len();
        Ok(World {
            now: Time::ZERO,
            events: Events::default(),
            hosts,
            host_of: Vec::new(),
            server,
            blocked_inboxes: Vec::new(),
            up: Link::new(config.wire, count),
            down: Link::new(config.wire, count),
            latencies: Latencies::default(),
            failure: None,
        })
    }

    /// Returns the virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Connects and logs in every host.
    ///
    /// # Errors
    /// A host failed or exceeded the time limit.
    pub fn log_in(&mut self) -> Result<(), WorldError> {
        for index in 0..self.hosts.len() {
            let peer = address(index as u32 + 1);
            let connection = self
                .server
                .target
                .handle_connected(self.now, 0, address(0), peer);
            if let Some(connection) = connection {
                self.host_of
                    .resize(self.host_of.len().max(connection.index() + 1), usize::MAX);
                self.host_of[connection.index()] = index;
            }
            self.hosts[index].connection = connection;
            self.hosts[index].iscsi.handle_connected(self.now, 0);
            self.after_host(index);
        }
        self.after_target();
        self.run_until_all("log in", |host| host.is_ready)
    }

    /// Starts the load of every VM.
    pub fn begin(&mut self) {
        for index in 0..self.hosts.len() {
            self.hosts[index].iscsi.begin(self.now);
            self.after_host(index);
        }
    }

    /// Advances the time by `duration`.
    ///
    /// # Errors
    /// A VM or a request failed, or a read returned corrupt data.
    pub fn run_for(&mut self, duration: Duration) -> Result<(), WorldError> {
        let until = self.now + duration;
        while self.step(until) {}
        self.now = until;
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Ends the load, drains requests in flight, and logs every host out.
    ///
    /// # Errors
    /// A VM or a request failed, a read returned corrupt data, or a host exceeded the time limit.
    pub fn log_out(&mut self) -> Result<(), WorldError> {
        for host in &mut self.hosts {
            host.iscsi.end(self.now, &mut self.latencies);
        }
        self.run_until_all("log out", |host| host.iscsi.in_flight() == 0)?;
        for index in 0..self.hosts.len() {
            self.hosts[index]
                .iscsi
                .log_out(self.now, &mut self.latencies);
            self.after_host(index);
        }
        self.run_until_all("log out", |host| host.is_logged_out)
    }

    /// Returns the latencies of all VMs. The caller takes intervals.
    pub fn latencies(&mut self) -> &mut Latencies {
        &mut self.latencies
    }

    /// Returns every counter: those of the engines, and `bytes` and `busy_ns` of the wire as
    /// `link/up` and `link/down`.
    pub fn counters(&mut self) -> Snapshot {
        let mut all = Snapshot::new();
        let mut record = |entity: &str, name: &str, value: f64| {
            all.entry(entity.to_owned())
                .or_default()
                .insert(name.to_owned(), value);
        };
        let mut sum = Counters::default();
        for host in &mut self.hosts {
            for vm in 0..host.iscsi.vms() {
                let counters = host.iscsi.counters(self.now, vm);
                sum.add(&counters);
                let entity = format!("vm/{}", host.iscsi.config(vm).name);
                counters.visit(&mut |name, value| record(&entity, name, value));
            }
        }
        sum.visit(&mut |name, value| record("vms", name, value));
        self.server.visit_counters(self.now, &mut record);
        for (entity, link) in [("link/up", &self.up), ("link/down", &self.down)] {
            record(entity, "bytes", link.bytes as f64);
            record(entity, "busy_ns", link.busy_ns as f64);
        }
        all
    }

    fn run_until_all(
        &mut self,
        phase: &'static str,
        done: impl Fn(&Host) -> bool,
    ) -> Result<(), WorldError> {
        let until = self.now + LOGIN_LIMIT;
        while !self.hosts.iter().all(&done) && self.step(until) {}
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match self.hosts.iter().filter(|host| !done(host)).count() {
            0 => Ok(()),
            missing => Err(WorldError::Late { missing, phase }),
        }
    }

    /// Processes the next event that is due by `until`. Returns false if no event is due, or after
    /// a failure.
    fn step(&mut self, until: Time) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let Some((at, event)) = self.events.pop(until) else {
            return false;
        };
        self.now = at;
        match event {
            Event::WireFree(direction) => {
                self.link(direction).free();
                self.send_next(direction);
                if direction == Direction::Down {
                    self.resume_reading();
                }
            }
            Event::Arrives(Direction::Up) => self.arrive_at_target(),
            Event::Arrives(Direction::Down) => self.arrive_at_host(),
            Event::HostTimer(index) => {
                let host = &mut self.hosts[index];
                if host.timer.fire(at) {
                    host.iscsi.handle_timeout(at, 0, &mut self.latencies);
                    self.after_host(index);
                }
            }
            Event::TargetTimer => {
                if self.server.handle_target_timer(at) {
                    self.after_target();
                }
            }
            Event::ArrayTimer => {
                if self.server.handle_storage_timer(at) {
                    self.after_target();
                }
            }
        }
        true
    }

    fn arrive_at_target(&mut self) {
        let segment = self.up.arrived();
        let index = segment.host;
        self.hosts[index].inbox.push_back(segment);
        self.read_inbox(index);
        self.after_target();
    }

    /// Offers the target the data in inboxes again, because it has freed some room.
    fn resume_reading(&mut self) {
        for index in std::mem::take(&mut self.blocked_inboxes) {
            self.read_inbox(index);
        }
        self.after_target();
    }

    /// Passes data that arrived from a host to the target, as far as the target accepts it.
    fn read_inbox(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(connection) = host.connection else {
            return;
        };
        while self.server.target.wants_received(connection) {
            let Some(segment) = host.inbox.pop_front() else {
                return;
            };
            self.server
                .target
                .handle_received(self.now, connection, &segment.bytes);
            self.up.recycle(segment.bytes);
        }
        self.blocked_inboxes.push(index);
    }

    fn arrive_at_host(&mut self) {
        let Segment { host, bytes } = self.down.arrived();
        let iscsi = &mut self.hosts[host].iscsi;
        if bytes.is_empty() {
            iscsi.handle_closed(self.now, 0, "by the target", &mut self.latencies);
        } else {
            iscsi.handle_received(self.now, 0, &bytes, &mut self.latencies);
            self.down.recycle(bytes);
        }
        self.after_host(host);
    }

    /// Handles the consequences of a call to a host: data to send, its next deadline, its events.
    fn after_host(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.iscsi.issue(self.now);
        if let Some(failure) = host.handle_events() {
            self.failure.get_or_insert(failure);
        }
        let deadline = host.iscsi.poll_timeout(0);
        host.timer.schedule(
            deadline,
            self.now,
            Event::HostTimer(index),
            &mut self.events,
        );
        if !host.iscsi.transmit(0).is_empty() {
            self.up.offer(index);
            self.send_next(Direction::Up);
        }
    }

    /// Handles the consequences of a call to the target or its storage: accesses, then data to
    /// send, closed connections and deadlines.
    fn after_target(&mut self) {
        self.server.settle(self.now);
        while let Some(connection) = self.server.target.poll_transmit() {
            self.down.offer(self.host_of[connection.index()]);
        }
        while let Some(connection) = self.server.target.poll_close() {
            self.close(self.host_of[connection.index()]);
        }
        self.server.schedule(self.now, &mut self.events);
        self.send_next(Direction::Down);
    }

    /// Closes a connection at the target. The host receives the end after all data sent before.
    fn close(&mut self, host: usize) {
        self.hosts[host].connection = None;
        self.hosts[host].inbox.clear();
        let at = self.down.finish(self.now, host);
        self.events.push(at, Event::Arrives(Direction::Down));
    }

    fn link(&mut self, direction: Direction) -> &mut Link {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// Sends a segment of the session that is next in turn, if the wire is free in this direction.
    fn send_next(&mut self, direction: Direction) {
        while let Some(host) = self.link(direction).next_turn() {
            let bytes = match direction {
                Direction::Up => self.take_from_host(host),
                Direction::Down => self.take_from_target(host),
            };
            if bytes.is_empty() {
                continue;
            }
            let now = self.now;
            let (free, arrives) = self.link(direction).send(now, Segment { host, bytes });
            self.events.push(free, Event::WireFree(direction));
            self.events.push(arrives, Event::Arrives(direction));
        }
    }

    fn take_from_host(&mut self, index: usize) -> Vec<u8> {
        let mut bytes = self.up.buffer();
        let host = &mut self.hosts[index];
        host.fill_segment(self.now, &mut bytes, self.up.segment_bytes());
        if !host.iscsi.transmit(0).is_empty() {
            self.up.offer(index);
        }
        bytes
    }

    fn take_from_target(&mut self, host: usize) -> Vec<u8> {
        let Some(connection) = self.hosts[host].connection else {
            return Vec::new();
        };
        let mut bytes = self.down.buffer();
        let length_max = self.down.segment_bytes();
        self.server
            .fill_segment(self.now, connection, &mut bytes, length_max);
        if !self.server.target.transmit(connection).is_empty() {
            self.down.offer(host);
        }
        bytes
    }
}

/// Returns an address of the world's own network: 0 is the target's portal, the others are the
/// hosts'.
fn address(host: u32) -> SocketAddr {
    let network = u32::from(Ipv4Addr::new(10, 0, 0, 1));
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(network + host)), 3260)
}
