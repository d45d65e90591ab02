//! The world: owns every machine, pops events, and carries data between the machines.
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hakaru_drive::ModelError;
use hakaru_iscsi_target::{ConnectionId, Segment as Piece, Target, TargetConfig};
use hakaru_load::{CommandLimits, Counters, IscsiVm, Payload, Settings, VmEvent};
use hakaru_stats::Latencies;
use hakaru_store::{LuMemory, Storage};
use hakaru_units::Time;
use thiserror::Error;

use crate::config::WorldConfig;
use crate::events::{Direction, Event, Events, Timer};
use crate::lus;
use crate::memory::WorldMemory;
use crate::wire::{Link, Segment};

/// Time limit for the login or logout of all VMs, virtual time.
const LOGIN_LIMIT: Duration = Duration::from_secs(60);

/// Counters of every entity at one instant, named as in the contract: entity, name, value.
pub type Snapshot = BTreeMap<String, BTreeMap<String, f64>>;

/// Failure of a world.
#[derive(Debug, Error)]
pub enum WorldError {
    /// The timing model has an impossible parameter.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An LU lies outside its RAID group.
    #[error("LU {lun} does not fit on RAID group {group}")]
    Misplaced {
        /// The LU.
        lun: u8,
        /// The group.
        group: u32,
    },
    /// A VM, or one of its requests, failed.
    #[error("VM {name}: {event:?}")]
    Vm {
        /// Name of the VM.
        name: String,
        /// The event that reported the failure.
        event: Box<VmEvent>,
    },
    /// VMs did not log in or out within the time limit.
    #[error("{missing} VMs did not {phase} within {LOGIN_LIMIT:?}")]
    Late {
        /// Number of such VMs.
        missing: usize,
        /// `log in` or `log out`.
        phase: &'static str,
    },
}

#[derive(Debug)]
struct Guest {
    vm: IscsiVm,
    /// The target's end of the connection; `None` once the target has closed it.
    connection: Option<ConnectionId>,
    /// Data that has arrived at the target but that it does not accept yet.
    inbox: VecDeque<Segment>,
    timer: Timer,
    ready: bool,
    logged_out: bool,
}

