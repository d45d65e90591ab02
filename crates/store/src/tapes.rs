//! The times of tape drives: accesses that end when a motion of a tape does.
use std::collections::BTreeMap;

use hakaru_scsi_device::IoId;
use hakaru_tape::timing::{Motion, TimedDrive};
use hakaru_units::Time;

/// Nanoseconds in a second.
const NS: f64 = 1e9;

/// The drives, and the accesses that wait for them.
#[derive(Debug, Default)]
pub(crate) struct Tapes {
    pub(crate) drives: Vec<TimedDrive>,
    /// By their end and their number.
    waiting: BTreeMap<(Time, u64), IoId>,
    begun: u64,
}

impl Tapes {
    /// Begins a motion, which ends at once if there is no such drive.
    pub(crate) fn begin(&mut self, now: Time, io: IoId, drive: u8, motion: Motion) {
        let end = match self.drives.get_mut(usize::from(drive)) {
            Some(drive) => {
                let end_ns = drive.begin(now.as_ns() as f64 / NS, motion) * NS;
                Time(end_ns.ceil() as u64)
            }
            None => now,
        };
        self.begun += 1;
        self.waiting.insert((end.max(now), self.begun), io);
    }

    /// Returns the next access whose motion has ended.
    pub(crate) fn poll_ended(&mut self, now: Time) -> Option<IoId> {
        let first = self.waiting.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Returns when the next motion ends.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let (end, _) = self.waiting.keys().next()?;
        Some(*end)
    }

    /// Ends an access before its motion. Returns false if it does not wait. The tape moves on.
    pub(crate) fn cancel(&mut self, io: IoId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|_, waiting| *waiting != io);
        self.waiting.len() < before
    }

    /// Calls `visit` with each counter of the drives.
    pub(crate) fn visit_counters(&mut self, now: Time, visit: &mut dyn FnMut(&str, &str, f64)) {
        for (number, drive) in self.drives.iter_mut().enumerate() {
            let entity = format!("tape/{number}");
            let times = drive.times(now.as_ns() as f64 / NS);
            visit(&entity, "streaming_ns", (times.streaming_s * NS).round());
            visit(
                &entity,
                "positioning_ns",
                (times.positioning_s * NS).round(),
            );
            visit(&entity, "loading_ns", (times.loading_s * NS).round());
            visit(&entity, "backhitches", times.backhitches as f64);
            visit(&entity, "stored_bytes", times.stored_bytes.round());
            visit(&entity, "rate_bytes_per_s_now", times.rate_now.round());
            visit(&entity, "buffer_bytes_now", times.buffer_bytes_now.round());
        }
    }
}
