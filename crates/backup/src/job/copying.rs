//! The copy: reads blocks, writes them, and flushes once all are written; drains the job if one of
//! them fails.
use hakaru_iscsi_session::{Done, TaskData, TaskError};
use hakaru_stats::Latencies;
use hakaru_units::Time;
use hakaru_wire::scsi::{Cdb, Sense, SenseKey};

use super::{FLUSH, Job, JobEvent, Leg, Stage, check_length};
use crate::error::JobError;
use crate::part::Part;
use crate::tape::TapeCopy;

impl Job {
    pub(super) fn handle_read(&mut self, leg: Leg, done: Done, latencies: &mut Latencies) {
        let part = &mut self.parts[leg.stream()];
        let place = *part.place();
        let (begin, length) = place.block(done.tag);
        let ended = done.ended;
        let result = check_length(done.result, length);
        let data = result.is_ok().then_some(done.data);
        let started = match part.handle_read(done.tag, data) {
            Ok(started) => started,
            Err(message) => return self.fail_after_drain(JobError::Compression(message)),
        };
        self.recycle(leg.stream());
        let latency_ns = ended.ns_since(started);
        latencies.read.record_ns(latency_ns);
        self.counters.read_latency_ns_sum += latency_ns;
        match result {
            Ok(()) => {
                self.counters.reads += 1;
                self.counters.read_bytes += u64::from(length);
            }
            Err(error) => self.fail_after_drain(JobError::Read {
                offset_bytes: place.image_offset + begin,
                length_bytes: length,
                error,
            }),
        }
    }

    pub(super) fn handle_written(&mut self, leg: Leg, done: &Done, latencies: &mut Latencies) {
        let Some((offset, length, started)) = self.parts[leg.stream()].handle_written(done.tag)
        else {
            return;
        };
        let latency_ns = done.ended.ns_since(started);
        latencies.write.record_ns(latency_ns);
        self.counters.write_latency_ns_sum += latency_ns;
        let result = self.end_tape_write(done.result, length);
        match check_length(result, length) {
            Ok(()) => {
                self.counters.writes += 1;
                self.counters.written_bytes += u64::from(length);
            }
            Err(error) => {
                let offset = offset - self.config.destination_offset_bytes;
                let error = self.write_error(offset, length, error);
                self.fail_after_drain(error);
            }
        }
        self.recycle(leg.stream());
    }

    /// Returns unused buffers to the stream's source for further reads.
    fn recycle(&mut self, stream: usize) {
        while let Some(buffer) = self.parts[stream].poll_spare() {
            self.legs.recycle(Leg(2 * stream), buffer);
        }
    }

    /// Ends the copy. A target without a volatile cache may lack SYNCHRONIZE CACHE; then there is
    /// nothing to flush.
    pub(super) fn handle_flushed(&mut self, now: Time, done: &Done) {
        if self.tape.is_some() {
            return self.handle_last_mark(now, done);
        }
        let result = match done.result {
            Err(TaskError::Check(Sense {
                key: SenseKey::IllegalRequest,
                ..
            })) => Ok(0),
            other => other,
        };
        match result {
            Err(error) => self.fail(JobError::Flush(error)),
            Ok(_) if self.pending_error.is_some() => {
                let error = self.pending_error.take().expect("checked by the guard");
                self.fail(error);
            }
            Ok(_) => self.complete(now),
        }
    }

    /// Ends the copy: everything is on stable storage.
    pub(super) fn complete(&mut self, now: Time) {
        self.stage = Stage::Copied;
        self.copied = Some(now);
        let whole = self.parts.iter().all(Part::is_whole);
        self.events.push_back(JobEvent::Copied { whole });
    }

    /// Fails the copy while its sessions are still up: no new command is issued, those in flight
    /// are drained, and acknowledged writes are flushed before the error is reported.
    pub(super) fn fail_after_drain(&mut self, error: JobError) {
        self.counters.errors += 1;
        self.parts.iter_mut().for_each(Part::abandon);
        self.pending_error.get_or_insert(error);
    }

    /// Issues writes of blocks that were read, then new reads; flushes once all blocks are written.
    pub(super) fn continue_copy(&mut self, now: Time) {
        self.issue_writes(now);
        self.issue_reads(now);
        // Every part is asked, because the question produces its last block.
        let is_copied = |all, part: &mut Part| part.is_copied() & all;
        if !self.parts.iter_mut().fold(true, is_copied) {
            // After the last read, `is_copied` produces the last blocks of a compressed copy.
            return self.issue_writes(now);
        }
        if self.tape.as_ref().is_some_and(TapeCopy::is_busy) {
            return;
        }
        self.stage = Stage::Flushing;
        if let Some(tape) = &mut self.tape {
            let mark = tape.begin_last_filemark(now);
            return self.legs.submit(now, Leg(1), FLUSH, mark, TaskData::None);
        }
        if let Some(disk) = self.legs.disk(Leg(1)) {
            return disk.flush(FLUSH);
        }
        let flush = Cdb::SynchronizeCache {
            lba: 0,
            blocks: 0,
            immediate: false,
        };
        self.legs.submit(now, Leg(1), FLUSH, flush, TaskData::None);
    }

    pub(super) fn issue_reads(&mut self, now: Time) {
        let streams = self.parts.len();
        let mut idle = 0;
        while idle < streams {
            let stream = self.next_stream;
            let Some(length) = self.parts[stream].next_length() else {
                idle += 1;
                self.next_stream = (stream + 1) % streams;
                continue;
            };
            if let Some(pace) = &mut self.pace
                && !pace.take(now, length.into())
            {
                // The shell asks for the leg's deadline once. It issues again whenever it has served
                // a leg, so touching each time would never end.
                let due = pace.due();
                if self.armed_pace.replace(due) != Some(due) {
                    self.legs.touch(Leg(0));
                }
                return;
            }
            idle = 0;
            self.next_stream = (stream + 1) % streams;
            let read = self.parts[stream].begin_read(now);
            self.submit_read(now, Leg(2 * stream), read);
        }
    }

    pub(super) fn issue_writes(&mut self, now: Time) {
        if self.tape.is_some() {
            return self.issue_tape_write(now);
        }
        for stream in 0..self.parts.len() {
            while let Some(write) = self.parts[stream].poll_write(now) {
                let length = write.buffer.len() as u32;
                let leg = Leg(2 * stream + 1);
                if let Some(disk) = self.legs.disk(leg) {
                    disk.write(write);
                    continue;
                }
                let transfer = self.transfer(leg.side(), write.offset_bytes, length);
                let data = TaskData::Out {
                    buffer: write.buffer,
                    begin: 0,
                    length,
                };
                self.legs
                    .submit(now, leg, write.tag, Cdb::Write(transfer), data);
            }
        }
    }
}
