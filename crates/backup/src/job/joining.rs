//! Preparation of a job: every leg surveys its LU, the first destination reports whether it is
//! writable, and the image is divided into parts.
use hakaru_iscsi_session::{Done, LuFacts, TaskData, Volume};
use hakaru_units::Time;
use hakaru_wire::scsi::{Cdb, ModeData, ModeSense, PageControl};

use super::{Job, JobEvent, Leg, MODE, Stage};
use crate::error::{JobError, Side};
use crate::pack::Packer;
use crate::part::{Part, Place};
use crate::plan::plan_parts;
use crate::tape::TapeCopy;
use hakaru_contract::backup::Compression;

/// Allocation length of MODE SENSE, bytes: room for a mode parameter header and the pages of common
/// targets.
const MODE_BYTES: u16 = 252;

impl Job {
    /// Accepts the facts of a leg's LU. The first stream's destination is also asked whether it is
    /// write-protected.
    pub(super) fn handle_joined(&mut self, now: Time, leg: Leg, facts: LuFacts) {
        if leg.stream() == 0 {
            self.volumes[leg.side() as usize] = Some(facts.volume);
            self.facts[leg.side() as usize] = Some(facts);
        }
        // A tape may not be in its drive yet; its preparation asks.
        if leg != Leg(1) || self.tape.is_some() {
            return self.join();
        }
        let length = MODE_BYTES.into();
        let cdb = Cdb::ModeSense(ModeSense {
            ten: false,
            disable_block_descriptors: true,
            long_lba: false,
            control: PageControl::Current,
            page: 0x3f,
            subpage: 0,
            allocation_length: MODE_BYTES,
        });
        let data = TaskData::In { length, keep: true };
        self.legs.submit(now, leg, MODE, cdb, data);
    }

    /// Counts a leg as ready. Plans the parts once all legs are ready.
    pub(super) fn join(&mut self) {
        let Stage::Joining { ready_legs } = &mut self.stage else {
            return;
        };
        *ready_legs += 1;
        if *ready_legs < self.legs.all().count() {
            return;
        }
        match self.plan() {
            Ok(parts) => {
                self.parts = parts;
                self.stage = Stage::Ready;
                self.events.push_back(JobEvent::Ready);
            }
            Err(error) => self.fail(error),
        }
    }

    /// Returns the parts of the image.
    pub(super) fn plan(&self) -> Result<Vec<Part>, JobError> {
        let volume = |side: Side| self.volume(side).expect("every leg knows its LU");
        let (source, destination) = (volume(Side::Source), volume(Side::Destination));
        let config = &self.config;
        // A copy on a tape consists of whole fixed blocks, and is as long as the tape allows.
        let destination = match self.tape.as_ref().map(TapeCopy::config) {
            Some(tape) => Volume {
                block_bytes: tape.fixed_block_bytes.unwrap_or(1),
                ..destination
            },
            None => destination,
        };
        let places = plan_parts(&self.field, config, &source, &destination)?;
        let part = |place: Place| {
            let packer = match config.compression {
                Compression::None => None,
                Compression::Zstd { level } => {
                    Some(Packer::new(level, config.block_bytes).map_err(JobError::Compression)?)
                }
            };
            let sector = destination.block_bytes;
            let part = Part::new(place, config.depth, sector, packer, config.verify);
            Ok(match self.tape {
                Some(_) => part.in_order(),
                None => part,
            })
        };
        places.into_iter().map(part).collect()
    }

    /// Fails the job if WP of the device-specific parameter is set (SBC-3 section 6.5.1). If the
    /// target lacks MODE SENSE, the first write shows whether the LU is writable.
    pub(super) fn handle_mode(&mut self, leg: Leg, done: Done) {
        let protected = done.result.is_ok()
            && ModeData::parse(&done.data, false).is_ok_and(|mode| mode.write_protected);
        self.legs.recycle(leg, done.data);
        if protected {
            self.fail(JobError::ReadOnly);
        } else {
            self.join();
        }
    }
}
