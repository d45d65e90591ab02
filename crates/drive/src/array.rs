//! The array: port, controller, cache and groups, driven by one queue of events.
//!
//! [`Array`] owns all parts and handles all events:
//!
//! - a write's data has arrived through the port,
//! - the controller has finished a command, or its additional latency is over,
//! - the cache has served a request, or a group has been idle long enough to destage,
//! - a drive has finished a command,
//! - a read's data has left through the port.
//!
//! The requests present bound the work per call: a request causes at most four events, and one per
//! drive command. Events of one instant happen in the order of their creation.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hakaru_units::{MIB, Time};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::cache::{Action, Cache};
use crate::groups::{Access, Groups, Owner, Wake};
use crate::request::{Completion, Emptied, Op, Request};
use crate::server::{Port, Server};
use crate::usage::Usage;
use crate::validate::{self, ModelError};
use hakaru_contract::drive::{self as config, ArrayModel};
use slab::Slab;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    PortReceived { request: usize },
    ControllerDone { request: usize },
    LatencyOver { request: usize },
    CacheDone { request: usize },
    Cache,
    Drive { group: u32, drive: u32 },
    PortSent { request: usize },
}

/// Timing model of an entire array.
#[derive(Clone, Debug)]
pub struct Array {
    controller_config: config::Controller,
    controller: Server,
    /// Requests in the controller's additional latency.
    latency: Usage,
    port: Option<Port>,
    cache: Option<Cache>,
    hit_ns: u64,
    /// Instant of the scheduled event of the cache, mostly its deadline at that time.
    cache_wake: Option<Time>,
    groups: Groups,
    active: Slab<Request>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    events_made: u64,
    completions: VecDeque<Completion>,
    now: Time,
}

impl Array {
    /// Creates an idle array. `model` may contain names of drive presets. `seed` determines the
    /// angle of each platter at the origin of time, and the initial content of flash drives.
    ///
    /// # Errors
    /// A parameter is out of bounds or a preset is unknown. The message names it.
    pub fn new(model: &ArrayModel, seed: u64) -> Result<Array, ModelError> {
        let model = validate::resolve_array(model)?;
        let mut rng = Pcg64::seed_from_u64(seed);
        let groups = Groups::new(&model.groups, &mut rng);
        Ok(Array {
            controller_config: model.controller,
            controller: Server::default(),
            latency: Usage::default(),
            port: model.port.as_ref().map(Port::new),
            cache: model.cache.as_ref().map(|c| Cache::new(c, groups.shapes())),
            hit_ns: model.cache.as_ref().map_or(0, |c| (c.hit_us * 1e3) as u64),
            cache_wake: None,
            groups,
            active: Slab::default(),
            events: BinaryHeap::new(),
            events_made: 0,
            completions: VecDeque::new(),
            now: Time::ZERO,
        })
    }

    /// Returns the usable capacity of a group, bytes. `None` if the group does not exist.
    #[must_use]
    pub fn group_capacity_bytes(&self, group: u32) -> Option<u64> {
        self.groups.capacity_bytes(group)
    }

    /// Handles a request that arrives at `now`. The caller has placed LUs so that its range is
    /// within the group.
    ///
    /// # Panics
    /// If the group does not exist or the range is outside it, unless the range is unmapped.
    pub fn handle_request(&mut self, now: Time, request: Request) {
        self.handle_timeout(now);
        if !request.unmapped {
            let capacity = self
                .group_capacity_bytes(request.group)
                .expect("the group exists");
            let end = request.offset_bytes.checked_add(request.length_bytes);
            assert!(
                end.is_some_and(|end| end <= capacity),
                "the request lies within its group"
            );
        }
        let active = self.active.insert(request);
        match self.enter_port(active, Op::Write) {
            Some(at) => self.schedule(at, Event::PortReceived { request: active }),
            None => self.enter_controller(active),
        }
    }

