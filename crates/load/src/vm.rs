//! One emulated VM over iSCSI: its sessions with one LU and its load, as one state machine.
//!
//! ```text
//! connected → logged in → surveyed → Ready ─begin─→ load ─end─→ drained ─log_out─→ LoggedOut
//! ```
//! A VM usually has one session. Each of several sessions is a *leg*, numbered from 0, with its own
//! connection. Commands are distributed over the legs round-robin. A shell owns the sockets;
//! `world` (virtual time) owns the other end.
use std::sync::Arc;

use hakaru_contract::initiator::{Destination, Vm};
use hakaru_contract::{ConfigError, refuse};
use hakaru_iscsi_session::{LuFacts, Nexus, NexusEvent, Purpose, Session, SessionConfig, Transmit};
use hakaru_stats::Latencies;
use hakaru_units::Time;

use crate::counters::Counters;
use crate::load::Load;
use crate::region::resolve_region;
use crate::settings::{CommandLimits, Settings};
use crate::verify::{Verifier, volume_id};
use crate::vm_event::{VmError, VmEvent};
use crate::work::Work;

#[derive(Debug)]
enum Stage {
    Survey,
    Load(Box<Work>),
    Failed,
}

/// A session of the VM.
#[derive(Debug)]
struct Leg {
    nexus: Nexus,
    ready: bool,
    logged_out: bool,
    /// Commands in flight on this session.
    outstanding: u32,
    /// Number of BUSY and TASK SET FULL answers counted so far.
    busies: u64,
    /// Whether data was queued after the caller last sent for the leg.
    has_data: bool,
}

/// A VM over iSCSI. See the module's documentation.
#[derive(Debug)]
pub struct IscsiVm {
    config: Arc<Vm>,
    settings: Arc<Settings>,
    lun: u8,
    field: String,
    legs: Vec<Leg>,
    /// Next leg of the round-robin.
    turn: usize,
    stage: Stage,
    events: Vec<VmEvent>,
    /// Final counters of a failed VM.
    final_counters: Counters,
}

impl IscsiVm {
    /// Creates the VM that `config` describes. `index` is its position in the engine, which makes
    /// its session IDs unique.
    ///
    /// # Panics
    /// Panics if the VM's destination is not iSCSI.
    #[must_use]
    pub fn new(config: Arc<Vm>, settings: Arc<Settings>, index: usize) -> IscsiVm {
        let Destination::Iscsi { lun, .. } = config.destination else {
            panic!("{} has no iSCSI destination", config.name);
        };
        let sessions = settings.commands.sessions as usize;
        let leg = |leg: usize| Leg {
            nexus: Nexus::new(
                lun,
                session_config(&config, &settings, index * sessions + leg),
            ),
            ready: false,
            logged_out: false,
            outstanding: 0,
            busies: 0,
            has_data: false,
        };
        let legs = (0..sessions).map(leg).collect();
        IscsiVm {
            config,
            settings,
            lun,
            field: format!("vms[{index}]"),
            legs,
            turn: 0,
            stage: Stage::Survey,
            events: Vec::new(),
            final_counters: Counters::default(),
        }
    }

    /// Starts the login of a leg whose connection is established.
    pub fn handle_connected(&mut self, now: Time, leg: usize) {
        self.legs[leg].nexus.handle_connected(now);
    }

    /// Processes data that a leg received. Afterwards other legs may have data to send.
    pub fn handle_received(
        &mut self,
        now: Time,
        leg: usize,
        bytes: &[u8],
        latencies: &mut Latencies,
    ) {
        self.legs[leg].nexus.handle_received(now, bytes);
        self.advance(now, leg, latencies);
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
        self.advance(now, leg, latencies);
    }

