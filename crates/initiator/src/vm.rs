//! One emulated VM over iSCSI: its nexus and its load, as one machine.
//!
//! ```text
//!   connected → logged in → surveyed → Ready ──begin──→ load ──end──→ drained ──log_out──→ LoggedOut
//! ```
//! A shell owns the socket; `world` (virtual time) owns the other end.
use std::sync::Arc;
use std::time::Duration;

use hakaru_units::Time;
use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::{Cdb, Transfer};

use crate::config::{Destination, LoginKeys, Vm};
use crate::counters::{Counters, Latencies};
use crate::error::{SessionError, TaskError};
use crate::load::{Load, Request, RequestId};
use crate::nexus::{Nexus, NexusError, NexusEvent};
use crate::pattern::Op;
use crate::payload::Payload;
use crate::session::{Chap, Done, Negotiated, Purpose, SessionConfig, Task, TaskData};
use crate::survey::{LuFacts, SurveyError};
use crate::transmit::Transmit;
use crate::validate::ConfigError;
use crate::verify::{Corruption, Verifier, volume_id};

/// What all VMs of an engine share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Login keys.
    pub keys: LoginKeys,
    /// How the VMs prove who they are.
    pub chap: Option<Chap>,
    /// Limit for a login, a command, a ping and a logout.
    pub timeout: Duration,
    /// What writes carry.
    pub payload: Payload,
    /// Stamp and check every block; the number tells this run's stamps from earlier ones'.
    pub verify_run: Option<u32>,
}

/// What happened to a VM.
#[derive(Clone, Debug, PartialEq)]
pub enum VmEvent {
    /// Logged in and surveyed: [`IscsiVm::begin`] may be called.
    Ready(LuFacts),
    /// Connect again, to this address, then call [`IscsiVm::handle_connected`].
    Redirected {
        /// `address:port`.
        address: String,
    },
    /// A request failed; the load goes on.
    RequestFailed {
        /// Read or write.
        op: Op,
        /// How.
        error: TaskError,
    },
    /// A read brought data that cannot be: the run has failed.
    Corrupt(Corruption),
    /// The VM cannot go on; its requests in flight were counted as errors.
    Failed(VmError),
    /// The session ended as asked.
    LoggedOut,
}

/// Why a VM cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VmError {
    /// Its session ended.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its LU cannot be used.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// Its LU does not fit its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl From<NexusError> for VmError {
    fn from(error: NexusError) -> VmError {
        match error {
            NexusError::Session(error) => error.into(),
            NexusError::Survey(error) => error.into(),
        }
    }
}

#[derive(Debug)]
enum Stage {
    Survey,
    Load(Box<Load>),
    Failed,
}

/// One VM. See the module.
#[derive(Debug)]
pub struct IscsiVm {
    config: Arc<Vm>,
    settings: Arc<Settings>,
    lun: u8,
    field: String,
    nexus: Nexus,
    stage: Stage,
    block_bytes: u32,
    writes: u64,
    busies: u64,
    events: Vec<VmEvent>,
    /// Counters of a VM that has failed.
    last: Counters,
}

impl IscsiVm {
    /// The VM that `config` describes; `index` is its place in the engine and keeps its session ID apart from the others'.
    ///
    /// # Panics
    /// Panics if the VM's destination is not iSCSI: the caller drives files otherwise.
    #[must_use]
    pub fn new(config: Arc<Vm>, settings: Arc<Settings>, index: usize) -> IscsiVm {
        let Destination::Iscsi { lun, .. } = config.destination else {
            panic!("{} has no iSCSI destination", config.name);
        };
        let nexus = Nexus::new(lun, session_config(&config, &settings, index));
        IscsiVm {
            config,
            settings,
            lun,
            field: format!("vms[{index}]"),
            nexus,
            stage: Stage::Survey,
            block_bytes: 512,
            writes: 0,
            busies: 0,
            events: Vec::new(),
            last: Counters::default(),
        }
    }

