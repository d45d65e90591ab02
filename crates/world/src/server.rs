//! The array of a world: the target, its storage, and the deadlines of both.
use std::net::SocketAddr;

use hakaru_iscsi_target::{ConnectionId, Segment as Piece, Target, TargetConfig};
use hakaru_store::{LuMemory, Storage};
use hakaru_units::Time;

use crate::config::WorldConfig;
use crate::error::WorldError;
use crate::events::{Event, Events, Timer};
use crate::lus;
use crate::memory::WorldMemory;

/// A target and its storage. After any call of the target, call [`Server::settle`].
#[derive(Debug)]
pub(crate) struct Server {
    pub target: Target,
    storage: Storage<WorldMemory>,
    target_timer: Timer,
    storage_timer: Timer,
}

impl Server {
    /// Creates the array at time zero, without connections.
    ///
    /// # Errors
    /// The model has an impossible parameter, or an LU exceeds its group.
    pub fn new(config: &WorldConfig, portal: SocketAddr) -> Result<Server, WorldError> {
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
            portals: vec![portal],
            port_groups: Vec::new(),
            lus: lus::descriptions(config),
            access: hakaru_iscsi_target::Access::default(),
            limits: config.limits.clone(),
        });
        Ok(Server {
            target,
            storage,
            target_timer: Timer::default(),
            storage_timer: Timer::default(),
        })
    }

    /// Carries accesses and results between target and storage until none is pending.
    pub fn settle(&mut self, now: Time) {
        loop {
            while let Some(io) = self.target.poll_io() {
                let target = &mut self.target;
                let mut take_buffer = |length| target.take_buffer(length);
                self.storage.submit(now, io, &mut take_buffer);
            }
            while let Some(returned) = self.target.poll_returned() {
                self.storage.take_back(returned);
            }
            while let Some(id) = self.target.poll_unwanted() {
                self.storage.cancel(now, id);
            }
            let Some((id, result)) = self.storage.poll_done() else {
                break;
            };
            self.target.handle_io_done(now, id, result);
        }
    }

    /// Queues the deadlines of target and storage.
    pub fn schedule(&mut self, now: Time, events: &mut Events) {
        let (target, storage) = (self.target.poll_timeout(), self.storage.poll_timeout());
        self.target_timer
            .schedule(target, now, Event::TargetTimer, events);
        self.storage_timer
            .schedule(storage, now, Event::ArrayTimer, events);
    }

    /// Handles the target's deadline. Returns false if an earlier event replaced it.
    pub fn handle_target_timer(&mut self, now: Time) -> bool {
        let is_due = self.target_timer.fire(now);
        if is_due {
            self.target.handle_timeout(now);
        }
        is_due
    }

    /// Handles the storage's deadline. Returns false if an earlier event replaced it.
    pub fn handle_storage_timer(&mut self, now: Time) -> bool {
        let is_due = self.storage_timer.fire(now);
        if is_due {
            let target = &mut self.target;
            let mut take_buffer = |length| target.take_buffer(length);
            self.storage.handle_timeout(now, &mut take_buffer);
        }
        is_due
    }

    /// Appends data that the target sends on a connection to `segment`, up to `length_max` bytes.
    pub fn fill_segment(
        &mut self,
        now: Time,
        connection: ConnectionId,
        segment: &mut Vec<u8>,
        length_max: usize,
    ) {
        for piece in self.target.transmit(connection).segments() {
            let room = length_max - segment.len();
            match piece {
                Piece::Bytes(slice) => segment.extend_from_slice(&slice[..slice.len().min(room)]),
                Piece::Lu {
                    lun,
                    offset_bytes,
                    length_bytes,
                } => {
                    let length = room.min(length_bytes as usize);
                    append(&self.storage, lun, offset_bytes, length, segment);
                }
            }
            if segment.len() == length_max {
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
            .handle_transmitted(now, connection, segment.len(), &mut read_lu);
    }

    /// Calls `visit` with each counter of the target, the storage and the model.
    pub fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        self.target.visit_counters(&mut *visit);
        self.storage.visit_counters(now, visit);
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
