//! A host: sessions with one target, and the VMs that use them, as one state machine.
//!
//! ```text
//! connected → logged in → surveyed → Ready ─begin─→ load ─end─→ drained ─log_out─→ LoggedOut
//!
//!   guest:  load → queue and ring of its disk ─┐
//!   guest:  load → queue and ring of its disk ─┼→ queue of the LU in the host → session → target
//!   guest:  load → queue and ring of its disk ─┘
//! ```
//! There are two arrangements. If the VMs share sessions, the host has one session and any number
//! of VMs. Otherwise it has one VM and usually one session; commands are distributed over several
//! sessions round-robin. A machine that assigns each of its VMs one of several paths is one
//! `IscsiHost` per path, because its sessions share nothing; [`crate::MultipathHost`] uses several
//! paths for one VM. Each session is a *leg*, numbered from 0, with its own
//! connection. A shell owns the sockets; `world` (virtual time) owns the other end.
//!
//! Without a queue in the guest and without sharing, commands are never queued in the host: they
//! remain in their request until a session has room.
use std::sync::Arc;

use hakaru_contract::initiator::{Destination, Load, SHARERS_MAX, Vm};
use hakaru_iscsi_session::{
    Arrival, LuFacts, Nexus, NexusEvent, Purpose, Session, SessionConfig, SessionTimers, Transmit,
};
use hakaru_stats::Latencies;
use hakaru_units::Time;

use crate::commands::TAG_BITS;
use crate::counters::Counters;
use crate::event::{HostEvent, VmError};
use crate::guest::Guest;
use crate::host_queue::HostQueue;
use crate::settings::Settings;

/// A session of the host.
#[derive(Debug)]
struct Leg {
    nexus: Nexus,
    ready: bool,
    logged_out: bool,
    /// Commands in flight on this session.
    outstanding: u32,
    /// Whether data was queued after the caller last sent for the leg.
    has_data: bool,
}

/// A host. See the module's documentation.
#[derive(Debug)]
pub struct IscsiHost {
    settings: Arc<Settings>,
    legs: Vec<Leg>,
    /// Maximum number of outstanding commands per leg.
    leg_outstanding_max: u32,
    /// Next leg of the round-robin.
    turn: usize,
    guests: Vec<Guest>,
    /// Whether any load is open. Closed loads have no deadlines.
    is_paced: bool,
    /// Deadline of the loads that the timer of the first leg includes.
    armed: Option<Time>,
    /// VMs that are due to issue commands, if there is a queue. Each also has `is_due` set.
    due: Vec<usize>,
    /// Commands that wait for a session; `None` if they remain in their requests.
    queue: Option<Box<HostQueue>>,
    events: Vec<HostEvent>,
}

impl IscsiHost {
    /// Creates a host of the VMs with these positions in the engine. All VMs use the portal, target
    /// and initiator name of the first one, whose position makes the session IDs unique.
    ///
    /// # Panics
    /// Panics without a VM, with several VMs that do not share sessions, and if the destination of
    /// a VM is not iSCSI.
    #[must_use]
    pub fn new(vms: Vec<(usize, Arc<Vm>)>, settings: Arc<Settings>) -> IscsiHost {
        let limits = &settings.commands;
        assert!(
            vms.len() == 1 || limits.share_sessions && vms.len() <= SHARERS_MAX,
            "a host has one VM, or up to {SHARERS_MAX} that share its session"
        );
        let (first, config) = &vms[0];
        let (first, config) = (*first, Arc::clone(config));
        let guests = vms.into_iter().map(|(index, vm)| Guest::new(vm, index));
        let mut guests: Vec<Guest> = guests.collect();
        let is_open = |guest: &Guest| matches!(guest.config().load, Load::Open { .. });
        let luns = assign_lus(&mut guests);
        let sessions = limits.sessions as usize;
        let leg = |leg: usize| Leg {
            nexus: Nexus::new(
                &luns,
                session_config(&config, &settings, first * sessions + leg),
            ),
            ready: false,
            logged_out: false,
            outstanding: 0,
            has_data: false,
        };
        let legs = (0..sessions).map(leg).collect();
        let lu_max = limits.lu_outstanding_max;
        // A VM with its own sessions has one LU, whose limit applies to each of them.
        let (leg_outstanding_max, lu_max) = if limits.share_sessions {
            (limits.session_outstanding_max, lu_max)
        } else {
            (limits.session_outstanding_max.min(lu_max), u32::MAX)
        };
        let has_queue = limits.share_sessions || limits.guest_queue.is_some();
        let queue = has_queue.then(|| Box::new(HostQueue::new(luns.len(), lu_max)));
        IscsiHost {
            settings,
            legs,
            leg_outstanding_max,
            turn: 0,
            is_paced: guests.iter().any(is_open),
            armed: None,
            guests,
            due: Vec::new(),
            queue,
            events: Vec::new(),
        }
    }