    /// The connection stands.
    pub fn handle_connected(&mut self, now: Time) {
        self.nexus.handle_connected(now);
    }

    /// Takes what was received; new requests may be waiting to be sent then.
    pub fn handle_received(&mut self, now: Time, bytes: &[u8], latencies: &mut Latencies) {
        self.nexus.handle_received(now, bytes);
        self.advance(now, latencies);
    }

    /// The connection ended; `why` completes "connection lost …".
    pub fn handle_closed(&mut self, now: Time, why: &'static str, latencies: &mut Latencies) {
        self.nexus.handle_closed(now, why);
        self.advance(now, latencies);
    }

    /// Something may be due; harmless when nothing is.
    pub fn handle_timeout(&mut self, now: Time, latencies: &mut Latencies) {
        self.nexus.handle_timeout(now);
        self.advance(now, latencies);
    }

    /// When [`IscsiVm::handle_timeout`] is wanted next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let load = match &self.stage {
            Stage::Load(load) => load.poll_timeout(),
            _ => None,
        };
        match (self.nexus.poll_timeout(), load) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The load begins. Wants [`VmEvent::Ready`] to have come.
    pub fn begin(&mut self, now: Time) {
        if let Stage::Load(load) = &mut self.stage {
            load.begin(now);
        }
        self.issue(now);
    }

    /// The load ends; requests in flight still do.
    pub fn end(&mut self) {
        if let Stage::Load(load) = &mut self.stage {
            load.end();
        }
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        match &self.stage {
            Stage::Load(load) => load.in_flight(),
            _ => 0,
        }
    }

    /// Ends the session; [`VmEvent::LoggedOut`] comes.
    pub fn log_out(&mut self, now: Time, latencies: &mut Latencies) {
        self.nexus.log_out(now);
        self.advance(now, latencies);
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<VmEvent> {
        if self.events.is_empty() {
            None
        } else {
            Some(self.events.remove(0))
        }
    }

    /// What is to be sent.
    pub fn transmit(&mut self) -> &mut Transmit {
        self.nexus.transmit()
    }

    /// The connection is of no use any more.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.nexus.is_ended()
    }

    /// Keys as negotiated.
    #[must_use]
    pub fn negotiated(&self) -> &Negotiated {
        self.nexus.negotiated()
    }

    /// Counters, complete until `now`.
    pub fn counters(&mut self, now: Time) -> Counters {
        match &mut self.stage {
            Stage::Load(load) => load.counters(now),
            _ => self.last,
        }
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &Vm {
        &self.config
    }

    fn advance(&mut self, now: Time, latencies: &mut Latencies) {
        while let Some(done) = self.nexus.poll_done() {
            self.handle_request_done(now, done, latencies);
        }
        while let Some(event) = self.nexus.poll_event() {
            match event {
                NexusEvent::Ready(facts) => self.become_ready(now, facts, latencies),
                NexusEvent::Redirected { address } => {
                    self.events.push(VmEvent::Redirected { address });
                }
                NexusEvent::Failed(error) => self.fail(now, error.into(), latencies),
                NexusEvent::LoggedOut => self.events.push(VmEvent::LoggedOut),
            }
        }
        self.issue(now);
    }

    fn handle_request_done(&mut self, now: Time, done: Done, latencies: &mut Latencies) {
        let Stage::Load(load) = &mut self.stage else {
            return;
        };
        let id = RequestId(done.tag);
        let access = load.access(id);
        let expected = access.length_bytes;
        let mut result = done.result;
        if let Ok(moved) = result
            && moved != expected
        {
            result = Err(TaskError::Short { moved, expected });
        }
        match result {
            Ok(_) if access.op == Op::Read => {
                if let Err(corruption) = load.check(id, &done.data) {
                    self.events.push(VmEvent::Corrupt(corruption));
                }
            }
            Ok(_) => {}
            Err(error) => self.events.push(VmEvent::RequestFailed {
                op: access.op,
                error,
            }),
        }
        load.handle_done(now, id, result.is_ok(), latencies);
        self.nexus.recycle(done.data);
    }

    fn become_ready(&mut self, now: Time, facts: LuFacts, latencies: &mut Latencies) {
        let (config, volume) = (&self.config, facts.volume);
        let extent = match config.region.resolve(&self.field, &config.pattern, &volume) {
            Ok(extent) => extent,
            Err(error) => return self.fail(now, error.into(), latencies),
        };
        let mut load = Load::new(config, extent);
        if let Some(run) = self.settings.verify_run {
            let id = volume_id(&config.destination.volume_name());
            let payload = Arc::clone(self.settings.payload.bytes());
            load = load.with_verifier(Verifier::new(id, run, volume.block_bytes, payload));
        }
        self.block_bytes = volume.block_bytes;
        self.stage = Stage::Load(Box::new(load));
        self.events.push(VmEvent::Ready(facts));
    }

    fn fail(&mut self, now: Time, error: VmError, latencies: &mut Latencies) {
        if let Stage::Load(load) = &mut self.stage {
            load.handle_lost(now, latencies);
            self.last = load.counters(now);
        }
        if !matches!(self.stage, Stage::Failed) {
            self.stage = Stage::Failed;
            self.events.push(VmEvent::Failed(error));
        }
    }

    /// Submits every request that is due.
    fn issue(&mut self, now: Time) {
        let Stage::Load(load) = &mut self.stage else {
            return;
        };
        let busies = self.nexus.busies();
        load.count_busy(busies - self.busies);
        self.busies = busies;
        while let Some(request) = load.poll_request(now) {
            let task = new_task(
                load,
                &request,
                self.lun,
                self.block_bytes,
                &self.settings.payload,
                self.writes,
            );
            self.writes += u64::from(request.access.op == Op::Write);
            self.nexus.submit(now, task);
        }
    }
}

