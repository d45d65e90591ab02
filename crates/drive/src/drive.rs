//! The interface of all kinds of drives to their group: a drive accepts commands, has a deadline,
//! and returns the commands that have ended.
use hakaru_units::Time;
use rand::RngExt;
use rand_pcg::Pcg64;

use crate::command::Command;
use crate::hdd::HddDrive;
use crate::ssd::SsdDrive;
use crate::usage::Usage;
use hakaru_contract::drive as config;

/// A drive of any kind.
#[derive(Clone, Debug)]
pub(crate) enum Drive {
    Hdd(Box<HddDrive>),
    Ssd(Box<SsdDrive>),
}

impl Drive {
    /// Creates `count` idle drives. Their preset must be resolved. Platters get random angles;
    /// flash drives are identical.
    pub(crate) fn make(drive: &config::Drive, count: u32, rng: &mut Pcg64) -> Vec<Drive> {
        match drive {
            config::Drive::Hdd(hdd) => (0..count)
                .map(|_| Drive::Hdd(Box::new(HddDrive::new(hdd, rng.random::<f64>()))))
                .collect(),
            config::Drive::Ssd(ssd) => {
                vec![Drive::Ssd(Box::new(SsdDrive::new(ssd, rng))); count as usize]
            }
            config::Drive::Preset { .. } => unreachable!("presets have been resolved"),
        }
    }

    /// Returns the number of commands that wait or are in service.
    pub(crate) fn present(&self) -> usize {
        match self {
            Drive::Hdd(hdd) => hdd.present(),
            Drive::Ssd(ssd) => ssd.present(),
        }
    }

    /// Submits a command. Returns the drive's deadline if it is now earlier.
    pub(crate) fn submit(&mut self, now: Time, command: Command) -> Option<Time> {
        match self {
            Drive::Hdd(hdd) => hdd.submit(now, command),
            Drive::Ssd(ssd) => {
                ssd.submit(now, command);
                ssd.poll_wake()
            }
        }
    }

    /// Handles the drive's deadline. Appends the commands that have ended to `ended` and returns
    /// the next deadline.
    pub(crate) fn handle_wake(&mut self, now: Time, ended: &mut Vec<Command>) -> Option<Time> {
        match self {
            Drive::Hdd(hdd) => {
                let (command, next) = hdd.end(now);
                ended.push(command);
                next
            }
            Drive::Ssd(ssd) => {
                ssd.handle_wake(now, ended);
                ssd.poll_wake()
            }
        }
    }

    /// Returns the counters as of `now`.
    pub(crate) fn usage(&mut self, now: Time) -> &Usage {
        match self {
            Drive::Hdd(hdd) => {
                hdd.usage.advance(now);
                &hdd.usage
            }
            Drive::Ssd(ssd) => ssd.usage(now),
        }
    }

    /// Calls `visit` for every counter as of `now`.
    pub(crate) fn visit_counters(
        &mut self,
        now: Time,
        entity: &str,
        visit: &mut dyn FnMut(&str, &str, f64),
    ) {
        self.usage(now).visit(entity, visit);
        if let Drive::Ssd(ssd) = self {
            ssd.visit_flash(now, entity, visit);
        }
    }
}