    /// Starts the login of a leg whose connection is established.
    pub fn handle_connected(&mut self, now: Time, leg: usize) {
        self.legs[leg].nexus.handle_connected(now);
    }

    /// Processes data that a leg received, with the time of its arrival. Afterwards other legs may
    /// have data to send.
    pub fn handle_received(
        &mut self,
        arrival: impl Into<Arrival>,
        leg: usize,
        bytes: &[u8],
        latencies: &mut Latencies,
    ) {
        let arrival = arrival.into();
        self.legs[leg].nexus.handle_received(arrival, bytes);
        self.advance(arrival.last, leg, latencies);
    }

    /// Handles the end of a leg's connection. `cause` completes the message "connection lost …".
    pub fn handle_closed(
        &mut self,
        now: Time,
        leg: usize,
        cause: &'static str,
        latencies: &mut Latencies,
    ) {
        self.legs[leg].nexus.handle_closed(now, cause);
        self.advance(now, leg, latencies);
    }

    /// Handles the deadlines of a leg that have passed. A call before any deadline has no effect.
    pub fn handle_timeout(&mut self, now: Time, leg: usize, latencies: &mut Latencies) {
        self.legs[leg].nexus.handle_timeout(now);
        self.make_all_due();
        self.advance(now, leg, latencies);
    }

