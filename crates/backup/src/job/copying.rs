//! The copy: blocks are read, become writes, and are flushed when all are written; what happens
//! when one fails.
use hakaru_iscsi_session::{Done, TaskData, TaskError};
use hakaru_stats::Latencies;
use hakaru_units::Time;
use hakaru_wire::scsi::{Cdb, Sense, SenseKey};

use super::{FLUSH, Job, JobEvent, Leg, Stage, whole};
use crate::error::JobError;
use crate::part::Part;

impl Job {
    pub(super) fn handle_read(
        &mut self,
        now: Time,
        leg: Leg,
        done: Done,
        latencies: &mut Latencies,
    ) {
        let part = &mut self.parts[leg.stream()];
        let place = *part.place();
        let (begin, length) = place.block(done.tag);
        let result = whole(done.result, length);
        let data = result.is_ok().then_some(done.data);
        let asked = match part.handle_read(done.tag, data) {
            Ok(asked) => asked,
            Err(what) => return self.give_up(JobError::Compression(what)),
        };
        self.recycle(leg.stream());
        let took = now.ns_since(asked);
        latencies.read.record_ns(took);
        self.counters.read_latency_ns_sum += took;
        match result {
            Ok(()) => {
                self.counters.reads += 1;
                self.counters.read_bytes += u64::from(length);
            }
            Err(error) => self.give_up(JobError::Read {
                offset_bytes: place.image_offset + begin,
                length_bytes: length,
                error,
            }),
        }
    }

    pub(super) fn handle_written(
        &mut self,
        now: Time,
        leg: Leg,
        done: &Done,
        latencies: &mut Latencies,
    ) {
        let Some((at, length, begun)) = self.parts[leg.stream()].handle_written(done.tag) else {
            return;
        };
        let took = now.ns_since(begun);
        latencies.write.record_ns(took);
        self.counters.write_latency_ns_sum += took;
        match whole(done.result, length) {
            Ok(()) => {
                self.counters.writes += 1;
                self.counters.written_bytes += u64::from(length);
            }
            Err(error) => {
                let offset = at - self.config.destination_offset_bytes;
                self.give_up(JobError::of_write(offset, length, error));
            }
        }
        self.recycle(leg.stream());
    }

    /// Buffers that are free again are read into again.
    fn recycle(&mut self, stream: usize) {
        while let Some(buffer) = self.parts[stream].poll_spare() {
            self.legs[2 * stream].recycle(buffer);
        }
    }

    /// A target without a volatile cache may not know the command; then there is nothing to flush.
    pub(super) fn handle_flushed(&mut self, now: Time, done: &Done) {
        let result = match done.result {
            Err(TaskError::Check(Sense {
                key: SenseKey::IllegalRequest,
                ..
            })) => Ok(0),
            other => other,
        };
        match result {
            Err(error) => self.fail(JobError::Flush(error)),
            Ok(_) if self.failing.is_some() => {
                let error = self.failing.take().expect("looked at above");
                self.fail(error);
            }
            Ok(_) => {
                self.stage = Stage::Copied;
                self.copied = Some(now);
                let whole = self.parts.iter().all(Part::is_whole);
                self.events.push_back(JobEvent::Copied { whole });
            }
        }
    }

    /// Something went wrong with the copy while its sessions live on: nothing new begins, what is
    /// in flight ends, and what was acknowledged is brought to stable storage before this is told.
    pub(super) fn give_up(&mut self, error: JobError) {
        self.counters.errors += 1;
        self.parts.iter_mut().for_each(Part::abandon);
        self.failing.get_or_insert(error);
    }

    /// Writes what was read, reads on; flushes when all of it is written.
    pub(super) fn copy_on(&mut self, now: Time) {
        self.write_on(now);
        self.read_on(now);
        if !self.parts.iter_mut().all(Part::is_copied) {
            // The last blocks of a packed copy come to light when everything was read.
            return self.write_on(now);
        }
        self.stage = Stage::Flushing;
        let flush = Cdb::SynchronizeCache {
            lba: 0,
            blocks: 0,
            immediate: false,
        };
        self.submit(now, Leg(1), FLUSH, flush, TaskData::None);
    }

    pub(super) fn read_on(&mut self, now: Time) {
        let streams = self.parts.len();
        let mut idle = 0;
        while idle < streams {
            let stream = self.turn;
            let Some(length) = self.parts[stream].wants() else {
                idle += 1;
                self.turn = (stream + 1) % streams;
                continue;
            };
            if let Some(pace) = &mut self.pace
                && !pace.take(now, length.into())
            {
                return self.touch(Leg(0));
            }
            idle = 0;
            self.turn = (stream + 1) % streams;
            let read = self.parts[stream].begin_read(now);
            self.submit_read(now, Leg(2 * stream), read);
        }
    }

    pub(super) fn write_on(&mut self, now: Time) {
        for stream in 0..self.parts.len() {
            while let Some(write) = self.parts[stream].poll_write(now) {
                let length = write.buffer.len() as u32;
                let leg = Leg(2 * stream + 1);
                let transfer = self.transfer(leg.side(), write.offset_bytes, length);
                let data = TaskData::Out {
                    buffer: write.buffer,
                    begin: 0,
                    length,
                };
                self.submit(now, leg, write.tag, Cdb::Write(transfer), data);
            }
        }
    }
}