    /// Handles all events due by `now`. A `now` earlier than that of a previous call counts as the
    /// latest one.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at > now {
                break;
            }
            self.events.pop();
            self.now = at;
            self.handle_event(event);
        }
        self.now = self.now.max(now);
    }

    /// Returns the next completion, in order of time.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Returns the instant at which [`Array::handle_timeout`] has to be called next. `None` if no
    /// event is pending.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.events.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Drops all data from the cache that the drives have. Without a cache, nothing is dropped.
    pub fn empty_cache(&mut self, now: Time) -> Emptied {
        self.handle_timeout(now);
        let cache = self.cache.as_mut();
        cache.map(Cache::empty).unwrap_or_default()
    }

    /// Calls `visit(entity, name, value)` for every counter as of `now`. The entities are
    /// `controller`, `port/0`, `cache`, `group/G` and `drive/G.D`.
    ///
    /// `busy_ns` is the time with at least one request present. A port whose directions transfer at
    /// the same time, and a flash drive, also have a busy time of each part (`receive_busy_ns`):
    /// over any window, the growth of the busiest part is the utilisation. The `service_ns` of a
    /// group is the time that its drives spent on commands that have ended. The controller's
    /// `queue_ns` includes its additional latency.
    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        self.handle_timeout(now);
        let now = self.now;
        self.controller.usage.advance(now);
        self.latency.advance(now);
        let mut controller = self.controller.usage.clone();
        controller.queue_ns += self.latency.queue_ns;
        controller.visit("controller", visit);
        if let Some(port) = &mut self.port {
            port.visit_counters(now, "port/0", visit);
        }
        if let Some(cache) = &mut self.cache {
            cache.visit_counters(now, visit);
        }
        self.groups.visit_counters(now, visit);
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.events_made += 1;
        self.events.push(Reverse((at, self.events_made, event)));
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::PortReceived { request } => {
                self.leave_port(request);
                self.enter_controller(request);
            }
            Event::ControllerDone { request } => {
                let &Request {
                    op, length_bytes, ..
                } = &self.active[request];
                let service = self.controller_ns(op, length_bytes);
                self.controller
                    .usage
                    .leave(self.now, op, length_bytes, service);
                let latency_ns = (self.controller_config.latency_us * 1e3) as u64;
                if latency_ns == 0 {
                    return self.enter_storage(request);
                }
                self.latency.arrive(self.now);
                let at = Time(self.now.0 + latency_ns);
                self.schedule(at, Event::LatencyOver { request });
            }
            Event::LatencyOver { request } => {
                self.latency.leave(self.now, Op::Flush, 0, 0);
                self.enter_storage(request);
            }
            Event::Drive { group, drive } => {
                self.groups.handle_wake(self.now, group, drive);
                self.settle();
            }
            Event::CacheDone { request } => self.leave_cache(request),
            Event::Cache => {
                self.cache_wake = None;
                if let Some(cache) = &mut self.cache {
                    cache.handle_timeout(self.now);
                }
                self.settle();
            }
            Event::PortSent { request } => {
                self.leave_port(request);
                self.complete(request);
            }
        }
    }

    /// Queues the data of a request at the port, if it crosses it in the direction of `op`. Returns
    /// the end of its transfer.
    fn enter_port(&mut self, request: usize, op: Op) -> Option<Time> {
        let (direction, bytes) = self.active[request].port_data()?;
        let port = self.port.as_mut().filter(|_| direction == op)?;
        port.submit(self.now, op, bytes)
    }

    fn leave_port(&mut self, request: usize) {
        let data = self.active[request].port_data();
        if let (Some(port), Some((op, bytes))) = (&mut self.port, data) {
            port.leave(self.now, op, bytes);
        }
    }

    /// Returns the time that the controller spends on a command for a range of this length. Flushes
    /// and unmaps name a range, often a whole LU, and move none of its data.
    fn controller_ns(&self, op: Op, length_bytes: u64) -> u64 {
        let config::Controller {
            command_us,
            data_us_per_mib,
            ..
        } = self.controller_config;
        let bytes = match op {
            Op::Read | Op::Write => length_bytes,
            Op::Unmap | Op::Flush => 0,
        };
        ((command_us + data_us_per_mib * bytes as f64 / MIB as f64) * 1e3) as u64
    }

    fn enter_controller(&mut self, request: usize) {
        let &Request {
            op, length_bytes, ..
        } = &self.active[request];
        let service = self.controller_ns(op, length_bytes);
        let at = self.controller.submit(self.now, service);
        self.schedule(at, Event::ControllerDone { request });
    }

    /// Passes a request from the controller to the cache, or to its group if there is no cache.
    fn enter_storage(&mut self, key: usize) {
        let request = self.active[key];
        if request.unmapped {
            return self.leave_storage(key);
        }
        match &mut self.cache {
            Some(cache) => cache.handle_request(self.now, key, &request),
            None => self.groups.submit(
                self.now,
                Access {
                    owner: Owner::Request(key),
                    group: request.group,
                    op: request.op,
                    offset_bytes: request.offset_bytes,
                    length_bytes: request.length_bytes,
                },
            ),
        }
        self.settle();
    }

    /// Exchanges actions and completions between groups and cache until neither has more.
    fn settle(&mut self) {
        loop {
            if let Some(Wake { at, group, drive }) = self.groups.poll_wake() {
                self.schedule(at, Event::Drive { group, drive });
            } else if let Some(access) = self.groups.poll_done() {
                match (access.owner, &mut self.cache) {
                    (Owner::Cache(token), Some(cache)) => cache.handle_access_done(self.now, token),
                    (Owner::Request(request) | Owner::Cache(request), _) => {
                        self.leave_storage(request);
                    }
                }
            } else if let Some(action) = self.cache.as_mut().and_then(Cache::poll_action) {
                self.apply_action(action);
            } else {
                break;
            }
        }
        let deadline = self.cache.as_ref().and_then(Cache::poll_timeout);
        if let (Some(at), None) = (deadline, self.cache_wake) {
            self.cache_wake = Some(at);
            self.schedule(at, Event::Cache);
        }
    }

    fn apply_action(&mut self, action: Action) {
        match action {
            Action::Access {
                token,
                group,
                op,
                offset_bytes,
                length_bytes,
            } => self.groups.submit(
                self.now,
                Access {
                    owner: Owner::Cache(token),
                    group,
                    op,
                    offset_bytes,
                    length_bytes,
                },
            ),
            Action::Ready { request, hit: true } => {
                let at = Time(self.now.0 + self.hit_ns);
                self.schedule(at, Event::CacheDone { request });
            }
            Action::Ready {
                request,
                hit: false,
            } => self.leave_cache(request),
        }
    }

    fn leave_cache(&mut self, request: usize) {
        let &Request {
            op, length_bytes, ..
        } = &self.active[request];
        if let Some(cache) = &mut self.cache {
            cache.handle_left(self.now, op, length_bytes);
        }
        self.leave_storage(request);
    }

    fn leave_storage(&mut self, request: usize) {
        match self.enter_port(request, Op::Read) {
            Some(at) => self.schedule(at, Event::PortSent { request }),
            None => self.complete(request),
        }
    }

    fn complete(&mut self, request: usize) {
        let id = self.active.remove(request).id;
        self.completions.push_back(Completion { id, at: self.now });
    }
}
