//! The sessions of a job, and the queue of those that may have data to send.
use std::collections::VecDeque;
use std::time::Duration;

use hakaru_contract::LoginKeys;
use hakaru_contract::backup::{BackupJob, Lu};
use hakaru_iscsi_session::{
    Chap, Done, LuKind, Nexus, NexusEvent, Purpose, Session, SessionConfig, SessionTimers, Task,
    TaskData,
};
use hakaru_units::Time;
use hakaru_wire::iscsi::Lun;
use hakaru_wire::scsi::Cdb;

use crate::disk::Disk;
use crate::error::Side;

/// Settings shared by all jobs of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Login keys.
    pub keys: LoginKeys,
    /// Authentication of the sessions.
    pub chap: Option<Chap>,
    /// Timeout of a login, a command, a ping and a logout.
    pub timeout: Duration,
    /// Timeout of a command to a tape drive or its changer, and of the logout from them.
    pub tape_timeout: Duration,
    /// Seed of the ISIDs, which distinguishes this engine's sessions from those of another engine
    /// with the same initiator name.
    pub seed: u64,
}

/// One of a job's ends: `2 × stream` at the source, `2 × stream + 1` at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leg(pub usize);

impl Leg {
    /// Returns the index of the leg's stream.
    #[must_use]
    pub fn stream(self) -> usize {
        self.0 / 2
    }

    /// Returns the side of the leg's LU.
    #[must_use]
    pub fn side(self) -> Side {
        if self.0.is_multiple_of(2) {
            Side::Source
        } else {
            Side::Destination
        }
    }
}

/// How a leg reaches its LU.
#[derive(Debug)]
enum End {
    Session(Box<Nexus>),
    Disk(Disk),
}

/// All legs of a job: sessions, or disks.
#[derive(Debug)]
pub(super) struct Legs {
    ends: Vec<End>,
    /// LUN of each side.
    luns: [u8; 2],
    /// Legs that may have data to send and that `poll_touched` has not returned yet.
    touched: VecDeque<Leg>,
}

impl Legs {
    /// Creates the legs of a job, not connected. The first session has the number `session`.
    pub(super) fn new(config: &BackupJob, settings: &Settings, session: usize) -> Legs {
        let count = 2 * config.streams as usize;
        let ends = (0..count).map(|leg| {
            if config.disks.is_some() {
                return End::Disk(Disk::default());
            }
            let lu = match Leg(leg).side() {
                Side::Source => &config.source,
                Side::Destination => &config.destination,
            };
            let mut session = session_config(lu, settings, session + leg);
            let nexus = match (Leg(leg).side(), &config.tape) {
                (Side::Destination, Some(tape)) => {
                    session.timers.command = settings.tape_timeout;
                    let units = [
                        (lu.lun, LuKind::TapeDrive),
                        (tape.changer_lun, LuKind::Changer),
                    ];
                    Nexus::of_units(units.into(), session)
                }
                _ => Nexus::new(&[lu.lun], session),
            };
            End::Session(Box::new(nexus))
        });
        Legs {
            ends: ends.collect(),
            luns: [config.source.lun, config.destination.lun],
            touched: VecDeque::new(),
        }
    }

    /// Returns all legs.
    pub(super) fn all(&self) -> impl Iterator<Item = Leg> + use<> {
        (0..self.ends.len()).map(Leg)
    }

    /// Returns the nexus of a leg, which must have a session.
    pub(super) fn nexus(&mut self, leg: Leg) -> &mut Nexus {
        match &mut self.ends[leg.0] {
            End::Session(nexus) => nexus,
            End::Disk(_) => panic!("a disk has no session"),
        }
    }

    /// Returns the session of a leg; none for a disk.
    pub(super) fn session(&self, leg: Leg) -> Option<&Session> {
        match &self.ends[leg.0] {
            End::Session(nexus) => Some(nexus.session()),
            End::Disk(_) => None,
        }
    }

    /// Returns the disk of a leg; none for a session.
    pub(super) fn disk(&mut self, leg: Leg) -> Option<&mut Disk> {
        match &mut self.ends[leg.0] {
            End::Session(_) => None,
            End::Disk(disk) => Some(disk),
        }
    }

    /// Returns the next completed task of a session.
    pub(super) fn poll_done(&mut self, leg: Leg) -> Option<Done> {
        match &mut self.ends[leg.0] {
            End::Session(nexus) => nexus.poll_done(),
            End::Disk(_) => None,
        }
    }

    /// Returns the next event of a session.
    pub(super) fn poll_event(&mut self, leg: Leg) -> Option<NexusEvent> {
        match &mut self.ends[leg.0] {
            End::Session(nexus) => nexus.poll_event(),
            End::Disk(_) => None,
        }
    }

    /// Accepts a buffer for reuse by later reads.
    pub(super) fn recycle(&mut self, leg: Leg, buffer: Vec<u8>) {
        match &mut self.ends[leg.0] {
            End::Session(nexus) => nexus.recycle(buffer),
            End::Disk(disk) => disk.recycle(buffer),
        }
    }

    /// Records that a leg may have data to send, or an earlier deadline.
    pub(super) fn touch(&mut self, leg: Leg) {
        if !self.touched.contains(&leg) {
            self.touched.push_back(leg);
        }
    }

    /// Returns the next leg that may have data to send.
    pub(super) fn poll_touched(&mut self) -> Option<Leg> {
        self.touched.pop_front()
    }

    /// Submits a task to the LU of a leg.
    pub(super) fn submit(&mut self, now: Time, leg: Leg, tag: u32, cdb: Cdb, data: TaskData) {
        let lun = self.luns[leg.side() as usize];
        self.submit_to(now, leg, lun, tag, cdb, data);
    }

    /// Submits a task to an LU of a leg's target.
    pub(super) fn submit_to(
        &mut self,
        now: Time,
        leg: Leg,
        lun: u8,
        tag: u32,
        cdb: Cdb,
        data: TaskData,
    ) {
        let task = Task {
            tag,
            lun: Lun::new(lun.into()),
            cdb: cdb.emit(),
            data,
        };
        self.nexus(leg).submit(now, task);
        self.touch(leg);
    }
}

fn session_config(lu: &Lu, settings: &Settings, session: usize) -> SessionConfig {
    SessionConfig {
        initiator_name: lu.initiator_name.clone(),
        isid: Nexus::isid(settings.seed, session),
        purpose: Purpose::Normal {
            target_name: lu.target_name.clone(),
        },
        keys: settings.keys,
        chap: settings.chap.clone(),
        timers: SessionTimers::new(settings.timeout),
    }
}