/// A whole lab. See the crate's documentation.
#[derive(Debug)]
pub struct World {
    now: Time,
    events: Events,
    guests: Vec<Guest>,
    /// VM of each connection, by [`ConnectionId::index`].
    vm_of: Vec<usize>,
    target: Target,
    target_timer: Timer,
    /// VMs with data in the inbox, because the target did not accept it.
    blocked_inboxes: Vec<usize>,
    storage: Storage<WorldMemory>,
    array_timer: Timer,
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
        let storage = lus::open(config)?;
        let model = storage.model();
        if let Some(lu) = model.and_then(|model| lus::misplaced(&config.lus, model)) {
            return Err(WorldError::Misplaced {
                lun: lu.lun,
                group: lu.group,
            });
        }
        let target = Target::new(TargetConfig {
            target_name: config.target_name.clone(),
            portals: vec![address(0)],
            lus: lus::descriptions(config),
            access: hakaru_iscsi_target::Access::default(),
            limits: config.limits.clone(),
        });
        let vms = config.vms.len();
        Ok(World {
            now: Time::ZERO,
            events: Events::default(),
            guests: guests(config),
            vm_of: Vec::new(),
            target,
            target_timer: Timer::default(),
            blocked_inboxes: Vec::new(),
            storage,
            array_timer: Timer::default(),
            up: Link::new(config.wire, vms),
            down: Link::new(config.wire, vms),
            latencies: Latencies::default(),
            failure: None,
        })
    }

    /// Returns the virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Connects and logs in every VM.
    ///
    /// # Errors
    /// A VM failed or exceeded the time limit.
    pub fn log_in(&mut self) -> Result<(), WorldError> {
        for index in 0..self.guests.len() {
            let peer = address(index as u32 + 1);
            let connection = self.target.handle_connected(self.now, 0, address(0), peer);
            if let Some(connection) = connection {
                self.vm_of
                    .resize(self.vm_of.len().max(connection.index() + 1), usize::MAX);
                self.vm_of[connection.index()] = index;
            }
            self.guests[index].connection = connection;
            self.guests[index].vm.handle_connected(self.now, 0);
            self.after_vm(index);
        }
        self.after_target();
        self.run_until_all("log in", |guest| guest.ready)
    }

    /// Starts the load of every VM.
    pub fn begin(&mut self) {
        for index in 0..self.guests.len() {
            self.guests[index].vm.begin(self.now);
            self.after_vm(index);
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

    /// Ends the load, drains requests in flight, and logs every VM out.
    ///
    /// # Errors
    /// As [`World::run_for`], or a VM exceeded the time limit.
    pub fn log_out(&mut self) -> Result<(), WorldError> {
        self.guests.iter_mut().for_each(|guest| guest.vm.end());
        self.run_until_all("log out", |guest| guest.vm.in_flight() == 0)?;
        for index in 0..self.guests.len() {
            self.guests[index].vm.log_out(self.now, &mut self.latencies);
            self.after_vm(index);
        }
        self.run_until_all("log out", |guest| guest.logged_out)
    }

    /// Returns the latencies of all VMs. The caller takes intervals.
    pub fn latencies(&mut self) -> &mut Latencies {
        &mut self.latencies
    }

    /// Returns every counter: those of the engines, and `bytes` and `busy_ns` of the wire as
    /// `link/up` and `link/down`.
    pub fn counters(&mut self) -> Snapshot {
        let mut all = Snapshot::new();
        let mut see = |entity: &str, name: &str, value: f64| {
            all.entry(entity.to_owned())
                .or_default()
                .insert(name.to_owned(), value);
        };
        let mut sum = Counters::default();
        for guest in &mut self.guests {
            let counters = guest.vm.counters(self.now);
            sum.add(&counters);
            let entity = format!("vm/{}", guest.vm.config().name);
            counters.visit(&mut |name, value| see(&entity, name, value));
        }
        sum.visit(&mut |name, value| see("vms", name, value));
        self.target.visit_counters(&mut see);
        self.storage.visit_counters(self.now, &mut see);
        for (entity, link) in [("link/up", &self.up), ("link/down", &self.down)] {
            see(entity, "bytes", link.bytes as f64);
            see(entity, "busy_ns", link.busy_ns as f64);
        }
        all
    }

    fn run_until_all(
        &mut self,
        phase: &'static str,
        done: impl Fn(&Guest) -> bool,
    ) -> Result<(), WorldError> {
        let until = self.now + LOGIN_LIMIT;
        while !self.guests.iter().all(&done) && self.step(until) {}
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match self.guests.iter().filter(|guest| !done(guest)).count() {
            0 => Ok(()),
            missing => Err(WorldError::Late { missing, phase }),
        }
    }

    /// Processes the next event that is due by `until`. Returns false if there is none, or after a
    /// failure.
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
            Event::Arrives(Direction::Down) => self.arrive_at_vm(),
            Event::VmTimer(index) => {
                let guest = &mut self.guests[index];
                if guest.timer.fire(at) {
                    guest.vm.handle_timeout(at, 0, &mut self.latencies);
                    self.after_vm(index);
                }
            }
            Event::TargetTimer => {
                if self.target_timer.fire(at) {
                    self.target.handle_timeout(at);
                    self.after_target();
                }
            }
            Event::ArrayTimer => {
                if self.array_timer.fire(at) {
                    let target = &mut self.target;
                    let mut take_buffer = |length| target.take_buffer(length);
                    self.storage.handle_timeout(at, &mut take_buffer);
                    self.after_target();
                }
            }
        }
        true
    }

    fn arrive_at_target(&mut self) {
        let segment = self.up.arrived();
        let vm = segment.vm;
        self.guests[vm].inbox.push_back(segment);
        self.read_inbox(vm);
        self.after_target();
    }

    /// Offers the target the data in inboxes again, because it has freed some room.
    fn resume_reading(&mut self) {
        for vm in std::mem::take(&mut self.blocked_inboxes) {
            self.read_inbox(vm);
        }
        self.after_target();
    }

    /// Passes data that arrived from a VM to the target, as far as the target accepts it.
    fn read_inbox(&mut self, vm: usize) {
        let guest = &mut self.guests[vm];
        let Some(connection) = guest.connection else {
            return;
        };
        while self.target.wants_received(connection) {
            let Some(segment) = guest.inbox.pop_front() else {
                return;
            };
            self.target
                .handle_received(self.now, connection, &segment.bytes);
            self.up.recycle(segment.bytes);
        }
        self.blocked_inboxes.push(vm);
    }

    fn arrive_at_vm(&mut self) {
        let Segment { vm, bytes } = self.down.arrived();
        let guest = &mut self.guests[vm].vm;
        if bytes.is_empty() {
            guest.handle_closed(self.now, 0, "by the target", &mut self.latencies);
        } else {
            guest.handle_received(self.now, 0, &bytes, &mut self.latencies);
            self.down.recycle(bytes);
        }
        self.after_vm(vm);
    }

    /// Handles the consequences of a call to a VM: data to send, its next deadline, its events.
    fn after_vm(&mut self, index: usize) {
        let guest = &mut self.guests[index];
        while let Some(event) = guest.vm.poll_event() {
            match event {
                VmEvent::Ready(_) => guest.ready = true,
                VmEvent::LoggedOut => guest.logged_out = true,
                event => {
                    let name = guest.vm.config().name.clone();
                    self.failure.get_or_insert(WorldError::Vm {
                        name,
                        event: Box::new(event),
                    });
                }
            }
        }
        let wanted = guest.vm.poll_timeout(0);
        guest
            .timer
            .schedule(wanted, self.now, Event::VmTimer(index), &mut self.events);
        if !guest.vm.transmit(0).is_empty() {
            self.up.offer(index);
            self.send_next(Direction::Up);
        }
    }

    /// Handles the consequences of a call to the target or its storage. It carries accesses between
    /// them until none is pending, then data to send, closed connections and deadlines.
    fn after_target(&mut self) {
        loop {
            while let Some(io) = self.target.poll_io() {
                let target = &mut self.target;
                let mut take_buffer = |length| target.take_buffer(length);
                self.storage.submit(self.now, io, &mut take_buffer);
            }
            while let Some(returned) = self.target.poll_returned() {
                self.storage.take_back(returned);
            }
            while let Some(id) = self.target.poll_unwanted() {
                self.storage.cancel(self.now, id);
            }
            let Some((id, result)) = self.storage.poll_done() else {
                break;
            };
            self.target.handle_io_done(self.now, id, result);
        }
        while let Some(connection) = self.target.poll_transmit() {
            self.down.offer(self.vm_of[connection.index()]);
        }
        while let Some(connection) = self.target.poll_close() {
            self.close(self.vm_of[connection.index()]);
        }
        let (target, array) = (self.target.poll_timeout(), self.storage.poll_timeout());
        self.target_timer
            .schedule(target, self.now, Event::TargetTimer, &mut self.events);
        self.array_timer
            .schedule(array, self.now, Event::ArrayTimer, &mut self.events);
        self.send_next(Direction::Down);
    }

    /// Closes a connection at the target. The VM receives the end after all data sent before.
    fn close(&mut self, vm: usize) {
        self.guests[vm].connection = None;
        self.guests[vm].inbox.clear();
        let at = self.down.finish(self.now, vm);
        self.events.push(at, Event::Arrives(Direction::Down));
    }

    fn link(&mut self, direction: Direction) -> &mut Link {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// If the wire is free in this direction, sends a segment of the session that is next in turn.
    fn send_next(&mut self, direction: Direction) {
        while let Some(vm) = self.link(direction).next_turn() {
            let bytes = match direction {
                Direction::Up => self.take_from_vm(vm),
                Direction::Down => self.take_from_target(vm),
            };
            if bytes.is_empty() {
                continue;
            }
            let now = self.now;
            let (free, arrives) = self.link(direction).send(now, Segment { vm, bytes });
            self.events.push(free, Event::WireFree(direction));
            self.events.push(arrives, Event::Arrives(direction));
        }
    }

    fn take_from_vm(&mut self, vm: usize) -> Vec<u8> {
        let mut bytes = self.up.buffer();
        let transmit = self.guests[vm].vm.transmit(0);
        for slice in transmit.slices() {
            let room = self.up.segment_bytes() - bytes.len();
            bytes.extend_from_slice(&slice[..slice.len().min(room)]);
            if bytes.len() == self.up.segment_bytes() {
                break;
            }
        }
        transmit.advance(self.now, bytes.len());
        if !transmit.is_empty() {
            self.up.offer(vm);
        }
        bytes
    }

    fn take_from_target(&mut self, vm: usize) -> Vec<u8> {
        let Some(connection) = self.guests[vm].connection else {
            return Vec::new();
        };
        let mut bytes = self.down.buffer();
        for piece in self.target.transmit(connection).segments() {
            let room = self.down.segment_bytes() - bytes.len();
            match piece {
                Piece::Bytes(slice) => bytes.extend_from_slice(&slice[..slice.len().min(room)]),
                Piece::Lu {
                    lun,
                    offset_bytes,
                    length_bytes,
                } => {
                    let length = room.min(length_bytes as usize);
                    append(&self.storage, lun, offset_bytes, length, &mut bytes);
                }
            }
            if bytes.len() == self.down.segment_bytes() {
                break;
            }
        }
        let storage = &self.storage;
        let mut read_lu = |lun: u8, offset: u64, out: &mut [u8]| {
            let mut bytes = Vec::with_capacity(out.len());
            append(storage, lun, offset, out.len(), &mut bytes);
            out.copy_from_slice(&bytes);
        };
        self.target
            .handle_transmitted(self.now, connection, bytes.len(), &mut read_lu);
        if !self.target.transmit(connection).is_empty() {
            self.down.offer(vm);
        }
        bytes
    }
}