    /// Returns when [`IscsiHost::handle_timeout`] must be called next. The deadlines of the loads
    /// belong to the first leg.
    #[must_use]
    pub fn poll_timeout(&self, leg: usize) -> Option<Time> {
        let load = (leg == 0).then(|| self.load_deadline()).flatten();
        [load, self.legs[leg].nexus.session().poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns a leg other than `current` that has had data queued, or whose timer is too late. The
    /// caller is sending the data of `current`. Always `None` for a host with one session.
    pub fn poll_transmit(&mut self, current: usize) -> Option<usize> {
        if self.legs.len() == 1 {
            return None;
        }
        self.legs[current].has_data = false;
        let leg = self.legs.iter().position(|leg| leg.has_data)?;
        self.legs[leg].has_data = false;
        Some(leg)
    }

    /// Starts the load of every VM. Requires that [`HostEvent::Ready`] was returned.
    pub fn begin(&mut self, now: Time) {
        for guest in &mut self.guests {
            if let Some(work) = guest.work() {
                work.load.begin(now);
            }
        }
        self.make_all_due();
        self.issue(now);
    }

    /// Begins the measuring phase of every VM.
    pub fn measure(&mut self, now: Time) {
        for guest in &mut self.guests {
            if let Some(work) = guest.work() {
                work.load.measure(now);
            }
        }
    }

    /// Ends the load of every VM. Requests in flight still complete.
    pub fn end(&mut self, now: Time, latencies: &mut Latencies) {
        for guest in &mut self.guests {
            if let Some(work) = guest.work() {
                work.load.end(now, latencies);
            }
        }
    }

    /// Returns the number of requests in flight of all VMs.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.guests.iter().map(Guest::in_flight).sum()
    }

    /// Logs out of all sessions. [`HostEvent::LoggedOut`] follows.
    pub fn log_out(&mut self, now: Time, latencies: &mut Latencies) {
        for leg in 0..self.legs.len() {
            self.legs[leg].nexus.log_out(now);
            self.legs[leg].has_data = true;
            self.advance(now, leg, latencies);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        if self.events.is_empty() {
            None
        } else {
            Some(self.events.remove(0))
        }
    }

    /// Returns the send queue of a leg.
    pub fn transmit(&mut self, leg: usize) -> &mut Transmit {
        self.legs[leg].nexus.transmit()
    }

    /// Returns the number of legs, one per session.
    #[must_use]
    pub fn legs(&self) -> usize {
        self.legs.len()
    }

    /// Returns the session of a leg.
    #[must_use]
    pub fn session(&self, leg: usize) -> &Session {
        self.legs[leg].nexus.session()
    }

    /// Returns the number of VMs, at least 1.
    #[must_use]
    pub fn vms(&self) -> usize {
        self.guests.len()
    }

    /// Returns the counters of a VM, complete until `now`.
    pub fn counters(&mut self, now: Time, vm: usize) -> Counters {
        self.guests[vm].counters(now)
    }

    /// Returns the configuration of a VM.
    #[must_use]
    pub fn config(&self, vm: usize) -> &Vm {
        self.guests[vm].config()
    }

    fn advance(&mut self, now: Time, leg: usize, latencies: &mut Latencies) {
        self.handle_completions(leg, latencies);
        while let Some(event) = self.legs[leg].nexus.poll_event() {
            match event {
                NexusEvent::Ready(facts) => {
                    self.legs[leg].ready = true;
                    if self.legs.iter().all(|leg| leg.ready) {
                        self.become_ready(now, facts, latencies);
                    }
                }
                NexusEvent::Redirected { address } => {
                    self.events.push(HostEvent::Redirected { leg, address });
                }
                NexusEvent::Failed(error) => self.fail_all(now, &error.into(), latencies),
                NexusEvent::LoggedOut => {
                    self.legs[leg].logged_out = true;
                    if self.legs.iter().all(|leg| leg.logged_out) {
                        self.events.push(HostEvent::LoggedOut);
                    }
                }
            }
        }
    }

    /// Processes the completed commands of a leg.
    #[inline]
    fn handle_completions(&mut self, leg: usize, latencies: &mut Latencies) {
        let leg = &mut self.legs[leg];
        while let Some(mut done) = leg.nexus.poll_done() {
            let vm = (done.tag >> TAG_BITS) as usize;
            done.tag &= (1 << TAG_BITS) - 1;
            let guest = &mut self.guests[vm];
            if let Some(queue) = &mut self.queue {
                queue.handle_done(guest.lu);
                if !std::mem::replace(&mut guest.is_due, true) {
                    self.due.push(vm);
                }
            }
            leg.outstanding -= 1;
            let Some(work) = guest.work() else {
                continue;
            };
            let outcome = work.handle_done(&done, latencies);
            if let Some(corruption) = outcome.corruption {
                self.events.push(HostEvent::Corrupt { vm, corruption });
            }
            if let Some((op, error)) = outcome.failure {
                self.events.push(HostEvent::RequestFailed { vm, op, error });
            }
            leg.nexus.recycle(done.data);
        }
    }

    fn become_ready(&mut self, now: Time, mut facts: Vec<LuFacts>, latencies: &mut Latencies) {
        let mut is_ready = true;
        for vm in 0..self.guests.len() {
            let guest = &mut self.guests[vm];
            if let Err(error) = guest.become_ready(&facts[guest.lu], &self.settings) {
                guest.fail(now, latencies);
                is_ready = false;
                let error = error.into();
                self.events.push(HostEvent::Failed { vm, error });
            }
        }
        if is_ready {
            self.events.push(HostEvent::Ready(facts.swap_remove(0)));
        }
    }

    /// Fails every VM, because a session is lost.
    fn fail_all(&mut self, now: Time, error: &VmError, latencies: &mut Latencies) {
        if let Some(queue) = &mut self.queue {
            queue.clear();
        }
        for (vm, guest) in self.guests.iter_mut().enumerate() {
            if guest.fail(now, latencies) {
                let error = error.clone();
                self.events.push(HostEvent::Failed { vm, error });
            }
        }
    }

    /// Returns when a load must issue its next request.
    fn load_deadline(&self) -> Option<Time> {
        if self.is_paced {
            self.guests.iter().filter_map(Guest::poll_timeout).min()
        } else {
            None
        }
    }

    /// Makes the caller serve the first leg if the loads have an earlier deadline than its timer,
    /// because a completion on another leg has freed a request.
    fn arm_loads(&mut self) {
        if self.is_paced && self.legs.len() > 1 {
            let deadline = self.load_deadline();
            if deadline.is_some_and(|at| self.armed.is_none_or(|armed| at < armed)) {
                self.legs[0].has_data = true;
            }
            self.armed = deadline;
        }
    }

    /// Makes every VM due, because requests of any of them may be.
    fn make_all_due(&mut self) {
        if self.queue.is_some() {
            self.due.clear();
            self.due.extend(0..self.guests.len());
            self.guests.iter_mut().for_each(|guest| guest.is_due = true);
        }
    }

    /// Admits every request that is due, and submits commands while sessions have room. The caller
    /// calls this after it has handled events and before it sends, so that a request of a closed
    /// load begins when it is passed to the socket.
    pub fn issue(&mut self, now: Time) {
        if self.queue.is_some() {
            self.issue_queued(now);
        } else {
            self.issue_directly(now);
        }
        self.arm_loads();
    }

    /// Submits the commands of the only VM, oldest request first.
    fn issue_directly(&mut self, now: Time) {
        let Some(work) = self.guests[0].work() else {
            return;
        };
        work.admit_due(now);
        while let Some(leg) = next_leg(&self.legs, self.turn, self.leg_outstanding_max)
            && let Some(command) = work.poll_command(now)
        {
            self.turn = if leg + 1 < self.legs.len() {
                leg + 1
            } else {
                0
            };
            let leg = &mut self.legs[leg];
            leg.outstanding += 1;
            leg.has_data = true;
            leg.nexus.submit(now, work.task_of(command));
        }
    }

    /// Queues the commands that leave the guests, and submits those that come first.
    fn issue_queued(&mut self, now: Time) {
        let Some(queue) = &mut self.queue else {
            return;
        };
        for vm in self.due.drain(..) {
            let guest = &mut self.guests[vm];
            guest.is_due = false;
            let lu = guest.lu;
            let Some(work) = guest.work() else {
                continue;
            };
            work.admit_due(now);
            while let Some(command) = work.poll_command(now) {
                work.enter_host_queue(now);
                queue.add(lu, vm, command);
            }
        }
        while let Some(leg) = next_leg(&self.legs, self.turn, self.leg_outstanding_max)
            && let Some((vm, command)) = queue.poll()
        {
            self.turn = (leg + 1) % self.legs.len();
            let work = self.guests[vm]
                .work()
                .expect("the queue was cleared when VMs failed");
            work.leave_host_queue(now);
            let mut task = work.task_of(command);
            task.tag |= (vm as u32) << TAG_BITS;
            let leg = &mut self.legs[leg];
            leg.outstanding += 1;
            leg.has_data = true;
            leg.nexus.submit(now, task);
        }
    }
}

/// Assigns each VM the index of its LU, and returns the LUNs, each once.
fn assign_lus(guests: &mut [Guest]) -> Box<[u8]> {
    let mut luns = Vec::new();
    for guest in guests {
        let known = luns.iter().position(|&lun| lun == guest.lun());
        guest.lu = known.unwrap_or(luns.len());
        if known.is_none() {
            luns.push(guest.lun());
        }
    }
    luns.into()
}

/// Returns the first leg from `turn` on that has room for a command.
fn next_leg(legs: &[Leg], turn: usize, outstanding_max: u32) -> Option<usize> {
    (turn..legs.len())
        .chain(0..turn)
        .find(|&leg| legs[leg].outstanding < outstanding_max)
}

fn session_config(config: &Vm, settings: &Settings, index: usize) -> SessionConfig {
    let Destination::Iscsi {
        target_name,
        initiator_name,
        ..
    } = &config.destination
    else {
        unreachable!("Guest::new checked the kind of destination");
    };
    SessionConfig {
        initiator_name: initiator_name.clone(),
        isid: Nexus::isid(config.seed, index),
        purpose: Purpose::Normal {
            target_name: target_name.clone(),
        },
        keys: settings.keys,
        chap: settings.chap.clone(),
        timers: SessionTimers::new(settings.timeout),
    }
}

/// Groups VMs by the host whose sessions they use, in the order of their first VM. The numbers are
/// positions in the engine. VMs whose destination is a file are left out.
#[must_use]
pub fn hosts_of(vms: &[Vm], share_sessions: bool) -> Vec<Vec<(usize, Arc<Vm>)>> {
    let mut hosts: Vec<Vec<(usize, Arc<Vm>)>> = Vec::new();
    let mut by_session = std::collections::HashMap::new();
    for (index, vm) in vms.iter().enumerate() {
        let Some(session) = vm.destination.session_name() else {
            continue;
        };
        let host = if share_sessions {
            *by_session.entry(session).or_insert(hosts.len())
        } else {
            hosts.len()
        };
        if host == hosts.len() {
            hosts.push(Vec::new());
        }
        hosts[host].push((index, Arc::new(vm.clone())));
    }
    hosts
}