    /// Returns when [`IscsiVm::handle_timeout`] must be called next. The load's deadlines belong to
    /// the first leg.
    #[must_use]
    pub fn poll_timeout(&self, leg: usize) -> Option<Time> {
        let load = match &self.stage {
            Stage::Load(work) if leg == 0 => work.load.poll_timeout(),
            _ => None,
        };
        [load, self.legs[leg].nexus.session().poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns a leg other than `current` that has had data queued. The caller is sending the data
    /// of `current`. Always `None` for a VM with one session.
    pub fn poll_transmit(&mut self, current: usize) -> Option<usize> {
        if self.legs.len() == 1 {
            return None;
        }
        self.legs[current].has_data = false;
        let leg = self.legs.iter().position(|leg| leg.has_data)?;
        self.legs[leg].has_data = false;
        Some(leg)
    }

    /// Starts the load. Requires that [`VmEvent::Ready`] was returned.
    pub fn begin(&mut self, now: Time) {
        if let Stage::Load(work) = &mut self.stage {
            work.load.begin(now);
        }
        self.issue(now);
    }

    /// Stops the load. Requests in flight still complete.
    pub fn end(&mut self) {
        if let Stage::Load(work) = &mut self.stage {
            work.load.end();
        }
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        match &self.stage {
            Stage::Load(work) => work.load.in_flight(),
            _ => 0,
        }
    }

    /// Logs out of all sessions. [`VmEvent::LoggedOut`] follows.
    pub fn log_out(&mut self, now: Time, latencies: &mut Latencies) {
        for leg in 0..self.legs.len() {
            self.legs[leg].nexus.log_out(now);
            self.legs[leg].has_data = true;
            self.advance(now, leg, latencies);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<VmEvent> {
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

    /// Returns the counters, complete until `now`.
    pub fn counters(&mut self, now: Time) -> Counters {
        match &mut self.stage {
            Stage::Load(work) => work.load.counters(now),
            _ => self.final_counters,
        }
    }

    /// Returns the VM's configuration.
    #[must_use]
    pub fn config(&self) -> &Vm {
        &self.config
    }

    fn advance(&mut self, now: Time, leg: usize, latencies: &mut Latencies) {
        self.handle_completions(now, leg, latencies);
        while let Some(event) = self.legs[leg].nexus.poll_event() {
            match event {
                NexusEvent::Ready(facts) => {
                    self.legs[leg].ready = true;
                    if self.legs.iter().all(|leg| leg.ready) {
                        self.become_ready(now, facts, latencies);
                    }
                }
                NexusEvent::Redirected { address } => {
                    self.events.push(VmEvent::Redirected { leg, address });
                }
                NexusEvent::Failed(error) => self.fail(now, error.into(), latencies),
                NexusEvent::LoggedOut => {
                    self.legs[leg].logged_out = true;
                    if self.legs.iter().all(|leg| leg.logged_out) {
                        self.events.push(VmEvent::LoggedOut);
                    }
                }
            }
        }
        self.issue(now);
    }

    /// Processes the completed commands of a leg.
    #[inline]
    fn handle_completions(&mut self, now: Time, leg: usize, latencies: &mut Latencies) {
        let leg = &mut self.legs[leg];
        while let Some(done) = leg.nexus.poll_done() {
            let Stage::Load(work) = &mut self.stage else {
                continue;
            };
            leg.outstanding -= 1;
            let outcome = work.handle_done(now, &done, latencies);
            if let Some(corruption) = outcome.corruption {
                self.events.push(VmEvent::Corrupt(corruption));
            }
            if let Some((op, error)) = outcome.failure {
                self.events.push(VmEvent::RequestFailed { op, error });
            }
            leg.nexus.recycle(done.data);
        }
    }

    fn become_ready(&mut self, now: Time, facts: LuFacts, latencies: &mut Latencies) {
        let (config, volume) = (&self.config, facts.volume);
        let longest = self.settings.commands.bytes_max;
        let extent = match resolve_region(&self.field, &config.region, &config.pattern, &volume)
            .and_then(|extent| check_command(longest, volume.block_bytes).map(|()| extent))
        {
            Ok(extent) => extent,
            Err(error) => return self.fail(now, error.into(), latencies),
        };
        let mut load = Load::new(config, extent);
        if let Some(run) = self.settings.verify_run {
            let id = volume_id(&config.destination.volume_name());
            let payload = Arc::clone(self.settings.payload.bytes());
            load = load.with_verifier(Verifier::new(id, run, volume.block_bytes, payload));
        }
        let payload = self.settings.payload.clone();
        let work = Work::new(load, longest, self.lun, volume.block_bytes, payload);
        self.stage = Stage::Load(Box::new(work));
        self.events.push(VmEvent::Ready(facts));
    }

    fn fail(&mut self, now: Time, error: VmError, latencies: &mut Latencies) {
        if let Stage::Load(work) = &mut self.stage {
            work.load.handle_lost(now, latencies);
            self.final_counters = work.load.counters(now);
        }
        if !matches!(self.stage, Stage::Failed) {
            self.stage = Stage::Failed;
            self.events.push(VmEvent::Failed(error));
        }
    }

    /// Admits every request that is due, and submits commands while sessions have room.
    fn issue(&mut self, now: Time) {
        let Stage::Load(work) = &mut self.stage else {
            return;
        };
        for leg in &mut self.legs {
            let busies = leg.nexus.session().busies();
            work.load.count_busy(busies - leg.busies);
            leg.busies = busies;
        }
        work.admit_due(now);
        while let Some(leg) = next_leg(&self.legs, self.turn, &self.settings.commands)
            && let Some(task) = work.poll_task()
        {
            self.turn = if leg + 1 < self.legs.len() {
                leg + 1
            } else {
                0
            };
            let leg = &mut self.legs[leg];
            leg.outstanding += 1;
            leg.has_data = true;
            leg.nexus.submit(now, task);
        }
    }
}

/// Returns the first leg from `turn` on that has room for a command.
fn next_leg(legs: &[Leg], turn: usize, limits: &CommandLimits) -> Option<usize> {
    (turn..legs.len())
        .chain(0..turn)
        .find(|&leg| legs[leg].outstanding < limits.outstanding_max)
}

/// Checks that commands end at block boundaries.
fn check_command(longest: Option<u32>, block_bytes: u32) -> Result<(), ConfigError> {
    match longest {
        Some(bytes) if bytes % block_bytes != 0 => refuse(
            "command_bytes_max",
            format!("{bytes} is not a multiple of the LU's block, {block_bytes} bytes"),
            format!("use a multiple of {block_bytes}"),
        ),
        _ => Ok(()),
    }
}

fn session_config(config: &Vm, settings: &Settings, index: usize) -> SessionConfig {
    let Destination::Iscsi {
        target_name,
        initiator_name,
        ..
    } = &config.destination
    else {
        unreachable!("IscsiVm::new checked the kind of destination");
    };
    SessionConfig {
        initiator_name: initiator_name.clone(),
        isid: Nexus::isid(config.seed, index),
        purpose: Purpose::Normal {
            target_name: target_name.clone(),
        },
        keys: settings.keys,
        chap: settings.chap.clone(),
        timeout: settings.timeout,
    }
}