fn session_config(config: &Vm, settings: &Settings, index: usize) -> SessionConfig {
    let Destination::Iscsi {
        target_name,
        initiator_name,
        ..
    } = &config.destination
    else {
        unreachable!("checked by IscsiVm::new");
    };
    SessionConfig {
        initiator_name: initiator_name.clone(),
        isid: Nexus::isid(config.seed, index),
        purpose: Purpose::Normal {
            target_name: target_name.clone(),
        },
        keys: settings.keys.clone(),
        chap: settings.chap.clone(),
        timeout: settings.timeout,
    }
}

fn new_task(
    load: &mut Load,
    request: &Request,
    lun: u8,
    block_bytes: u32,
    payload: &Payload,
    writes: u64,
) -> Task {
    let access = request.access;
    let transfer = Transfer {
        lba: access.offset_bytes / u64::from(block_bytes),
        blocks: access.length_bytes / block_bytes,
        ..Transfer::default()
    };
    let length = access.length_bytes;
    let (cdb, data) = match access.op {
        Op::Read => (
            Cdb::Read(transfer),
            TaskData::In {
                length,
                keep: load.verifies(),
            },
        ),
        Op::Write if load.verifies() => {
            let mut stamped = Vec::with_capacity(length as usize);
            load.stamp(&access, &mut stamped);
            (
                Cdb::Write(transfer),
                TaskData::Out {
                    buffer: Arc::new(stamped),
                    begin: 0,
                    length,
                },
            )
        }
        Op::Write => {
            let (buffer, begin) = (
                Arc::clone(payload.bytes()),
                payload.begin_of(writes, length),
            );
            (
                Cdb::Write(transfer),
                TaskData::Out {
                    buffer,
                    begin,
                    length,
                },
            )
        }
    };
    Task {
        tag: request.id.0,
        lun: Lun::new(lun.into()),
        cdb: cdb.emit(),
        data,
    }
}