/// Appends a range of an LU that the target sends without a copy.
fn append(
    storage: &Storage<WorldMemory>,
    lun: u8,
    offset_bytes: u64,
    length: usize,
    out: &mut Vec<u8>,
) {
    let memory = storage.memory(lun);
    let memory = memory.expect("every LU of a world is in memory");
    memory.append_to(offset_bytes, length, out);
}

fn guests(config: &WorldConfig) -> Vec<Guest> {
    let sizes = config.vms.iter().flat_map(|vm| &vm.pattern.sizes);
    let longest = sizes.map(|size| size.bytes).max().unwrap_or(512);
    let settings = Arc::new(Settings {
        chap: None,
        keys: config.keys,
        timeout: config.timeout,
        payload: Payload::new(longest, config.seed),
        verify_run: config.verify_run,
        commands: CommandLimits {
            sessions: 1,
            ..config.commands
        },
    });
    let guest = |(index, vm): (usize, &hakaru_contract::initiator::Vm)| Guest {
        vm: IscsiVm::new(Arc::new(vm.clone()), Arc::clone(&settings), index),
        connection: None,
        inbox: VecDeque::new(),
        timer: Timer::default(),
        ready: false,
        logged_out: false,
    };
    config.vms.iter().enumerate().map(guest).collect()
}

/// Returns an address of the world's own network: 0 is the target's portal, the others are the
/// VMs'.
fn address(host: u32) -> SocketAddr {
    let network = u32::from(Ipv4Addr::new(10, 0, 0, 1));
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(network + host)), 3260)
}
